"""Typed reading of a model's settings, with messages that name field and value."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from runtime.models.errors import ModelFileError

_T = TypeVar("_T")


class Fields:
    """Settings of one file. A field that is null counts as absent.

    Attributes:
        path: The file, for messages.
    """

    def __init__(self, path: Path, values: Mapping[str, object], *, prefix: str = "") -> None:
        self.path = path
        self._values = values
        self._prefix = prefix

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def get(self, name: str) -> object:
        """The value as it stands there, or None."""
        return self._values.get(self._prefix + name)

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number.

        Raises:
            ModelFileError: It is none, or is absent and has no default.
        """
        value = self._present(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ModelFileError(self.path, f"{self._prefix}{name} must be a whole number, not {value!r}")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A number.

        Raises:
            ModelFileError: It is none, or is absent and has no default.
        """
        value = self._present(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ModelFileError(self.path, f"{self._prefix}{name} must be a number, not {value!r}")
        return float(value)

    def flag(self, name: str, default: bool | None = None) -> bool:
        """True or false.

        Raises:
            ModelFileError: It is neither, or is absent and has no default.
        """
        value = self._present(name, default)
        if not isinstance(value, bool):
            raise ModelFileError(self.path, f"{self._prefix}{name} must be true or false, not {value!r}")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A string.

        Raises:
            ModelFileError: It is none, or is absent and has no default.
        """
        value = self._present(name, default)
        if not isinstance(value, str):
            raise ModelFileError(self.path, f"{self._prefix}{name} must be a string, not {value!r}")
        return value

    def token_ids(self, name: str) -> tuple[int, ...]:
        """A token id or a list of them; empty if absent.

        Raises:
            ModelFileError: It is something else.
        """
        value = self.get(name)
        listed = [] if value is None else value if isinstance(value, list) else [value]
        if not all(isinstance(each, int) and not isinstance(each, bool) for each in listed):
            raise ModelFileError(self.path, f"{self._prefix}{name} must be token ids, not {value!r}")
        return tuple(listed)

    def texts(self, name: str) -> list[str]:
        """A list of strings.

        Raises:
            ModelFileError: It is something else, or absent.
        """
        value = self._present(name, None)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ModelFileError(self.path, f"{self._prefix}{name} must be a list of strings")
        return value

    def _present(self, name: str, default: _T | None) -> object:
        value = self.get(name)
        if value is None:
            value = default
        if value is None:
            raise ModelFileError(self.path, f"{self._prefix}{name} is missing")
        return value
