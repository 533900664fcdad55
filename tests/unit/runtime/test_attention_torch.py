"""How the torch backend puts rows together: see `tests/conformance` for what comes out."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from runtime.attention import HeadLayout, TorchBackend, torch_paged
from tests.conformance.paged_world import Rows, World

HEADS = HeadLayout(4, 2, 64)


def make_world(rows: Rows, page_size: int = 4) -> World:
    return World.of(rows, page_size=page_size, heads=HEADS, dtype=torch.float32)


def planned(step: World) -> TorchBackend:
    backend = TorchBackend(HEADS, step.pool.page_size, torch.float32, "cpu")
    backend.plan(step.metadata)
    return backend


class Counting(TorchDispatchMode):
    """Counts the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def num_operators(step: World) -> tuple[int, int]:
    """Operators that run for a layer, and those of attention among them."""
    backend = planned(step)
    with Counting() as counting:
        backend.run(0, step.query, step.pool)
    return len(counting.names), sum("attention" in name for name in counting.names)


def test_decoding_rows_of_like_length_take_as_many_calls_as_one() -> None:
    alone, together = make_world([(50, 1)]), make_world([(50 - number % 3, 1) for number in range(40)])
    assert num_operators(together) == num_operators(alone)


@pytest.mark.parametrize("num_tokens", [3, 90, 250])
def test_no_call_is_made_for_each_token(num_tokens: int) -> None:
    assert num_operators(make_world([(7, num_tokens)])) == num_operators(make_world([(7, 2)]))
    assert num_operators(make_world([(num_tokens, 1)])) == num_operators(make_world([(7, 1)]))


def test_a_chunk_is_cut_into_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_paged, "QUERY_BLOCK", 8)
    step = make_world([(30, 20), (3, 8), (0, 20)])
    assert num_operators(step)[1] == 3 + 1 + 1
    found = planned(step).run(0, step.query, step.pool)
    np.testing.assert_allclose(found.numpy(), step.expected(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("lengths", "groups"),
    [
        ([64, 64, 63, 49, 48, 47, 8], [[64, 64, 63, 49, 48, 47], [8]]),
        ([64, 44, 40, 33, 30, 4, 3], [[64], [44, 40, 33], [30], [4, 3]]),
        ([4, 64], [[64], [4]]),
        ([5], [[5]]),
    ],
    ids=str,
)
def test_rows_go_together_where_none_is_much_shorter(lengths: list[int], groups: list[list[int]]) -> None:
    step = make_world([(length - 1, 1) for length in lengths])
    found = [step.metadata.kv_lens[group.tokens.numpy()].tolist() for group in planned(step)._groups]
    assert found == groups


def test_a_group_takes_no_more_memory_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    page_bytes = 4 * 2 * 64 * 4
    monkeypatch.setattr(torch_paged, "CPU_GROUP_BYTES", 5 * page_bytes)
    step = make_world([(7, 1), (7, 1), (6, 1), (40, 1), (41, 1)])
    backend = planned(step)
    assert [len(group.tokens) for group in backend._groups] == [1, 1, 2, 1]
    np.testing.assert_allclose(
        backend.run(0, step.query, step.pool).numpy(), step.expected(), rtol=1e-5, atol=1e-5
    )


def test_rows_of_one_length_need_no_mask_and_others_one_for_the_shorter() -> None:
    assert [group.mask for group in planned(make_world([(6, 1), (6, 1)]))._groups] == [None]
    (group,) = planned(make_world([(6, 1), (4, 1)]))._groups
    assert group.mask is not None
    assert group.mask[:, 0, 0].tolist() == [[0.0] * 7, [0.0] * 5 + [float("-inf")] * 2]


def test_a_lone_row_is_planned_as_it_is_in_company() -> None:
    (lone,) = planned(make_world([(5, 1)]))._groups
    assert (lone.tokens.tolist(), lone.padding.tolist(), lone.mask, lone.max_len) == ([0], [6, 7], None, 6)
    step = make_world([(5, 1), (5, 1)])
    (both,) = planned(step)._groups
    assert lone.tokens.dtype == both.tokens.dtype
    assert lone.padding.dtype == both.padding.dtype
    assert lone.pages.dtype == both.pages.dtype
    assert both.padding.tolist() == [6, 7, 14, 15]
    assert both.pages.tolist() == step.metadata.kv_indices.tolist()


def test_memory_to_gather_into_is_kept_until_more_is_needed() -> None:
    step = make_world([(50, 1)])
    backend = planned(step)
    first = backend._scratch
    assert first is not None
    for rows, kept in (([(20, 1)], True), ([(0, 40)], True), ([(400, 1)], False)):
        backend.plan(make_world(rows).metadata)
        assert (backend._scratch is first) is kept
