"""What the notes of several formats say alike."""


def note_empty(num_requests: int) -> str:
    """That a replay generates a token for requests whose recorded output is empty."""
    if num_requests == 1:
        return "1 request without output generates one token here."
    return f"{num_requests} requests without output generate one token each here."
