"""The decoder: a flat batch of tokens in, logits of some of them out. Inference only."""

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear, rms_norm, silu

from runtime.models.config import ModelConfig
from runtime.models.ports import Attention, CacheT
from runtime.models.rope import Rotation, rotate
from runtime.models.weights import DecoderWeights, LayerWeights


class Decoder:
    """A transformer on the paged cache. Rows of a batch lie one after the other, without padding.

    Attributes:
        config: Its shape.
        weights: Its tensors, all of one dtype on one device.
    """

    def __init__(self, config: ModelConfig, weights: DecoderWeights) -> None:
        self.config = config
        self.weights = weights
        self._rotation = Rotation(
            config.rope_scaling,
            base=config.rope_base,
            dim=config.head_dim,
            max_context=config.max_context,
            device=self.device,
        )

    @property
    def device(self) -> torch.device:
        """Where the weights are, and every argument of `forward` must be."""
        return self.weights.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """Of weights and activations, and so of keys and values."""
        return self.weights.embedding.dtype

    def forward(
        self,
        token_ids: Tensor,
        positions: Tensor,
        slots: Tensor,
        pool: CacheT,
        attention: Attention[CacheT],
        logit_rows: Tensor,
    ) -> Tensor:
        """Compute a step: writes the keys and values of its tokens, returns the logits asked for.

        Args:
            token_ids: int64 `[nnz]`.
            positions: int64 `[nnz]`, from 0 in each sequence.
            slots: int64 `[nnz]`, where in the pool each token's keys and values go.
            pool: The KV pool.
            attention: A backend that was told of this step.
            logit_rows: int64 `[k]`, indices into the `nnz` tokens.

        Returns:
            float32 `[k, vocab]`.
        """
        with torch.inference_mode():
            hidden = embedding(token_ids, self.weights.embedding)
            cos, sin = self._rotation.angles(positions)
            for number, layer in enumerate(self.weights.layers):
                normed = self._norm(hidden, layer.attention_norm)
                query, keys, values = self._project(layer, normed, cos, sin)
                pool.write(number, slots, keys, values)
                mixed = attention.run(number, query, pool).reshape(-1, self.config.q_width)
                hidden += linear(mixed, layer.output, layer.output_bias)
                normed = self._norm(hidden, layer.feed_forward_norm)
                gated = silu(linear(normed, layer.gate), inplace=True).mul_(linear(normed, layer.up))
                hidden += linear(gated, layer.down)
            last = self._norm(hidden[logit_rows], self.weights.final_norm)
        # Outside of inference mode, so that a sampler may change the logits in place.
        return linear(last, self.weights.output_head).to(torch.float32)

    def _norm(self, values: Tensor, weight: Tensor) -> Tensor:
        return rms_norm(values, weight.shape, weight, self.config.norm_eps)

    def _project(
        self, layer: LayerWeights, normed: Tensor, cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries, rotated keys and values, `[nnz, heads, head_dim]` each."""
        config = self.config
        rotated = config.heads + config.kv_heads
        merged = linear(normed, layer.qkv, layer.qkv_bias)
        heads = merged.view(-1, rotated + config.kv_heads, config.head_dim)
        both, values = heads.tensor_split((rotated,), dim=1)
        if layer.q_norm is not None and layer.k_norm is not None:
            query, keys = both.tensor_split((config.heads,), dim=1)
            both = torch.cat((self._norm(query, layer.q_norm), self._norm(keys, layer.k_norm)), dim=1)
        query, keys = rotate(both, cos, sin).tensor_split((config.heads,), dim=1)
        return query, keys, values
