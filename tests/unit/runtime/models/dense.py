"""A KV store without pages and attention without tricks: what a decoder needs to be run in a test."""

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from runtime.models import Decoder


class SlotCache:
    """One row a slot; starts as NaN, so that whatever is read without being written shows."""

    def __init__(self, decoder: Decoder, num_slots: int) -> None:
        config = decoder.config
        shape = (config.layers, num_slots, config.kv_heads, config.head_dim)
        self.keys = torch.full(shape, torch.nan, dtype=decoder.dtype, device=decoder.device)
        self.values = self.keys.clone()

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        self.keys[layer, slots] = keys
        self.values[layer, slots] = values


@dataclass
class Row:
    """One sequence: where its tokens lie, and which are computed in the coming step."""

    slots: Tensor
    tokens: list[int] = field(default_factory=list)
    computed: int = 0


class DenseAttention:
    """Row by row over the gathered keys and values."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def run(self, layer: int, query: Tensor, pool: SlotCache) -> Tensor:
        parts, start = [], 0
        for row in self._rows:
            num_tokens, extend = len(row.tokens), len(row.tokens) - row.computed
            slots = row.slots[:num_tokens]
            # With a batch dimension of one: torch has no fast path without.
            part = query[start : start + extend].transpose(0, 1).unsqueeze(0)
            keys = pool.keys[layer, slots].transpose(0, 1).unsqueeze(0)
            values = pool.values[layer, slots].transpose(0, 1).unsqueeze(0)
            if extend in (1, num_tokens):
                mask = None
            else:
                mask = torch.ones(extend, num_tokens, dtype=torch.bool, device=query.device)
                mask = mask.tril(num_tokens - extend)
            out = scaled_dot_product_attention(
                part, keys, values, attn_mask=mask, is_causal=mask is None and extend > 1, enable_gqa=True
            )
            parts.append(out.squeeze(0).transpose(0, 1))
            start += extend
        return torch.cat(parts)


class DenseEngine:
    """Sequences side by side; `step` computes what each has not computed yet."""

    def __init__(self, decoder: Decoder, *, room: int, sequences: int = 1, seed: int = 0) -> None:
        self._decoder = decoder
        self.cache = SlotCache(decoder, room * sequences)
        shuffled = torch.randperm(room * sequences, generator=torch.Generator().manual_seed(seed))
        self.rows = [Row(slots) for slots in shuffled.to(decoder.device).split(room)]

    def step(self, *, every_row: bool = False) -> Tensor:
        """Logits of each sequence's last token, or of all tokens of the step."""
        device = self._decoder.device
        tokens = [row.tokens[row.computed :] for row in self.rows]
        ends = torch.tensor([len(each) for each in tokens], device=device).cumsum(0)
        slots = [row.slots[row.computed : len(row.tokens)] for row in self.rows]
        positions = [torch.arange(row.computed, len(row.tokens), device=device) for row in self.rows]
        logits = self._decoder.forward(
            token_ids=torch.tensor([each for row in tokens for each in row], device=device),
            positions=torch.cat(positions),
            slots=torch.cat(slots),
            pool=self.cache,
            attention=DenseAttention(self.rows),
            logit_rows=torch.arange(int(ends[-1]), device=device) if every_row else ends - 1,
        )
        for row in self.rows:
            row.computed = len(row.tokens)
        return logits

    def greedy(self, prompts: list[list[int]], num_tokens: int) -> list[list[int]]:
        """What each prompt is continued with."""
        for row, prompt in zip(self.rows, prompts, strict=True):
            row.tokens = list(prompt)
        for _ in range(num_tokens):
            for row, token in zip(self.rows, self.step().argmax(-1).tolist(), strict=True):
                row.tokens.append(token)
        return [row.tokens[len(prompt) :] for row, prompt in zip(self.rows, prompts, strict=True)]
