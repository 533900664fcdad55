"""The states of a sequence, which verb is legal in which, and how a sequence came in."""

from enum import StrEnum
from typing import Final, NamedTuple

from radixcache.errors import SequenceStateError
from radixcache.eviction import Use


class SequenceState(StrEnum):
    """Where a sequence is in its life."""

    OPEN = "open"
    """Matched and locked; nothing reserved yet."""
    ACTIVE = "active"
    """Holds pages to write to."""
    CLOSED = "closed"
    """Ended by `close`; holds nothing."""
    ABORTED = "aborted"
    """Ended by `abort`; holds nothing."""


LIVE: Final = (SequenceState.OPEN, SequenceState.ACTIVE)

LEGAL_STATES: Final[dict[str, tuple[SequenceState, ...]]] = {
    "reserve": LIVE,
    "advance": (SequenceState.ACTIVE,),
    "append": LIVE,
    "publish": LIVE,
    "fork": LIVE,
    "take_copies": LIVE,
    "page_table": LIVE,
    "slots": LIVE,
    "close": LIVE,
    "abort": LIVE,
}
"""In which states each verb may be called."""


class PartialMatch(NamedTuple):
    """The start of a cached page that agrees with the next tokens: an offer to copy it."""

    source_page: int
    num_tokens: int


class Opening(NamedTuple):
    """How a sequence came in: fixed when it is opened."""

    write: bool
    counted: bool
    resumed: bool
    use: Use


def require_legal(verb: str, state: SequenceState) -> None:
    """Refuse a verb that is not legal in this state.

    Raises:
        SequenceStateError: Names the verb, the states it is legal in, and this one.
    """
    if state not in LEGAL_STATES[verb]:
        legal = " or ".join(sorted(LEGAL_STATES[verb]))
        raise SequenceStateError(f"{verb} needs a sequence that is {legal}, this one is {state}")
