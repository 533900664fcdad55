"""A GGUF file as plain Python values and float32 arrays, through the `gguf` package."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from runtime.models.errors import MissingPackage, ModelFileError
from runtime.models.loading.fields import Fields

if TYPE_CHECKING:
    from gguf import GGUFReader

ROPE_DIVISORS: Final = "rope_freqs.weight"
"""A tensor of GGUF files that is no weight: what each rotary frequency is divided by."""


class GgufFile:
    """One open file; tensors are memory-mapped.

    Attributes:
        path: Where it lies.
        tensor_shapes: GGUF name -> shape, outermost dimension first.

    Raises:
        ModelFileError: There is no such file, or it is none of this format.
        MissingPackage: gguf is not installed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader = _open(path)
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        self.tensor_shapes = {
            name: tuple(int(size) for size in reversed(tensor.shape))
            for name, tensor in self._tensors.items()
        }

    @property
    def architecture(self) -> str:
        """What llama.cpp calls the kind of model."""
        return Fields(self.path, {"general.architecture": self.value("general.architecture")}).text(
            "general.architecture"
        )

    def fields(self, prefix: str) -> Fields:
        """The metadata whose keys begin so."""
        keys = [key for key in self._reader.fields if key.startswith(prefix)]
        return Fields(self.path, {key: self.value(key) for key in keys}, prefix=prefix)

    def value(self, key: str) -> Any:
        """One value of the metadata, or None."""
        field = self._reader.fields.get(key)
        return None if field is None else field.contents()

    def tensor(self, name: str) -> np.ndarray:
        """One tensor, dequantised to float32.

        Raises:
            ModelFileError: The `gguf` package cannot dequantise its type.
        """
        from gguf.quants import dequantize

        tensor = self._tensors[name]
        try:
            values = dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as error:
            raise ModelFileError(
                self.path, f"{name} is of type {tensor.tensor_type.name}: {error}"
            ) from error
        return np.asarray(values, dtype=np.float32).reshape(self.tensor_shapes[name])


def _open(path: Path) -> "GGUFReader":
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise MissingPackage("gguf", "reading .gguf files") from error
    try:
        return GGUFReader(path)
    except FileNotFoundError as error:
        raise ModelFileError(path, "there is no such file") from error
    except (ValueError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise ModelFileError(path, f"is no GGUF file that can be read: {error}") from error
