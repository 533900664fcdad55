"""Namespaces: what besides token ids decides whose KV may be shared, and their canonical form."""

from typing import TypeAlias

from radixcache.errors import InvalidArgumentType

NamespacePart: TypeAlias = str | bytes | None
Namespace: TypeAlias = NamespacePart | tuple[NamespacePart, ...]


def namespace_key(namespace: Namespace) -> bytes:
    """Canonical bytes of a namespace, equal in every process and only for equal namespaces.

    Every part carries its type and its length, so `("ab", "c")`, `("a", "bc")`, `"abc"` and `b"abc"`
    are four namespaces. Subclasses are refused: two of them may compare equal and mean different things.

    Args:
        namespace: `None`, `str`, `bytes`, or a tuple of these.

    Raises:
        InvalidArgumentType: Anything else.

    Complexity:
        O(length of the namespace).

    Example:
        >>> namespace_key(("model-a", None, b"salt"))
        b't3:s7:model-an0:b4:salt'
    """
    if namespace is None:
        return b"n0:"
    if type(namespace) is tuple:
        return b"t%d:" % len(namespace) + b"".join(map(_part_key, namespace))
    return _part_key(namespace)  # type: ignore[arg-type]  # a stranger type is refused there


def _part_key(part: NamespacePart) -> bytes:
    if part is None:
        return b"n0:"
    if type(part) is str:
        encoded = part.encode("utf-8", "surrogatepass")
        return b"s%d:" % len(encoded) + encoded
    if type(part) is bytes:
        return b"b%d:" % len(part) + part
    raise InvalidArgumentType(
        f"a namespace is None, str, bytes or a tuple of these, not {part!r} of type {type(part).__name__}"
    )
