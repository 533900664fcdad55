"""Counts, finds the baselines, compares."""

from dataclasses import dataclass
from pathlib import Path

from bench.errors import Unavailable
from bench.instructions.baselines import FILE, Baseline, find, load, why_none
from bench.instructions.counting import Counts, count_instructions
from bench.instructions.operations import GROWTHS
from bench.instructions.tools import Key, find_tools, key
from bench.instructions.verdicts import Change, Grown, compare, measure_growth


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the guard found.

    Attributes:
        key: What the counts depend on.
        counts: What was counted.
        changes: Every operation beside its baseline.
        grown: Every promise about complexity.
    """

    key: Key
    counts: Counts
    changes: list[Change]
    grown: list[Grown]

    @property
    def failures(self) -> list[str]:
        """What does not hold, a line each."""
        changes = [
            f"{change.operation}: {change.verdict}, {change.before} -> {change.now}"
            for change in self.changes
            if change.verdict != "holds"
        ]
        grown = [
            f"{each.growth.large}: {each.factor:.3f} x {each.growth.small}, at most {each.growth.factor}"
            for each in self.grown
            if not each.holds
        ]
        return changes + grown


def guard(file: Path = FILE, *, needs_baseline: bool = True) -> Outcome:
    """Count and compare.

    Args:
        file: Where the baselines are.
        needs_baseline: `False`: without one, every operation is new.

    Raises:
        Unavailable: A tool or the baselines for this machine are missing; nothing was counted.
        BenchError: Counting failed.
    """
    tools = find_tools()
    ours, baselines = key(tools), load(file)
    baseline = find(baselines, ours)
    if baseline is None:
        if needs_baseline:
            raise Unavailable(why_none(baselines, ours))
        baseline = Baseline(ours, {})
    counts = count_instructions(tools)
    return Outcome(
        key=ours,
        counts=counts,
        changes=compare(baseline.operations, counts.operations),
        grown=measure_growth(GROWTHS, counts.operations),
    )
