"""What the benchmarks by load reckon and check; their times are nobody's business here."""

import dataclasses
from collections import Counter

import pytest

from bench.benchmarks import serve_engine, serve_simulated, serve_trace, simulate_chat
from bench.benchmarks.load_figures import Load, censored_notes, figures, pictures
from bench.errors import WrongResult
from bench.harness.report import Bound as FigureBound
from bench.harness.report import Figure, Report
from bench.options import Options
from bench.publishing.chat_table import chat_table
from bench.scenarios.load_point import (
    Window,
    capacity,
    load_point,
    require_no_hits,
    require_same_work,
    require_served,
)
from bench.scenarios.measured_load import MeasuredLoad, Text
from bench.scenarios.served_model import served_model
from bench.scenarios.served_workload import chats
from bench.scenarios.simulated_load import (
    FCFS,
    NO_CACHE,
    chat_at,
    nominal_arrivals,
    offered_per_s,
    simulated,
)
from radixcache import NullPrefixCache, PrefixCache
from runtime.cost import CostModel, find_gpu, find_model
from runtime.lab.probe import Limits
from runtime.result import BASELINE_LABEL, CACHE_LABEL, Bounds, RequestRecord, RunResult, from_json
from runtime.simulation import OpenLoop, Setup
from runtime.simulation.experiment import CACHES

TINY = Options(size="tiny")
LIMITS = Limits(ttft_s=1.0, tpot_s=0.1)
SETUP = Setup(cost=CostModel(model=find_model("Llama-3.1-8B"), gpu=find_gpu("H100-SXM")))


def record(number, *, arrival=0.0, ttft=0.5, tpot=0.05, matched=0, **more):
    """A finished request of 100 prompt and 11 output tokens."""
    values = {
        "request_id": f"chat-{number}/0",
        "session_id": f"chat-{number}",
        "turn": 0,
        "kind": "first",
        "arrival_s": arrival,
        "first_scheduled_s": arrival,
        "first_token_s": arrival + ttft,
        "finished_s": arrival + ttft + 10 * tpot,
        "prompt_tokens": 100,
        "matched_tokens": matched,
        "copied_tokens": 0,
        "computed_prompt_tokens": 100 - matched,
        "recomputed_tokens": 0,
        "output_tokens": 11,
        "miss": {"never_seen": 100 - matched},
        "preemptions": 0,
        "status": "finished",
    }
    return RequestRecord(**(values | more))


def run_of(*records, label=CACHE_LABEL, makespan=10.0):
    return RunResult(
        label=label,
        requests=list(records),
        timeline=[],
        counters={},
        makespan_s=makespan,
        last_arrival_s=5.0,
        offered_load=0.5,
        backlog_at_last_arrival=0,
        tree=[],
    )


def point(share=1.0, ttft=0.5, matched=48):
    """A point of 100 requests, of which so many kept both limits."""
    late = round(100 * (1 - share))
    records = [
        record(number, arrival=1.0, ttft=2.0 if number < late else ttft, matched=matched)
        for number in range(100)
    ]
    bounds = Bounds(
        capacity_tokens=10**6,
        prompt_tokens=10_000,
        ceiling_tokens=8_000,
        optimum_tokens=6_000,
        num_requests=100,
        num_left_out=0,
    )
    return load_point(run_of(*records), Window(0.0, 10.0), LIMITS, bounds)


# The capacity


@pytest.mark.parametrize(
    ("shares", "wanted"),
    [
        ({1.0: 1.0, 2.0: 0.99, 4.0: 0.98}, 2.0),
        ({1.0: 1.0, 2.0: 1.0}, 2.0),
        ({4.0: 0.5, 2.0: 0.995, 1.0: 0.999}, 2.0),
        ({1.0: 0.9899, 2.0: 1.0}, 0.0),
        ({1.0: 1.0, 2.0: 0.9, 4.0: 1.0}, 1.0),
        ({}, 0.0),
    ],
)
def test_capacity_is_the_largest_rate_that_keeps_the_limits_as_all_lower_ones_do(shares, wanted):
    assert capacity(shares) == wanted


def load_of(without, cached):
    """A load with a point for each share, by rate."""
    runs = {
        name: {rate: [point(share) for share in shares] for rate, shares in by_rate.items()}
        for name, by_rate in {"no cache": without, "cache": cached}.items()
    }
    return Load("some", "simulated", "conversations/s", LIMITS, runs)


def test_capacity_is_told_by_repetition_with_the_ratio():
    load = load_of({1.0: [1, 1], 2.0: [0.5, 1]}, {1.0: [1, 1], 2.0: [1, 1]})
    found = {figure.name: figure.samples["value"] for figure in figures(load)}
    assert found["simulated capacity, no cache"] == [1.0, 2.0]
    assert found["simulated capacity, cache"] == [2.0, 2.0]
    assert found["simulated capacity, cache / no cache"] == [2.0, 1.0]


def test_there_is_no_ratio_to_a_capacity_of_nothing():
    load = load_of({1.0: [0.5]}, {1.0: [1]})
    found = {figure.name: figure.samples["value"] for figure in figures(load)}
    assert found["simulated capacity, no cache"] == [0.0]
    assert "simulated capacity, cache / no cache" not in found


def test_capacity_at_the_end_of_the_grid_is_called_at_least_that():
    load = load_of({1.0: [1, 1], 2.0: [0.5, 0.5]}, {1.0: [1, 1], 2.0: [1, 0.5]})
    (note,) = censored_notes(load)
    assert note.startswith("cache: within the limits at the highest rate in 1 of the samples")


# Points


def test_point_counts_what_arrived_in_the_window_and_what_ended_in_it():
    run = run_of(
        record(0, arrival=1.0, ttft=9.0),  # arrived before, ends within
        record(1, arrival=5.0),
        record(2, arrival=6.0, ttft=1.5, matched=48),  # late
        record(3, arrival=7.0, tpot=0.2),  # slow
        record(4, arrival=9.9, matched=48),  # ends behind
        record(5, arrival=12.0, ttft=50.0),
    )
    found = load_point(run, Window(5.0, 10.9), LIMITS)
    assert found.arrived_per_s == pytest.approx(4 / 5.9)
    assert found.goodput_per_s == pytest.approx(2 / 5.9)
    assert found.share == pytest.approx(0.5)
    assert found.finished_per_s == pytest.approx(5 / 5.9)
    assert (found.ttft_s.p50, found.ttft_s.largest) == (pytest.approx(0.5), 1.5)
    assert found.hit_rate == pytest.approx(96 / 400)
    assert (found.ceiling_rate, found.optimum_rate) == (None, None)


def test_window_in_which_nobody_came_is_refused():
    with pytest.raises(WrongResult, match="0 requests"):
        load_point(run_of(record(0)), Window(5.0, 10.0), LIMITS)


def test_figures_stand_beside_the_contender_without_a_cache_and_hits_beside_the_optimum():
    load = load_of({1.0: [1.0], 2.0: [0.5]}, {1.0: [1.0], 2.0: [0.9]})
    by_name = {figure.name: figure for figure in figures(load)}
    goodput = by_name["simulated goodput, 2 conversations/s, cache"]
    assert goodput.samples["value"] == [9.0]
    assert (goodput.bound.name, goodput.bound.samples["value"]) == ("no cache", [5.0])
    hits = by_name["simulated hit rate, 2 conversations/s, cache"]
    assert (hits.samples["value"], hits.bound.samples["value"]) == ([0.48], [0.6])
    ceiling = by_name["simulated hit rate without limit of capacity, 2 conversations/s, cache"]
    assert ceiling.samples["value"] == [0.8]
    assert all(name.startswith("simulated ") for name in by_name)


def test_pictures_draw_medians_by_rate_with_the_limits():
    load = load_of({1.0: [1.0, 0.9, 0.5], 2.0: [0.5]}, {1.0: [1.0], 2.0: [1.0]})
    drawn = {picture.name: picture for picture in pictures(load, [(1.0, 12.0), (2.0, 24.0)])}
    assert list(drawn) == ["some_ttft", "some_tpot", "some_goodput", "some_hits"]
    assert drawn["some_goodput"].lines["no cache"] == [(1.0, 9.0), (2.0, 5.0)]
    assert list(drawn["some_goodput"].promises.values()) == [[(1.0, 12.0), (2.0, 24.0)]]
    assert (drawn["some_ttft"].log, drawn["some_ttft"].levels) == ("y", {"limit 1 s": 1000.0})
    assert list(drawn["some_hits"].lines) == list(drawn["some_ttft"].lines) == ["no cache", "cache"]
    assert all("simulated" in picture.y for picture in drawn.values())


# What is refused


def test_request_that_was_not_finished_is_refused():
    with pytest.raises(WrongResult, match="it, finished: found 1, wanted 2"):
        require_served("it", run_of(record(0), record(1, status="aborted")), 2)


def test_request_that_never_came_is_refused():
    with pytest.raises(WrongResult, match="it, finished: found 1, wanted 2"):
        require_served("it", run_of(record(0)), 2)


def test_prompt_that_does_not_add_up_is_refused():
    with pytest.raises(WrongResult, match="prompt tokens of chat-0/0: found 116, wanted 100"):
        require_served("it", run_of(record(0, miss={"never_seen": 100}, matched=16)), 1)


@pytest.mark.parametrize("other", [{"output_tokens": 12}, {"prompt_tokens": 99}, {"request_id": "x"}])
def test_contenders_that_did_other_work_are_refused(other):
    runs = {"one": run_of(record(0), record(1)), "two": run_of(record(0), record(1, **other))}
    with pytest.raises(WrongResult, match=r"two than under one: found \['chat-1/0'"):
        require_same_work("it", runs)
    require_same_work("it", {"one": runs["one"], "two": run_of(record(1), record(0, ttft=9.0))})


def test_hit_without_a_cache_is_refused():
    with pytest.raises(WrongResult, match="matched tokens: found 16, wanted 0"):
        require_no_hits("it", run_of(record(0), record(1, matched=16)))


def test_benchmark_whose_baseline_caches_fails(monkeypatch):
    monkeypatch.setitem(CACHES, BASELINE_LABEL, PrefixCache)
    with pytest.raises(WrongResult, match="matched tokens"):
        serve_simulated.run(TINY)


def test_benchmark_whose_second_run_differs_fails(monkeypatch):
    count = Counter()

    def drifting(workload, contender, setup):
        count["runs"] += 1
        run = simulated(workload, contender, setup)
        return dataclasses.replace(run, makespan_s=run.makespan_s + count["runs"])

    monkeypatch.setattr(serve_simulated, "simulated", drifting)
    with pytest.raises(WrongResult, match="served again"):
        serve_simulated.run(TINY)


def test_cache_that_is_none_shows_as_no_hits(monkeypatch):
    monkeypatch.setitem(CACHES, CACHE_LABEL, NullPrefixCache)
    run = simulated(chat_at(4.0, 6.0, 0), FCFS, SETUP)
    assert sum(each.matched_tokens for each in run.requests) == 0


# Workloads


def test_conversations_come_at_the_rate_and_end_with_the_span():
    workload = chat_at(5.0, 100.0, seed=1)
    assert len(workload.sessions) == pytest.approx(500, rel=0.15)
    times = [time_s for session in workload.sessions for time_s in nominal_arrivals(session)]
    assert max(times) < 100.0
    assert len(times) == workload.num_turns
    late = offered_per_s(workload, OpenLoop(), Window(50.0, 100.0))
    assert late == pytest.approx(sum(time_s >= 50.0 for time_s in times) / 50.0)
    assert late > offered_per_s(workload, OpenLoop(), Window(0.0, 50.0))


def test_requests_of_a_denser_pace_are_offered_sooner():
    workload = chat_at(5.0, 20.0, seed=1)
    first = dataclasses.replace(
        workload,
        sessions=tuple(dataclasses.replace(each, turns=each.turns[:1]) for each in workload.sessions),
    )
    window = Window(0.0, 10.0)
    assert offered_per_s(first, OpenLoop(2.0), window) == pytest.approx(len(first.sessions) / 10.0)


def test_same_seed_gives_the_same_conversations_and_another_seed_others():
    one, same, other = (
        [nominal_arrivals(each) for each in chat_at(2.0, 30.0, seed).sessions] for seed in (3, 3, 4)
    )
    assert one == same
    assert one != other


# make simulate


def test_arguments_are_those_of_the_makefile(tmp_path, monkeypatch):
    assert simulate_chat.makefile_arguments() == ["--set", "num_sessions=800", "--rate-scale", "3"]
    (tmp_path / "Makefile").write_text("simulate:\n\t$(BIN)/radixcache simulate --out there --seed 7\n")
    monkeypatch.setattr(simulate_chat, "ROOT", tmp_path)
    assert simulate_chat.makefile_arguments() == ["--seed", "7"]
    (tmp_path / "Makefile").write_text("simulate:\n\techo\n")
    with pytest.raises(WrongResult, match="0 lines"):
        simulate_chat.makefile_arguments()


def test_rows_are_what_the_command_found(capsys):
    report = simulate_chat.run(TINY)
    assert capsys.readouterr().out == ""
    by_name = {figure.name: figure for figure in report.figures}
    prefill = by_name[simulate_chat.PREFILL]
    hits = by_name[simulate_chat.HIT_RATE]
    (computed,), (cold,) = prefill.samples["value"], prefill.bound.samples["value"]
    assert hits.bound.samples["value"] == [0.0]
    assert hits.samples["value"] == [pytest.approx(1 - computed / cold)]
    assert report.config["sessions"] == 10


def test_result_in_which_something_is_missing_is_refused():
    result = from_json(simulate_chat.simulate(["--set", "num_sessions=3"]))
    assert set(simulate_chat.verified(result)) == {BASELINE_LABEL, CACHE_LABEL}
    without, cached = result.runs
    shorter = dataclasses.replace(cached, requests=cached.requests[1:])
    with pytest.raises(WrongResult, match="finished"):
        simulate_chat.verified(dataclasses.replace(result, runs=[without, shorter]))
    with pytest.raises(WrongResult, match="runs"):
        simulate_chat.verified(dataclasses.replace(result, runs=[cached]))


def test_readme_table_is_made_of_the_report():
    def figure(name, value, beside=None):
        bound = None if beside is None else FigureBound(name="no cache", samples={"value": [beside]})
        return Figure(name=name, unit="", samples={"value": [value]}, bound=bound)

    report = Report(
        name="simulate_chat",
        question="?",
        figures=(
            figure(simulate_chat.HIT_RATE, 0.857, 0.0),
            figure(simulate_chat.OF_CEILING, 0.897),
            figure(simulate_chat.PREFILL, 1_415_027, 9_926_931),
            figure(simulate_chat.TTFT_P50, 25.2, 285.0),
            figure(simulate_chat.TTFT_P99, 147.0, 7310.0),
            figure(simulate_chat.TPOT_P50, 17.4, 51.8),
        ),
    )
    assert chat_table(report).splitlines() == [
        "| simulated | no cache | radix cache |  |",
        "| --- | --: | --: | --: |",
        "| hit rate (89.7 % of what an unlimited cache would hit) | 0.0 % | 85.7 % |  |",
        "| prefill tokens computed | 9,926,931 | 1,415,027 | 0.143\u00d7 |",
        "| time to first token, p50 | 285 ms | 25.2 ms | 0.0884\u00d7 |",
        "| time to first token, p99 | 7.31 s | 147 ms | 0.0201\u00d7 |",
        "| time per output token, p50 | 51.8 ms | 17.4 ms | 0.336\u00d7 |",
    ]
    with pytest.raises(KeyError, match="p99"):
        chat_table(
            dataclasses.replace(report, figures=[each for each in report.figures if "p99" not in each.name])
        )


# The whole of each


def test_smallest_simulated_run_is_the_same_again():
    report = serve_simulated.run(TINY)
    assert report == serve_simulated.run(TINY)
    contenders = {figure.name.rpartition("/s, ")[2] for figure in report.figures if "TTFT" in figure.name}
    assert contenders == {"no cache", "cache, fcfs", "cache, k-lpm", "cache, lpm"}
    assert all(figure.name.startswith("simulated") for figure in report.figures)
    assert {len(figure.samples["value"]) for figure in report.figures} == {2}


def test_trace_is_one_sample_a_figure():
    report = serve_trace.run(TINY)
    assert {len(figure.samples["value"]) for figure in report.figures} == {1}
    assert all(figure.name.startswith("simulated") for figure in report.figures)
    assert report.config["requests"] == 60


def test_engine_is_measured_with_the_cache_and_without():
    report = serve_engine.run(TINY)
    assert all(figure.name.startswith("measured") for figure in report.figures)
    hits = [figure for figure in report.figures if "hit rate," in figure.name]
    assert len(hits) == 2
    assert all(0 < figure.samples["value"][0] <= figure.bound.samples["value"][0] for figure in hits)
    assert "simulated" not in " ".join(report.notes).lower()


# Texts


@pytest.fixture(scope="module")
def measured():
    model = served_model(TINY)
    workload = chats(
        model, num_sessions=2, num_turns=2, question_tokens=16, output_tokens=3, mean_gap_s=1.0, seed=0
    )
    config = model.engine_config(1000)
    return MeasuredLoad(model, workload, config.cache_config(), config.scheduler)


def test_texts_with_the_cache_and_without_are_the_same(measured):
    texts = [measured.serve(label, OpenLoop()).texts for label in (BASELINE_LABEL, CACHE_LABEL)]
    assert measured.require_same_texts("it", *texts) == sum(len(text.output) for text in texts[0].values())
    assert len(texts[0]) == 4


def test_other_answer_or_prompt_is_refused(measured):
    texts = measured.serve(CACHE_LABEL, OpenLoop()).texts
    right = texts["chat-1/1"]
    worst = [(right.output[0] + 1) % 512, *right.output[1:]]
    with pytest.raises(WrongResult, match="it, chat-1/1: output token 0"):
        measured.require_same_texts("it", texts | {"chat-1/1": Text(right.prompt, worst)}, texts)
    other = Text([*right.prompt[:-1], 0], right.output)
    with pytest.raises(WrongResult, match="prompt of chat-1/1"):
        measured.require_same_texts("it", texts | {"chat-1/1": other}, texts)


def test_behind_a_tie_a_session_is_compared_no_further(measured, monkeypatch):
    monkeypatch.setattr("bench.scenarios.served_model.SAME_MARGIN", float("inf"))
    texts = measured.serve(CACHE_LABEL, OpenLoop()).texts
    right, later = texts["chat-1/0"], texts["chat-1/1"]
    tied = Text(right.prompt, [right.output[0], (right.output[1] + 1) % 512, *right.output[2:]])
    found = texts | {"chat-1/0": tied, "chat-1/1": Text([1, 2, 3], later.output)}
    whole = sum(len(text.output) for name, text in texts.items() if name.startswith("chat-0/"))
    assert measured.require_same_texts("it", found, texts) == whole + 1


def test_no_cache_and_cache_are_two_contenders():
    assert (NO_CACHE.caches, FCFS.caches) == (False, True)
