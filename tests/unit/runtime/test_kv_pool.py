import pytest
import torch

from radixcache import PageCopy
from radixcache.errors import InvalidArgument, InvalidArgumentType, InvalidConfig
from runtime.attention import HeadLayout
from runtime.kv_pool import KVPool, _independent

HEADS = HeadLayout(num_qo_heads=4, num_kv_heads=2, head_dim=3)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return request.param


def make_pool(**changes: object) -> KVPool:
    settings = {
        "num_layers": 2,
        "num_pages": 5,
        "page_size": 4,
        "heads": HEADS,
        "dtype": torch.float32,
        "device": "cpu",
    }
    return KVPool(**(settings | changes))  # type: ignore[arg-type]


def numbered(pool: KVPool) -> KVPool:
    """Every element differs from every other."""
    for number, tensor in enumerate([*pool.keys, *pool.values]):
        tensor.copy_(torch.arange(tensor.numel()).view_as(tensor) + number * tensor.numel())
    return pool


def test_all_layers_are_zeros_of_one_shape_and_one_stride() -> None:
    pool = make_pool(first_page=2)
    assert pool.num_pages == 7
    assert [tensor.shape for tensor in pool.keys + pool.values] == [(7, 4, 2, 3)] * 4
    assert {tensor.stride() for tensor in pool.keys + pool.values} == {(24, 6, 3, 1)}
    assert not any(tensor.any() for tensor in pool.keys + pool.values)
    assert pool.nbytes == 2 * 2 * 7 * 4 * 2 * 3 * 4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tokens_land_in_their_slots_and_nowhere_else(dtype: torch.dtype, device: str) -> None:
    pool = make_pool(dtype=dtype, device=device)
    keys, values = torch.randn(2, 3, 2, 3, device=device).to(dtype)
    pool.write(1, torch.tensor([19, 0, 6], device=device), keys, values)
    for found, written in ((pool.keys[1], keys), (pool.values[1], values)):
        assert torch.equal(found[4, 3], written[0])
        assert torch.equal(found[0, 0], written[1])
        assert torch.equal(found[1, 2], written[2])
        assert found.count_nonzero() == written.numel()
    assert not pool.keys[0].any()
    assert not pool.values[0].any()


def test_a_copy_moves_the_first_tokens_of_a_page_in_all_layers() -> None:
    pool = numbered(make_pool())
    before = [tensor.clone() for tensor in pool.keys + pool.values]
    pool.copy([PageCopy(source=3, target=1, num_tokens=3)])
    for found, old in zip(pool.keys + pool.values, before, strict=True):
        assert torch.equal(found[1, :3], old[3, :3])
        assert torch.equal(found[1, 3], old[1, 3])
        assert torch.equal(found[[0, 2, 3, 4]], old[[0, 2, 3, 4]])


@pytest.mark.parametrize(
    "copies",
    [
        [(0, 1, 4), (2, 3, 1)],
        [(0, 1, 4), (0, 2, 4), (0, 3, 2)],
        [(0, 1, 4), (1, 2, 4)],
        [(0, 1, 2), (1, 0, 4)],
        [(1, 0, 4), (2, 1, 4)],
        [(0, 1, 4), (2, 1, 2)],
        [(2, 1, 2), (0, 1, 4)],
        [(0, 1, 3), (1, 2, 2), (2, 3, 4), (4, 0, 4), (0, 1, 1)],
    ],
    ids=str,
)
def test_copies_have_the_outcome_of_one_after_the_other(
    copies: list[tuple[int, int, int]], device: str
) -> None:
    together, apart = numbered(make_pool(device=device)), numbered(make_pool(device=device))
    orders = [PageCopy(*each) for each in copies]
    together.copy(orders)
    for source, target, num_tokens in orders:
        for tensor in apart.keys + apart.values:
            tensor[target, :num_tokens] = tensor[source, :num_tokens].clone()
    for found, wanted in zip(together.keys + together.values, apart.keys + apart.values, strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize(
    ("copies", "sizes"),
    [
        ([(0, 1, 4), (0, 2, 4), (3, 4, 1)], [3]),
        ([(1, 0, 4), (2, 1, 4)], [2]),
        ([(0, 1, 4), (1, 2, 4)], [1, 1]),
        ([(0, 1, 4), (2, 1, 2)], [1, 1]),
        ([(0, 1, 4), (2, 3, 4), (1, 4, 4), (3, 0, 4)], [2, 2]),
        ([], []),
    ],
    ids=str,
)
def test_copies_go_together_until_one_builds_on_another(
    copies: list[tuple[int, int, int]], sizes: list[int]
) -> None:
    assert [len(together) for together in _independent([PageCopy(*each) for each in copies])] == sizes


def test_no_copies_are_no_work() -> None:
    pool = numbered(make_pool())
    before = pool.keys[0].clone()
    pool.copy([])
    assert torch.equal(pool.keys[0], before)


@pytest.mark.parametrize(
    ("copy", "message"),
    [
        ((5, 0, 1), "pages are 0 to 4, got 5"),
        ((0, 5, 1), "pages are 0 to 4, got 5"),
        ((-1, 0, 1), "pages are 0 to 4, got -1"),
        ((1, 1, 1), "copied to another one"),
        ((0, 1, 0), "1 to 4 tokens"),
        ((0, 1, 5), "1 to 4 tokens"),
    ],
)
def test_a_wrong_copy_is_refused_before_the_right_ones_run(copy: tuple[int, int, int], message: str) -> None:
    pool = numbered(make_pool())
    before = pool.keys[0].clone()
    with pytest.raises(InvalidArgument, match=message):
        pool.copy([PageCopy(0, 4, 4), PageCopy(*copy)])
    assert torch.equal(pool.keys[0], before)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_layers": 0}, "num_layers is at least 1, got 0"),
        ({"num_pages": 0}, "num_pages is at least 1, got 0"),
        ({"page_size": 0}, "page_size is at least 1, got 0"),
        ({"first_page": -1}, "first_page is at least 0, got -1"),
        ({"dtype": torch.int32}, "got torch.int32"),
        ({"num_pages": 2**29, "first_page": 1}, "more than 2147483648 slots"),
    ],
)
def test_a_pool_that_cannot_be_is_refused_before_it_takes_memory(
    changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidConfig, match=message):
        make_pool(**changes)


def test_a_write_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    pool = make_pool()
    slots, ones = torch.tensor([0, 1]), torch.ones(2, 2, 3)
    with pytest.raises(InvalidArgument, match="layers are 0 to 1, got 2"):
        pool.write(2, slots, ones, ones)
    with pytest.raises(InvalidArgument, match="layers are 0 to 1, got -1"):
        pool.write(-1, slots, ones, ones)
    for keys, values in ((ones[:1], ones), (ones, ones[:, :1]), (ones, ones.flatten(1))):
        with pytest.raises(InvalidArgument, match=r"KV \[nnz, 2, 3\] are needed"):
            pool.write(0, slots, keys, values)
    for arguments in ((slots.int(), ones, ones), (slots, ones.double(), ones), (slots, ones, ones.half())):
        with pytest.raises(InvalidArgumentType, match=r"slots are int64 and KV is torch\.float32"):
            pool.write(0, *arguments)
    assert not pool.keys[0].any()
