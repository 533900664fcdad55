import importlib
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import bench.cli
from bench.errors import WrongResult
from bench.harness.report import Figure, Report
from bench.options import Options
from bench.peers.install import PeersMissing, python_of
from bench.peers.measure import measure
from bench.peers.ours import Ours
from bench.peers.standins import StandInFinder
from bench.peers.table import markdown
from bench.peers.worker import contenders
from bench.workloads import page_lru
from bench.workloads.generated_trace import generate

PINS = Path(bench.cli.__file__).parent / "peers"


class Forgetful(Ours):
    def peek(self, tokens):
        return 0


def test_ours_is_measured_by_the_program_that_measures_the_peers():
    trace = generate(20, seed=0)
    figures = measure(Ours, Options(size="tiny"), trace, (200_000,))
    oracle = page_lru.replay(trace, num_pages=12_500, page_size=16)
    (hit_rate,) = [figure for figure in figures if figure.name.startswith("hit rate")]
    assert hit_rate.samples["value"] == [oracle.matched_tokens / int(trace.prompt_lens.sum())]
    assert {"cpu", "wall"} <= set(figures[0].samples)


def test_contender_that_finds_the_wrong_tokens_is_refused():
    with pytest.raises(WrongResult, match="tokens found"):
        measure(Forgetful, Options(size="tiny"), generate(2, seed=0), (200_000,))


def test_missing_peers_are_said_in_one_line_with_the_remedy(tmp_path):
    result = CliRunner().invoke(bench.cli.main, ["peers", "--size", "tiny", "--folder", str(tmp_path)])
    assert result.exit_code == 2
    assert "bench peers --build" in result.output
    with pytest.raises(PeersMissing):
        python_of(tmp_path)


def test_every_label_names_the_pinned_version():
    pins = "".join(path.read_text() for path in PINS.glob("requirements*.txt"))
    for label in contenders(Path()):
        if label != "radixcache":
            name, version = label.split(",")[0].lower().split()
            assert f"{name}=={version}" in pins.splitlines()


def test_every_requirement_is_pinned():
    for path in PINS.glob("requirements*.txt"):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        assert lines
        assert all(line.count("==") == 1 for line in lines)


def test_stand_ins_answer_for_their_package_and_nothing_else(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [StandInFinder({"no_such_gpu"}), *sys.meta_path])
    module = importlib.import_module("no_such_gpu.kernels.fast")
    assert callable(module.launch)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_gpu_at_all")
    for name in [name for name in sys.modules if name.startswith("no_such_gpu")]:
        monkeypatch.delitem(sys.modules, name)


def test_table_leaves_empty_what_a_contender_lacks():
    def report(name: str, *figures: Figure) -> Report:
        return Report(name=name, question="", figures=figures)

    peek = Figure(name="peek", unit="us", samples={"cpu": [2.0, 4.0]})
    slow = Figure(name="peek", unit="us", samples={"cpu": [9.0, 9.0]})
    text = markdown([report("radixcache", peek), report("slow", slow), report("broken")])
    assert "| peek [us] | 3 / 4 | 9 / 9 (3.0 x) |  |" in text
