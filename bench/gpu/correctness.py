"""Whether a backend is right: against dense float64 attention, on the device."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from bench.gpu.clock import Budget
from bench.gpu.contenders import Contender, times_tolerance
from bench.options import Options
from bench.scenarios.paged_step import PagedStep, Row
from runtime.attention import HeadLayout

MIXED: dict[str, list[Row]] = {
    "tiny": [(33, 1), (17, 1), (0, 37), (64, 9), (0, 1)],
    "full": [(4096, 1), (17, 1), (63, 1), (0, 700), (2048, 300), (17, 3), (0, 1), (1000, 64)],
}
SHARED: dict[str, list[Row]] = {
    "tiny": [(70, 1), (80, 1), (64, 9)],
    "full": [(1100, 1), (1100, 1), (1024, 70), (1500, 3)],
}
SHARED_TOKENS = {"tiny": 64, "full": 1024}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison.

    Attributes:
        name: What was compared.
        error: The largest error as a multiple of what is allowed.
    """

    name: str
    error: float

    @property
    def holds(self) -> bool:
        """Whether it is right."""
        return self.error <= 1.0


def check_all(
    contenders: list[Contender], device: torch.device, options: Options, budget: Budget
) -> Iterator[Check]:
    """Every contender, over dtypes, page sizes and heads; what shares nothing and what shares a prefix."""
    page_sizes, group_sizes = ((4, 16), (1, 4)) if options.size == "tiny" else ((1, 4, 16, 64), (1, 3, 4, 8))
    for contender in contenders:
        for dtype in contender.dtypes:
            for head_dim in contender.head_dims:
                for page_size in page_sizes:
                    for group_size in group_sizes:
                        heads = HeadLayout(2 * group_size, 2, head_dim)
                        yield from _check(contender, heads, page_size, dtype, device, options, budget)


def _check(
    contender: Contender,
    heads: HeadLayout,
    page_size: int,
    dtype: torch.dtype,
    device: torch.device,
    options: Options,
    budget: Budget,
) -> Iterator[Check]:
    case = f"{contender.name}, {str(dtype)[6:]}, pages of {page_size}, {heads}"
    if not budget.allows(case):
        return
    backend = contender.make(heads, page_size, dtype, device)
    shared_pages = SHARED_TOKENS[options.size] // page_size
    for what, rows, shared in (
        ("mixed", MIXED[options.size], 0),
        ("shared", SHARED[options.size], shared_pages),
    ):
        step = PagedStep(
            rows,
            heads,
            page_size=page_size,
            dtype=dtype,
            device=device,
            seed=options.seed,
            shared_pages=shared,
        )
        step.plan(backend)
        yield Check(name=f"{case}, {what}", error=times_tolerance(step.run(backend), step.expected()))
