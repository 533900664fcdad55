import json
from pathlib import Path

import pytest

from tests.unit.runtime.command_line import assert_one_line, call

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

import torch

from runtime.cli import model
from runtime.result import BASELINE_LABEL, CACHE_LABEL, from_json
from runtime.workload import bfcl
from tests.unit.runtime.test_bfcl import write_tasks
from tests.unit.runtime.test_report_page import own_part
from tests.unit.runtime.tiny_model import tiny_model, tiny_text

TORCH = ("--engine", "torch")
SMALL = ("--set", "num_sessions=2", "--set", "mean_turns=3")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """`radixcache simulate` with a tiny model, in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(model, "load_parts", lambda *_: (tiny_model(), tiny_text()))

    def command(*arguments: str) -> tuple[int, str, str]:
        return call(monkeypatch, capsys, "simulate", *arguments)

    return command


def test_the_report_is_that_of_a_simulation_with_measured_times(run):
    code, out, _ = run(*TORCH, *SMALL, "--out", "here", "--requests", "requests.csv")
    assert code == 0
    result = from_json(Path("here/result.json").read_bytes())
    baseline, cached = result.runs
    assert (baseline.label, cached.label) == (BASELINE_LABEL, CACHE_LABEL)
    assert len(baseline.requests) == len(cached.requests) > 2
    assert {record.status for each in result.runs for record in each.requests} == {"finished"}
    assert sum(record.matched_tokens for record in baseline.requests) == 0
    assert sum(record.matched_tokens for record in cached.requests) > 0
    assert result.times == "measured"
    for text in (out, own_part(Path("here/report.html").read_text())):
        assert "measured" in text
        assert "simulat" not in text.lower()
    assert len(Path("requests.csv").read_text().splitlines()) == 1 + 2 * len(cached.requests)


def test_the_configuration_names_the_machine_in_place_of_a_cost_model(run):
    document = json.loads(run(*TORCH, *SMALL, "--json", "--no-baseline")[1])
    machine = document["config"]["machine"]
    assert "cost_model" not in document["config"]
    assert (machine["device"], machine["dtype"], machine["threads"]) == ("cpu", "float32", 1)
    assert machine["model"]["name"] == "smollm2"
    assert machine["device_name"]
    assert "torch" in document["versions"]
    assert document["config"]["scheduler"]["token_budget"] == 512
    assert document["config"]["cache"]["capacity_from"] == "default"
    assert [each["label"] for each in document["runs"]] == [CACHE_LABEL]
    assert document["runs"][0]["bounds"]["ceiling_tokens"] > 0
    assert any("hashed into the model's vocabulary of 258" in note for note in document["notes"])


def test_what_is_given_goes_before_the_defaults(run):
    more = ("--capacity", "4096", "--token-budget", "64", "--page-size", "8", "--model", "mine")
    config = json.loads(run(*TORCH, *SMALL, "--json", "--no-baseline", *more)[1])["config"]
    assert config["scheduler"]["token_budget"] == 64
    assert (config["cache"]["num_pages"], config["cache"]["capacity_from"]) == (512, "given")
    assert config["machine"]["model"]["name"] == "mine"


def test_outputs_are_exactly_as_long_as_the_workload_says(run):
    Path("trace.jsonl").write_text(
        '{"timestamp": 0, "input_length": 10, "output_length": 400, "hash_ids": [1]}\n'
    )
    document = json.loads(run(*TORCH, "--trace", "trace.jsonl", "--json", "--no-baseline")[1])
    assert document["runs"][0]["requests"]["output_tokens"] == [400]


def test_requests_beyond_the_context_are_refused_and_counted(run, monkeypatch):
    monkeypatch.setattr(model, "load_parts", lambda *_: (tiny_model(max_context=200), tiny_text()))
    lines = [
        json.dumps({"timestamp": at, "input_length": size, "output_length": 4, "hash_ids": [at]})
        for at, size in enumerate((196, 197))
    ]
    Path("trace.jsonl").write_text("\n".join(lines))
    document = json.loads(run(*TORCH, "--trace", "trace.jsonl", "--json")[1])
    for each in document["runs"]:
        assert each["requests"]["status"] == ["finished", "refused"]
    assert len(document["warnings"]) == 2
    assert "201 tokens of prompt and output, the model's context holds 200" in document["warnings"][0]


def test_users_and_partial_reuse_work_as_in_a_simulation(run):
    code, out, _ = run(*TORCH, *SMALL, "--users", "2", "--partial-reuse", "--json")
    assert code == 0
    assert json.loads(out)["config"]["loop"] == "closed"


def test_chats_are_written_by_the_models_own_template(run):
    said = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}]
    answer = {"role": "assistant", "content": "hello"}
    Path("chat.jsonl").write_text(json.dumps({"messages": [*said, answer, said[1], answer]}))
    document = json.loads(run(*TORCH, "--trace", "chat.jsonl", "--json")[1])
    text = tiny_text()
    first = len(text.encode_chat(said))
    again = text.encode("<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    for each in document["runs"]:
        assert each["requests"]["output_tokens"] == [6, 6]
        assert each["requests"]["prompt_tokens"] == [first, first + 6 + len(again)]
    assert any("tokenizer 'smollm2'" in note for note in document["notes"])
    assert not any("hashed" in note for note in document["notes"])


BAD = {
    "a GPU": ((*TORCH, "--gpu", "L4"), ["--gpu is for --engine cost-model"]),
    "a share of peak": ((*TORCH, "--flops-fraction", "0.5"), ["--flops-fraction is for --engine cost-model"]),
    "a device without a model": (("--device", "cpu"), ["--device is for --engine torch"]),
    "threads without a model": (("--threads", "1"), ["--threads is for --engine torch"]),
    "tool tasks without a model": (("--workload", "bfcl"), ["'bfcl'", "--engine torch"]),
    "no page": ((*TORCH, "--page-size", "0"), ["page_size", "0"]),
    "capacity below a page": ((*TORCH, "--capacity", "15"), ["capacity of 15", "page of 16"]),
    "backend": ((*TORCH, "--backend", "torhc"), ["'torhc'", "torch"]),
    "workload": ((*TORCH, "--workload", "chats"), ["'chats'", "chat"]),
    "setting": ((*TORCH, "--set", "sessions=3"), ["'sessions'", "num_sessions"]),
    "setting out of range": ((*TORCH, "--set", "num_sessions=0"), ["num_sessions", "0"]),
    "setting of the tool tasks": ((*TORCH, "--workload", "bfcl", "--set", "x=1"), ["'x'", "num_tasks"]),
    "users at a rate": ((*TORCH, "--users", "1", "--rate-scale", "2"), ["--users", "--rate-scale"]),
    "engine": (("--engine", "steam"), ["'steam'"]),
}


@pytest.mark.parametrize(("arguments", "named"), BAD.values(), ids=BAD)
def test_a_bad_option_is_one_line_that_names_it(run, arguments, named):
    assert_one_line(run(*arguments), *named)


def test_the_tool_tasks_need_their_package(run, monkeypatch):
    monkeypatch.setattr(bfcl, "find_spec", lambda _: None)
    assert_one_line(run(*TORCH, "--workload", "bfcl"), "pip install --no-deps bfcl-eval==")


def test_the_tool_tasks_are_served_like_any_workload(run, monkeypatch, tmp_path):
    monkeypatch.setattr(bfcl, "bfcl_folder", lambda: write_tasks(tmp_path))
    more = ("--workload", "bfcl", "--set", "first_task=0", "--set", "output_len=3")
    document = json.loads(run(*TORCH, *more, "--json")[1])
    assert document["config"]["workload"]["tasks"] == "bfcl"
    baseline, cached = (each["requests"] for each in document["runs"])
    assert baseline["output_tokens"] == cached["output_tokens"] == [3, 3, 3]
    assert sum(cached["matched_tokens"]) > 0 == sum(baseline["matched_tokens"])


def test_a_device_that_runs_full_is_one_line(run, monkeypatch):
    def full(*_: object) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory\nand more")

    monkeypatch.setattr("runtime.engine.executor.TorchExecutor.execute", full)
    assert_one_line(run(*TORCH, *SMALL), "out of memory: CUDA out of memory")


def test_a_tokenizer_is_needed_for_tool_tasks(run, monkeypatch):
    monkeypatch.setattr(model, "load_parts", lambda *_: (tiny_model(), None))
    assert_one_line(run(*TORCH, "--workload", "bfcl"), "needs a model with a tokenizer")
