"""Token sequences: one immutable buffer of little-endian int32, made once and compared at memcmp speed."""

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol, Self, TypeAlias, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from radixcache.errors import InvalidTokens, InvalidTokenType

TOKEN_BYTES: Final = 4
MAX_TOKEN: Final = 2**31 - 1

_FEW = 64  # ids up to which a Python loop beats NumPy's fixed cost


@runtime_checkable
class SupportsArray(Protocol):
    """Anything NumPy can view as an array, torch tensors among it."""

    def __array__(self) -> npt.NDArray[Any]:
        """The values as an array."""
        ...


TokenSource: TypeAlias = "Tokens | Sequence[int] | array[int] | SupportsArray | bytes | bytearray"


class Tokens:
    """An immutable sequence of token ids, each in [0, 2**31).

    Args:
        source: A list, tuple or range of integers; an `array` or NumPy array of any integer type; a torch
            tensor in CPU memory; `bytes` that hold little-endian int32; or another `Tokens`. One
            dimension, any length.

    Raises:
        InvalidTokens: A value is negative or above 2**31 - 1; names it and its position.
        InvalidTokenType: Not integers, not one-dimensional, or a type that is not listed above. A list of
            nothing but `bool` is refused as an array of it is; among integers a `bool` passes as 0 or 1.

    Complexity:
        O(n); free for `Tokens`.

    Example:
        >>> Tokens([5, 6, 7])[1:]
        Tokens([6, 7])
        >>> Tokens([5, -6])
        Traceback (most recent call last):
        ...
        radixcache.errors.InvalidTokens: token ids lie in [0, 2147483647], got -6 at position 1
    """

    __slots__ = ("data",)

    data: bytes
    """The token ids as little-endian int32."""

    def __init__(self, source: TokenSource) -> None:
        self.data = source.data if isinstance(source, Tokens) else _encode(source)

    @classmethod
    def trusted(cls, data: bytes) -> Self:
        """Wrap little-endian int32 bytes that are known to be valid. Nothing is checked or copied."""
        tokens = cls.__new__(cls)
        tokens.data = data
        return tokens

    def numpy(self) -> npt.NDArray[np.int32]:
        """The ids as a read-only int32 array of shape [n]. No copy."""
        return np.frombuffer(self.data, dtype="<i4")

    def __len__(self) -> int:
        return len(self.data) // TOKEN_BYTES

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> "Tokens": ...
    def __getitem__(self, index: int | slice) -> "int | Tokens":
        part = self.numpy()[index]
        return Tokens.trusted(part.tobytes()) if isinstance(index, slice) else int(part)

    def __iter__(self) -> Iterator[int]:
        return iter(self.numpy().tolist())

    def __eq__(self, other: object) -> bool:
        return self.data == other.data if isinstance(other, Tokens) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        head = ", ".join(map(str, self.numpy()[:8].tolist()))
        return f"Tokens([{head}])" if len(self) <= 8 else f"Tokens([{head}, ...], {len(self)} tokens)"


def _encode(source: Any) -> bytes:
    if isinstance(source, (list, tuple, range)):
        return _encode_integers(source)
    if isinstance(source, (bytes, bytearray)):
        if len(source) % TOKEN_BYTES:
            raise InvalidTokens(f"token bytes come in fours, got {len(source)} bytes")
        return _encode_array(np.frombuffer(bytes(source), dtype="<i4"))
    if isinstance(source, (array, np.ndarray)):
        return _encode_array(np.asarray(source))
    if isinstance(source, SupportsArray):
        try:
            return _encode_array(np.asarray(source))
        except (TypeError, RuntimeError) as error:  # torch: not in CPU memory, no NumPy counterpart
            raise InvalidTokenType(f"{type(source).__name__} cannot be read as token ids: {error}") from error
    raise InvalidTokenType(
        "token ids come as list, tuple, range, array, NumPy array, torch tensor, bytes or Tokens, "
        f"not as {type(source).__name__}"
    )


def _encode_integers(values: Sequence[Any]) -> bytes:
    try:
        encoded = array("I", values)  # takes a third of the time of "i", and refuses negative values
    except (TypeError, OverflowError):
        _refuse_first_bad(values)
        raise
    ids = np.asarray(encoded)
    if encoded:
        largest = max(encoded) if len(encoded) <= _FEW else int(ids.max())
        if largest > MAX_TOKEN:
            _refuse_first_bad(values)
        elif largest < 2:
            _refuse_bools(values)
    return ids.astype("<u4", copy=False).tobytes()


def _refuse_first_bad(values: Sequence[Any]) -> None:
    for position, value in enumerate(values):
        if not hasattr(value, "__index__"):
            raise InvalidTokenType(
                f"token ids are integers, got {value!r} of type {type(value).__name__} at position {position}"
            )
        if not 0 <= value.__index__() <= MAX_TOKEN:
            raise _out_of_range(value, position)


def _refuse_bools(values: Sequence[Any]) -> None:
    if all(isinstance(value, bool) for value in values):  # ends at the first integer
        raise InvalidTokenType(f"token ids are integers, got {values[0]} of type bool at position 0")


def _encode_array(values: npt.NDArray[Any]) -> bytes:
    if values.ndim != 1:
        raise InvalidTokenType(f"token ids have one dimension, got shape {values.shape}")
    if values.dtype.kind not in "iu":
        raise InvalidTokenType(f"token ids are integers, got dtype {values.dtype}")
    if values.size:
        for position in (int(values.argmin()), int(values.argmax())):
            if not 0 <= int(values[position]) <= MAX_TOKEN:
                raise _out_of_range(values[position], position)
    return values.astype("<i4", copy=False).tobytes()


def _out_of_range(value: object, position: int) -> InvalidTokens:
    return InvalidTokens(f"token ids lie in [0, {MAX_TOKEN}], got {value} at position {position}")
