"""What share of a step the engine spends around the model: scheduler, cache, metadata."""

from typing import TYPE_CHECKING, NamedTuple

from bench.errors import expect
from bench.harness.report import Bound, Figure, Limit, Report
from bench.harness.timing import frozen_heap
from bench.options import Options

if TYPE_CHECKING:
    from bench.scenarios.metered_engine import MeteredEngine
    from bench.scenarios.served_model import ServedModel

CHUNK = 512
LIMIT = Limit(statistic="median", factor=0.02)


class Case(NamedTuple):
    """Steps of one kind.

    Attributes:
        name: What they do.
        num_prompts: Requests that run at once.
        prompt_len: Tokens of each.
        decodes: Whether the decode steps are measured, or those before them.
        num_steps: Steps to measure.
    """

    name: str
    num_prompts: int
    prompt_len: int
    decodes: bool
    num_steps: int

    @property
    def num_prefill_steps(self) -> int:
        """Steps that compute the prompts."""
        return -(-self.num_prompts * self.prompt_len // CHUNK)


TINY = (Case("decode, batch 2", 2, 40, True, 5), Case("a prefill chunk", 1, 40, False, 3))
FULL = (
    Case("decode, batch 1", 1, 512, True, 150),
    Case("decode, batch 8", 8, 512, True, 100),
    Case("a prefill chunk of 512 tokens", 1, 2048, False, 24),
)


def run(options: Options) -> Report:
    """See the module."""
    # torch comes with these, and no benchmark of the core should have it in its process
    import torch

    from bench.scenarios.served_model import served_model
    from radixcache import check

    model = served_model(options)
    cases = TINY if options.size == "tiny" else FULL
    figures: list[Figure] = []
    for case in cases:
        engine = (_decoding if case.decodes else _prefilling)(model, case, options.seed)
        expect(f"steps, {case.name}", engine.num_steps, case.num_steps)
        check(engine.engine.cache)
        step = Bound(name="the whole step", samples=engine.steps())
        parts = {
            "outside of the executor": engine.outside(),
            "metadata and tensors of it": engine.metadata(),
        }
        figures += [
            Figure(
                name=f"around the model, {case.name}",
                unit="us",
                samples=engine.around(),
                bound=step,
                limits=(LIMIT,),
            ),
            *(
                Figure(name=f"{name}, {case.name}", unit="us", samples=samples, bound=step)
                for name, samples in parts.items()
            ),
        ]
    return Report(
        name="engine_overhead",
        question="what share of a step goes to scheduler, cache and metadata?",
        config={
            "model": model.name,
            "torch threads": torch.get_num_threads(),
            "cases": "; ".join(f"{case.name}: {case.num_prompts} x {case.prompt_len}" for case in cases),
            "steps": [case.num_steps for case in cases],
        },
        figures=tuple(figures),
        notes=(
            (
                "Around the model is all of `Engine.step` but the decoder's pass and the sampler: planning, "
                "committing, the tree, page tables, the metadata and what attention plans of it, texts left "
                "out. The ratio is the share."
            ),
            "Every step computed what its case says, and the cache was sound at the end.",
        ),
    )


def _decoding(model: "ServedModel", case: Case, seed: int) -> "MeteredEngine":
    """An engine that has made decode steps of the case's batch."""
    outputs = case.num_steps + 2 * case.num_prefill_steps
    metered = _engine(model, case.num_prompts * (case.prompt_len + outputs + model.page_size))
    metered.add([model.prompt(seed + number, case.prompt_len) for number in range(case.num_prompts)], outputs)
    while len(metered.step()) < case.num_prompts:
        pass
    metered.forget()
    with frozen_heap():
        for _ in range(case.num_steps):
            expect("rows that decoded", len(metered.step()), case.num_prompts)
    return metered


def _prefilling(model: "ServedModel", case: Case, seed: int) -> "MeteredEngine":
    """An engine that has computed batches of the case's prompts; a first one warms up."""
    num_batches = case.num_steps // case.num_prefill_steps
    metered = _engine(model, (num_batches + 1) * case.num_prompts * (case.prompt_len + model.page_size))
    seeds = iter(range(seed, seed + (num_batches + 1) * case.num_prompts))
    with frozen_heap():
        for batch in range(num_batches + 1):
            metered.add([model.prompt(next(seeds), case.prompt_len) for _ in range(case.num_prompts)], 1)
            while not metered.engine.is_idle:
                metered.step()
            if not batch:
                metered.forget()
    return metered


def _engine(model: "ServedModel", num_tokens: int) -> "MeteredEngine":
    from bench.scenarios.metered_engine import MeteredEngine

    return MeteredEngine(model, model.engine_config(num_tokens, token_budget=CHUNK))
