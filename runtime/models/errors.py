"""What `runtime.models` raises on purpose."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from radixcache.errors import InvalidConfig, RadixCacheError

_MAX_NAMED = 5
"""Tensors named in one message; a checkpoint of another model would otherwise name hundreds."""


class ModelFileError(RadixCacheError, ValueError):
    """A model's file cannot be read as what it should be.

    Attributes:
        path: The file or folder.
        reason: What is wrong with it.
    """

    def __init__(self, path: Path | str, reason: str) -> None:
        self.path = Path(path)
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class UnsupportedModel(InvalidConfig):
    """A configuration asks for something that the decoder or the tokenizer does not do.

    Attributes:
        field: The setting, as its file calls it.
        value: What it says.
    """

    def __init__(self, field: str, value: object, supported: str) -> None:
        self.field = field
        self.value = value
        super().__init__(f"{field} = {value!r} is not supported: {supported}")


class WeightsMismatch(ModelFileError):
    """The tensors of a checkpoint are not those of its configuration. Nothing was built.

    Attributes:
        missing: Tensors that the configuration needs and the checkpoint lacks.
        unexpected: Tensors of the checkpoint that the configuration has no place for.
        misshapen: Name -> (shape in the checkpoint, shape that is needed).
    """

    def __init__(
        self,
        path: Path | str,
        *,
        missing: Sequence[str],
        unexpected: Sequence[str],
        misshapen: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]],
    ) -> None:
        self.missing = tuple(missing)
        self.unexpected = tuple(unexpected)
        self.misshapen = dict(misshapen)
        shapes = [f"{name} is {has}, not {wants}" for name, (has, wants) in self.misshapen.items()]
        parts = [("missing", missing), ("unexpected", unexpected), ("of a wrong shape", shapes)]
        reason = "; ".join(f"{len(names)} tensors {what}: {_some(names)}" for what, names in parts if names)
        super().__init__(path, reason)


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")


class MissingPackage(RadixCacheError, ImportError):
    """An optional package is needed and not installed.

    Attributes:
        package: What pip calls it.
    """

    def __init__(self, package: str, purpose: str, install: str | None = None) -> None:
        self.package = package
        super().__init__(f"{purpose} needs the package {package}: {install or f'pip install {package}'}")


class ChatTemplateError(RadixCacheError, ValueError):
    """A conversation cannot be written as the model's chat template wants it, or there is no template."""
