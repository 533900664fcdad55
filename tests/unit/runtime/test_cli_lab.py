import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from runtime import cli
from runtime.cli.options import DEFAULT_GPU
from runtime.lab import comparison
from runtime.result import from_json
from tests.unit.runtime.command_line import call

SMALL = ("--set", "num_sessions=3", "--gpu", "L4", "--model", "Qwen3-0.6B")
HARDWARE = ("model", "gpu", "tp", "weight_dtype", "kv_dtype", "flops_fraction", "bandwidth_fraction")
COMMANDS = {
    "simulate": (*SMALL, "--no-baseline"),
    "curve": SMALL,
    "plan": (*SMALL, "--pools", "0.5", "--tolerance", "1", "--ttft", "0.03"),
    "compare": (*SMALL, "--seeds", "1", "--capacities", "50%", "--policies", "lpm", "--workers", "1"),
}
FILES = {
    "simulate": ["report.html", "result.json"],
    "curve": ["curve.html", "curve.json"],
    "plan": ["plan.html", "plan.json"],
    "compare": ["report.html", "result.json"],
}


@pytest.fixture
def radixcache(monkeypatch, capsys, tmp_path):
    """`radixcache` in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")

    def command(*arguments: str) -> tuple[int, str, str]:
        return call(monkeypatch, capsys, *arguments)

    return command


@pytest.mark.parametrize("name", COMMANDS)
def test_json_is_the_one_thing_on_stdout_and_what_the_folder_holds(radixcache, name):
    code, stdout, stderr = radixcache(name, *COMMANDS[name], "--json", "--out", "deep/out")
    assert (code, stderr) == (0, "")
    assert json.loads(stdout)["schema"].startswith("radixcache.")
    assert sorted(path.name for path in Path("deep/out").iterdir()) == FILES[name]
    assert Path("deep/out", FILES[name][1]).read_text() == stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_without_json_there_are_tables_and_the_names_of_the_files(radixcache, name):
    code, stdout, stderr = radixcache(name, *COMMANDS[name], "--out", "out")
    assert (code, stderr) == (0, "")
    assert "hit rate" in stdout.lower()
    for file in FILES[name]:
        assert f"wrote out/{file}" in stdout


@pytest.mark.parametrize("name", ["curve", "plan", "compare"])
def test_the_same_command_gives_the_same_bytes_in_any_process(name, tmp_path):
    made = []
    for hash_seed, folder in (("1", "first"), ("77", "elsewhere")):
        home = tmp_path / folder
        home.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "COLUMNS": "120"}
        finished = subprocess.run(
            [
                *(sys.executable, "-W", "error", "-c", "from runtime.cli import main; main()"),
                *(name, *COMMANDS[name], "--out", "out"),
            ],
            cwd=home,
            env={**environment, "PYTHONPATH": str(Path(cli.__file__).parents[2])},
            capture_output=True,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr.decode()
        made.append([(file.name, file.read_bytes()) for file in sorted((home / "out").iterdir())])
    assert made[0] == made[1]


BAD = {
    "ttft": (["plan", "--ttft", "0"], ["ttft_s", "> 0", "0.0"]),
    "tpot": (["plan", "--tpot", "-1"], ["tpot_s", "> 0", "-1.0"]),
    "percentile": (["plan", "--percentile", "101"], ["percentile", "[1, 100]", "101"]),
    "tolerance": (["plan", "--tolerance", "0"], ["tolerance", "(0, 1]", "0.0"]),
    "pools": (["plan", "--pools", "1,two"], ["--pools", "'two'"]),
    "pool of zero": (["plan", "--pools", "0"], ["--pools", "'0'"]),
    "pool of nan": (["plan", "--pools", "nan"], ["--pools", "'nan'"]),
    "no pool left": (["plan", "--pools=-999"], ["-999 GiB", "no page"]),
    "by": (["plan", "--by", "hope"], ["--by", "hope", "users"]),
    "warm-up": (["compare", "--warmup", "1"], ["warm-up", "[0, 1)", "1.0"]),
    "eviction": (["compare", "--evictions", "lru,lruu"], ["eviction policy 'lruu'", "did you mean lru"]),
    "queue policy": (["compare", "--policies", "fcfz"], ["queue policy 'fcfz'", "fcfs"]),
    "no policy": (["compare", "--policies", ","], ["policies", "at least one"]),
    "capacity": (["compare", "--capacities", "half"], ["--capacities", "'half'"]),
    "small capacity": (["compare", "--capacities", "15"], ["15 tokens", "page of 16"]),
    "negative share": (["compare", "--capacities=-5%"], ["-5%", "page of 16"]),
    "endless share": (["compare", "--capacities", "inf%"], ["'inf%'"]),
    "capacity twice": (["compare", "--capacities", "16,17"], ["none twice", "[16, 16]"]),
    "seeds": (["compare", "--seeds", "0"], ["seeds", "at least 1", "0"]),
    "workers": (["compare", "--workers", "0", "--first", "2"], ["workers", "at least 1", "0"]),
    "curve of nothing": (["curve", "--page-size", "0"], ["page_size", "0"]),
    "answers": (["curve", "--first-token", "-1"], ["first_token_s", ">= 0", "-1.0"]),
    "endless answers": (["curve", "--per-token", "inf"], ["token_s", "finite", "inf"]),
    "points": (["curve", "--points", "1"], ["--points", "1", "x>=2"]),
    "first": (["simulate", "--first", "0"], ["--first", "0", "x>=1"]),
    "k": (["simulate", "--k", "0"], ["--k", "0", "x>=1"]),
    "quantum": (["simulate", "--quantum", "-3"], ["--quantum", "-3", "x>=1"]),
    "overtakes": (["simulate", "--max-overtakes", "0"], ["max_overtakes", "0"]),
    "waiting": (["simulate", "--max-waiting", "0"], ["max_waiting", "0"]),
    "chunk": (["simulate", "--chunk", "0"], ["prefill_chunk_tokens", "0"]),
    "requests": (["simulate", "--requests", "r.txt"], [".csv", ".jsonl", "'r.txt'"]),
    "folder of requests": (["simulate", "--requests", "no/r.csv"], ["no such folder", "'no'"]),
}


@pytest.mark.parametrize(("arguments", "named"), BAD.values(), ids=BAD)
def test_a_bad_option_is_one_line_that_names_it(radixcache, arguments, named):
    code, stdout, stderr = radixcache(*arguments)
    assert (code, stdout) == (2, "")
    assert stderr.startswith("radixcache: ")
    assert stderr.count("\n") == 1
    for part in named:
        assert part in stderr


@pytest.mark.parametrize("given", ["num_sessions=x", "mean_turns=y", "num_sessions=-3"])
def test_a_bad_setting_of_a_plan_names_no_setting_that_nobody_gave(radixcache, given):
    code, stdout, stderr = radixcache("plan", "--set", given)
    assert (code, stdout) == (2, "")
    name, _, value = given.partition("=")
    assert name in stderr
    assert value in stderr
    assert "400" not in stderr


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_requests_are_written_one_by_one(radixcache, form):
    code, _, _ = radixcache("simulate", *SMALL, "--first", "6", "--requests", f"r.{form}", "--out", "out")
    assert code == 0
    lines = Path(f"r.{form}").read_text().splitlines()
    rows = list(csv.DictReader(lines)) if form == "csv" else [json.loads(line) for line in lines]
    assert [row["run"] for row in rows] == ["no cache"] * 6 + ["radix cache"] * 6
    result = from_json(Path("out/result.json").read_bytes())
    assert [int(row["matched_tokens"]) for row in rows[6:]] == [
        record.matched_tokens for record in result.runs[1].requests
    ]
    assert all(row["client"].startswith("assistant-") for row in rows)


def test_every_setting_of_the_scheduler_arrives(radixcache):
    arguments = ["--policy", "k-lpm", "--k", "3", "--quantum", "5000", "--chunk", "512", "--max-waiting", "9"]
    more = ["--max-overtakes", "33", "--no-in-flight-sharing", "--no-baseline", "--json"]
    _, stdout, _ = radixcache("simulate", *SMALL, *arguments, *more)
    found = json.loads(stdout)["config"]["scheduler"]
    assert found["policy_options"]["k"] == 3
    assert found["policy_options"]["quantum"] == 5000
    assert (found["prefill_chunk_tokens"], found["max_waiting"], found["max_overtakes"]) == (512, 9, 33)
    assert found["share_in_flight"] is False


def test_a_simulation_says_how_far_from_the_optimum_it_is_unless_told_not_to(radixcache):
    _, with_bounds, _ = radixcache("simulate", *SMALL)
    assert "hit / optimum" in with_bounds
    _, stdout, _ = radixcache("simulate", *SMALL, "--json")
    baseline, cached = json.loads(stdout)["runs"]
    assert baseline["bounds"] is None
    assert cached["bounds"]["optimum_tokens"] <= cached["bounds"]["ceiling_tokens"]
    _, stdout, _ = radixcache("simulate", *SMALL, "--json", "--no-bounds")
    assert json.loads(stdout)["runs"][1]["bounds"] is None


def test_a_plan_lists_every_probe(radixcache):
    _, stdout, _ = radixcache("plan", *COMMANDS["plan"], "--json")
    plan = json.loads(stdout)
    assert [pool["more_gib"] for pool in plan["pools"]] == [0.0, 0.5]
    assert plan["config"]["workload"]["settings"] == {"num_sessions": "3"}
    for pool in plan["pools"]:
        assert pool["probes"]
        assert pool["best"] is None or pool["best"] in pool["probes"]


def test_simulations_that_fail_are_told_after_the_others(radixcache, monkeypatch):
    def half_failed(call, jobs, **_):
        return ["Stalled: no way on" if job.policy == "lpm" else call(job) for job in jobs]

    monkeypatch.setattr(comparison, "run_all", half_failed)
    arguments = ("--seeds", "1", "--capacities", "50%", "--policies", "fcfs,lpm", "--out", "out")
    code, stdout, stderr = radixcache("compare", *SMALL, *arguments)
    assert code == 2
    assert "lru · fcfs" in stdout
    assert "1 of 2 simulations failed" in stderr
    assert stderr.count("\n") == 1
    assert json.loads(Path("out/result.json").read_text())["cells"][1]["error"] == "Stalled: no way on"


def test_an_option_of_the_hardware_has_one_default_but_for_what_plan_explains():
    found: dict[str, set[object]] = {}
    for name, command in cli.cli.commands.items():
        if not any(option.name == "gpu" for option in command.params):
            continue
        context = command.make_context(name, [], **command.context_settings)
        for option in HARDWARE:
            found.setdefault(option, set()).add((context.params[option], name == "plan" and option == "gpu"))
    assert set(found) == set(HARDWARE)
    assert {len(values) for option, values in found.items() if option != "gpu"} == {1}
    assert found["gpu"] == {(DEFAULT_GPU, False), ("L40S", True)}
    help_text = " ".join(CliRunner().invoke(cli.cli, ["plan", "--help"]).output.split())
    assert "L40S is the default of --gpu" in help_text
    assert f"the {DEFAULT_GPU} of the other commands" in help_text
    assert "[default: L40S]" in help_text


@pytest.mark.parametrize("name", COMMANDS)
def test_tables_begin_with_what_was_served_on_what(radixcache, name):
    assert radixcache(name, *COMMANDS[name])[1].startswith("chat on L4 with Qwen3-0.6B\n")


WIDE = {
    **COMMANDS,
    "simulate": SMALL,
    "compare": (
        *(
            "--set",
            "num_sessions=30",
            "--gpu",
            "L4",
            "--model",
            "Qwen3-0.6B",
            "--workers",
            "1",
            "--seeds",
            "2",
        ),
        *("--capacities", "16384,8192", "--evictions", "priority", "--policies", "fcfs,k-lpm"),
        *("--rate-scale", "300", "--first", "10"),
    ),
}


@pytest.fixture
def in_process(monkeypatch):
    """Simulations of a comparison without the processes, which take longer to start."""
    monkeypatch.setattr(comparison, "run_all", lambda call, jobs, **_: [call(job) for job in jobs])


def body(text: str) -> list[list[str]]:
    """Cells of the rows of all tables, line by line; a cell that was broken is on two lines."""
    rows = [line for line in text.splitlines() if line.startswith("\N{BOX DRAWINGS LIGHT VERTICAL}")]
    return [[cell.strip() for cell in row.split("\N{BOX DRAWINGS LIGHT VERTICAL}")] for row in rows]


@pytest.mark.parametrize("name", WIDE)
def test_tables_fit_80_columns_with_no_cell_broken(radixcache, monkeypatch, in_process, name):
    shown = {}
    for columns in ("80", "300"):
        monkeypatch.setenv("COLUMNS", columns)
        shown[columns] = radixcache(name, *WIDE[name])[1]
    assert max(map(len, shown["80"].splitlines())) <= 80
    assert body(shown["80"]) == body(shown["300"]) != []


def test_where_stdout_is_no_terminal_tables_are_as_wide_as_they_need_be(radixcache, monkeypatch, in_process):
    monkeypatch.delenv("COLUMNS")
    shown = radixcache("compare", *WIDE["compare"])[1]
    assert max(len(line) for line in shown.splitlines() if "\N{BOX DRAWINGS LIGHT VERTICAL}" in line) <= 80
    # Policies of one pool stand together, the smallest pool first.
    names = [f"priority \N{MIDDLE DOT} {policy}" for policy in ("fcfs", "k-lpm")]
    found = [row[1] for row in body(shown) if row[1]]
    assert found == ["8,192 tokens", *names, "16,384 tokens", *names] * 2


def test_where_answers_take_time_sessions_overlap_and_recency_finds_less(radixcache):
    found, notes = [], []
    for per_token in ("0", "0.5"):
        code, stdout, _ = radixcache("curve", "--workload", "agents", "--per-token", per_token, "--json")
        assert code == 0
        curve = json.loads(stdout)
        assert curve["config"]["answers"] == {"first_token_s": 0.0, "token_s": float(per_token)}
        (place,) = [each for each in curve["targets"] if each["share"] == 0.9]
        found.append(place["reached"]["capacity_tokens"])
        notes += curve["notes"]
    assert found[1] > 1.1 * found[0]
    assert any("as if every answer took no time" in note for note in notes)
    assert any("0 s to its first token and 0.5 s for each further one" in note for note in notes)
