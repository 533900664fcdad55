"""The two written forms of an agentic-coding session, and its requests as runs of block ids.

The original form lists every block id of every prompt; the packed form gives each prompt as the first
`keep` blocks of the one before it in its list, plus runs of consecutive new ids. Both end here as runs.

Source: the coding-agent sessions that callanjfox/kv-cache-tester publishes.
"""

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from runtime.errors import TraceError

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Runs: TypeAlias = list[tuple[int, int]]
"""`(first id, number of ids)` of each run of consecutive ids."""


class Request(msgspec.Struct, frozen=True, tag_field="type", tag="n"):
    """A model call.

    Attributes:
        t: Start, seconds since the session (or the sub-agent) started.
        num_input: Prompt tokens.
        num_output: Tokens generated.
        model: Model it was recorded on.
        hash_ids: All block ids (original form).
        keep: Blocks taken over from the request before (packed form).
        runs: New blocks behind them (packed form).
        input_types: What the newest part of the prompt holds.
        api_time: How long the call took, seconds.
        think_time: Pause before it, seconds.
    """

    t: Seconds
    num_input: Annotated[int, msgspec.Meta(ge=1)] = msgspec.field(name="in")
    num_output: Count = msgspec.field(name="out")
    model: str
    hash_ids: list[Count] | None = None
    keep: Count | None = None
    runs: list[tuple[Count, Annotated[int, msgspec.Meta(ge=1)]]] | None = None
    input_types: list[str] = []
    api_time: Seconds | None = None
    think_time: Seconds | None = None


class StreamedRequest(Request, frozen=True, tag="s"):
    """A model call whose answer was streamed."""


class SubAgent(msgspec.Struct, frozen=True, tag_field="type", tag="subagent"):
    """A sub-agent with requests of its own.

    Attributes:
        t: Seconds since the session started: when it reported back or, where `duration_ms` is
            absent, when it was started in the background.
        tool_tokens: Tokens of its tools.
        system_tokens: Tokens of its system prompt.
        requests: Its model calls.
        duration_ms: From its start to its report, milliseconds.
    """

    t: Seconds
    tool_tokens: Count
    system_tokens: Count
    requests: list[Request | StreamedRequest]
    duration_ms: Seconds | None = None


class AgentSession(msgspec.Struct, frozen=True):
    """A session.

    Attributes:
        id: Name.
        block_size: Tokens a block.
        hash_id_scope: Where block ids are unique; only "local" (to the session) is known.
        tool_tokens: Tokens of the tools, at the start of the main agent's prompts.
        system_tokens: Tokens of the system prompt behind them.
        requests: Model calls and sub-agents of the main agent.
    """

    id: str
    block_size: Annotated[int, msgspec.Meta(ge=1)]
    hash_id_scope: str
    tool_tokens: Count
    system_tokens: Count
    requests: Annotated[list[Request | StreamedRequest | SubAgent], msgspec.Meta(min_length=1)]


def runs_of(request: Request, before: Runs, block_size: int, path: Path, line: int | None) -> Runs:
    """Block ids of a request's full blocks, whichever form it is written in.

    Args:
        request: The request.
        before: Those of the request before it in its list; empty for the first.
        block_size: Tokens a block.
        path: File, for errors.
        line: Line, for errors.

    Raises:
        TraceError: Neither form is there, `keep` exceeds what there is, or the number of blocks
            is not `in // block_size`.
    """
    if request.hash_ids is not None:
        runs = compressed(request.hash_ids)
    elif request.keep is not None and request.runs is not None:
        kept = sum(count for _, count in before)
        if request.keep > kept:
            raise TraceError(
                path, line, f"keep {request.keep} exceeds the {kept} blocks of the request before"
            )
        runs = joined(first_blocks(before, request.keep), request.runs)
    else:
        raise TraceError(path, line, f"request at t={request.t} has neither hash_ids nor runs")
    num_blocks = sum(count for _, count in runs)
    if num_blocks != request.num_input // block_size:
        raise TraceError(
            path,
            line,
            f"in {request.num_input} has {request.num_input // block_size} full blocks of "
            f"{block_size} tokens, not {num_blocks}",
        )
    return runs


def compressed(ids: list[int]) -> Runs:
    """Runs of consecutive ids.

    Example:
        >>> compressed([4, 5, 6, 9])
        [(4, 3), (9, 1)]
    """
    if not ids:
        return []
    breaks = [i for i, (a, b) in enumerate(pairwise(ids), start=1) if b != a + 1]
    return [(ids[a], b - a) for a, b in pairwise([0, *breaks, len(ids)])]


def first_blocks(runs: Runs, num_blocks: int) -> Runs:
    """The first `num_blocks` blocks of `runs`.

    Example:
        >>> first_blocks([(4, 3), (9, 5)], 4)
        [(4, 3), (9, 1)]
    """
    taken: Runs = []
    for first, count in runs:
        if num_blocks <= 0:
            break
        taken.append((first, min(count, num_blocks)))
        num_blocks -= count
    return taken


def joined(runs: Runs, more: Iterable[tuple[int, int]]) -> Runs:
    """`runs` with `more` behind; runs that touch become one."""
    result = list(runs)
    for first, count in more:
        if result and sum(result[-1]) == first:
            result[-1] = (result[-1][0], result[-1][1] + count)
        else:
            result.append((first, count))
    return result


def common_blocks(a: Runs, b: Runs) -> int:
    """How many blocks `a` and `b` have in common at the start.

    Example:
        >>> common_blocks([(1, 5)], [(1, 3), (9, 4)])
        3
    """
    same = 0
    for (first_a, count_a), (first_b, count_b) in zip(a, b, strict=False):
        if first_a != first_b:
            break
        same += min(count_a, count_b)
        if count_a != count_b:
            break
    return same
