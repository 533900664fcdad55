"""The text of an answer as it grows, and the texts that end it."""

from collections.abc import Sequence

from runtime.models import TextStream


class AnswerText:
    """Text of one output. What might be the beginning of a stop text is held back.

    Args:
        stream: Decodes tokens; `None`: there is no tokenizer, and no text.
        stops: Texts that end the output.

    Attributes:
        text: All that was let out so far.
    """

    def __init__(self, stream: TextStream | None, stops: Sequence[str]) -> None:
        self._stream = stream
        self._stops = stops
        self._held = ""
        self.text = ""

    def push(self, token_id: int) -> tuple[str, bool]:
        """Another token came.

        Returns:
            The text that is certain now and was not before, and whether a stop text ends it.
        """
        if self._stream is None:
            return "", False
        return self._let_out(self._stream.push(token_id), final=False)

    def finish(self) -> tuple[str, bool]:
        """No more tokens come. Returns as `push`, with all that was held back."""
        if self._stream is None:
            return "", False
        return self._let_out(self._stream.finish(), final=True)

    def _let_out(self, more: str, *, final: bool) -> tuple[str, bool]:
        found = self._held + more
        ends = [at for stop in self._stops if (at := found.find(stop)) >= 0]
        if ends:
            certain, self._held = found[: min(ends)], ""
        else:
            keep = 0 if final else _begun(found, self._stops)
            certain, self._held = found[: len(found) - keep], found[len(found) - keep :]
        self.text += certain
        return certain, bool(ends)


def _begun(text: str, stops: Sequence[str]) -> int:
    """Characters at the end of `text` that may become a stop text."""
    longest = max(map(len, stops), default=1) - 1
    for length in range(min(longest, len(text)), 0, -1):
        tail = text[-length:]
        if any(stop.startswith(tail) for stop in stops):
            return length
    return 0
