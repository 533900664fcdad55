"""A model laid out over `tp` GPUs: what each of them holds, and how much KV fits beside it."""

from dataclasses import dataclass, replace
from typing import Final

from radixcache.errors import InvalidConfig
from runtime.cost.gpus import GB, Gpu
from runtime.cost.shape import ModelShape
from runtime.errors import ModelDoesNotFit

MAX_TP: Final = 64

RUNTIME_BYTES: Final = 2**30
"""Assumed for the CUDA context, captured graphs and communication buffers of one GPU."""

LOGIT_ROWS: Final = 256
"""Rows of 32-bit logits that are alive at once."""


def is_valid_tp(model: ModelShape, tp: int) -> bool:
    """Whether `tp` GPUs get equally many query heads, and KV heads split or replicated evenly."""
    return (
        1 <= tp <= MAX_TP and model.heads % tp == 0 and (model.kv_heads % tp == 0 or tp % model.kv_heads == 0)
    )


def valid_tps(model: ModelShape) -> list[int]:
    """Tensor-parallel degrees of `model`, ascending."""
    return [tp for tp in range(1, MAX_TP + 1) if is_valid_tp(model, tp)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A model on `tp` GPUs of one kind.

    Attributes:
        model: Shape of the model.
        gpu: Data sheet of the GPU.
        tp: Tensor-parallel degree.
        weight_dtype: Format of the weights of the blocks.
        kv_dtype: Format of the KV.

    Raises:
        InvalidConfig: `tp` leaves heads over; the message lists the degrees that work.
        UnknownName: No such dtype.
    """

    model: ModelShape
    gpu: Gpu
    tp: int
    weight_dtype: str
    kv_dtype: str

    def __post_init__(self) -> None:
        model = self.model
        if not is_valid_tp(model, self.tp):
            possible = ", ".join(map(str, valid_tps(model)))
            raise InvalidConfig(
                f"tp {self.tp} does not divide {model.name} ({model.heads} query heads, "
                f"{model.kv_heads} KV heads): possible are {possible}"
            )
        model.weight_bytes(self.weight_dtype)
        model.kv_bytes_per_token(self.kv_dtype)

    @property
    def kv_bytes_per_token(self) -> int:
        """KV bytes of one token on one GPU."""
        replicas = max(1, self.tp // self.model.kv_heads)
        return self.model.kv_bytes_per_token(self.kv_dtype) * replicas // self.tp

    def fixed_bytes(self, chunk_tokens: int) -> int:
        """What one GPU holds besides KV: weights, a step's activations, logits, and the runtime.

        Four tensors of the residual width and three of the split feed-forward, 16 bits each, are
        taken to be alive at once.
        """
        model = self.model
        weights = -(-model.weight_bytes(self.weight_dtype) // self.tp)
        widths = 4 * model.hidden + -(-3 * model.intermediate // self.tp)
        logits = LOGIT_ROWS * model.vocab * 4
        return weights + 2 * chunk_tokens * widths + logits + RUNTIME_BYTES

    def pool_tokens(self, *, memory_fraction: float, page_size: int, chunk_tokens: int) -> int:
        """Tokens of KV that fit beside the weights, a multiple of `page_size`.

        Args:
            memory_fraction: Share of a GPU's memory that may be used at all, in (0, 1].
            page_size: Tokens a page, >= 1.
            chunk_tokens: Most tokens computed in one step, >= 1; sizes the working memory.

        Raises:
            ModelDoesNotFit: Not even one page fits; the message names the bytes and the smallest
                `tp` that would do.
            InvalidConfig: An argument out of range.
        """
        if not 0 < memory_fraction <= 1:
            raise InvalidConfig(f"memory_fraction {memory_fraction} lies outside (0, 1]")
        for name, value in (("page_size", page_size), ("chunk_tokens", chunk_tokens)):
            if value < 1:
                raise InvalidConfig(f"{name} {value} must be >= 1")
        usable = int(self.gpu.memory_bytes * memory_fraction)
        pages = self._num_pages(usable, page_size, chunk_tokens)
        if pages < 1:
            raise self._does_not_fit(usable, page_size, chunk_tokens)
        return pages * page_size

    def _num_pages(self, usable_bytes: int, page_size: int, chunk_tokens: int) -> int:
        page_bytes = self.kv_bytes_per_token * page_size
        return (usable_bytes - self.fixed_bytes(chunk_tokens)) // page_bytes

    def _does_not_fit(self, usable: int, page_size: int, chunk_tokens: int) -> ModelDoesNotFit:
        wider = (replace(self, tp=tp) for tp in valid_tps(self.model))
        fitting = (p.tp for p in wider if p._num_pages(usable, page_size, chunk_tokens) >= 1)
        smallest = next(fitting, None)
        way_out = f"tp {smallest} would fit" if smallest else "no tp would fit"
        weights = self.model.weight_bytes(self.weight_dtype)
        needed = self.fixed_bytes(chunk_tokens)
        return ModelDoesNotFit(
            f"{self.model.name} in {self.weight_dtype} does not fit on {self.tp} x "
            f"{self.gpu.name}: its weights are {_gb(weights)}; one GPU would hold {_gb(needed)} "
            f"with working memory, which leaves no page of KV in the {_gb(usable)} it may use; "
            f"{way_out}",
            needed_bytes=needed,
            usable_bytes=usable,
            smallest_tp=smallest,
        )


def _gb(num_bytes: int) -> str:
    return f"{num_bytes / GB:,.1f} GB"
