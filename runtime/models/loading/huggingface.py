"""Weights of a Hugging Face folder: `config.json` and safetensors, in one file or in shards."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from runtime.models.decoder import Decoder
from runtime.models.errors import MissingPackage, ModelFileError
from runtime.models.loading.huggingface_config import config_from_huggingface
from runtime.models.loading.source import build

if TYPE_CHECKING:
    from safetensors import safe_open

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_FLOATS = {"F64", "F32", "F16", "BF16"}


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object.

    Raises:
        ModelFileError: The file is not there, or holds something else.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelFileError(path, "there is no such file") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelFileError(path, f"is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelFileError(path, f"must hold a JSON object, not a {type(value).__name__}")
    return value


def load_huggingface(folder: Path, *, dtype: torch.dtype, device: torch.device) -> Decoder:
    """The decoder in a folder.

    Raises:
        ModelFileError: A file is missing or damaged, or the tensors are not those of the configuration.
        UnsupportedModel: The configuration asks for what the decoder does not compute.
        MissingPackage: safetensors is not installed.
    """
    config_path = folder / "config.json"
    config = config_from_huggingface(read_json(config_path), config_path)
    with SafetensorsSource(folder) as source:
        return build(config, source, dtype=dtype, device=device)


class SafetensorsSource:
    """Tensors of the safetensors files of a folder, memory-mapped while the source is open.

    Attributes:
        path: The folder.
        shapes: Name -> shape of every tensor.

    Raises:
        ModelFileError: There are no such files, one is damaged, or a tensor is quantised.
        MissingPackage: safetensors is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._files: dict[str, safe_open] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._stack = ExitStack()
        with ExitStack() as stack:
            for path, names in _shards(folder).items():
                self._open(stack, path, names)
            self._stack = stack.pop_all()

    def __enter__(self) -> "SafetensorsSource":
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def read(self, name: str) -> Tensor:
        """One tensor, on the CPU."""
        tensor: Tensor = self._files[name].get_tensor(name)  # type: ignore[no-untyped-call]
        return tensor

    def _open(self, stack: ExitStack, path: Path, names: list[str] | None) -> None:
        try:
            from safetensors import SafetensorError, safe_open
        except ImportError as error:
            raise MissingPackage("safetensors", "reading .safetensors files") from error
        try:
            file = stack.enter_context(safe_open(path, framework="pt"))
        except FileNotFoundError as error:
            raise ModelFileError(path, "there is no such file") from error
        except SafetensorError as error:
            raise ModelFileError(path, f"is no safetensors file: {error}") from error
        held = list(file.keys())
        if lacking := sorted(set(names or ()) - set(held)):
            raise ModelFileError(path, f"lacks {lacking[0]}, which {_INDEX} says is in it")
        for name in held:
            view = file.get_slice(name)
            kind = view.get_dtype()
            if kind not in _FLOATS:
                raise ModelFileError(path, f"{name} is of dtype {kind}; quantised weights are not read")
            self.shapes[name] = tuple(view.get_shape())
            self._files[name] = file


def _shards(folder: Path) -> Mapping[Path, list[str] | None]:
    """File -> tensors it must hold; None where no index says."""
    index = folder / _INDEX
    if not index.exists():
        if not (folder / _SINGLE).exists():
            raise ModelFileError(folder, f"holds neither {_SINGLE} nor {_INDEX}")
        return {folder / _SINGLE: None}
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelFileError(index, "weight_map must name the file of each tensor")
    shards: dict[Path, list[str] | None] = {}
    for name, file in sorted(weight_map.items()):
        if not isinstance(file, str) or Path(file).name != file:
            raise ModelFileError(index, f"the file of {name} must lie in the same folder, not at {file!r}")
        listed = shards.setdefault(folder / file, [])
        assert listed is not None
        listed.append(name)
    return shards
