"""GGUF files made from models of transformers, the way llama.cpp's converter does it."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import PreTrainedModel

NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def stored_name(name: str) -> str:
    module, kind = name.rsplit(".", 1)
    if module in NAMES:
        return f"{NAMES[module]}.{kind}"
    _, _, layer, rest = module.split(".", 3)
    return f"blk.{layer}.{NAMES[rest]}.{kind}"


def neighbours(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows (i, i + d/2) of each head side by side, written row by row."""
    width = rows.shape[0] // heads
    order = [
        head * width + pair + half
        for head in range(heads)
        for pair in range(width // 2)
        for half in (0, width // 2)
    ]
    return rows[order]


def write_gguf(
    path: Path,
    model: PreTrainedModel,
    *,
    metadata: dict[str, Any] | None = None,
    tensors: dict[str, np.ndarray] | None = None,
    quantise: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    leave_out: str | None = None,
) -> Path:
    """Write a file. `metadata` overrides; a value of None leaves its key out."""
    config = model.config
    architecture = "llama" if config.model_type == "mistral" else config.model_type
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    values: dict[str, Any] = {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "rope.freq_base": float(config.rope_parameters["rope_theta"]),
    }
    values = {f"{architecture}.{name}": value for name, value in values.items()} | (metadata or {})
    writer = gguf.GGUFWriter(path, values.pop("general.architecture", architecture))
    write_metadata(writer, values)
    for name, parameter in model.state_dict().items():
        stored = stored_name(name)
        if (stored == "output.weight" and config.tie_word_embeddings) or stored == leave_out:
            continue
        rows = parameter.to(torch.float32).numpy()
        if architecture == "llama" and (".attn_q." in stored or ".attn_k." in stored):
            rows = neighbours(rows, heads if ".attn_q." in stored else kv_heads)
        kind = quantise if rows.ndim > 1 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(stored, gguf.quants.quantize(rows, kind), raw_dtype=kind)
    for name, extra in (tensors or {}).items():
        writer.add_tensor(name, extra)
    return finish(writer, path)


def write_metadata(writer: gguf.GGUFWriter, values: dict[str, Any]) -> None:
    for key, value in values.items():
        match value:
            case None:
                pass
            case bool():
                writer.add_bool(key, value)
            case int():
                writer.add_uint32(key, value)
            case float():
                writer.add_float32(key, value)
            case str():
                writer.add_string(key, value)
            case _:
                writer.add_array(key, value)


def finish(writer: gguf.GGUFWriter, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
