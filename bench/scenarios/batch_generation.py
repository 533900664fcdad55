"""A batch of equally long prompts and its greedy outputs, by the engine and by transformers."""

import inspect
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from bench.errors import Unavailable, expect
from bench.scenarios.served_model import ServedModel
from runtime.engine import Engine, SamplingParams
from runtime.models import Decoder


class BatchGeneration(Protocol):
    """Generates for one batch. Each method is a section to time.

    Attributes:
        outputs: Tokens of each prompt so far.
    """

    outputs: list[list[int]]

    def prefill(self) -> None:
        """Compute all prompts, and the first token of each."""
        ...

    def decode(self, num_tokens: int) -> None:
        """Compute so many more tokens of each."""
        ...


class EngineGeneration:
    """By an engine without a cache, all prompts in one step.

    Args:
        model: Which model.
        prompts: Token ids, equally many each.
        num_tokens: Tokens that each output will have.
    """

    def __init__(self, model: ServedModel, prompts: Sequence[Sequence[int]], num_tokens: int) -> None:
        total = len(prompts) * len(prompts[0])
        room = 2 * (total + len(prompts) * (num_tokens + model.page_size))
        config = model.engine_config(room, cache=False, token_budget=total, max_running=len(prompts))
        self._engine: Engine = model.engine(config)
        self.outputs: list[list[int]] = [[] for _ in prompts]
        params = SamplingParams(max_new_tokens=num_tokens, ignore_eos=True)
        self._places = {
            self._engine.add_request(prompt, params): place for place, prompt in enumerate(prompts)
        }

    def prefill(self) -> None:
        """See `BatchGeneration`."""
        self._step()
        expect("prompts that one step computed", sum(map(len, self.outputs)), len(self.outputs))

    def decode(self, num_tokens: int) -> None:
        """See `BatchGeneration`."""
        for _ in range(num_tokens):
            self._step()

    def _step(self) -> None:
        for chunk in self._engine.step():
            self.outputs[self._places[chunk.request_id]].extend(chunk.token_ids)


class TransformersGeneration:
    """By transformers, with its default kernels and cache.

    Args:
        network: See `transformers_twin`.
        prompts: Token ids, equally many each.
    """

    def __init__(self, network: Any, prompts: Sequence[Sequence[int]]) -> None:
        self._network = network
        self._next = torch.tensor(prompts)
        # what the argument and the field of the result are called depends on the version
        parameters = inspect.signature(network.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self._cache: Any = None
        self.outputs: list[list[int]] = [[] for _ in prompts]

    def prefill(self) -> None:
        """See `BatchGeneration`."""
        self._step()

    def decode(self, num_tokens: int) -> None:
        """See `BatchGeneration`."""
        for _ in range(num_tokens):
            self._step()

    def _step(self) -> None:
        with torch.inference_mode():
            found = self._network(
                input_ids=self._next, use_cache=True, logits_to_keep=1, **{self._cache_name: self._cache}
            )
            self._cache = found[self._cache_name]
            self._next = found.logits[:, -1].argmax(dim=-1, keepdim=True)
        for output, token in zip(self.outputs, self._next[:, 0].tolist(), strict=True):
            output.append(token)


def transformers_twin(decoder: Decoder) -> Any:
    """The same weights, not copied where that can be, as a `LlamaForCausalLM`.

    Raises:
        Unavailable: transformers is not installed.
    """
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError as error:
        raise Unavailable("transformers is not installed: pip install 'transformers>=5.0'") from error
    shape = decoder.config
    config = LlamaConfig(
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        vocab_size=shape.vocab,
        max_position_embeddings=shape.max_context,
        rms_norm_eps=shape.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_base},
        tie_word_embeddings=shape.tied_embeddings,
    )
    with torch.device("meta"):
        network = LlamaForCausalLM(config)
    network.load_state_dict(_state(decoder), assign=True)
    network.tie_weights()
    # Frequencies are no part of the state, and so were made without values.
    network.model.rotary_emb = type(network.model.rotary_emb)(config)
    network.train(mode=False)
    return network


def _state(decoder: Decoder) -> dict[str, Tensor]:
    """The weights under the names of Hugging Face checkpoints."""
    shape, weights = decoder.config, decoder.weights
    state = {
        "model.embed_tokens.weight": weights.embedding,
        "model.norm.weight": weights.final_norm,
        "lm_head.weight": weights.output_head,
    }
    for number, layer in enumerate(weights.layers):
        ends = (shape.q_width, shape.q_width + shape.kv_width)
        query, keys, values = layer.qkv.tensor_split(ends)
        state |= {
            f"model.layers.{number}.{name}.weight": tensor
            for name, tensor in {
                "input_layernorm": layer.attention_norm,
                "self_attn.q_proj": query,
                "self_attn.k_proj": keys,
                "self_attn.v_proj": values,
                "self_attn.o_proj": layer.output,
                "post_attention_layernorm": layer.feed_forward_norm,
                "mlp.gate_proj": layer.gate,
                "mlp.up_proj": layer.up,
                "mlp.down_proj": layer.down,
            }.items()
        }
    return state
