"""Requests that all decode, and the arrays that a paged attention kernel is given for each of their steps."""

import numpy as np

from bench.errors import expect
from bench.harness.timing import Stopwatch
from bench.workloads.material import random_ids
from radixcache import CacheConfig, PrefixCache, Tokens, check
from runtime.attention.metadata import MetadataBuilder, StepMetadata, rows_to_compute
from scheduler import Request, Row, Scheduler, SchedulerConfig, StepPlan


class DecodingBatch:
    """Requests without anything in common, of about as many tokens each; in every step some begin a page.

    Args:
        num_running: Requests.
        num_tokens: Tokens of a prompt; up to a page more, so that pages do not all end at once.
        num_steps: Steps that will be made.
        page_size: Tokens of a page.
        seed: For the prompts.
    """

    def __init__(
        self, num_running: int, num_tokens: int, *, num_steps: int, page_size: int, seed: int
    ) -> None:
        self.page_size = page_size
        longest = num_tokens + page_size
        num_pages = num_running * (-(-(longest + num_steps) // page_size) + 1)
        self.cache = PrefixCache(CacheConfig(num_pages=num_pages, page_size=page_size))
        self.scheduler = Scheduler(
            self.cache, SchedulerConfig(max_running=num_running, token_budget=num_running * longest)
        )
        ids = random_ids(seed, num_running * longest).reshape(num_running, longest)
        for number, prompt in enumerate(ids):
            own = prompt[: num_tokens + number % page_size]
            self.scheduler.submit(Request(str(number), Tokens(own), num_steps + 2), 0.0)
        self._commit(self.scheduler.schedule(0.0))
        self.builder = MetadataBuilder(page_size)
        self.num_running = num_running
        self._arrays_before: list[np.ndarray] = []

    def _commit(self, plan: StepPlan) -> None:
        self.scheduler.commit(plan, {row.request.request_id: [0] for row in plan.rows}, 0.0)

    def step(self, building: Stopwatch, copying: Stopwatch) -> None:
        """One step: the arrays of the step before are copied, then the metadata is made, both timed.

        Neither finds what it reads in the processor's nearest caches, as in an engine.

        Raises:
            WrongResult: The arrays are not those that the page tables say.
        """
        plan = self.scheduler.schedule(0.0)
        arrays = self._arrays_before
        copying.time(lambda: [array.copy() for array in arrays])
        made: list[StepMetadata] = []
        building.time(lambda: made.append(self.builder.build(rows_to_compute(plan))))
        (metadata,) = made
        self._arrays_before = _arrays(metadata)
        self._verify(plan.rows, metadata)
        self._commit(plan)

    def _verify(self, rows: tuple[Row, ...], metadata: StepMetadata) -> None:
        expect("rows", metadata.num_rows, self.num_running)
        tables, slots = [], []
        for row in rows:
            assert row.request.sequence is not None
            stop = row.start + row.extend_len
            tables.append(row.request.sequence.page_table[: -(-stop // self.page_size)])
            slots.append(row.request.sequence.slots(row.start, stop))
        expect("pages", np.array_equal(metadata.kv_indices, np.concatenate(tables)), True)
        expect("slots", np.array_equal(metadata.slot_mapping, np.concatenate(slots)), True)

    def verify(self) -> None:
        """Everybody still runs, and the cache is sound.

        Raises:
            WrongResult: Not so.
        """
        expect("running requests", self.scheduler.num_running, self.num_running)
        check(self.cache)


def _arrays(metadata: StepMetadata) -> list[np.ndarray]:
    names = [name for name in StepMetadata.__slots__ if name != "page_size"]
    return [getattr(metadata, name) for name in names]
