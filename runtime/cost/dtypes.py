"""Number formats that weights and KV may be stored in."""

from typing import Final

from radixcache.errors import UnknownName

DTYPE_BYTES: Final = {"bf16": 2, "fp16": 2, "fp8": 1}
"""Bytes of one number."""


def dtype_bytes(dtype: str) -> int:
    """Bytes of one number of `dtype`.

    Raises:
        UnknownName: No such dtype.

    Example:
        >>> dtype_bytes("fp8")
        1
    """
    if dtype not in DTYPE_BYTES:
        raise UnknownName("dtype", dtype, DTYPE_BYTES)
    return DTYPE_BYTES[dtype]
