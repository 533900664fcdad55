"""Who waits for whom, and whose prompt contains what an earlier request generated.

A replay generates tokens of its own, so a prompt that contains recorded output has to name the turn that
generated it. It must not know files or workloads.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from runtime.workload.model import TokenArray
from runtime.workload.traces.native_format import TraceRequest

_PLAIN: Final[list[int]] = []
"""Owners of a block that a prompt brought: nobody generated it."""


@dataclass(slots=True, eq=False)
class Linked:
    """A request, and how it hangs together with others of its group.

    Attributes:
        line: Where it stands.
        request: The request.
        path: Numbers of its prompt's blocks by prefix, int32.
        generated: The same of the blocks that it filled while it generated, int32.
        after: Places in the group of the requests that it waits for.
        pause: Between the last of them finishing and its arrival, in the unit of the file.
        owner: Place of the request whose output its prompt contains last; None if there is none.
        num_known: Leading blocks of the prompt that the owner's prompt and output hold.
    """

    line: int
    request: TraceRequest
    path: TokenArray
    generated: TokenArray
    after: tuple[int, ...] = ()
    pause: float = 0
    owner: int | None = None
    num_known: int = 0


@dataclass(slots=True)
class Linker:
    """Links the requests of one group: a session, or all requests that name none.

    Args:
        block_size: Tokens a block.
        is_session: Whether those that name no turn to wait for wait for the one that finished last.
        has_outputs: Whether any of them says what it generated.
    """

    block_size: int
    is_session: bool
    has_outputs: bool
    _members: list[Linked] = field(default_factory=list)
    _ancestors: list[int] = field(default_factory=list)
    _places: dict[int, int] = field(default_factory=dict)
    _finished: list[tuple[float, int]] = field(default_factory=list)
    _owners: dict[int, list[int]] = field(default_factory=dict)

    def link(self, member: Linked) -> None:
        """Add a request, after all that it may wait for. O(blocks); in sessions also O(turns) bits."""
        place, request = len(self._members), member.request
        explicit = None if request.after is None else {self._places[turn] for turn in request.after}
        if self.has_outputs:
            self._find_owner(member, explicit)
        after = explicit if explicit is not None else self._inferred(member)
        member.after = tuple(sorted(after))
        member.pause = self._pause(member)
        if self.is_session:
            self._ancestors.append(self._closure(after))
            if request.turn is not None:
                self._places[request.turn] = place
        if request.finished is not None:
            insort(self._finished, (request.finished, place))
        self._members.append(member)
        if self.has_outputs:
            self._bring(place, member)

    def members(self) -> Sequence[Linked]:
        """All, in the order in which they were added."""
        return self._members

    def _closure(self, after: set[int]) -> int:
        """Bit set of the places that have finished once `after` have."""
        known = 0
        for place in after:
            known |= self._ancestors[place] | 1 << place
        return known

    def _find_owner(self, member: Linked, explicit: set[int] | None) -> None:
        """The deepest block of the prompt that a finished request generated."""
        known = 0 if explicit is None else self._closure(explicit)
        num_full = member.request.input_length // self.block_size
        for behind, block in enumerate(reversed(member.path[:num_full].tolist())):
            for owner in self._owners.get(block, ()):
                finished = known >> owner & 1 if explicit is not None else self._had_finished(owner, member)
                if finished:
                    member.owner, member.num_known = owner, num_full - behind
                    return

    def _had_finished(self, owner: int, member: Linked) -> bool:
        generated, arrived = self._members[owner].request, member.request
        return (
            generated.finished is not None
            and arrived.arrival is not None
            and generated.finished <= arrived.arrival
            and generated.tenant == arrived.tenant
        )

    def _inferred(self, member: Linked) -> set[int]:
        """What a request that names no turn waits for, as its times and its prompt tell."""
        after = set() if member.owner is None else {member.owner}
        if self.is_session and member.request.arrival is not None:
            num_finished = bisect_right(self._finished, (member.request.arrival, len(self._members)))
            if num_finished:
                after.add(self._finished[num_finished - 1][1])
        return after

    def _pause(self, member: Linked) -> float:
        if member.request.think is not None:
            return member.request.think
        ends = [self._members[place].request.finished for place in member.after]
        known = [end for end in ends if end is not None]
        if member.request.arrival is None or not known or len(known) < len(ends):
            return 0
        return max(0, member.request.arrival - max(known))

    def _bring(self, place: int, member: Linked) -> None:
        """Note who brought which block first: a prompt, or an output."""
        num_full = member.request.input_length // self.block_size
        for block in member.path[:num_full].tolist():
            self._owners.setdefault(block, _PLAIN)
        for block in member.generated.tolist():
            owners = self._owners.setdefault(block, [])
            if owners is not _PLAIN:
                owners.append(place)
