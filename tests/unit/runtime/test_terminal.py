import io

from rich.console import Console, RenderableType

from runtime import terminal
from runtime.metrics import summarise
from runtime.report import Fact, Sheet, Study
from tests.unit.runtime.sample_result import plausible_result, record, run, simulation


def shown(renderable: RenderableType, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined]


def line_of(text: str, name: str) -> list[str]:
    line = next(line for line in text.splitlines() if name in line)
    return [part.strip() for part in line.strip("│ ").split("│")]


def test_every_metric_that_was_asked_for_has_a_row():
    text = shown(terminal.render(plausible_result(50, 20)))
    latencies = [f"{name} p{q}" for name in ("TTFT", "TPOT", "E2E") for q in (50, 90, 99)]
    others = ["hit rate", "prefill tokens computed", "output tokens / s", "pages evicted"]
    for name in [*latencies, *others, "preemptions", "queue delay p99", "waiting requests, most"]:
        assert name in text


def test_times_are_labelled_simulated_in_the_column_heads():
    text = shown(terminal.comparison_table([summarise(run())]))
    assert "all times are simulated" in text
    assert "(simulated)" in text


def test_measured_times_are_labelled_measured():
    text = shown(terminal.render(simulation(run(), config={"machine": {}})))
    assert "all times are measured" in text
    assert "Latency, measured time" in text
    assert "simulat" not in text.lower()


def test_the_baseline_stands_first_and_the_ratio_is_to_it():
    cache = summarise(run([record(first_token_s=2.0)]))
    none = summarise(run([record(first_token_s=5.0)], label="no cache"))
    text = shown(terminal.comparison_table([cache, none]))
    assert line_of(text, "TTFT p50") == ["TTFT p50", "4.00 s", "1.00 s", "0.25\N{MULTIPLICATION SIGN}"]


def test_what_does_not_exist_is_a_dash():
    text = shown(terminal.comparison_table([summarise(run([])), summarise(run([]))]))
    assert line_of(text, "TTFT p50") == ["TTFT p50", *["\N{EN DASH}"] * 3]


def test_one_run_has_no_ratio():
    assert "ratio" not in shown(terminal.comparison_table([summarise(run())]))


def test_the_title_names_the_machine_that_was_measured():
    machine = {"device_name": "AMD EPYC", "model": {"name": "smollm2"}}
    config = {"workload": {"name": "chat"}, "machine": machine}
    assert shown(terminal.render(simulation(config=config))).startswith("chat on AMD EPYC with smollm2\n")


def test_no_run_gives_tables_without_columns():
    assert "metric" in shown(terminal.render(simulation()))


def test_miss_reasons_have_tokens_and_share():
    text = shown(terminal.miss_table([summarise(run([record()]))]))
    assert line_of(text, "never seen") == ["never seen", "35", "35.0 %"]
    assert line_of(text, "matched  ") == ["matched", "64", "64.0 %"]


def test_tokens_without_a_reason_are_not_dropped():
    text = shown(terminal.miss_table([summarise(run([record(miss={})]))]))
    assert line_of(text, "no reason recorded") == ["no reason recorded", "36", "36.0 %"]


def test_warnings_and_notes_follow_the_tables():
    text = shown(terminal.render(plausible_result(50, 20)))
    assert text.index("E2E p50") < text.index("warning: no cache: offered") < text.index("note: ")


def test_markup_in_text_from_outside_is_shown_literally():
    result = simulation(run(label="[red]x[/]"), notes=["[bold]n[/bold]"], warnings=["[/]"])
    text = shown(terminal.render(result))
    for literal in ("[red]x[/]", "[bold]n[/bold]", "warning: [/]"):
        assert literal in text


def test_nothing_is_printed(capsys):
    terminal.render(plausible_result(20, 5))
    assert capsys.readouterr() == ("", "")


def test_the_comparison_fits_a_terminal_of_80_columns():
    lines = shown(terminal.render(plausible_result(50, 20)), width=80).splitlines()
    assert any("prompt + output tokens / s" in line for line in lines)
    assert "\N{HORIZONTAL ELLIPSIS}" not in "".join(lines)


def test_a_study_shows_its_facts_tables_warnings_and_notes_literally():
    study = Study(
        command="curve",
        title="t",
        lead="What it [b]is[/b].",
        facts=[Fact(name="Ceiling", value="90 %", remark="of [all]")],
        figures=[],
        sheets=[Sheet(title="Rates", columns=["a", "b"], rows=[["[x]", "1"]], remark="remark")],
        warnings=["careful"],
        notes=["by the way"],
    )
    text = shown(terminal.render_study(study))
    for part in ("What it [b]is[/b].", "Ceiling", "of [all]", "Rates", "[x]", "remark", "warning: careful"):
        assert part in text
    assert "note: by the way" in text
