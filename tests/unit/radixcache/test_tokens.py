import subprocess
import sys
from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import RadixCacheError, Tokens
from radixcache.errors import InvalidTokens, InvalidTokenType
from radixcache.tokens import MAX_TOKEN

IDS = [0, 1, 7, MAX_TOKEN]
EXPECTED = b"\0\0\0\0\1\0\0\0\7\0\0\0\xff\xff\xff\x7f"
TYPECODES = "bBhHiIlLqQ"
INTEGER_DTYPES = ("i1", "u1", "<i2", ">i2", "<u2", "<i4", ">i4", "<u4", "<i8", ">i8", "<u8")


class Device:
    """Stands for a tensor in GPU memory: NumPy cannot view it."""

    def __array__(self) -> np.ndarray:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


@pytest.mark.parametrize(
    "source",
    [IDS, tuple(IDS), array("q", IDS), np.array(IDS), EXPECTED, bytearray(EXPECTED), Tokens(IDS)],
    ids=["list", "tuple", "array", "ndarray", "bytes", "bytearray", "Tokens"],
)
def test_every_source_gives_the_same_little_endian_int32(source: object) -> None:
    assert Tokens(source).data == EXPECTED


def test_a_range_is_a_source() -> None:
    assert list(Tokens(range(3, 9, 2))) == [3, 5, 7]


@pytest.mark.parametrize("typecode", TYPECODES)
def test_arrays_of_every_integer_typecode_are_sources(typecode: str) -> None:
    assert Tokens(array(typecode, [0, 5, 127])) == Tokens([0, 5, 127])


@pytest.mark.parametrize("dtype", INTEGER_DTYPES)
def test_numpy_arrays_of_every_integer_dtype_and_byte_order_are_sources(dtype: str) -> None:
    assert Tokens(np.array([0, 5, 127], dtype=dtype)) == Tokens([0, 5, 127])


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "uint8"])
def test_torch_tensors_in_cpu_memory_are_sources(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    assert Tokens(torch.tensor([0, 5, 127], dtype=getattr(torch, dtype))) == Tokens([0, 5, 127])


def test_strided_and_reversed_views_are_read_in_their_order() -> None:
    assert list(Tokens(np.arange(10)[8:1:-3])) == [8, 5, 2]


def test_numpy_integers_in_a_list_are_integers() -> None:
    assert list(Tokens([np.int64(3), np.uint8(4)])) == [3, 4]


@pytest.mark.parametrize("source", [[], (), b"", np.array([], dtype=np.int64), array("i")])
def test_no_tokens_are_a_sequence_of_length_zero(source: object) -> None:
    assert len(Tokens(source)) == 0


@pytest.mark.parametrize("make", [list, tuple, np.array, lambda ids: array("q", ids)])
@pytest.mark.parametrize("bad", [-1, -(2**31), 2**31, 2**62])
def test_ids_out_of_range_are_refused_with_value_and_position(make: object, bad: int) -> None:
    with pytest.raises(InvalidTokens, match=rf"\[0, 2147483647\], got {bad} at position 2"):
        Tokens(make([3, 4, bad, 5]))


@pytest.mark.parametrize("bad", [2**63, 2**100, -(2**100)])
def test_ids_beyond_any_machine_integer_are_refused_with_value_and_position(bad: int) -> None:
    with pytest.raises(InvalidTokens, match=rf"got {bad} at position 1"):
        Tokens([3, bad])


def test_a_range_out_of_range_is_refused() -> None:
    with pytest.raises(InvalidTokens, match="got 2147483648 at position 1"):
        Tokens(range(2**31 - 1, 2**31 + 1))


def test_unsigned_arrays_above_the_limit_are_refused() -> None:
    with pytest.raises(InvalidTokens, match="got 4294967295 at position 0"):
        Tokens(np.array([2**32 - 1], dtype=np.uint32))


def test_negative_ids_in_bytes_are_refused() -> None:
    with pytest.raises(InvalidTokens, match="got -1 at position 1"):
        Tokens(b"\1\0\0\0\xff\xff\xff\xff")


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_bytes_come_in_fours(length: int) -> None:
    with pytest.raises(InvalidTokens, match=f"got {length} bytes"):
        Tokens(bytes(length))


@pytest.mark.parametrize("bad", [1.0, 2.5, "3", None, [4], 1j])
def test_a_list_with_no_integer_is_refused_with_type_and_position(bad: object) -> None:
    with pytest.raises(InvalidTokenType, match=f"{type(bad).__name__} at position 1"):
        Tokens([1, bad])


@pytest.mark.parametrize("source", [[True], [False], (False, True, False), [True] * 100, [False] * 100])
def test_a_list_of_bools_is_refused_as_an_array_of_them_is(source: object) -> None:
    with pytest.raises(InvalidTokenType, match=f"got {source[0]} of type bool at position 0"):
        Tokens(source)


@pytest.mark.parametrize("ids", [[0], [1, 0], [0] * 100, range(2), [True, 0], [False, 7]])
def test_small_integers_are_no_bools(ids: object) -> None:
    assert list(Tokens(ids)) == list(map(int, ids))


@pytest.mark.parametrize(
    ("source", "named"),
    [
        (np.array([1.0]), "float64"),
        (np.array([True]), "bool"),
        (np.array([1j]), "complex128"),
        (np.array(["1"]), "U1"),
        (np.array([1], dtype=object), "object"),
        (np.array([1], dtype="m8[s]"), "timedelta64"),
        (array("d", [1.0]), "float64"),
        (np.ones((2, 3), dtype=np.int32), r"\(2, 3\)"),
        (np.int64(3), r"\(\)"),
        (np.ones((1, 1, 1), dtype=np.int32), r"\(1, 1, 1\)"),
    ],
)
def test_arrays_of_other_dtypes_and_shapes_are_refused_by_name(source: object, named: str) -> None:
    with pytest.raises(InvalidTokenType, match=named):
        Tokens(source)


@pytest.mark.parametrize("source", ["text", 5, None, {1, 2}, {1: 2}, 1.0, iter([1]), memoryview(b"1234")])
def test_other_types_are_refused_by_name(source: object) -> None:
    with pytest.raises(InvalidTokenType, match=f"not as {type(source).__name__}"):
        Tokens(source)


def test_a_tensor_on_a_device_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidTokenType, match="Device cannot be read as token ids: can't convert cuda:0"):
        Tokens(Device())


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda torch: torch.tensor([1.0]), "float32"),
        (lambda torch: torch.tensor([True]), "bool"),
        (lambda torch: torch.tensor([1.0], dtype=torch.bfloat16), "Tensor cannot be read"),
        (lambda torch: torch.tensor([1.0], requires_grad=True), "Tensor cannot be read"),
        (lambda torch: torch.tensor([[1]]), r"\(1, 1\)"),
        (lambda torch: torch.tensor(1), r"\(\)"),
        (lambda torch: torch.empty(3, dtype=torch.int64, device="meta"), "Tensor cannot be read"),
        (lambda torch: torch.tensor([0, 1]).to_sparse(), "Tensor cannot be read"),
    ],
    ids=["float", "bool", "bfloat16", "grad", "2-D", "0-D", "meta", "sparse"],
)
def test_tensors_that_hold_no_row_of_integers_are_refused(make: object, named: str) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(InvalidTokenType, match=named):
        Tokens(make(torch))


@pytest.mark.parametrize(("error", "builtin"), [(InvalidTokens, ValueError), (InvalidTokenType, TypeError)])
def test_errors_are_ours_and_the_builtin(error: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(error, RadixCacheError)
    assert issubclass(error, builtin)


def test_later_changes_of_the_source_do_not_show() -> None:
    sources = [[1, 2], array("i", [1, 2]), np.array([1, 2], dtype="<i4"), bytearray(b"\1\0\0\0\2\0\0\0")]
    tokens = [Tokens(source) for source in sources]
    for source in sources:
        source[0] = 9
    assert tokens == [Tokens([1, 2])] * 4


def test_tokens_of_tokens_share_the_buffer() -> None:
    tokens = Tokens([1, 2])
    assert Tokens(tokens).data is tokens.data


def test_trusted_wraps_without_a_copy() -> None:
    data = b"\1\0\0\0"
    assert Tokens.trusted(data).data is data


def test_the_numpy_view_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Tokens([1, 2]).numpy()[0] = 9


def test_index_slice_iteration_and_length_are_those_of_a_list() -> None:
    tokens = Tokens([5, 6, 7, 8])
    assert (tokens[0], tokens[-1], len(tokens), list(tokens)) == (5, 8, 4, [5, 6, 7, 8])
    assert tokens[1:3] == Tokens([6, 7])
    assert tokens[::-2] == Tokens([8, 6])
    assert all(type(token) is int for token in [*tokens, tokens[0]])


def test_an_index_past_the_end_raises() -> None:
    with pytest.raises(IndexError):
        Tokens([1])[1]


def test_equal_tokens_have_equal_hashes_and_nothing_else_is_equal_to_them() -> None:
    assert hash(Tokens([1, 2])) == hash(Tokens((1, 2)))
    assert Tokens([1, 2]) != Tokens([1, 2, 3])
    assert Tokens([1]) != [1]
    assert Tokens([1]) != b"\1\0\0\0"


def test_the_text_form_is_short() -> None:
    assert repr(Tokens(range(8))) == "Tokens([0, 1, 2, 3, 4, 5, 6, 7])"
    assert repr(Tokens(range(9))) == "Tokens([0, 1, 2, 3, 4, 5, 6, 7, ...], 9 tokens)"
    assert repr(Tokens([])) == "Tokens([])"


@given(st.lists(st.integers(0, MAX_TOKEN)))
def test_tokens_hold_exactly_what_they_were_given(ids: list[int]) -> None:
    assert list(Tokens(ids)) == ids
    assert Tokens(ids).data == np.array(ids, dtype="<i4").tobytes()


@given(st.lists(st.integers(0, MAX_TOKEN)), st.slices(20))
def test_slices_are_those_of_a_list(ids: list[int], part: slice) -> None:
    assert list(Tokens(ids)[part]) == ids[part]


def test_making_tokens_imports_no_torch() -> None:
    code = "import sys, radixcache; radixcache.Tokens([1, 2]); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
