"""The committed counts, one set for each machine that they were accepted on, and why they changed."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.errors import BenchError
from bench.instructions.tools import Key
from bench.instructions.verdicts import Change

FILE = Path(__file__).with_name("baselines.json")
REMEMBERED = 20
"""Acceptances kept for each set; older ones stand in the history of the file."""


class Acceptance(msgspec.Struct, frozen=True):
    """Somebody accepted changed counts.

    Attributes:
        commit: The commit that the change stands on; it goes into the next one. `None`: unknown.
        reason: Why the change is right.
        changes: Instructions a call by operation, before and after; `None`: not counted.
    """

    commit: str | None
    reason: str
    changes: dict[str, tuple[int | None, int | None]]


class Baseline(msgspec.Struct, frozen=True):
    """Accepted counts.

    Attributes:
        key: What they depend on.
        operations: Instructions a call.
        history: The latest acceptances, oldest first.
    """

    key: Key
    operations: dict[str, int]
    history: tuple[Acceptance, ...] = ()


def load(file: Path = FILE) -> tuple[Baseline, ...]:
    """All sets.

    Raises:
        BenchError: The file does not hold baselines.
    """
    if not file.exists():
        return ()
    try:
        return msgspec.json.decode(file.read_bytes(), type=tuple[Baseline, ...])
    except msgspec.MsgspecError as error:
        raise BenchError(f"{file.name} does not hold baselines: {error}") from error


def save(baselines: Sequence[Baseline], file: Path = FILE) -> None:
    """Write all sets, so that a change to one number changes one line."""
    file.write_bytes(msgspec.json.format(msgspec.json.encode(baselines), indent=1) + b"\n")


def find(baselines: Sequence[Baseline], key: Key) -> Baseline | None:
    """The set for exactly this key."""
    return next((baseline for baseline in baselines if baseline.key == key), None)


def why_none(baselines: Sequence[Baseline], key: Key) -> str:
    """Why no set fits: what differs from the most similar one, and what to do."""
    remedy = 'python -m bench instructions --accept --reason "..." adds them'
    if not baselines:
        return f"there are no baselines; {remedy}"
    differences = min((_differences(baseline.key, key) for baseline in baselines), key=len)
    return f"there are no baselines for {', '.join(differences)}; {remedy}"


def _differences(theirs: Key, ours: Key) -> list[str]:
    names = {**theirs, **ours}
    return [
        f"{name} {ours.get(name)} (but for {theirs.get(name)})"
        for name in names
        if ours.get(name) != theirs.get(name)
    ]


def accept(
    baselines: Sequence[Baseline], key: Key, changes: Sequence[Change], reason: str, commit: str | None
) -> tuple[Baseline, ...]:
    """The sets with all changes accepted that do not hold. Nothing else moves, so that small drifts add up.

    Args:
        baselines: All sets so far.
        key: Whose counts changed; a set is added where there is none.
        changes: Counts beside the baselines of this key.
        reason: Why the change is right.
        commit: The commit that the change stands on.
    """
    accepted = {change.operation: change for change in changes if change.verdict != "holds"}
    if not accepted:
        return tuple(baselines)
    old = find(baselines, key) or Baseline(key, {})
    operations = {
        change.operation: count
        for change in changes
        if (count := change.now if change.operation in accepted else change.before) is not None
    }
    acceptance = Acceptance(
        commit, reason, {name: (change.before, change.now) for name, change in accepted.items()}
    )
    new = Baseline(key, operations, (*old.history, acceptance)[-REMEMBERED:])
    return (*(baseline for baseline in baselines if baseline.key != key), new)
