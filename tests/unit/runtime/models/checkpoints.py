"""Small random models as transformers makes and saves them."""

import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

SIZES: dict[str, Any] = {
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 97,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "initializer_range": 0.2,
}


def transformer(model_type: str, **settings: Any) -> PreTrainedModel:
    """A random model whose every parameter, biases and norms included, differs from its default."""
    torch.manual_seed(7)
    config = AutoConfig.for_model(model_type, **(SIZES | settings))
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def saved(model: PreTrainedModel, folder: Path, **settings: Any) -> Path:
    """The folder, after the model was saved into it."""
    model.save_pretrained(folder, **settings)
    return folder


def edit_config(folder: Path, **changes: Any) -> None:
    """Change fields of a saved config.json; None removes a field."""
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))
