"""Prompts of one range of lengths without end, out of a trace of all lengths."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bench.errors import BenchError
from bench.workloads.material import Ids
from bench.workloads.trace import BLOCK_SIZE, FRESH_TOKEN_BASE, Trace


class StreamedRequest(NamedTuple):
    """A request of the stream: the ids of its prompt, and how many tokens it generates."""

    prompt: Ids
    output_len: int


class PromptStream:
    """The requests of a trace whose prompts have a given length, again and again, each time with new content.

    Args:
        trace: Where they come from.
        shortest: Tokens of a prompt at least.
        longest: Tokens of a prompt at most.

    Raises:
        BenchError: The trace has no such prompt.
    """

    def __init__(self, trace: Trace, shortest: int, longest: int) -> None:
        self._trace = trace
        self._chosen = np.flatnonzero(
            (trace.prompt_lens >= shortest) & (trace.prompt_lens <= longest)
        ).tolist()
        if not self._chosen:
            raise BenchError(f"{trace.name} has no prompt of {shortest} to {longest} tokens")

    def __len__(self) -> int:
        """Requests of one round through the trace."""
        return len(self._chosen)

    def __iter__(self) -> Iterator[StreamedRequest]:
        trace = self._trace
        for shift in range(0, FRESH_TOKEN_BASE // BLOCK_SIZE - trace.num_blocks(), trace.num_blocks()):
            for request in self._chosen:
                yield StreamedRequest(trace.prompt(request, shift), int(trace.output_lens[request]))
        raise BenchError(f"{trace.name} has been through so often that token ids would pass 2**30")
