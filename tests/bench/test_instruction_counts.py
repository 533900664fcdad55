"""The guard itself: fails where a verb executes 5 % more instructions than was accepted, or 5 % fewer."""

import pytest

from bench.errors import Unavailable
from bench.instructions.counting import count_instructions
from bench.instructions.guard import guard
from bench.instructions.tools import find_tools
from bench.instructions.verdicts import compare

PLANTED = """
from bench.instructions.operations import Operation
from bench.instructions.program import run
from bench.scenarios.cached_prompt import CachedPrompt
from radixcache import PrefixCache

def setup():
    scenario = CachedPrompt(1024, 16, seed=0)
    yield Operation("as it is", scenario.peek)
    yield Operation("once more", scenario.peek)
    peek = PrefixCache.peek
    PrefixCache.peek = lambda *arguments: (peek(*arguments), peek(*arguments))[0]
    yield Operation("every lookup twice", scenario.peek)

run([setup])
"""


def test_no_verb_executes_more_instructions_than_was_accepted_nor_fewer():
    try:
        outcome = guard()
    except Unavailable as missing:
        pytest.skip(f"instructions are not counted: {missing}")
    remedy = 'if that is justified: python -m bench instructions --accept --reason "..."'
    assert not outcome.failures, "\n".join([*outcome.failures, remedy])


def test_lookup_that_does_its_work_twice_is_noticed_and_the_same_lookup_is_not():
    try:
        tools = find_tools()
    except Unavailable as missing:
        pytest.skip(f"instructions are not counted: {missing}")
    counts = count_instructions(tools, ["-c", PLANTED]).operations
    before, again, twice = (counts[name] for name in ("as it is", "once more", "every lookup twice"))
    (same,) = compare({"peek": before}, {"peek": again})
    (slower,) = compare({"peek": before}, {"peek": twice})
    assert (same.verdict, slower.verdict) == ("holds", "MORE")
