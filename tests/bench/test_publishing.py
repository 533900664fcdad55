import pytest
from click.testing import CliRunner

from bench.cli import main
from bench.harness.report import Figure, Limit, Picture, Report
from bench.options import Options
from bench.publishing.command import differences
from bench.publishing.documents import Results, UnreadableResults, file_name, load, results_of, save
from bench.publishing.page import page
from bench.publishing.readme import PartsDiffer, filled
from bench.publishing.tree import README, everything

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
