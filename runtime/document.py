"""How results become JSON: one key a line, finite numbers only, equal values giving equal bytes.

It must not know what the results are about.
"""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from radixcache.errors import RadixCacheError

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None


class InvalidResult(RadixCacheError, ValueError):
    """A result cannot be written as JSON, or a document is no result of this schema version."""


def study_document(schema: str, schema_version: int, result: object) -> bytes:
    """Write a result class as one UTF-8 JSON document, its fields beside the name of its schema.

    Raises:
        InvalidResult: See `to_bytes`.
    """
    return to_bytes({"schema": schema, "schema_version": schema_version, **by_key(result)})


def to_bytes(document: dict[str, Any]) -> bytes:
    """Lay a document out as UTF-8: one line for each key, and one for each object of a list.

    Raises:
        InvalidResult: A number is NaN or infinite, or a value is no JSON value.

    Complexity:
        O(size of the document).
    """
    _require_finite(document, "result")
    try:
        return ("\n".join(_lines(document)) + "\n").encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise InvalidResult(f"result cannot be written as JSON: {error}") from error


def by_key(value: Any) -> Any:
    """A value in plain dictionaries and lists; keys of dictionaries sorted, fields in their order.

    Raises:
        InvalidResult: It is no JSON value.
    """
    try:
        return msgspec.to_builtins(value, order="deterministic")
    except TypeError as error:
        raise InvalidResult(f"result cannot be written as JSON: {error}") from error


def _require_finite(value: Any, place: str) -> None:
    """Refuse NaN and infinity, which JSON cannot say."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidResult(f"{place} is {value}; results hold finite numbers only")
    elif isinstance(value, dict):
        for key, item in value.items():
            _require_finite(item, f"{place}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            if isinstance(item, float | dict | list):
                _require_finite(item, f"{place}[{number}]")


def _lines(value: Any, indent: str = "") -> Iterable[str]:
    inner = indent + " "
    if isinstance(value, dict) and value:
        items = [(_encode(key) + ": ", item) for key, item in value.items()]
        brackets = "{}"
    elif isinstance(value, list) and any(
        isinstance(item, dict) or dataclasses.is_dataclass(item) for item in value
    ):
        items = [("", item) for item in value]
        brackets = "[]"
    else:
        yield _encode(value)
        return
    yield brackets[0]
    for number, (key, item) in enumerate(items):
        lines = list(_lines(item, inner))
        lines[0] = inner + key + lines[0]
        if number + 1 < len(items):
            lines[-1] += ","
        yield from lines
    yield indent + brackets[1]


def _encode(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()
