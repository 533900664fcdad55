import dataclasses

import pytest
from click.testing import CliRunner

from bench.benchmarks import simulate_chat
from bench.cli import main
from bench.harness.environment import ROOT
from bench.harness.report import Bound, Figure, Limit, Picture, Report
from bench.options import Options
from bench.peers.document import FORMAT, Document, Measured, Repetition
from bench.publishing.chat_table import chat_table
from bench.publishing.command import differences
from bench.publishing.documents import Results, UnreadableResults, file_name, load, results_of, save
from bench.publishing.headline import PEER_ROWS, PICTURED, FigureMissing, parts
from bench.publishing.page import page
from bench.publishing.readme import PartsDiffer, filled
from bench.publishing.tree import README, RESULTS, everything, newest
from runtime.result import BASELINE_LABEL, CACHE_LABEL, from_json

ENVIRONMENT = {
    "commit": "abc",
    "dirty": False,
    "cpu": "Some CPU (R) 9",
    "cores": 2,
    "system": "Linux x86_64",
    "python": "CPython 3.11.7",
    "versions": {"numpy": "2.4.6"},
}
FIGURE = Figure(
    name="a call",
    unit="us",
    samples={"cpu": [1.0, 3.0, 5.0], "wall": [2.0, 4.0, 60.0]},
    limits=(Limit(statistic="max", plus=10.0),),
)
PICTURE = Picture(name="cost", title="Cost", x="size", y="us", lines={"ours": [(1, 2), (10, 3)]})


def results(*reports: Report, suite: str = "micro", **options: object) -> Results:
    return results_of(suite, ENVIRONMENT, Options(**options), reports)


def peek(commit_note: str = "") -> Report:
    return Report(
        name="peek", question="how long?", figures=(FIGURE,), notes=(commit_note,), pictures=(PICTURE,)
    )


def test_file_is_named_after_theme_hardware_and_month():
    assert file_name("micro", ENVIRONMENT, "202611") == "micro_some-cpu-r-9-2core_202611.json"


def test_file_gives_back_what_was_written(tmp_path):
    kept = results(peek(), trace="/somewhere/trace.jsonl")
    save(kept, tmp_path / "x.json")
    assert load(tmp_path / "x.json") == kept
    assert kept.runs[0].options.trace == "trace.jsonl"
    assert [limit["holds"] for limit in kept.runs[0].limits] == [True, False]


def test_newer_run_replaces_its_own_part_only(tmp_path):
    file = tmp_path / "x.json"
    lock = Report(name="lock", question="?")
    save(results(lock, peek("old")), file)
    save(results(peek("new")), file)
    assert [(run.report.name, run.report.notes) for run in load(file).runs] == [
        ("peek", ("new",)),
        ("lock", ()),
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"suite": "nosuch", "runs": []}'])
def test_other_files_are_refused_and_stay(tmp_path, text):
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(UnreadableResults, match=r"x\.json"):
        save(results(peek()), file)
    assert file.read_text() == text


def test_page_states_question_set_up_rerun_limits_table_picture_and_caveats():
    text = page(results(peek(), trace="t.jsonl"), lambda picture: f"{picture.name}.svg", "Mind the gap.")
    order = [
        "# micro",
        "**Question.**",
        "* peek: commit abc; Some CPU",
        "`python -m bench micro --only peek --trace t.jsonl --into bench/results`",
        "Mind the gap.",
        "0 of 1 hold",
        "| peek | a call | max <= 10 us | 5 cpu / 60 wall | **no**, but by cpu time |",
        "## What this does not show",
        "![Cost](cost.svg)",
        "| a call [us] | cpu | 1 | 3 |",
    ]
    places = [text.find(part) for part in order]
    assert -1 not in places, dict(zip(order, places, strict=True))
    assert places == sorted(places)


def test_whole_suite_is_rerun_by_its_name_and_simulated_times_are_marked():
    reports = [Report(name=name, question="?") for name in ("bounded_waiting", "engine_throughput")]
    text = page(results(*reports, suite="serve"), lambda picture: picture.name)
    simulated, _, measured = text.partition("## bounded_waiting")[2].partition("## engine_throughput")
    assert "Times are simulated." in simulated
    assert "Times are simulated." not in measured


def test_report_writes_beside_the_file_and_check_tells_what_differs(tmp_path):
    file = tmp_path / "micro_x_202611.json"
    save(results(peek()), file)
    checked = CliRunner().invoke(main, ["report", "--check", str(file)])
    assert (checked.exit_code, checked.output.count("differs: ")) == (1, 2)
    assert CliRunner().invoke(main, ["report", str(file)]).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "micro_x_202611.json",
        "micro_x_202611.md",
        "micro_x_202611.cost.svg",
    }
    assert CliRunner().invoke(main, ["report", "--check", str(file)]).exit_code == 0
    (tmp_path / "micro_x_202611.md").write_text("by hand")
    checked = CliRunner().invoke(main, ["report", "--check", str(file)])
    assert (checked.exit_code, checked.output) == (1, "differs: micro_x_202611.md\n")


def test_readme_parts_go_where_their_names_stand():
    text = "a\n<!-- results: one -->\nold\n<!-- end of results -->\nb\n"
    new = filled(text, {"one": "new"})
    assert new == text.replace("old", "new")
    assert filled(new, {"one": "new"}) == new


@pytest.mark.parametrize("parts", [{}, {"two": ""}, {"one": "", "two": ""}])
def test_readme_part_without_a_place_or_place_without_a_part_is_refused(parts):
    with pytest.raises(PartsDiffer, match="one"):
        filled("<!-- results: one -->\n<!-- end of results -->", parts)


def test_pages_and_readme_agree_with_the_result_files():
    made = list(everything())
    assert [path.name for path in differences(made)] == []
    assert README in {path for path, _ in made}


def test_every_file_among_the_results_is_a_result_or_made_of_one():
    made = {path for path, _ in everything()}
    stems = {path.stem for path in RESULTS.glob("*.json")}
    by_hand = {RESULTS / f"{stem}{suffix}" for stem in stems for suffix in (".json", ".remarks.md")}
    older = set(RESULTS.glob("real-model_*.md"))
    assert [path.name for path in RESULTS.iterdir() if path not in made | by_hand | older] == []


def test_make_simulate_prints_what_readme_says():
    file = ROOT / "out" / "result.json"
    if not file.exists():
        pytest.skip("make simulate was not run here")
    summaries = simulate_chat.verified(from_json(file.read_bytes()))
    kept = {run.report.name: run.report for run in load(newest("serve")).runs}["simulate_chat"]
    found = simulate_chat.figures(summaries[BASELINE_LABEL], summaries[CACHE_LABEL])
    assert found == kept.figures, "out/ is stale (make simulate), or the results are (python -m bench serve)"


# README's parts


def single(name: str, value: float, beside: float | None = None, clock: str = "value") -> Figure:
    bound = None if beside is None else Bound(name="no cache", samples={clock: [beside]})
    return Figure(name=name, unit="", samples={clock: [value]}, bound=bound)


CHAT = Report(
    name="simulate_chat",
    question="?",
    figures=(
        single(simulate_chat.HIT_RATE, 0.8574, 0.0),
        single(simulate_chat.OF_CEILING, 0.9),
        single(simulate_chat.PREFILL, 1_000_000, 4_000_000),
        single(simulate_chat.TTFT_P50, 25.25, 285.4),
        single(simulate_chat.TTFT_P99, 147, 7_310),
        single(simulate_chat.TPOT_P50, 17.4, 51.8),
    ),
)
LOAD = Report(
    name="serve_simulated",
    question="?",
    figures=(single("simulated capacity, cache, lpm / no cache", 2.5),),
    notes=("Goodput counts requests with a TTFT of at most 1 s and a TPOT of at most 50 ms (both ours).",),
    pictures=(dataclasses.replace(PICTURE, name=PICTURED),),
)
ENGINE = Report(
    name="engine_conversation",
    question="?",
    config={"prompt tokens": [100, 2_420]},
    figures=(single("TTFT", 285_000, 2_065_000, "wall"),),
)
LABELS = ("radixcache", "SGLang, Rust core", "SGLang, Python core", "vLLM, xxhash")


def compared(*rows: str) -> Document:
    """Every contender takes twice as long as the one before it; vLLM has no first row."""
    measured = tuple(
        Measured(
            contender=label,
            figures=tuple(
                Figure(name=row, unit="us", samples={"cpu": [8.0 * 2**place]})
                for row in rows
                if label != LABELS[-1] or row != rows[0]
            ),
        )
        for place, label in enumerate(LABELS)
    )
    return Document(
        format=FORMAT,
        cpu="a processor",
        cores=2,
        system="Linux",
        python="CPython 3.11.7",
        versions={"radixcache": "0.1.0"},
        peers={"sglang": "1.2", "vllm": "3.4"},
        contenders=LABELS,
        packages=dict(zip(LABELS, ("radixcache", "sglang", "sglang", "vllm"), strict=True)),
        compiled=LABELS[1:2],
        seed=0,
        options=Options(),
        config={},
        repetitions=(Repetition(commit="c", dirty=False, rows=("peek",), measured=measured),),
    )


def test_readme_shows_medians_ratios_versions_and_where_they_come_from():
    serve = results(CHAT, LOAD, ENGINE, suite="serve")
    made = parts(serve, compared(*PEER_ROWS), "serve_x", "peers_x")
    assert made["chat"] == chat_table(CHAT)
    assert "(bench/results/serve_x.serve_simulated_ttft.svg)" in made["load"]
    assert (
        "a TTFT of at most 1 s and a TPOT of at most 50 ms, the same simulated GPU serves 2.5 times"
        in made["load"]
    )
    assert "2 turns that ends at 2,420 tokens" in made["engine"]
    assert "after 285 ms instead of 2.06 s (p50, measured), 7.2 times sooner" in made["engine"]
    table = made["peers"].splitlines()
    assert (
        table[0] == "| us | radixcache | SGLang 1.2, Rust core | SGLang 1.2, Python core | vLLM 3.4, xxhash |"
    )
    assert table[2].endswith("| 8.0 | 16 (2.0 x) | 32 (4.0 x) | none |")
    assert table[3].endswith("| 8.0 | 16 (2.0 x) | 32 (4.0 x) | 64 (8.0 x) |")
    assert "peers_x.md" in table[-1]


@pytest.mark.parametrize("left_out", ["simulate_chat", "serve_simulated", "engine_conversation"])
def test_results_without_what_readme_shows_are_refused(left_out):
    kept = [report for report in (CHAT, LOAD, ENGINE) if report.name != left_out]
    with pytest.raises(FigureMissing, match=left_out):
        parts(results(*kept, suite="serve"), compared(*PEER_ROWS), "", "")


def test_comparison_without_what_readme_shows_is_refused():
    first, *others = PEER_ROWS
    with pytest.raises(FigureMissing, match=first):
        parts(results(CHAT, LOAD, ENGINE, suite="serve"), compared(*others), "", "")
