import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import bench.cli
from bench.benchmarks import BENCHMARKS
from bench.harness.report import Picture, Report
from bench.options import Options
from bench.worker import run_benchmark

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )


def test_smallest_run_of_everything_ends_with_valid_json(tmp_path):
    file = tmp_path / "run.json"
    done = run("-m", "bench", "--size", "tiny", "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout.splitlines()[-1])
    assert document == json.loads(file.read_text())
    assert [report["name"] for report in document["benchmarks"]] == list(BENCHMARKS)
    assert all(report["error"] is None and report["figures"] for report in document["benchmarks"])
    assert {"commit", "dirty", "cpu", "python", "versions", "seed", "options"} <= set(document)
    samples = [figure["samples"] for report in document["benchmarks"] for figure in report["figures"]]
    assert all(values for taken in samples for values in taken.values())


def test_benchmarks_are_chosen_by_name(monkeypatch):
    ran = []
    monkeypatch.setattr(
        bench.cli, "_isolated", lambda name, _: ran.append(name) or Report(name=name, question="?")
    )
    result = CliRunner().invoke(bench.cli.main, ["--only", "lock", "--only", "peek"])
    assert (result.exit_code, ran) == (0, ["lock", "peek"])


def test_files_reach_the_benchmarks_whole_and_the_document_by_name(monkeypatch, tmp_path):
    runs, tools = tmp_path / "runs.jsonl", tmp_path / "tools.json"
    runs.touch()
    tools.touch()
    seen = []
    monkeypatch.setattr(
        bench.cli, "_isolated", lambda name, options: seen.append(options) or Report(name=name, question="?")
    )
    arguments = ["--only", "peek", "--agents", str(runs), "--tools", str(tools)]
    result = CliRunner().invoke(bench.cli.main, arguments)
    assert result.exit_code == 0, result.output
    assert [(options.agents, options.tools, options.trace) for options in seen] == [
        (str(runs), str(tools), None)
    ]
    shown = json.loads(result.output.splitlines()[-1])["options"]
    assert (shown["agents"], shown["tools"], shown["trace"]) == ("runs.jsonl", "tools.json", None)


def test_skipped_benchmark_fails_nothing(monkeypatch):
    monkeypatch.setattr(
        bench.cli, "_isolated", lambda name, _: Report(name=name, question="?", skipped="not here")
    )
    result = CliRunner().invoke(bench.cli.main, ["--only", "peek"])
    assert result.exit_code == 0
    assert "skipped, not here" in result.output


def test_unknown_benchmark_is_refused():
    result = CliRunner().invoke(bench.cli.main, ["--only", "pook"])
    assert result.exit_code == 2
    assert "pook" in result.output


def test_wrong_result_fails_the_run_and_does_not_hide_the_rest(monkeypatch):
    def isolated(name: str, options: Options) -> Report:
        return Report(name=name, question="?", error="wrong" if name == "peek" else None)

    monkeypatch.setattr(bench.cli, "_isolated", isolated)
    result = CliRunner().invoke(bench.cli.main, ["--only", "peek", "--only", "lock"])
    assert result.exit_code == 1
    document = json.loads(result.output.splitlines()[-1])
    assert [report["error"] for report in document["benchmarks"]] == ["wrong", None]


def test_pictures_land_in_the_folder(monkeypatch, tmp_path):
    picture = Picture(name="cost", title="t", x="x", y="y", lines={"ours": [(1, 2), (10, 3)]})
    monkeypatch.setattr(
        bench.cli, "_isolated", lambda name, _: Report(name=name, question="?", pictures=(picture,))
    )
    result = CliRunner().invoke(bench.cli.main, ["--only", "peek", "--pictures", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert [path.name for path in tmp_path.iterdir()] == ["cost.svg"]


def test_benchmark_that_raises_is_reported(monkeypatch):
    monkeypatch.setitem(BENCHMARKS, "peek", lambda options: 1 / 0)
    assert "ZeroDivisionError" in (run_benchmark("peek", Options()).error or "")


@pytest.mark.timeout(300)
def test_scenarios_run_under_pytest_benchmark():
    done = run("-m", "pytest", "bench", "--benchmark-disable", "-q", "-p", "no:xdist")
    assert done.returncode == 0, done.stdout + done.stderr
