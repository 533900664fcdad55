"""The shape of a dense decoder, and what follows from it: parameters, bytes, FLOPs."""

from dataclasses import dataclass
from typing import Final

from runtime.cost.dtypes import dtype_bytes

EMBEDDING_BYTES: Final = 2
"""Bytes of one number of embedding and output head: FP8 checkpoints keep both in 16 bits, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A Llama-like decoder: RMSNorm, grouped-query attention, SwiGLU.

    Attributes:
        name: Key in `MODELS`.
        layers: Decoder blocks.
        hidden: Width of the residual stream.
        intermediate: Width of the gated feed-forward.
        heads: Query heads.
        kv_heads: Key/value heads.
        head_dim: Width of one head.
        vocab: Rows of the embedding.
        tied_embeddings: The output head is the embedding.
        max_context: Longest sequence, tokens.
        source: Where the numbers stand.
        qkv_bias: The query, key and value projections have biases.
        qk_norm: Queries and keys are normalised, with one weight a head dimension.
    """

    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied_embeddings: bool
    max_context: int
    source: str
    qkv_bias: bool = False
    qk_norm: bool = False

    @property
    def embedding_parameters(self) -> int:
        """Numbers in the embedding, and as many in an output head of its own."""
        return self.vocab * self.hidden

    @property
    def block_parameters(self) -> int:
        """Numbers in all decoder blocks and the last norm: all but embedding and output head."""
        q_width = self.heads * self.head_dim
        kv_width = self.kv_heads * self.head_dim
        attention = self.hidden * (2 * q_width + 2 * kv_width)
        if self.qkv_bias:
            attention += q_width + 2 * kv_width
        if self.qk_norm:
            attention += 2 * self.head_dim
        feed_forward = 3 * self.hidden * self.intermediate
        norms = 2 * self.hidden
        return self.layers * (attention + feed_forward + norms) + self.hidden

    @property
    def num_parameters(self) -> int:
        """All numbers of the checkpoint; a tied embedding counts once."""
        tables = 1 if self.tied_embeddings else 2
        return self.block_parameters + tables * self.embedding_parameters

    def weight_bytes(self, dtype: str) -> int:
        """Bytes of the weights: blocks in `dtype`, embedding and output head in 16 bits.

        Raises:
            UnknownName: No such dtype.
        """
        tables = self.num_parameters - self.block_parameters
        return self.block_parameters * dtype_bytes(dtype) + tables * EMBEDDING_BYTES

    def streamed_bytes(self, dtype: str) -> int:
        """Bytes of weights that every step reads: blocks and output head, not the input embedding.

        Raises:
            UnknownName: No such dtype.
        """
        head = self.embedding_parameters * EMBEDDING_BYTES
        return self.block_parameters * dtype_bytes(dtype) + head

    def kv_bytes_per_token(self, kv_dtype: str) -> int:
        """Bytes of keys and values of one token, all layers.

        Raises:
            UnknownName: No such dtype.
        """
        return 2 * self.layers * self.kv_heads * self.head_dim * dtype_bytes(kv_dtype)

    @property
    def flops_per_token(self) -> int:
        """FLOPs of the blocks for one token, attention over the context left out: 2 a parameter."""
        return 2 * self.block_parameters

    @property
    def flops_per_logit_row(self) -> int:
        """FLOPs of the output head for one row."""
        return 2 * self.embedding_parameters

    @property
    def flops_per_attention_pair(self) -> int:
        """FLOPs for one query token looking at one key token: QK and PV, all layers and heads."""
        return 4 * self.layers * self.heads * self.head_dim
