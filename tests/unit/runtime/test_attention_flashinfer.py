"""What FlashInfer is given: see `tests/conformance` for what comes out."""

import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
import torch

from radixcache.errors import InvalidConfig
from runtime.attention import FlashInferBackend, HeadLayout, StepMetadata
from runtime.attention.flashinfer import WORKSPACE_BYTES
from runtime.errors import BackendUnavailable, MetadataError
from tests.conformance.flashinfer_double import Call, flashinfer_double
from tests.conformance.paged_world import Rows, World

HEADS = HeadLayout(8, 2, 64)
MIXED: Rows = [(33, 1), (63, 1), (0, 7), (64, 9), (3, 1)]


class OnCpu(FlashInferBackend):
    device_types = ("cpu",)


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    double = flashinfer_double()
    monkeypatch.setitem(sys.modules, "flashinfer", double)
    monkeypatch.setattr("runtime.attention.flashinfer.WORKSPACE_BYTES", 1024)
    return double


def make_backend(
    split: str = "none", heads: HeadLayout = HEADS, dtype: torch.dtype = torch.bfloat16
) -> OnCpu:
    return OnCpu(heads, 16, dtype, "cpu", split=split)  # type: ignore[arg-type]


def make_world(rows: Rows = MIXED, heads: HeadLayout = HEADS, **settings: int) -> World:
    return World.of(rows, page_size=16, heads=heads, dtype=torch.bfloat16, **settings)


def plans(package: ModuleType) -> list[Call]:
    return [call for call in package.calls if call[0].endswith(".plan")]


def integers(call: Call) -> list[object]:
    return [each.tolist() if isinstance(each, torch.Tensor) else each for each in call[1]]


def test_the_kernel_is_named_and_the_workspace_shared_and_zeroed(package: ModuleType) -> None:
    make_backend("decode")
    (prefill, (workspace, *_), options), (decode, (same, *_), decode_options) = package.calls
    assert (prefill, options) == ("BatchPrefillWithPagedKVCacheWrapper", {"backend": "fa2"})
    assert decode == "BatchDecodeWithPagedKVCacheWrapper"
    assert decode_options == {"backend": "fa2", "use_tensor_cores": True}
    assert same is workspace
    assert workspace.dtype is torch.uint8
    assert not workspace.any()
    assert WORKSPACE_BYTES == 256 * 2**20


def test_one_plan_gets_the_arrays_of_the_step(package: ModuleType) -> None:
    step = make_world()
    make_backend().plan(step.metadata)
    (call,) = plans(package)
    metadata = step.metadata
    arrays = (metadata.qo_indptr, metadata.kv_indptr, metadata.kv_indices, metadata.kv_last_page_len)
    assert call[0] == "prefill.plan"
    assert integers(call) == [*(array.tolist() for array in arrays), 8, 2, 64, 16]
    assert call[2].pop("seq_lens").tolist() == metadata.kv_lens.tolist()
    assert call[2] == {
        "causal": True,
        "pos_encoding_mode": "NONE",
        "sm_scale": 0.125,
        "q_data_type": torch.bfloat16,
        "kv_data_type": torch.bfloat16,
    }


def test_a_layer_hands_over_the_cache_as_a_tuple_and_memory_for_the_result(package: ModuleType) -> None:
    step = make_world()
    backend = make_backend()
    backend.plan(step.metadata)
    out = backend.run(0, step.query, step.pool)
    name, (_, cache), options = package.calls[-1]
    assert (name, type(cache), options["return_lse"]) == ("prefill.run", tuple, False)
    assert cache[0] is step.pool.keys[0]
    assert cache[1] is step.pool.values[0]
    assert options["out"].data_ptr() == out.data_ptr()


def test_leading_decodes_are_planned_apart(package: ModuleType) -> None:
    step = make_world()
    make_backend("decode").plan(step.metadata)
    decode, prefill = plans(package)
    assert (decode[0], prefill[0]) == ("decode.plan", "prefill.plan")
    pages = [each.tolist() for each in step.pages]
    assert integers(decode)[:3] == [[0, 3, 7], pages[0] + pages[1], [2, 16]]
    assert "causal" not in decode[2]
    assert integers(prefill)[:4] == [
        [0, 7, 16, 17],
        [0, 1, 6, 7],
        pages[2] + pages[3] + pages[4],
        [7, 9, 4],
    ]
    assert prefill[2]["seq_lens"].tolist() == [7, 73, 4]


@pytest.mark.parametrize(
    ("rows", "names"), [([(5, 1), (9, 1)], ["decode.plan"]), ([(0, 5)], ["prefill.plan"])]
)
def test_nothing_empty_is_planned(package: ModuleType, rows: Rows, names: list[str]) -> None:
    make_backend("decode").plan(make_world(rows).metadata)
    assert [call[0] for call in plans(package)] == names


def test_a_shared_prefix_is_read_once_and_fully(package: ModuleType) -> None:
    rows = [(48, 1), (50, 9), (80, 3)]
    step = make_world(rows, shared_pages=3)
    backend = make_backend("prefix")
    backend.plan(step.metadata)
    assert backend.merges_prefix
    own, prefix = plans(package)
    pages = [each.tolist() for each in step.pages]
    assert integers(prefix)[:4] == [[0, 13], [0, 3], pages[0][:3], [16]]
    assert prefix[2]["causal"] is False
    assert prefix[2]["seq_lens"].tolist() == [48]
    assert integers(own)[:4] == [
        [0, 1, 10, 13],
        [0, 1, 2, 5],
        [*pages[0][3:], *pages[1][3:], *pages[2][3:]],
        [1, 11, 3],
    ]
    assert own[2]["causal"] is True
    assert own[2]["seq_lens"].tolist() == [1, 11, 35]


@pytest.mark.parametrize(
    ("rows", "shared_pages", "num_merged"),
    [
        ([(48, 1), (50, 9)], 3, 3),
        ([(47, 1), (50, 9)], 3, 2),
        ([(48, 1), (32, 17)], 3, 2),
        ([(48, 1), (31, 18)], 2, 0),
        ([(48, 1), (50, 9)], 1, 0),
        ([(48, 1), (50, 9)], 0, 0),
        ([(48, 1)], 3, 0),
    ],
)
def test_only_whole_pages_before_every_query_are_merged(
    package: ModuleType, rows: Rows, shared_pages: int, num_merged: int
) -> None:
    step = make_world(rows, shared_pages=shared_pages)
    backend = make_backend("prefix")
    backend.plan(step.metadata)
    assert backend.merges_prefix is bool(num_merged)
    assert len(plans(package)) == 1 + bool(num_merged)
    if num_merged:
        assert integers(plans(package)[1])[1] == [0, num_merged]


@pytest.mark.parametrize(
    ("heads", "merged"),
    [
        (HeadLayout(128, 8, 64), True),
        (HeadLayout(136, 8, 64), False),
        (HeadLayout(64, 8, 128), True),
        (HeadLayout(72, 8, 128), False),
        (HeadLayout(32, 8, 256), True),
        (HeadLayout(40, 8, 256), False),
    ],
    ids=str,
)
def test_more_heads_than_the_merging_kernel_has_threads_for_stay_together(
    package: ModuleType, heads: HeadLayout, merged: bool
) -> None:
    step = make_world([(48, 1), (50, 2)], heads, shared_pages=3)
    backend = make_backend("prefix", heads)
    backend.plan(step.metadata)
    assert backend.merges_prefix is merged


def test_a_step_without_a_shared_prefix_does_not_keep_the_last_one(package: ModuleType) -> None:
    backend = make_backend("prefix")
    for step in (make_world([(48, 1), (50, 2)], shared_pages=3), make_world([(48, 1), (50, 2)])):
        backend.plan(step.metadata)
        found = backend.run(0, step.query, step.pool)
        np.testing.assert_allclose(found.double().numpy(), step.expected(), rtol=1.6e-2, atol=1e-2)
    assert not backend.merges_prefix


class Event:
    def __init__(self, calls: list[Call]) -> None:
        self.calls = calls

    def synchronize(self) -> None:
        self.calls.append(("wait", (), {}))

    def record(self) -> None:
        self.calls.append(("mark", (), {}))


@pytest.mark.parametrize("split", ["none", "decode", "prefix"])
def test_a_plan_waits_until_the_schedule_of_the_last_one_was_copied(package: ModuleType, split: str) -> None:
    backend = make_backend(split)
    backend._planned = Event(package.calls)  # type: ignore[assignment]
    package.calls.clear()
    step = make_world([(48, 1), (50, 2)], shared_pages=3)
    for _ in range(2):
        backend.plan(step.metadata)
    names = [call[0] for call in package.calls]
    half = len(names) // 2
    assert names[:half] == names[half:]
    assert (names[0], names[half - 1]) == ("wait", "mark")
    assert {name[-4:] for name in names[1 : half - 1]} == {"plan"}


def test_a_plan_that_raises_leaves_nothing_to_run(
    package: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, step = make_backend(), make_world()
    backend.plan(step.metadata)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(backend._whole, "plan", broken)
    with pytest.raises(RuntimeError, match="no memory"):
        backend.plan(step.metadata)
    with pytest.raises(MetadataError, match="plan comes before run"):
        backend.run(0, step.query, step.pool)


@pytest.mark.parametrize("head_dim", [1, 32, 63, 80, 96, 512])
def test_head_dims_that_the_kernel_would_read_past_are_refused(package: ModuleType, head_dim: int) -> None:
    with pytest.raises(InvalidConfig, match=rf"head_dim is one of \(64, 128, 256\).*got {head_dim}"):
        make_backend(heads=HeadLayout(8, 2, head_dim))
    assert package.calls == []


def test_other_dtypes_and_devices_are_refused(package: ModuleType) -> None:
    with pytest.raises(InvalidConfig, match=r"serves torch.float16, torch.bfloat16, got torch.float32"):
        make_backend(dtype=torch.float32)
    with pytest.raises(InvalidConfig, match="runs on cuda, got cpu"):
        FlashInferBackend(HEADS, 16, torch.bfloat16, "cpu")


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flashinfer", None)
    with pytest.raises(BackendUnavailable, match=r"flashinfer-python.*radixcache\[flashinfer\]") as caught:
        make_backend()
    assert isinstance(caught.value, ImportError)


def test_the_arrays_of_a_step_are_only_read(package: ModuleType) -> None:
    step = make_world([(48, 1), (50, 9)], shared_pages=3)
    names = [name for name in StepMetadata.__slots__ if name != "page_size"]
    before = {name: getattr(step.metadata, name).tolist() for name in names}
    for split in ("none", "decode", "prefix"):
        backend = make_backend(split)
        backend.plan(step.metadata)
        backend.run(0, step.query, step.pool)
    assert {name: getattr(step.metadata, name).tolist() for name in names} == before
