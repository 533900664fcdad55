"""The shape of a decoder that can be run, whatever file it was described in."""

from dataclasses import dataclass, field, replace

from radixcache.errors import InvalidConfig
from runtime.cost.shape import ModelShape
from runtime.models.rope import RopeScaling, Unscaled


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A Llama-like decoder: RMSNorm, RoPE, grouped-query attention, SwiGLU. Names as in `ModelShape`.

    Attributes:
        layers: Decoder blocks.
        hidden: Width of the residual stream.
        intermediate: Width of the gated feed-forward.
        heads: Query heads.
        kv_heads: Key/value heads; divides `heads`.
        head_dim: Width of one head; even.
        vocab: Rows of the embedding.
        max_context: Longest sequence, tokens.
        tied_embeddings: The output head is the embedding.
        qkv_bias: The query, key and value projections have biases.
        output_bias: The projection after attention has a bias.
        qk_norm: Queries and keys are normalised by head before they are rotated.
        norm_eps: Added to the mean square in every RMSNorm.
        rope_base: Base of the rotary frequencies.
        rope_scaling: How the frequencies are stretched for long contexts.
        eos_ids: Tokens that end an answer, as the model's configuration says; may be empty.

    Raises:
        InvalidConfig: A number lies outside its range.
    """

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    max_context: int
    tied_embeddings: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    norm_eps: float = 1e-6
    rope_base: float = 10_000.0
    rope_scaling: RopeScaling = field(default_factory=Unscaled)
    eos_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        sizes = ("layers", "hidden", "intermediate", "heads", "kv_heads", "head_dim", "vocab", "max_context")
        for name in sizes:
            if (value := getattr(self, name)) < 1:
                raise InvalidConfig(f"{name} must be at least 1, not {value}")
        if self.heads % self.kv_heads:
            raise InvalidConfig(f"heads = {self.heads} is no multiple of kv_heads = {self.kv_heads}")
        if self.head_dim % 2:
            raise InvalidConfig(f"head_dim must be even for rotary positions, not {self.head_dim}")
        if self.norm_eps < 0:
            raise InvalidConfig(f"norm_eps must not be negative, not {self.norm_eps}")
        if self.rope_base <= 1:
            raise InvalidConfig(f"rope_base must be above 1, not {self.rope_base}")

    @property
    def q_width(self) -> int:
        """Numbers in all query heads of one token."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Numbers in all key heads of one token; as many in its values."""
        return self.kv_heads * self.head_dim

    def stretched(self, max_context: int) -> "ModelConfig":
        """The same model for sequences of up to that many tokens, as its rope scaling stretches it.

        Raises:
            InvalidConfig: It is not at least 1.
        """
        return replace(self, max_context=max_context)

    def shape(self, name: str, source: str) -> ModelShape:
        """The same for the cost model, under a name and with a word on where it comes from."""
        return ModelShape(
            name=name,
            layers=self.layers,
            hidden=self.hidden,
            intermediate=self.intermediate,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            vocab=self.vocab,
            tied_embeddings=self.tied_embeddings,
            max_context=self.max_context,
            source=source,
            qkv_bias=self.qkv_bias,
            qk_norm=self.qk_norm,
        )
