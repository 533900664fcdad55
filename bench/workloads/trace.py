"""A trace of requests whose prompts are chains of blocks, as arrays that travel between processes."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.workloads.material import Ids

BLOCK_SIZE = 512
FRESH_TOKEN_BASE = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Requests in the order they are served.

    Attributes:
        name: Where they come from.
        block_ids: Block ids of all prompts, one after the other; an id stands for its whole prefix.
        block_starts: Where each request's ids begin, int64 of shape [requests + 1].
        prompt_lens: Prompt tokens, int64 of shape [requests].
        output_lens: Output tokens, int64 of shape [requests].
    """

    name: str
    block_ids: Ids
    block_starts: npt.NDArray[np.int64]
    prompt_lens: npt.NDArray[np.int64]
    output_lens: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.prompt_lens)

    def blocks(self, request: int) -> Ids:
        """Block ids of a prompt."""
        start, end = self.block_starts[request : request + 2].tolist()
        return self.block_ids[start:end]

    def prompt(self, request: int, shift: int = 0) -> Ids:
        """Token ids of a prompt, int32 of shape [prompt_len]: block id * 512 + offset.

        Args:
            request: Its number.
            shift: Added to every block id, to make another trace of the same shape.
        """
        first = np.multiply(self.blocks(request) + np.int32(shift), BLOCK_SIZE, dtype=np.int32)
        ids: Ids = np.add.outer(first, np.arange(BLOCK_SIZE, dtype=np.int32)).reshape(-1)
        return ids[: int(self.prompt_lens[request])]

    def first(self, num_requests: int) -> "Trace":
        """The requests of its start, as a trace of their own."""
        end = int(self.block_starts[num_requests])
        return Trace(
            name=f"{self.name}, first {num_requests} requests",
            block_ids=self.block_ids[:end],
            block_starts=self.block_starts[: num_requests + 1],
            prompt_lens=self.prompt_lens[:num_requests],
            output_lens=self.output_lens[:num_requests],
        )

    def num_blocks(self) -> int:
        """Distinct block ids, counted from 0 to the largest."""
        return int(self.block_ids.max()) + 1

    def distinct_tokens(self) -> int:
        """Prompt tokens that differ: what an infinite cache would hold of the prompts."""
        lengths = np.zeros(self.num_blocks(), dtype=np.int64)
        counts = np.diff(self.block_starts)
        within = np.arange(len(self.block_ids)) - np.repeat(self.block_starts[:-1], counts)
        held = np.minimum(np.repeat(self.prompt_lens, counts) - within * BLOCK_SIZE, BLOCK_SIZE)
        np.maximum.at(lengths, self.block_ids, held)
        return int(lengths.sum())

    def save(self, path: Path) -> None:
        """Write the arrays to an `.npz` file."""
        np.savez(
            path,
            name=np.array(self.name),
            block_ids=self.block_ids,
            block_starts=self.block_starts,
            prompt_lens=self.prompt_lens,
            output_lens=self.output_lens,
        )

    @classmethod
    def load(cls, path: Path) -> "Trace":
        """Read what `save` wrote."""
        with np.load(path) as stored:
            return cls(
                name=str(stored["name"]),
                block_ids=stored["block_ids"],
                block_starts=stored["block_starts"],
                prompt_lens=stored["prompt_lens"],
                output_lens=stored["output_lens"],
            )


class FreshOutputs:
    """Output tokens that nobody else ever has, ids from 2**30 up."""

    def __init__(self) -> None:
        self._next = FRESH_TOKEN_BASE

    def take(self, num_tokens: int) -> Ids:
        """The next so many ids."""
        start, self._next = self._next, self._next + num_tokens
        return np.arange(start, self._next, dtype=np.int32)


def make_trace(name: str, requests: list[tuple[list[int], int, int]]) -> Trace:
    """A trace of (block ids, prompt length, output length)."""
    starts = np.cumsum([0, *(len(blocks) for blocks, _, _ in requests)])
    return Trace(
        name=name,
        block_ids=np.array([block for blocks, _, _ in requests for block in blocks], dtype=np.int32),
        block_starts=starts.astype(np.int64),
        prompt_lens=np.array([prompt for _, prompt, _ in requests], dtype=np.int64),
        output_lens=np.array([output for _, _, output in requests], dtype=np.int64),
    )
