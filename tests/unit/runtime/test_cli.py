import json
import os
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from runtime import cli
from runtime.result import from_json
from runtime.workload import GENERATORS
from tests.unit.runtime.command_line import assert_one_line, call

GOOD_LINE = '{"timestamp": 0, "input_length": 10, "output_length": 2, "hash_ids": [1]}\n'
SMALL = ("--set", "num_sessions=3")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """`radixcache simulate` in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def command(*arguments: str, verb: tuple[str, ...] = ("simulate",)) -> tuple[int, str, str]:
        return call(monkeypatch, capsys, *verb, *arguments)

    return command


BAD_OPTIONS = {
    "no capacity": (["--capacity", "0"], ["capacity of 0 tokens", "page of 16"]),
    "negative capacity": (["--capacity", "-5"], ["-5"]),
    "capacity below a page": (["--capacity", "63", "--page-size", "64"], ["63", "64"]),
    "more pages than ids": (["--capacity", "99999999999999"], ["6249999999999", "2147483647"]),
    "capacity that is no number": (["--capacity", "many"], ["--capacity", "many"]),
    "no page": (["--page-size", "0"], ["page_size", "0"]),
    "negative page": (["--page-size", "-16"], ["page_size", "-16"]),
    "policy": (["--policy", "fcfz"], ["'fcfz'", "fcfs", "lpm", "did you mean"]),
    "eviction": (["--eviction", "lruu"], ["'lruu'", "did you mean lru"]),
    "model": (["--model", "GPT-9"], ["'GPT-9'", "Llama-3.1-8B"]),
    "gpu": (["--gpu", "H10"], ["'H10'", "H100-SXM"]),
    "workload": (["--workload", "chats"], ["'chats'", "chat"]),
    "weight dtype": (["--weight-dtype", "int3"], ["'int3'", "bf16"]),
    "kv dtype": (["--kv-dtype", "int3"], ["'int3'", "bf16"]),
    "a model that does not fit": (
        ["--model", "Llama-3.1-70B"],
        ["Llama-3.1-70B", "H100-SXM", "tp 4 would fit"],
    ),
    "tp that divides nothing": (["--tp", "3"], ["tp 3", "possible are"]),
    "no gpu at all": (["--tp", "0"], ["tp 0"]),
    "negative tp": (["--tp", "-2"], ["tp -2"]),
    "no budget": (["--token-budget", "0"], ["token_budget", "0"]),
    "negative budget": (["--token-budget", "-1"], ["token_budget", "-1"]),
    "nobody may run": (["--max-running", "0"], ["max_running", "0"]),
    "no share of flops": (["--flops-fraction", "0"], ["flops_fraction 0.0"]),
    "more than all bandwidth": (["--bandwidth-fraction", "1.5"], ["bandwidth_fraction 1.5"]),
    "a share that is no number": (["--flops-fraction", "nan"], ["nan"]),
    "no rate": (["--rate-scale", "0"], ["rate scale", "0.0"]),
    "negative rate": (["--rate-scale", "-1"], ["rate scale", "-1.0"]),
    "infinite rate": (["--rate-scale", "inf"], ["rate scale", "inf"]),
    "session rate without a trace": (["--session-rate", "2"], ["--session-rate is for --trace"]),
    "format without a trace": (["--format", "mooncake"], ["--format is for --trace"]),
    "tokenizer without a trace": (["--tokenizer", "t.json"], ["--tokenizer is for --trace"]),
    "generator beside a trace": (["--workload", "chat", "--trace", "t.jsonl"], ["--workload", "t.jsonl"]),
    "no users": (["--users", "0"], ["users", "0"]),
    "negative users": (["--users", "-7"], ["users", "-7"]),
    "users at a rate": (["--users", "3", "--rate-scale", "2"], ["--users", "--rate-scale"]),
    "negative seed": (["--seed", "-1"], ["seed -1"]),
    "seed that is no number": (["--seed", "x"], ["--seed", "'x'"]),
    "setting without value": (["--set", "num_sessions"], ["NAME=VALUE", "'num_sessions'"]),
    "unknown setting": (["--set", "sessions=3"], ["'sessions'", "num_sessions"]),
    "setting of a wrong type": (["--set", "num_sessions=few"], ["num_sessions=few", "int"]),
    "setting out of range": (["--set", "num_sessions=-3"], ["num_sessions", "-3"]),
    "setting that is no plain number": (["--set", "arrivals=3"], ["'arrivals'", "num_sessions"]),
    "setting with parts": (["--set", "user_len=3"], ["'user_len'"]),
    "nan for a mean": (["--set", "mean_turns=nan"], ["nan"]),
    "unknown option": (["--capacty", "5"], ["--capacty"]),
    "stray argument": (["chat"], ["chat"]),
    "option without value": (["--capacity"], ["--capacity"]),
}


@pytest.mark.parametrize(("arguments", "named"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_a_bad_option_is_one_line_that_names_it(run, arguments, named):
    assert_one_line(run(*arguments), *named)


BAD_LINES = {
    "no JSON": ("nope", ["no JSON"]),
    "cut off": (GOOD_LINE[:30], ["JSON"]),
    "a field is missing": ('{"timestamp": 1, "input_length": 10, "hash_ids": [1]}', ["output_length"]),
    "a wrong type": (GOOD_LINE.replace("10", '"ten"').strip(), ["input_length", "ten"]),
    "a negative number": (GOOD_LINE.replace("10", "-10").strip(), ["input_length", "-10"]),
    "blocks that do not go with the length": (GOOD_LINE.replace("[1]", "[1, 2, 3]").strip(), ["10"]),
    "a list": ("[1, 2]", ["array"]),
}


@pytest.mark.parametrize(("line", "named"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_trace_line_is_one_line_that_names_file_line_and_value(run, line, named):
    Path("trace.jsonl").write_text(GOOD_LINE * 2 + line + "\n" + GOOD_LINE)
    assert_one_line(run("--trace", "trace.jsonl"), "trace.jsonl:3:", *named)


def test_a_trace_that_is_not_there(run):
    assert_one_line(run("--trace", "nowhere/trace.jsonl"), "nowhere/trace.jsonl: no such file")


def test_an_empty_trace(run):
    Path("trace.jsonl").write_text("")
    assert_one_line(run("--trace", "trace.jsonl"), "trace.jsonl: is empty")


def test_a_folder_without_sessions(run):
    Path("folder").mkdir()
    assert_one_line(run("--trace", "folder"), "folder", "no .json file")


def test_a_folder_where_a_file_is_meant(run):
    Path("folder").mkdir()
    assert_one_line(run("--trace", "folder", "--format", "mooncake"), "folder")


@pytest.mark.parametrize("content", [b"\x00\x01\xff", b"\x1f\x8b broken gzip", b'{"a": 1}\n'])
def test_a_file_that_is_no_trace(run, content):
    Path("trace.jsonl").write_bytes(content)
    assert_one_line(run("--trace", "trace.jsonl"), "trace.jsonl")


def test_an_unknown_format(run):
    Path("trace.jsonl").write_text(GOOD_LINE)
    assert_one_line(run("--trace", "trace.jsonl", "--format", "csv"), "'csv'", "mooncake")


def test_a_tokenizer_that_is_not_there(run):
    Path("trace.jsonl").write_text(GOOD_LINE)
    assert_one_line(run("--trace", "trace.jsonl", "--tokenizer", "t.json"), "t.json: no such tokenizer file")


def test_settings_of_a_generator_beside_a_trace(run):
    Path("trace.jsonl").write_text(GOOD_LINE)
    assert_one_line(run("--trace", "trace.jsonl", *SMALL), "--set", "trace.jsonl")


def test_an_output_folder_that_is_a_file_is_refused_before_the_run(run):
    Path("file").write_text("")
    code, stdout, stderr = run("--out", "file", *SMALL)
    assert_one_line((code, stdout, stderr), "--out", "file")
    code, stdout, stderr = run("--out", "file/deeper", *SMALL)
    assert_one_line((code, stdout, stderr), "file/deeper")
    assert stdout == ""


def test_a_pool_too_large_for_this_machine(run, monkeypatch):
    def too_large(*_: object) -> None:
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr("runtime.cli.simulate.run_experiment", too_large)
    assert_one_line(run(*SMALL), "out of memory: Unable to allocate 7 TiB")


def test_a_session_rate_out_of_range(run):
    Path("trace.jsonl").write_text(GOOD_LINE)
    assert_one_line(run("--trace", "trace.jsonl", "--session-rate", "-1"), "-1.0")


@pytest.mark.parametrize("name", ["curve", "plan", "compare"])
def test_no_command_takes_an_option_that_would_change_nothing(run, name):
    for arguments in (["--session-rate", "2"], ["--workload", "agents", "--trace", "trace.jsonl"]):
        assert_one_line(run(*arguments, verb=(name,)), arguments[0], "--trace")


def test_a_mistake_in_the_call_says_where_help_is(run):
    assert_one_line(run(verb=()), "Missing command", "--help.")
    assert_one_line(run(verb=("trace",)), "Missing command", "trace --help.")
    assert_one_line(run("--policee", "lpm"), "--policee", "simulate --help.")


def test_a_file_that_the_system_refuses_is_named_without_a_number(run):
    Path("out/result.json").mkdir(parents=True)
    assert_one_line(
        run(*SMALL, "--no-baseline", "--out", "out"), "radixcache: out/result.json: is a directory"
    )


def test_help_cuts_no_sentence_at_80_columns_and_explains_every_option():
    for group in (cli.cli, cli.cli.commands["trace"]):
        text = CliRunner().invoke(group, ["--help"], terminal_width=80).output
        assert "..." not in text.partition("Commands:")[2]
    for name, command in {**cli.cli.commands, **cli.cli.commands["trace"].commands}.items():
        missing = [each.opts for each in command.params if isinstance(each, click.Option) and not each.help]
        assert missing == [], name


def test_an_unknown_command(run):
    assert_one_line(run(verb=("simulat",)), "simulat")


def test_an_interrupted_run_says_so(run, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("runtime.cli.simulate.run_experiment", interrupted)
    code, _, stderr = run(*SMALL)
    assert code == 1
    assert "Traceback" not in stderr


def test_help_names_every_choice():
    for arguments in (["--help"], ["-h"], ["simulate", "--help"]):
        result = CliRunner().invoke(cli.cli, arguments, terminal_width=300)
        assert result.exit_code == 0
    for name in ("lru", "fcfs", "lpm", "mooncake", "tree-of-thought", "H100-SXM", "Llama-3.1-8B"):
        assert name in result.output


def test_the_version_is_told():
    result = CliRunner().invoke(cli.cli, ["--version"])
    assert re.search(r"\d+\.\d+\.\d+", result.output)


def test_a_table_of_both_runs_goes_to_stdout(run):
    code, stdout, stderr = run(*SMALL)
    assert (code, stderr) == (0, "")
    for text in ("no cache", "radix cache", "hit rate", "TTFT", "simulated"):
        assert text in stdout


def test_the_baseline_can_be_left_out(run):
    _, stdout, _ = run(*SMALL, "--no-baseline")
    assert "radix cache" in stdout
    assert "no cache" not in stdout


def test_out_writes_data_and_report(run):
    code, stdout, _ = run(*SMALL, "--out", "deep/folder", "--seed", "4", "--users", "2")
    assert code == 0
    data, report = Path("deep/folder/result.json"), Path("deep/folder/report.html")
    assert str(data) in stdout
    assert str(report) in stdout
    result = from_json(data.read_bytes())
    assert result.seed == 4
    assert result.config["pace"] == {"users": 2}
    assert result.config["workload"]["settings"] == {"num_sessions": "3"}
    assert len(result.runs) == 2
    html = report.read_text(encoding="utf-8")
    assert html.lstrip().lower().startswith("<!doctype html>")
    assert "simulated" in html


def test_results_are_written_over_older_ones(run):
    for seed in ("1", "2"):
        assert run(*SMALL, "--no-baseline", "--out", "out", "--seed", seed)[0] == 0
    assert json.loads(Path("out/result.json").read_text())["seed"] == 2


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_every_generator_runs(run, name):
    size = "num_questions" if name == "few-shot" else "num_sessions"
    code, stdout, stderr = run("--workload", name, "--set", f"{size}=3", "--no-baseline", "--out", "out")
    assert (code, stderr) == (0, "")
    (served,) = from_json(Path("out/result.json").read_bytes()).runs
    assert {record.status for record in served.requests} == {"finished"}
    assert "hit rate" in stdout


@pytest.mark.parametrize("policy", ["fcfs", "lpm"])
@pytest.mark.parametrize("eviction", ["lru", "fifo", "lfu", "slru", "priority"])
def test_every_policy_runs_in_a_small_pool(run, policy, eviction):
    arguments = ("--policy", policy, "--eviction", eviction, "--capacity", "12000", "--no-baseline")
    code, stdout, _ = run(*SMALL, *arguments)
    assert code == 0
    assert "hit rate" in stdout


def test_a_setting_may_be_written_with_dashes(run):
    assert run("--set", "num-sessions=2", "--set", "mean-turns=1.5", "--no-baseline")[0] == 0


@pytest.mark.shared_data
def test_the_head_of_a_recorded_trace_runs(run, shared):
    with (shared / "data" / "traces" / "mooncake_conversation.jsonl").open() as lines:
        Path("head.jsonl").write_text("".join(islice(lines, 200)))
    code, stdout, _ = run("--trace", "head.jsonl", "--gpu", "H200", "--tp", "2", "--out", "out")
    assert code == 0
    result = from_json(Path("out/result.json").read_bytes())
    assert [len(served.requests) for served in result.runs] == [200, 200]
    assert {record.status for served in result.runs for record in served.requests} == {"finished"}
    baseline, cached = result.runs
    assert sum(record.matched_tokens for record in baseline.requests) == 0
    assert sum(record.matched_tokens for record in cached.requests) > 0
    assert result.config["workload"]["trace"] == "head.jsonl"
    assert "hit rate" in stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["--workload", "agents", "--set", "num_sessions=3", "--policy", "lpm", "--eviction", "lfu"],
        ["--workload", "chat", "--set", "num_sessions=6", "--capacity", "8000", "--partial-reuse"],
    ],
    ids=["agents", "chat in a small pool"],
)
def test_the_same_seed_gives_the_same_bytes_in_any_process(arguments, tmp_path):
    made = []
    for hash_seed, folder in (("1", "first"), ("4242", "elsewhere")):
        home = tmp_path / folder
        home.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "COLUMNS": "120"}
        command = [sys.executable, "-W", "error", "-c", "from runtime.cli import main; main()"]
        finished = subprocess.run(
            [*command, "simulate", *arguments, "--out", "out", "--seed", "3"],
            cwd=home,
            env={**environment, "PYTHONPATH": str(Path(cli.__file__).parents[1])},
            capture_output=True,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr.decode()
        files = sorted((home / "out").iterdir())
        made.append([(file.name, file.read_bytes()) for file in files] + [finished.stdout])
    assert made[0] == made[1]
    assert [name for name, _ in made[0][:2]] == ["report.html", "result.json"]


def test_another_seed_gives_another_result(run):
    for seed in ("1", "2"):
        run(*SMALL, "--no-baseline", "--out", f"out{seed}", "--seed", seed)
    first, second = (from_json(Path(f"out{seed}/result.json").read_bytes()) for seed in ("1", "2"))
    assert first.runs[0].requests != second.runs[0].requests


def test_the_console_script_ends_with_the_code_and_no_traceback(tmp_path):
    script = Path(sys.executable).parent / "radixcache"
    if not script.exists():
        pytest.skip("the package is not installed in this environment")
    finished = subprocess.run(
        [script, "simulate", "--policy", "nope"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert_one_line((finished.returncode, finished.stdout, finished.stderr), "'nope'")
