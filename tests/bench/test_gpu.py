import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from bench.gpu.cli import main
from bench.gpu.clock import Budget, measure
from bench.gpu.contenders import contenders, times_tolerance
from bench.options import Options
from bench.scenarios.paged_step import PagedStep
from runtime.attention import HeadLayout, ReferenceBackend, TorchBackend

ROOT = Path(__file__).resolve().parents[2]
CPU = torch.device("cpu")


def run(*arguments: str) -> tuple[Result, dict]:
    result = CliRunner().invoke(main, ["--device", "cpu", *arguments])
    return result, json.loads(result.stdout.splitlines()[-1])


def test_the_command_checks_first_times_then_and_ends_with_json(tmp_path):
    file = tmp_path / "gpu.json"
    command = [sys.executable, "-m", "bench.gpu", "--device", "cpu", "--json", str(file)]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=one_thread, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout.splitlines()[-1])
    assert document == json.loads(file.read_text())
    assert document["right"] is True
    assert document["skipped"] == []
    assert document["options"]["size"] == "tiny"
    assert document["device"] == {"type": "cpu", "threads": document["device"]["threads"]}
    assert {"torch", "numpy", "radixcache"} <= set(document["versions"])
    assert {"commit", "dirty", "cpu", "python", "seconds", "backend"} <= set(document)
    assert all(check["holds"] for check in document["checks"])
    assert len(document["checks"]) == 16
    (report,) = document["benchmarks"]
    bounds = {figure["bound"]["name"] for figure in report["figures"] if figure["bound"]}
    assert {"no cache", "dense, no pages"} <= bounds
    assert all(len(figure["samples"]["wall"]) == 2 for figure in report["figures"])


def test_a_wrong_backend_fails_the_run_and_is_not_timed(monkeypatch):
    right = TorchBackend._run
    monkeypatch.setattr(TorchBackend, "_run", lambda self, *tensors: right(self, *tensors) * 1.01)
    result, document = run()
    assert result.exit_code == 1
    assert "WRONG: torch, float32" in result.stderr
    assert (document["right"], document["benchmarks"]) == (False, [])


def test_a_baseline_that_does_other_work_is_not_a_baseline(monkeypatch):
    monkeypatch.setattr("bench.gpu.speed.causal_lower_right", lambda queries, tokens: None)
    result = CliRunner().invoke(main, ["--device", "cpu"])
    assert result.exit_code == 1
    assert "error within twice the tolerance: found False, wanted True" in result.stderr


def test_what_the_budget_does_not_allow_is_named(monkeypatch):
    result, document = run("--seconds", "0")
    assert result.exit_code == 1
    assert (document["right"], document["checks"], document["benchmarks"]) == (False, [], [])
    assert len(document["skipped"]) == 8
    budget = Budget(100)
    assert budget.allows("this")
    assert budget.skipped == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_the_error_says_what_to_do():
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 1
    assert "there is no CUDA device here; --device cpu" in result.stderr


def test_a_device_that_does_not_exist_is_refused():
    result = CliRunner().invoke(main, ["--device", "abacus"])
    assert result.exit_code == 2
    assert "abacus" in result.stderr


def test_flashinfer_on_a_cpu_is_refused_in_one_line():
    result = CliRunner().invoke(main, ["--device", "cpu", "--backend", "flashinfer"])
    assert result.exit_code == 1
    assert "FlashInfer runs on cuda, got cpu" in result.stderr


def test_every_way_of_flashinfer_is_a_contender():
    names = [each.name for each in contenders("flashinfer", torch.device("cuda"))]
    assert names == ["flashinfer", "flashinfer, decodes apart", "flashinfer, shared prefix once"]


def test_error_that_is_not_a_number_is_infinite():
    wanted = torch.tensor([1.0, 2.0])
    assert times_tolerance(wanted, wanted) == 0
    assert times_tolerance(torch.tensor([1.0, 2.00003]), wanted) == pytest.approx(1.0, rel=0.05)
    assert times_tolerance(torch.tensor([math.nan, 2.0]), wanted) == math.inf


def test_samples_are_taken_in_turn_and_the_first_of_each_is_dropped():
    order = []
    calls = {name: lambda name=name: order.append(name) for name in ("a", "b")}
    samples = measure(calls, CPU, num_samples=2, calls_per_sample=3)
    assert order == ["a"] * 3 + ["b"] * 3 + ["a"] * 3 + ["b"] * 3 + ["a"] * 3 + ["b"] * 3
    assert {name: len(taken) for name, taken in samples.items()} == {"a": 2, "b": 2}


def paged_step(**settings: bool | int) -> PagedStep:
    return PagedStep(
        [(8, 1), (9, 4)],
        HeadLayout(4, 2, 8),
        page_size=4,
        dtype=torch.float32,
        device=CPU,
        seed=Options().seed,
        **settings,
    )


def test_rows_of_a_step_share_the_pages_they_should_and_no_others():
    step = paged_step(shared_pages=2)
    first, second = step.metadata.kv_indices[:3].tolist(), step.metadata.kv_indices[3:].tolist()
    assert first[:2] == second[:2]
    assert len({*first, *second}) == 3 + 2
    assert step.pool.num_pages == 3 + 2 + 1


def test_what_no_row_reads_is_not_a_number_and_the_rest_is():
    step = paged_step()
    assert int(step.pool.keys[0].isnan().all(dim=(2, 3)).sum()) == step.pool.num_pages * 4 - 9 - 13
    assert torch.isfinite(step.expected()).all()
    assert torch.isfinite(paged_step(poison=False).pool.keys[0]).all()


def test_a_row_without_pages_is_what_its_pages_hold():
    step = paged_step()
    keys, values = step.contiguous(1)
    assert keys.shape == values.shape == (2, 13, 8)
    backend = ReferenceBackend(step.heads, 4, torch.float32, CPU)
    step.plan(backend)
    scores = (step.query[-1].view(2, 2, 8) @ keys.transpose(1, 2)) / 8**0.5
    wanted = (scores.softmax(-1) @ values).view(4, 8)
    torch.testing.assert_close(step.run(backend)[-1], wanted)
