"""Metadata of real plans against a plain count, and KV that comes out where the page tables say."""

import gc
import random
import weakref
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from radixcache import CacheConfig, PrefixCache, Tokens, check
from runtime.attention import HeadLayout, MetadataBuilder, StepMetadata, rows_to_compute
from runtime.errors import MetadataError
from runtime.kv_pool import KVPool
from scheduler import Request, Row, Scheduler, SchedulerConfig, StepPlan

PAGES = [np.array([7, 2], np.int32), np.array([5], np.int32)]


def arrays_of(metadata: StepMetadata) -> dict[str, list[int]]:
    names = (
        "qo_indptr",
        "kv_indptr",
        "kv_indices",
        "kv_last_page_len",
        "kv_lens",
        "slot_mapping",
        "positions",
    )
    found = {name: getattr(metadata, name) for name in names}
    assert {name for name, array in found.items() if array.dtype != np.int32} == set()
    assert all(array.flags.c_contiguous and array.flags.owndata for array in found.values())
    return {name: array.tolist() for name, array in found.items()}


def counted(rows: Sequence[Row], page_size: int) -> dict[str, list[int]]:
    """The same, token by token."""
    found: dict[str, list[int]] = {
        "qo_indptr": [0],
        "kv_indptr": [0],
        "kv_indices": [],
        "kv_last_page_len": [],
        "kv_lens": [],
        "slot_mapping": [],
        "positions": [],
    }
    for request, start, extend_len, _ in rows:
        assert request.sequence is not None
        table, stop = request.sequence.page_table.tolist(), start + extend_len
        used = table[: (stop - 1) // page_size + 1]
        found["qo_indptr"].append(found["qo_indptr"][-1] + extend_len)
        found["kv_indptr"].append(found["kv_indptr"][-1] + len(used))
        found["kv_indices"] += used
        found["kv_last_page_len"].append((stop - 1) % page_size + 1)
        found["kv_lens"].append(stop)
        found["positions"] += range(start, stop)
        found["slot_mapping"] += request.sequence.slots(start, stop).tolist()
    return found


class TestArrays:
    def test_a_prefill_behind_a_prefix_and_a_decode(self) -> None:
        metadata = StepMetadata.of(PAGES, starts=[3, 3], extend_lens=[3, 1], page_size=4)
        assert arrays_of(metadata) == {
            "qo_indptr": [0, 3, 4],
            "kv_indptr": [0, 2, 3],
            "kv_indices": [7, 2, 5],
            "kv_last_page_len": [2, 4],
            "kv_lens": [6, 4],
            "slot_mapping": [31, 8, 9, 23],
            "positions": [3, 4, 5, 3],
        }
        assert (metadata.num_rows, metadata.num_tokens, metadata.q_lens.tolist()) == (2, 4, [3, 1])
        metadata.require_valid()

    @pytest.mark.parametrize("page_size", [1, 2, 3, 16])
    def test_the_last_page_of_a_row_is_never_empty(self, page_size: int) -> None:
        for num_tokens in range(1, 3 * page_size + 2):
            pages = [np.arange(-(-num_tokens // page_size), dtype=np.int32)]
            metadata = StepMetadata.of(pages, [0], [num_tokens], page_size)
            assert metadata.kv_last_page_len.tolist() == [(num_tokens - 1) % page_size + 1]
            metadata.require_valid()

    @pytest.mark.parametrize(
        ("starts", "extend_lens", "message"),
        [
            ([3, 4], [3, 0], "row 1 has 0 query tokens: leave it out"),
            ([3, 5], [3, -1], "row 1 has -1 query tokens"),
            ([-1, 3], [7, 1], "row 0 has fewer tokens than query tokens"),
            ([3, 3], [2, 2], r"rows have \[2, 1\] pages, their tokens need \[2, 2\]"),
            ([3, 3], [1, 1], r"rows have \[2, 1\] pages, their tokens need \[1, 1\]"),
        ],
    )
    def test_rows_that_make_no_sense_are_refused(
        self, starts: list[int], extend_lens: list[int], message: str
    ) -> None:
        with pytest.raises(MetadataError, match=message):
            StepMetadata.of(PAGES, starts, extend_lens, 4)

    def test_an_empty_batch_is_refused(self) -> None:
        with pytest.raises(MetadataError, match="at least one row"):
            StepMetadata.of([], [], [], 4)
        with pytest.raises(MetadataError, match="at least one row"):
            MetadataBuilder(4).build([])

    def test_slots_that_int32_cannot_hold_are_refused(self) -> None:
        last = 2**31 // 16 - 1
        metadata = StepMetadata.of([np.array([last], np.int32)], [15], [1], 16)
        assert metadata.slot_mapping.tolist() == [2**31 - 1]
        with pytest.raises(MetadataError, match=f"int32 cannot hold the slots of page {last + 1}"):
            StepMetadata.of([np.array([last + 1], np.int32)], [0], [1], 16)

    @pytest.mark.parametrize("page_size", [0, -1])
    def test_a_page_of_no_tokens_is_refused(self, page_size: int) -> None:
        with pytest.raises(MetadataError, match=f"page_size is at least 1, got {page_size}"):
            MetadataBuilder(page_size)


class Engine:
    """Runs plans; the KV of a token is its id and its position, so that wrong reads show."""

    def __init__(self, page_size: int, num_pages: int, **settings: object) -> None:
        self.page_size = page_size
        self.cache = PrefixCache(
            CacheConfig(num_pages=num_pages, page_size=page_size, first_page=1, partial_reuse=True)
        )
        self.scheduler = Scheduler(self.cache, SchedulerConfig(**settings))  # type: ignore[arg-type]
        self.pool = KVPool(
            num_layers=1,
            num_pages=num_pages,
            page_size=page_size,
            heads=HeadLayout(1, 1, 2),
            dtype=torch.float64,
            device="cpu",
            first_page=1,
        )
        self.pool.keys[0].fill_(float("nan"))
        self.pool.values[0].fill_(float("nan"))
        self.builder = MetadataBuilder(page_size)
        self.now = 0.0
        self.num_empty = self.num_copies = self.num_swapped = 0

    def plan(self) -> StepPlan:
        self.now += 1.0
        return self.scheduler.schedule(self.now)

    def execute(self, plan: StepPlan) -> None:
        self.pool.copy(plan.copies)
        self.num_copies += len(plan.copies)
        rows = rows_to_compute(plan)
        self.num_empty += len(plan.rows) - len(rows)
        if rows:
            metadata = self.builder.build(rows)
            metadata.require_valid()
            assert arrays_of(metadata) == counted(rows, self.page_size)
            self._write(rows, metadata)
            self._verify(rows, metadata)

    def commit(self, plan: StepPlan, draw: random.Random) -> None:
        tables = {
            row.request.request_id: row.request.sequence.page_table.copy()
            for row in plan.rows
            if row.request.sequence is not None
        }
        outputs = {row.request.request_id: [draw.randrange(2)] for row in plan.rows if row.max_tokens}
        self.scheduler.commit(plan, outputs, self.now)
        for row in plan.rows:
            if row.request.sequence is not None:
                old = tables[row.request.request_id]
                self.num_swapped += not np.array_equal(old, row.request.sequence.page_table[: len(old)])
        check(self.cache)

    @staticmethod
    def _kv(request: Request, start: int, stop: int) -> torch.Tensor:
        ids = [*request.prompt.numpy().tolist(), *request.output][start:stop]
        return torch.tensor([[[token, at]] for at, token in enumerate(ids, start)], dtype=torch.float64)

    def _write(self, rows: Sequence[Row], metadata: StepMetadata) -> None:
        new = torch.cat([self._kv(row.request, row.start, row.start + row.extend_len) for row in rows])
        self.pool.write(0, torch.from_numpy(metadata.slot_mapping).long(), new, -new)

    def _verify(self, rows: Sequence[Row], metadata: StepMetadata) -> None:
        for number, row in enumerate(rows):
            pages = metadata.kv_indices[metadata.kv_indptr[number] : metadata.kv_indptr[number + 1]]
            kv_len = int(metadata.kv_lens[number])
            wanted = self._kv(row.request, 0, kv_len)
            for cache, sign in ((self.pool.keys[0], 1), (self.pool.values[0], -1)):
                found = cache[torch.from_numpy(pages)].flatten(0, 1)[:kv_len]
                assert torch.equal(found, sign * wanted), row.request.request_id


@pytest.mark.parametrize("share_in_flight", [True, False])
@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_random_traffic_reads_what_was_written_at_every_step(page_size: int, share_in_flight: bool) -> None:
    draw = random.Random(page_size)
    engine = Engine(
        page_size,
        num_pages=400 // page_size,
        token_budget=60,
        max_running=8,
        share_in_flight=share_in_flight,
    )
    submitted = preempted = 0
    while submitted < 150 or not engine.scheduler.is_idle:
        while submitted < 150 and engine.scheduler.num_waiting < 4:
            prompt = [0] * draw.randrange(1, 70) + [draw.randrange(2) for _ in range(draw.randrange(1, 40))]
            request = Request(
                str(submitted), Tokens(prompt), draw.choice([1, 2, 3, 70]), write=draw.random() < 0.9
            )
            engine.scheduler.submit(request, engine.now)
            submitted += 1
        plan = engine.plan()
        preempted += len(plan.preempted)
        if draw.random() < 0.1 and plan.rows:
            engine.scheduler.abort(draw.choice(plan.rows).request.request_id, engine.now)
        engine.execute(plan)
        engine.commit(plan, draw)
    assert preempted
    assert page_size == 1 or engine.num_copies
    assert share_in_flight or engine.num_swapped


class TestRows:
    def engine(self) -> Engine:
        return Engine(page_size=4, num_pages=20)

    def test_a_row_whose_tokens_were_all_copied_is_left_out(self) -> None:
        engine = Engine(page_size=4, num_pages=20, prefill_chunk_tokens=2)
        engine.scheduler.submit(Request("first", Tokens([1, 2, 3, 4]), 1), 0.0)
        while not engine.scheduler.is_idle:
            plan = engine.plan()
            engine.execute(plan)
            engine.commit(plan, random.Random(0))
        engine.scheduler.submit(Request("second", Tokens([1, 2, 3, 9]), 1), engine.now)
        plan = engine.plan()
        assert [(row.start, row.extend_len, row.max_tokens) for row in plan.rows] == [(3, 0, 0)]
        assert len(plan.copies) == 1
        assert rows_to_compute(plan) == ()
        with pytest.raises(MetadataError, match="row 0 has 0 query tokens: leave it out"):
            engine.builder.build(plan.rows)
        engine.execute(plan)
        engine.commit(plan, random.Random(0))
        plan = engine.plan()
        engine.execute(plan)
        assert engine.num_empty == 1

    def test_rows_of_requests_aborted_since_the_plan_are_left_out(self) -> None:
        engine = self.engine()
        for name in ("stays", "goes"):
            engine.scheduler.submit(Request(name, Tokens([1, 2, 3]), 1), 0.0)
        plan = engine.plan()
        engine.scheduler.abort("goes", engine.now)
        assert [row.request.request_id for row in rows_to_compute(plan)] == ["stays"]
        with pytest.raises(MetadataError, match="request 'goes' holds no sequence"):
            engine.builder.build(plan.rows)

    def test_a_row_without_pages_is_refused_and_the_builder_goes_on(self) -> None:
        engine = self.engine()
        engine.scheduler.submit(Request("a", Tokens([1, 2, 3]), 1), 0.0)
        rows = rows_to_compute(engine.plan())
        too_long = rows[0]._replace(extend_len=5)
        with pytest.raises(MetadataError, match="request 'a' needs 2 pages, 1 are reserved"):
            engine.builder.build([too_long])
        assert engine.builder.build(rows).kv_lens.tolist() == [3]

    def test_pages_reserved_for_later_are_not_read(self) -> None:
        engine = self.engine()
        for name in ("a", "b"):
            engine.scheduler.submit(Request(name, Tokens([1, 2, 3]), 20), 0.0)
        rows = rows_to_compute(engine.plan())
        for row in rows:
            assert row.request.sequence is not None
            row.request.sequence.reserve(12)
        for _ in range(2):
            metadata = engine.builder.build(rows)
            assert arrays_of(metadata) == counted(rows, 4)
            assert metadata.kv_indptr.tolist() == [0, 1, 2]

    def test_rows_may_come_in_any_order_and_go_and_come_again(self) -> None:
        draw = random.Random(0)
        engine = Engine(page_size=4, num_pages=80)
        for number in range(8):
            tokens = [number + 2] * draw.randrange(4, 20)
            engine.scheduler.submit(Request(str(number), Tokens(tokens), 30), 0.0)
        for _ in range(60):
            plan = engine.plan()
            if not plan:
                break
            for _ in range(3):
                rows = draw.sample(rows_to_compute(plan), draw.randrange(1, len(plan.rows) + 1))
                assert arrays_of(engine.builder.build(rows)) == counted(rows, 4)
            engine.commit(plan, draw)
        assert engine.scheduler.is_idle

    def test_arrays_of_a_step_are_not_written_again(self) -> None:
        engine = self.engine()
        engine.scheduler.submit(Request("a", Tokens([1, 2, 3]), 20), 0.0)
        plan = engine.plan()
        first = engine.builder.build(rows_to_compute(plan))
        kept = arrays_of(first)
        engine.commit(plan, random.Random(0))
        second = engine.builder.build(rows_to_compute(engine.plan()))
        assert arrays_of(first) == kept
        assert not np.shares_memory(first.kv_indices, second.kv_indices)

    def test_what_ended_is_not_kept_alive_and_what_lives_is_kept_as_a_copy(self) -> None:
        engine = self.engine()
        for name, num_tokens in (("ends", 1), ("lives", 9)):
            engine.scheduler.submit(Request(name, Tokens([1, 2, 3]), num_tokens), 0.0)
        plan = engine.plan()
        rows = rows_to_compute(plan)
        engine.builder.build(rows)
        tables = [row.request.sequence.page_table for row in rows if row.request.sequence is not None]
        assert not any(np.shares_memory(table, engine.builder._indices) for table in tables)
        ended, lives = (weakref.ref(row.request.sequence) for row in rows if row.request.sequence is not None)
        engine.commit(plan, random.Random(0))
        engine.builder.build(rows_to_compute(engine.plan()))
        gc.collect()
        assert ended() is None
        assert lives() is not None
