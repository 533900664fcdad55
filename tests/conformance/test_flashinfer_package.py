"""Our calls against the installed package flashinfer, without a GPU: its signatures, and its own Python code.

That code runs up to where it would call a compiled module, which is replaced.
"""

import inspect
import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from runtime.attention import FlashInferBackend, HeadLayout
from tests.conformance.flashinfer_double import (
    Call,
    attend,
    flashinfer_double,
    merge_state_in_place,
    require_index,
)
from tests.conformance.paged_world import Rows, World

SPLITS = ("none", "decode", "prefix")
SHARED: Rows = [(64, 1), (70, 1), (64, 9), (80, 3)]


class OnCpu(FlashInferBackend):
    device_types = ("cpu",)


@pytest.fixture(scope="module")
def package() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("flashinfer", reason="flashinfer-python is not installed")


@pytest.fixture(autouse=True)
def small_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.attention.flashinfer.WORKSPACE_BYTES", 1024)


def world() -> World:
    return World.of(SHARED, page_size=16, heads=HeadLayout(8, 2, 64), dtype=torch.bfloat16, shared_pages=4)


def attend_by(split: str, step: World) -> torch.Tensor:
    backend = OnCpu(step.pool.heads, step.pool.page_size, torch.bfloat16, "cpu", split=split)  # type: ignore[arg-type]
    backend.plan(step.metadata)
    return backend.run(0, step.query, step.pool)


def target(package: ModuleType, call: Call) -> Callable[..., Any]:
    prefill, decode = package.BatchPrefillWithPagedKVCacheWrapper, package.BatchDecodeWithPagedKVCacheWrapper
    named = {
        prefill.__name__: prefill.__init__,
        decode.__name__: decode.__init__,
        "prefill.plan": prefill.plan,
        "decode.plan": getattr(decode, "_plan_impl", decode.plan),
        "prefill.run": prefill.run,
        "decode.run": decode.run,
        "merge_state_in_place": package.merge_state_in_place,
    }
    return named[call[0]]


@pytest.mark.parametrize("split", SPLITS)
def test_every_call_binds_to_the_real_signature(
    package: ModuleType, split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    double = flashinfer_double()
    monkeypatch.setitem(sys.modules, "flashinfer", double)
    attend_by(split, world())
    for call in double.calls:
        function = target(package, call)
        of_a_wrapper = () if call[0].startswith("merge") else (None,)
        bound = inspect.signature(function).bind(*of_a_wrapper, *call[1], **call[2])
        assert "kwargs" not in bound.arguments, call[0]
        if call[0].endswith(".run"):
            assert not bound.arguments.get("args")


class Native:
    """A compiled prefill module: takes host arrays to plan, and every argument by its place."""

    def plan(self, *arguments: Any) -> list[int]:
        qo_indptr, kv_indptr, kv_lens = arguments[3:6]
        num_rows = len(kv_lens)
        require_index("qo_indptr", qo_indptr, num_rows + 1)
        require_index("kv_indptr", kv_indptr, num_rows + 1)
        require_index("kv_lens", kv_lens, num_rows)
        assert arguments[7] == num_rows
        return [0]

    def paged_run(self, *arguments: Any) -> None:
        q, keys, values, qo_indptr, kv_indptr, kv_indices, last_page_len, out, lse, mask_mode = arguments[
            3:13
        ]
        tokens, pages = qo_indptr.tolist(), kv_indptr.tolist()
        rows = []
        for row, last in enumerate(last_page_len.tolist()):
            own = kv_indices[pages[row] : pages[row + 1]].tolist()
            kv_len = (len(own) - 1) * keys.shape[1] + last
            rows.append((slice(tokens[row], tokens[row + 1]), own, kv_len))
        found = attend(q, (keys, values), rows, out, scale=arguments[23], causal=mask_mode == 1)
        if lse is not None:
            lse.copy_(found)


@pytest.mark.parametrize("split", SPLITS)
def test_the_package_takes_what_it_is_given_and_hands_it_on(
    package: ModuleType, split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty, asked = torch.empty, []

    def pageable(*arguments: Any, **options: Any) -> torch.Tensor:
        options.pop("pin_memory", None)
        return empty(*arguments, **options)

    def module(backend: str, *arguments: Any) -> Native:
        asked.append((backend, *arguments))
        return Native()

    monkeypatch.setattr(torch, "empty", pageable)
    for part in (package.prefill, package.decode):
        monkeypatch.setattr(part, "get_batch_prefill_module", module)
        if hasattr(part, "device_support_pdl"):
            monkeypatch.setattr(part, "device_support_pdl", lambda device: False)
    monkeypatch.setattr(package, "merge_state_in_place", merge_state_in_place)
    step = world()
    found = attend_by(split, step)
    np.testing.assert_allclose(found.double().numpy(), step.expected(), rtol=1.6e-2, atol=1e-2)
    assert len(set(asked)) == 1, "one kernel module serves everything"
    assert asked[0][0] == "fa2"
    assert torch.int32 in asked[0]
    assert torch.int64 not in asked[0]
