"""One contract over all attention backends. FlashInfer runs on CUDA, and on the CPU against a stand-in."""

import dataclasses
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch

from radixcache.errors import InvalidArgument, InvalidArgumentType, InvalidConfig
from runtime.attention import (
    BACKENDS,
    AttentionBackend,
    FlashInferBackend,
    HeadLayout,
    ReferenceBackend,
    StepMetadata,
    TorchBackend,
)
from runtime.errors import MetadataError
from tests.conformance.flashinfer_double import flashinfer_double
from tests.conformance.paged_world import Rows, World

TOLERANCES = {
    torch.float64: (1e-12, 1e-12),
    torch.float32: (1e-5, 1e-5),
    torch.float16: (2e-3, 1e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
}
"""Relative and absolute."""

SPLITS = ("none", "decode", "prefix")
MIXED = [(0, 7), (33, 1), (64, 9), (3, 1), (0, 1), (63, 1), (5, 2)]


@dataclasses.dataclass
class Kind:
    """A backend, and where and with what it is tried."""

    make: Callable[..., AttentionBackend]
    dtype: torch.dtype
    device: str = "cpu"

    def backend(self, world: World) -> AttentionBackend:
        pool = world.pool
        return self.make(pool.heads, pool.page_size, self.dtype, torch.device(self.device))

    def world(self, rows: Rows, page_size: int, heads: HeadLayout, **settings: int) -> World:
        return World.of(
            rows, page_size=page_size, heads=heads, dtype=self.dtype, device=self.device, **settings
        )

    def attend(self, world: World) -> np.ndarray:
        backend = self.backend(world)
        backend.plan(world.metadata)
        out = backend.run(0, world.query, world.pool)
        assert (out.dtype, out.is_contiguous()) == (self.dtype, True)
        return out.double().cpu().numpy()

    def require_equal(self, found: np.ndarray, wanted: np.ndarray) -> None:
        relative, absolute = TOLERANCES[self.dtype]
        np.testing.assert_allclose(found, wanted, rtol=relative, atol=absolute)


class FlashInferOnStandIn(FlashInferBackend):
    device_types = ("cpu",)


KINDS = {
    "reference": Kind(ReferenceBackend, torch.float32),
    "torch": Kind(TorchBackend, torch.float32),
    "torch-float64": Kind(TorchBackend, torch.float64),
    "torch-bfloat16": Kind(TorchBackend, torch.bfloat16),
    "torch-float16": Kind(TorchBackend, torch.float16),
    **{
        f"stand-in-{split}": Kind(partial(FlashInferOnStandIn, split=split), torch.bfloat16)
        for split in SPLITS
    },
}
ON_CUDA = {
    "cuda-reference": Kind(ReferenceBackend, torch.float32, "cuda"),
    "cuda-torch": Kind(TorchBackend, torch.float32, "cuda"),
    **{
        f"cuda-{split}-{str(dtype)[6:]}": Kind(partial(FlashInferBackend, split=split), dtype, "cuda")
        for split in SPLITS
        for dtype in (torch.bfloat16, torch.float16)
    },
}


@pytest.fixture(params=[*KINDS, *(pytest.param(name, marks=pytest.mark.gpu) for name in ON_CUDA)])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    name = request.param
    if name in KINDS:
        monkeypatch.setitem(sys.modules, "flashinfer", flashinfer_double())
        monkeypatch.setattr("runtime.attention.flashinfer.WORKSPACE_BYTES", 1024)
        return KINDS[name]
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    if ON_CUDA[name].dtype is not torch.float32:
        pytest.importorskip("flashinfer", reason="flashinfer-python is not installed")
    return ON_CUDA[name]


@pytest.mark.parametrize("page_size", [1, 4, 16, 64])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("group_size", [1, 3, 4, 8])
def test_a_mixed_batch_in_shuffled_pages(kind: Kind, page_size: int, head_dim: int, group_size: int) -> None:
    world = kind.world(MIXED, page_size, HeadLayout(2 * group_size, 2, head_dim))
    kind.require_equal(kind.attend(world), world.expected())


@pytest.mark.parametrize(
    "rows",
    [
        [(0, 1)],
        [(0, 16)],
        [(16, 1)],
        [(15, 1)],
        [(31, 2)],
        [(32, 32)],
        [(47, 1), (0, 48), (100, 1), (16, 16)],
    ],
    ids=str,
)
def test_rows_that_begin_and_end_at_pages(kind: Kind, rows: Rows) -> None:
    world = kind.world(rows, 16, HeadLayout(4, 2, 64))
    kind.require_equal(kind.attend(world), world.expected())


def test_decodes_of_many_lengths(kind: Kind) -> None:
    world = kind.world([(length, 1) for length in range(0, 400, 13)], 4, HeadLayout(4, 2, 64))
    kind.require_equal(kind.attend(world), world.expected())


def test_a_chunk_longer_than_a_block_behind_a_prefix(kind: Kind) -> None:
    world = kind.world([(70, 300), (9, 1)], 16, HeadLayout(2, 1, 64))
    kind.require_equal(kind.attend(world), world.expected())


@pytest.mark.parametrize("rows", [[(64, 1), (64, 9), (80, 3), (95, 1)], [(79, 1), (64, 70)]], ids=str)
def test_rows_that_share_a_prefix(kind: Kind, rows: Rows) -> None:
    world = kind.world(rows, 16, HeadLayout(4, 2, 64), shared_pages=4)
    kind.require_equal(kind.attend(world), world.expected())


def test_a_chunked_prefill_gives_what_one_prefill_gives(kind: Kind) -> None:
    whole = kind.world([(0, 50)], 4, HeadLayout(4, 2, 64))
    found = []
    for start, stop in [(0, 3), (3, 16), (16, 17), (17, 50)]:
        pages = whole.pages[0][: -(-stop // 4)]
        metadata = StepMetadata.of([pages], [start], [stop - start], 4)
        found.append(
            kind.attend(dataclasses.replace(whole, metadata=metadata, query=whole.query[start:stop]))
        )
    kind.require_equal(np.concatenate(found), kind.attend(whole))


def test_a_query_that_is_a_slice_of_a_fused_projection(kind: Kind) -> None:
    world = kind.world(MIXED, 16, HeadLayout(4, 2, 64))
    fused = torch.cat([world.query, torch.full_like(world.query, float("nan"))], dim=1)
    sliced = dataclasses.replace(world, query=fused[:, :4])
    assert not sliced.query.is_contiguous()
    kind.require_equal(kind.attend(sliced), world.expected())


def test_one_backend_serves_step_after_step(kind: Kind) -> None:
    heads = HeadLayout(4, 2, 64)
    worlds = [kind.world(rows, 16, heads) for rows in (MIXED, [(500, 1)], [(0, 20)], MIXED[::-1])]
    backend = kind.backend(worlds[0])
    for world in worlds:
        backend.plan(world.metadata)
        for _ in range(2):
            out = backend.run(0, world.query, world.pool)
            kind.require_equal(out.double().cpu().numpy(), world.expected())


def test_results_are_not_overwritten_by_the_next_layer(kind: Kind) -> None:
    world = kind.world(MIXED, 16, HeadLayout(4, 2, 64))
    backend = kind.backend(world)
    backend.plan(world.metadata)
    first = backend.run(0, world.query, world.pool)
    kept = first.clone()
    backend.run(0, -world.query, world.pool)
    assert torch.equal(first, kept)


def test_a_step_planned_in_inference_mode_runs_out_of_it_and_keeps_no_graph(kind: Kind) -> None:
    with torch.inference_mode():
        world = kind.world(MIXED, 16, HeadLayout(4, 2, 64))
        backend = kind.backend(world)
        backend.plan(world.metadata)
        backend.run(0, world.query, world.pool)
    query = world.query.clone().requires_grad_()
    slots = torch.from_numpy(world.metadata.slot_mapping).long().to(query.device)
    new = query[:, :2] * 0
    world.pool.write(0, slots, new, new)
    out = backend.run(0, query, world.pool)
    assert [tensor.requires_grad for tensor in (query, out, world.pool.keys[0])] == [True, False, False]


# What is refused


def damaged(metadata: StepMetadata, **arrays: object) -> StepMetadata:
    return dataclasses.replace(metadata, **arrays)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda m: damaged(m, qo_indptr=np.array([0, 0, 8], np.int32)), "row 0 has 0 query tokens"),
        (lambda m: damaged(m, kv_last_page_len=np.array([0, 1], np.int32)), "kv_last_page_len is 1 to 16"),
        (lambda m: damaged(m, kv_last_page_len=np.array([17, 1], np.int32)), "kv_last_page_len is 1 to 16"),
        (lambda m: damaged(m, kv_last_page_len=np.array([6, 1], np.int32)), "do not hold"),
        (lambda m: damaged(m, kv_indptr=m.kv_indptr.astype(np.int64)), "kv_indptr is a contiguous int32"),
        (lambda m: damaged(m, kv_indices=m.kv_indices[:-1]), "kv_indices is a contiguous int32"),
        (lambda m: damaged(m, kv_indices=np.repeat(m.kv_indices, 2)[::2]), "kv_indices is a contiguous"),
        (lambda m: damaged(m, kv_indptr=m.kv_indptr + np.int32(1)), "kv_indices is a contiguous"),
        (lambda m: damaged(m, kv_lens=np.array([6, 34], np.int32)), "row 0 has fewer tokens"),
        (lambda m: damaged(m, kv_lens=np.zeros(0, np.int32)), "at least one row"),
        (lambda m: damaged(m, page_size=4), "pages hold 16 tokens"),
    ],
)
def test_metadata_that_does_not_fit_is_refused(
    kind: Kind, damage: Callable[[StepMetadata], StepMetadata], message: str
) -> None:
    world = kind.world([(0, 7), (32, 1)], 16, HeadLayout(4, 2, 64))
    backend = kind.backend(world)
    backend.plan(world.metadata)
    with pytest.raises(MetadataError, match=message):
        backend.plan(damage(world.metadata))
    out = backend.run(0, world.query, world.pool)
    kind.require_equal(out.double().cpu().numpy(), world.expected())


def test_a_run_before_the_plan_is_refused(kind: Kind) -> None:
    world = kind.world([(0, 7)], 16, HeadLayout(4, 2, 64))
    with pytest.raises(MetadataError, match="plan comes before run"):
        kind.backend(world).run(0, world.query, world.pool)


def test_a_query_or_a_pool_that_was_not_planned_is_refused(kind: Kind) -> None:
    heads = HeadLayout(4, 2, 64)
    world = kind.world([(0, 7)], 16, heads)
    backend = kind.backend(world)
    backend.plan(world.metadata)
    other_pages, other_heads = (
        kind.world([(0, 7)], 4, heads),
        kind.world([(0, 7)], 16, HeadLayout(4, 4, 64)),
    )
    with pytest.raises(InvalidArgument, match=r"planned query is \[7, 4, 64\], got \[6, 4, 64\]"):
        backend.run(0, world.query[:6], world.pool)
    for other in (other_pages, other_heads):
        with pytest.raises(InvalidArgument, match="the pool holds"):
            backend.run(0, world.query, other.pool)
    with pytest.raises(InvalidArgument, match="layers are 0 to 0, got 1"):
        backend.run(1, world.query, world.pool)
    with pytest.raises(InvalidArgumentType, match="query and KV are"):
        backend.run(0, world.query.to(torch.complex64), world.pool)


def test_heads_and_pages_that_make_no_sense_are_refused(kind: Kind) -> None:
    with pytest.raises(InvalidConfig, match="page_size is at least 1, got 0"):
        kind.make(HeadLayout(4, 2, 64), 0, kind.dtype, torch.device(kind.device))
    with pytest.raises(InvalidConfig, match="4 query heads cannot be shared out among 3"):
        HeadLayout(4, 3, 64)
    with pytest.raises(InvalidConfig, match="head_dim is at least 1, got 0"):
        HeadLayout(4, 2, 0)


def test_the_table_names_every_backend() -> None:
    found = list(BACKENDS.items())
    assert found == [
        ("reference", ReferenceBackend),
        ("torch", TorchBackend),
        ("flashinfer", FlashInferBackend),
    ]
