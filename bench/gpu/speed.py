"""How long one layer's attention takes: behind a cached prefix, without the cache, and without pages."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from bench.errors import expect
from bench.gpu.clock import WALL, Budget, measure
from bench.gpu.contenders import Contender, times_tolerance
from bench.harness.report import Bound, Figure
from bench.options import Options
from bench.scenarios.paged_step import PagedStep, Row
from runtime.attention import AttentionBackend, HeadLayout

Call = Callable[[], Tensor]
HEADS = {"tiny": HeadLayout(4, 2, 64), "full": HeadLayout(32, 8, 128)}
EXTENDS: dict[str, list[Row]] = {
    "tiny": [(128, 16)],
    "full": [(prefix, suffix) for prefix in (2048, 8192, 32768) for suffix in (64, 512)],
}
DECODES = {"tiny": [(2, 100)], "full": [(1, 8192), (32, 4096), (256, 2048)]}
SHARED = {"tiny": [(3, 128, 16)], "full": [(64, 8192, 128)]}
"""Rows, tokens of the shared prefix, tokens of their own."""

ALIKE = 2.0
"""Both kernels round, so they may differ by twice the tolerance of one."""


class Speed:
    """Times contenders on a device.

    Args:
        contenders: The plain one first.
        device: Where.
        options: Size, seed and page size.
        budget: What may still be begun.
    """

    def __init__(
        self, contenders: list[Contender], device: torch.device, options: Options, budget: Budget
    ) -> None:
        self._contenders, self._device = contenders, device
        self._options, self._budget = options, budget
        self._heads, self._dtype = HEADS[options.size], contenders[0].dtypes[0]

    def figures(self) -> Iterator[Figure]:
        """Everything that the budget allows."""
        size = self._options.size
        cases: list[tuple[str, Callable[[], Iterator[Figure]]]] = []
        for prefix, suffix in EXTENDS[size]:
            cases.append((f"{suffix} tokens behind {prefix:,}", partial(self._extend, prefix, suffix)))
        for num_rows, num_tokens in DECODES[size]:
            cases.append((f"decode {num_rows} x {num_tokens:,}", partial(self._decode, num_rows, num_tokens)))
        for num_rows, prefix, own in SHARED[size]:
            name = f"decode {num_rows} x ({prefix:,} shared + {own})"
            cases.append((name, partial(self._shared, name, num_rows, prefix, own)))
        for name, case in cases:
            if self._budget.allows(name):
                yield from case()

    def _step(self, rows: list[Row], shared_pages: int = 0) -> PagedStep:
        return PagedStep(
            rows,
            self._heads,
            page_size=self._options.page_size,
            dtype=self._dtype,
            device=self._device,
            seed=self._options.seed,
            shared_pages=shared_pages,
            poison=False,
        )

    def _backend(self, contender: Contender) -> AttentionBackend:
        return contender.make(self._heads, self._options.page_size, self._dtype, self._device)

    def _planned(self, contender: Contender, step: PagedStep) -> Call:
        backend = self._backend(contender)
        step.plan(backend)
        return lambda: step.run(backend)

    def _measure(self, calls: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
        pick = self._options.pick
        return measure(
            calls,
            self._device,
            num_samples=pick(tiny=2, full=20),
            calls_per_sample=pick(tiny=1, full=10),
        )

    def _extend(self, prefix: int, suffix: int) -> Iterator[Figure]:
        """A request whose prefix is cached, beside one that is computed whole."""
        plain = self._contenders[0]
        cached, cold = self._step([(prefix, suffix)]), self._step([(0, prefix + suffix)])
        calls = {
            "cached": self._planned(plain, cached),
            "no cache": self._planned(plain, cold),
            "dense": dense_extend(cached),
        }
        _require_alike(calls["cached"], calls["dense"])
        samples = self._measure(calls)
        name = f"{suffix} tokens behind {prefix:,} cached"
        yield _figure(name, samples["cached"], "no cache", samples["no cache"])
        yield _figure(name, samples["cached"], "dense, no pages", samples["dense"])

    def _decode(self, num_rows: int, num_tokens: int) -> Iterator[Figure]:
        """Rows of one length, a token each."""
        step = self._step([(num_tokens - 1, 1)] * num_rows)
        calls = {each.name: self._planned(each, step) for each in self._contenders[:2]}
        dense = dense_decode(step)
        for call in calls.values():
            _require_alike(call, dense)
        samples = self._measure(calls | {"dense": dense})
        for name in calls:
            label = f"decode, {name}, {num_rows} x {num_tokens:,}"
            yield _figure(label, samples[name], "dense, no pages", samples["dense"])
        planning = self._measure({"plan": partial(step.plan, self._backend(self._contenders[0]))})
        label = f"plan of a step, {num_rows} x {num_tokens:,}"
        yield Figure(name=label, unit="ms", samples={WALL: planning["plan"]})

    def _shared(self, name: str, num_rows: int, prefix: int, own: int) -> Iterator[Figure]:
        """Rows with one prefix, which some contenders read once."""
        step = self._step([(prefix + own - 1, 1)] * num_rows, prefix // self._options.page_size)
        plain = self._contenders[0]
        samples = self._measure({each.name: self._planned(each, step) for each in self._contenders})
        for contender in self._contenders:
            yield _figure(
                f"{name}, {contender.name}", samples[contender.name], plain.name, samples[plain.name]
            )


def dense_extend(step: PagedStep) -> Call:
    """The only row of a step out of contiguous K and V, by torch's own kernel."""
    keys, values = (each[None] for each in step.contiguous(0))
    query = step.query.transpose(0, 1)[None].contiguous()
    num_queries, num_tokens = query.shape[2], keys.shape[2]
    return _dense(query, keys, values, causal_lower_right(num_queries, num_tokens))


def dense_decode(step: PagedStep) -> Call:
    """Rows of one length and one query each, out of contiguous K and V, by torch's own kernel."""
    rows = [step.contiguous(row) for row in range(step.metadata.num_rows)]
    keys, values = (torch.stack(each) for each in zip(*rows, strict=True))
    return _dense(step.query[:, :, None], keys, values, None)


def _dense(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Call:
    """The kernel, with its result as backends give theirs: [nnz, num_qo_heads, head_dim]."""

    def call() -> Tensor:
        found = scaled_dot_product_attention(query, keys, values, attn_mask=mask, enable_gqa=True)
        return found.transpose(1, 2).flatten(0, 1)

    return call


def _require_alike(ours: Call, dense: Call) -> None:
    """Raise `WrongResult` where the two did not do the same work."""
    error = times_tolerance(ours(), dense())
    expect("error within twice the tolerance", error <= ALIKE, True)


def _figure(name: str, samples: list[float], bound: str, bound_samples: list[float]) -> Figure:
    return Figure(
        name=name, unit="ms", samples={WALL: samples}, bound=Bound(name=bound, samples={WALL: bound_samples})
    )
