"""Weights of a GGUF file, dequantised. Names and layouts are those of llama.cpp; here they become ours."""

from typing import Final

import numpy as np
import torch
from torch import Tensor

from runtime.models.config import ModelConfig
from runtime.models.decoder import Decoder
from runtime.models.loading.gguf_config import config_from_gguf
from runtime.models.loading.gguf_file import ROPE_DIVISORS, GgufFile
from runtime.models.loading.source import build
from runtime.models.weights import EMBEDDING, FINAL_NORM, OUTPUT_HEAD, layer_tensor

_TENSORS: Final = {
    "token_embd.weight": EMBEDDING,
    "output_norm.weight": FINAL_NORM,
    "output.weight": OUTPUT_HEAD,
}
_LAYER_TENSORS: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def load_gguf(file: GgufFile, *, dtype: torch.dtype, device: torch.device) -> Decoder:
    """The decoder in a file.

    Raises:
        ModelFileError: The file is damaged, or its tensors are not those of its configuration.
        UnsupportedModel: It asks for what the decoder does not compute.
    """
    config = config_from_gguf(file)
    return build(config, GgufSource(file, config), dtype=dtype, device=device)


class GgufSource:
    """Tensors of a GGUF file under our names.

    Attributes:
        path: The file.
        shapes: Name -> shape of every tensor.
    """

    def __init__(self, file: GgufFile, config: ModelConfig) -> None:
        self.path = file.path
        self._file = file
        self._stored = {our_name(name): name for name in file.tensor_shapes if name != ROPE_DIVISORS}
        self.shapes = {name: file.tensor_shapes[stored] for name, stored in self._stored.items()}
        self._interleaved = (
            {"q_proj": config.heads, "k_proj": config.kv_heads} if file.architecture == "llama" else {}
        )

    def read(self, name: str) -> Tensor:
        """One tensor, float32 on the CPU.

        Raises:
            ModelFileError: The `gguf` package cannot dequantise its type.
        """
        values = self._file.tensor(self._stored[name])
        module = name.split(".")[-2]
        if module in self._interleaved:
            values = halves(values, self._interleaved[module])
        return torch.from_numpy(np.array(values))


def our_name(stored: str) -> str:
    """The name of a GGUF tensor in a Hugging Face checkpoint; unknown ones keep theirs.

    Example:
        >>> our_name("blk.3.attn_q.weight")
        'model.layers.3.self_attn.q_proj.weight'
    """
    if stored in _TENSORS:
        return _TENSORS[stored]
    match stored.split("."):
        case ["blk", number, module, kind] if number.isdecimal() and module in _LAYER_TENSORS:
            return layer_tensor(int(number), f"{_LAYER_TENSORS[module]}.{kind}")
        case _:
            return stored


def halves(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows of interleaved rotary pairs (0, 1), (2, 3), ... as (0, d/2), (1, d/2 + 1), ...

    llama.cpp rotates neighbours in models of its architecture `llama` and stores query and key rows in that
    order.

    Args:
        rows: `[heads * head_dim, ...]`.
        heads: How many heads the rows belong to.
    """
    width = rows.shape[0] // heads
    return rows.reshape(heads, width // 2, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)
