import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import bench.cli
from bench.benchmarks import BENCHMARKS
from bench.harness import environment
from bench.harness.report import Report
from bench.options import Options
from bench.publishing.documents import load
from bench.suites import SUITES
from bench.worker import run_benchmark

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )


def test_smallest_run_of_everything_ends_with_valid_json(tmp_path):
    file = tmp_path / "run.json"
    done = run("-m", "bench", "all", "--size", "tiny", "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout.splitlines()[-1])
    assert document == json.loads(file.read_text())
    reports = [run["report"] for run in document["runs"]]
    assert {report["name"] for report in reports} == set(BENCHMARKS)
    assert all(report["error"] is None and report["figures"] for report in reports)
    for kept in document["runs"]:
        assert {"commit", "dirty", "cpu", "python", "versions"} <= set(kept["environment"])
        assert kept["options"]["seed"] == 0
    samples = [figure["samples"] for report in reports for figure in report["figures"]]
    assert all(values for taken in samples for values in taken.values())


def test_every_benchmark_belongs_to_one_suite():
    assert sorted(name for suite in SUITES.values() for name in suite.benchmarks) == sorted(BENCHMARKS)
    assert all(suite.simulated <= set(suite.benchmarks) for suite in SUITES.values())


def test_without_a_command_it_lists_what_there_is():
    result = CliRunner().invoke(bench.cli.main, [])
    assert result.exit_code == 0
    words = set(result.output.replace(",", " ").split())
    assert {*SUITES, "peers", "report", *BENCHMARKS} <= words


def test_suite_runs_its_own_benchmarks_only(monkeypatch):
    ran = []
    monkeypatch.setattr(
        bench.cli, "_isolated", lambda name, _: ran.append(name) or Report(name=name, question="?")
    )
    assert CliRunner().invoke(bench.cli.main, ["replay"]).exit_code == 0
    assert tuple(ran) == SUITES["replay"].benchmarks
    refused = CliRunner().invoke(bench.cli.main, ["replay", "--only", "peek"])
    assert (refused.exit_code, "peek" in refused.output) == (2, True)


def test_results_are_kept_a_file_a_suite_without_those_that_failed(monkeypatch, tmp_path):
    def isolated(name: str, options: Options) -> Report:
        return Report(name=name, question="?", error="wrong" if name == "lock" else None)

    monkeypatch.setattr(bench.cli, "_isolated", isolated)
    arguments = ["--only", "peek", "--only", "lock", "--only", "memory", "--into", str(tmp_path)]
    assert CliRunner().invoke(bench.cli.main, ["all", *arguments]).exit_code == 1
    kept = {path.name.partition("_")[0]: load(path) for path in tmp_path.iterdir()}
    assert {name: [run.report.name for run in results.runs] for name, results in kept.items()} == {
        "micro": ["peek"],
        "memory": ["memory"],
    }


def test_benchmarks_are_chosen_by_name(monkeypatch):
    ran = []
    monkeypatch.setattr(
        bench.cli, "_isolated", lambda name, _: ran.append(name) or Report(name=name, question="?")
    )
    result = CliRunner().invoke(bench.cli.main, ["micro", "--only", "lock", "--only", "peek"])
    assert (result.exit_code, ran) == (0, ["lock", "peek"])


def test_files_reach_the_benchmarks_whole_and_the_document_by_name(monkeypatch, tmp_path):
    runs, tools = tmp_path / "runs.jsonl", tmp_path / "tools.json"
    runs.touch()
    tools.touch()
    seen = []
    monkeypatch.setattr(
        bench.cli, "_isolated", lambda name, options: seen.append(options) or Report(name=name, question="?")
    )
    arguments = ["micro", "--only", "peek", "--agents", str(runs), "--tools", str(tools)]
    result = CliRunner().invoke(bench.cli.main, arguments)
    assert result.exit_code == 0, result.output
    assert [(options.agents, options.tools, options.trace) for options in seen] == [
        (str(runs), str(tools), None)
    ]
    shown = json.loads(result.output.splitlines()[-1])["runs"][0]["options"]
    assert (shown["agents"], shown["tools"], shown["trace"]) == ("runs.jsonl", "tools.json", None)


def test_skipped_benchmark_fails_nothing(monkeypatch):
    monkeypatch.setattr(
        bench.cli, "_isolated", lambda name, _: Report(name=name, question="?", skipped="not here")
    )
    result = CliRunner().invoke(bench.cli.main, ["micro", "--only", "peek"])
    assert result.exit_code == 0
    assert "skipped, not here" in result.output


def test_unknown_benchmark_is_refused():
    result = CliRunner().invoke(bench.cli.main, ["micro", "--only", "pook"])
    assert result.exit_code == 2
    assert "pook" in result.output


def test_wrong_result_fails_the_run_and_does_not_hide_the_rest(monkeypatch):
    def isolated(name: str, options: Options) -> Report:
        return Report(name=name, question="?", error="wrong" if name == "peek" else None)

    monkeypatch.setattr(bench.cli, "_isolated", isolated)
    result = CliRunner().invoke(bench.cli.main, ["micro", "--only", "peek", "--only", "lock"])
    assert result.exit_code == 1
    document = json.loads(result.output.splitlines()[-1])
    assert [run["report"]["error"] for run in document["runs"]] == ["wrong", None]


def test_benchmark_that_raises_is_reported(monkeypatch):
    monkeypatch.setitem(BENCHMARKS, "peek", lambda options: 1 / 0)
    assert "ZeroDivisionError" in (run_benchmark("peek", Options()).error or "")


@pytest.mark.timeout(300)
def test_scenarios_run_under_pytest_benchmark():
    done = run("-m", "pytest", "bench", "--benchmark-disable", "-q", "-p", "no:xdist")
    assert done.returncode == 0, done.stdout + done.stderr


def test_results_that_are_not_committed_yet_make_nothing_dirty(tmp_path, monkeypatch):
    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True
        )

    git("init", "--quiet")
    results = tmp_path / "bench" / "results"
    results.mkdir(parents=True)
    (results / "old.json").write_text("{}")
    git("add", ".")
    git("commit", "--quiet", "--message", "all")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    (results / "old.json").unlink()
    (results / "new.json").write_text("{}")
    assert environment.describe()["dirty"] is False
    (tmp_path / "bench" / "code.py").write_text("")
    assert environment.describe()["dirty"] is True
