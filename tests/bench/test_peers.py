import dataclasses
import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from zipfile import ZipFile

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

import bench.cli
import bench.peers.ray as ray_adapter
import bench.peers.worker as worker
from bench.errors import WrongResult
from bench.harness.report import Figure
from bench.options import Options
from bench.peers import measure, schedule, weigh
from bench.peers.contender import Spec
from bench.peers.contenders import CONTENDERS, OURS
from bench.peers.document import (
    FORMAT,
    Document,
    Measured,
    NotTheSame,
    Repetition,
    decode,
    rotated,
)
from bench.peers.install import PeersMissing, installed_versions, python_of, unpack
from bench.peers.oracle import reckon
from bench.peers.ours import OurQueue, Ours
from bench.peers.reasons import reason
from bench.peers.standins import StandInFinder
from bench.peers.table import markdown, sections, standing
from bench.workloads import page_lru
from bench.workloads.generated_trace import generate

PINS = Path(bench.cli.__file__).parent / "peers"
TINY = Options(size="tiny")

FAKE_TREE = '''
import ray
from ray.serve._private.constants import SERVE_LOGGER_NAME


class PrefixTree:
    """Knows whole texts, in the order they came."""

    def __init__(self):
        self.texts, self.tenant_to_char_count = [], {}

    def add_tenants(self, tenants, time_s):
        self.tenant_to_char_count = dict.fromkeys(tenants, 0)

    def prefix_match(self, text, tenants):
        import os
        shared = [os.path.commonprefix([text, known]) for known in self.texts]
        return max(shared, key=len, default=""), tenants

    def insert(self, text, tenant, time_s):
        self.texts.append(text)
        self.tenant_to_char_count[tenant] += len(text)

    def evict_tenant_by_lru(self, tenant, size):
        while size > 0:
            gone = len(self.texts.pop(0))
            self.tenant_to_char_count[tenant] -= gone
            size -= gone


@ray.remote
class PrefixTreeActor(PrefixTree):
    pass
'''


class Forgetful(Ours):
    def peek(self, tokens):
        return 0


def figure(name, *samples, unit="us", clock="cpu"):
    return Figure(name=name, unit=unit, samples={clock: list(samples)})


def a_document(*repetitions, contenders=("radixcache", "Peer, slow"), compiled=(), **changes):
    """One whose repetitions hold that which each contender measured."""
    document = Document(
        format=FORMAT,
        cpu="a processor",
        cores=2,
        system="Linux x86_64",
        python="CPython 3.11.7",
        versions={"radixcache": "0.1.0"},
        peers={"peer": "1.2.3"},
        contenders=contenders,
        packages=dict.fromkeys(contenders, "peer") | {"radixcache": "radixcache"},
        compiled=compiled,
        seed=0,
        options=Options(trace="some_trace.jsonl"),
        config={"samples": 3, "waiting": [128, 1000]},
        repetitions=tuple(
            Repetition(commit=f"c{number}", dirty=False, rows=("peek",), measured=tuple(measured))
            for number, measured in enumerate(repetitions)
        ),
    )
    return dataclasses.replace(document, **changes)


def both(ours, theirs, name="peek, 8 tokens", *, peer="Peer, slow", **options):
    """What the two contenders of a repetition measured of one figure."""
    return (
        Measured(contender="radixcache", figures=(figure(name, *ours, **options),)),
        Measured(contender=peer, figures=(figure(name, *theirs, **options),)),
    )


def rows_of(document, title):
    (found,) = [part for part in sections(document) if part.title == title]
    return found.lines


# The measuring program


def test_ours_finds_what_the_oracle_finds_over_the_trace():
    trace = generate(20, seed=0)
    expected = reckon(trace, (200_000,), 16)
    figures = list(measure.replay(Ours, TINY, trace, expected, (200_000,), exact=True))
    oracle = page_lru.replay(trace, num_pages=12_500, page_size=16)
    assert figures[1].samples["value"] == [oracle.matched_tokens / int(trace.prompt_lens.sum())]
    assert set(figures[0].samples) == {"cpu", "wall"}


def test_replay_that_finds_other_tokens_than_the_oracle_is_refused():
    trace = generate(60, seed=0)
    expected = reckon(trace, (200_000,), 16)
    wrong = dataclasses.replace(expected, matched={200_000: expected.matched[200_000] + 16})
    with pytest.raises(WrongResult, match="over the trace"):
        list(measure.replay(Ours, TINY, trace, wrong, (200_000,), exact=True))
    impossible = dataclasses.replace(expected, infinite_matched=0)
    with pytest.raises(WrongResult, match="more than an infinite cache"):
        list(measure.replay(Ours, TINY, trace, impossible, (200_000,), exact=False))


def test_contender_that_finds_the_wrong_tokens_is_refused():
    with pytest.raises(WrongResult, match="tokens found"):
        list(measure.peek(Forgetful, TINY))


def test_series_of_evictions_starts_full_and_evicts_the_oldest_leaf_first():
    figures = list(measure.churn(Ours, TINY))
    assert [each.name.split(", ")[1] for each in figures] == ["all just touched", "steady"]


def test_conversion_is_measured_out_of_a_list_and_out_of_an_array():
    names = [each.name for each in measure.convert(Ours, TINY)]
    assert names == ["make tokens of a Python list, 1,024 tokens", "make tokens of NumPy int32, 1,024 tokens"]


def test_pass_of_our_queue_is_reported_under_both_orders_it_stands_for():
    figures = list(schedule.schedule(OurQueue, ("as shipped", "longest"), TINY, generate(60, seed=0)))
    assert [each.name for each in figures] == [
        "scheduling pass, as shipped, 16 waiting",
        "scheduling pass, longest, 16 waiting",
    ]
    assert figures[0].samples == figures[1].samples


def test_queue_that_names_the_wrong_request_is_refused(monkeypatch):
    monkeypatch.setattr(OurQueue, "head", lambda self: None)
    with pytest.raises((WrongResult, AssertionError)):
        list(schedule.schedule(OurQueue, ("longest",), TINY, generate(60, seed=0)))


def test_what_a_cached_token_weighs_counts_the_tokens_themselves():
    figures = {each.name: each for each in weigh.weigh(Ours, TINY, generate(60, seed=0), traced=True)}
    grown = figures["growth over an empty cache, tracemalloc"].samples["value"][0]
    whole = figures["growth over no cache, tracemalloc"].samples["value"][0]
    assert 4 < grown < whole < 8


def test_cache_that_holds_too_little_is_not_weighed():
    class Leaky(Ours):
        def cached_tokens(self):
            return 16

    with pytest.raises(WrongResult, match="16 tokens cached"):
        list(weigh.weigh(Leaky, TINY, generate(60, seed=0), traced=False))


def test_row_that_goes_wrong_is_reported_and_the_others_go_on(tmp_path, monkeypatch):
    trace = generate(20, seed=0)
    trace.save(tmp_path / "trace.npz")
    spec = Spec(package="peer", build=lambda _: Forgetful, lacks={"convert": "it has none"})
    monkeypatch.setitem(worker.CONTENDERS, "Forgetful", spec)
    job = worker.Job(
        "Forgetful",
        ("peek", "churn", "replay", "convert"),
        TINY,
        str(tmp_path / "trace.npz"),
        (200_000,),
        reckon(trace, (200_000,), 16),
        str(tmp_path),
    )
    measured = worker.run_job(job)
    assert set(measured.errors) == {"peek", "churn"}
    assert "WrongResult" in measured.errors["peek"]
    assert [each.name for each in measured.figures] == [
        "a request of the trace, 200,000 tokens of capacity",
        "hit rate, 200,000 tokens of capacity",
    ]
    assert measured.lacks == {"make tokens": "it has none"}


def test_job_travels_as_json():
    job = worker.Job("x", ("peek",), TINY, "t", (1,), reckon(generate(3, seed=0), (200_000,), 16), "f")
    assert msgspec.json.decode(msgspec.json.encode(job), type=worker.Job) == job


# Contenders and their installation


def test_every_package_of_a_contender_is_pinned():
    pins = "".join(path.read_text() for path in PINS.glob("requirements*.txt"))
    packages = {spec.package for label, spec in CONTENDERS.items() if label != OURS}
    assert packages == {"sglang", "vllm", "ray"}
    assert all(any(line.startswith(f"{package}==") for line in pins.splitlines()) for package in packages)


def test_every_requirement_is_pinned():
    for path in PINS.glob("requirements*.txt"):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        assert lines
        assert all(line.count("==") == 1 for line in lines)


def test_every_row_that_a_contender_lacks_exists():
    starts = {start for each in worker.STARTS.values() for start in each}
    for spec in CONTENDERS.values():
        for lacking in spec.lacks:
            assert lacking in worker.ROWS or lacking.startswith(tuple(starts))
        for remarked in spec.remarks:
            assert remarked.startswith(tuple(starts))


def test_versions_are_read_where_the_peers_are_installed(tmp_path):
    for folder, name in (("ray", "ray"), ("vllm", "vllm"), ("venv/lib/python3.11/site-packages", "sglang")):
        metadata = tmp_path / folder / f"{name}-9.8.7.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.8.7\n")
    assert installed_versions(tmp_path, {"ray", "sglang", "vllm", "torch"}) == dict.fromkeys(
        ("ray", "sglang", "vllm"), "9.8.7"
    )


def test_missing_peers_are_said_in_one_line_with_the_remedy(tmp_path):
    result = CliRunner().invoke(bench.cli.main, ["peers", "--size", "tiny", "--folder", str(tmp_path)])
    assert result.exit_code == 2
    assert "bench peers --build" in result.output
    with pytest.raises(PeersMissing):
        python_of(tmp_path)


def test_stand_ins_answer_for_their_package_and_nothing_else(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [StandInFinder({"no_such_gpu"}), *sys.meta_path])
    module = importlib.import_module("no_such_gpu.kernels.fast")
    assert callable(module.launch)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_gpu_at_all")
    for name in [name for name in sys.modules if name.startswith("no_such_gpu")]:
        monkeypatch.delitem(sys.modules, name)


def test_folder_of_other_versions_is_not_taken_for_complete(tmp_path):
    pins = "".join(path.read_text() for path in sorted(PINS.glob("requirements*.txt")))
    (tmp_path / "complete").write_text(pins)
    assert python_of(tmp_path) == tmp_path / "venv" / "bin" / "python"
    (tmp_path / "complete").write_text(pins.replace("sglang==", "sglang==0."))
    with pytest.raises(PeersMissing):
        python_of(tmp_path)


def test_of_a_wheel_only_the_prefix_tree_and_its_version_are_kept(tmp_path):
    with ZipFile(tmp_path / "ray.whl", "w") as archive:
        for name in (
            ray_adapter.SOURCE.as_posix(),
            "ray/__init__.py",
            "ray/thirdparty/x-1.dist-info/METADATA",
        ):
            archive.writestr(name, "")
        archive.writestr("ray-9.8.7.dist-info/METADATA", "Metadata-Version: 2.1\nName: ray\nVersion: 9.8.7\n")
    unpack(tmp_path / "ray.whl", tmp_path / "ray")
    kept = sorted(path.name for path in (tmp_path / "ray").rglob("*") if path.is_file())
    assert kept == ["METADATA", "prefix_tree.py"]
    assert installed_versions(tmp_path, {"ray"}) == {"ray": "9.8.7"}


@pytest.fixture
def ray_folder(tmp_path, monkeypatch):
    """A folder with a prefix tree where Ray's lies; nothing of it stays loaded."""
    for name in ("ray", "ray.serve", "ray.serve._private", "ray.serve._private.constants"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    monkeypatch.setitem(sys.modules, ray_adapter.LOADED, None)
    monkeypatch.delitem(sys.modules, ray_adapter.LOADED)
    path = tmp_path / ray_adapter.SOURCE
    path.parent.mkdir(parents=True)
    path.write_text(FAKE_TREE)
    yield tmp_path
    sys.modules.pop(ray_adapter.LOADED, None)


def test_tree_of_text_is_asked_with_text_and_answers_in_whole_pages(ray_folder):
    cache = ray_adapter.RayServe(4, 16, ray_folder)
    ids = np.arange(1 << 30, (1 << 30) + 40, dtype=np.int32)
    text = cache.make_tokens(ids)
    assert (len(text.whole), len(text.pages)) == (160, 128)
    assert text == cache.make_tokens(ids.tolist())
    assert cache.serve(text, None) == 0
    assert (cache.peek(text), cache.cached_tokens()) == (32, 32)
    assert cache.peek(cache.make_tokens(ids[:32])) == 16  # the last token is never matched


def test_tree_of_text_gives_back_what_is_too_much(ray_folder):
    cache = ray_adapter.RayServe(4, 16, ray_folder)
    texts = [cache.make_tokens(np.full(33, number, dtype=np.int32)) for number in range(3)]
    for text in texts:
        cache.serve(text, None)
    assert [cache.peek(text) for text in texts] == [0, 32, 32]
    with pytest.raises(NotImplementedError, match="owns no pages"):
        cache.hold(texts[0])


# Documents


def test_order_rotates_so_that_each_contender_begins_once():
    labels = ["a", "b", "c"]
    orders = [rotated(labels, number) for number in range(4)]
    assert orders == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], ["a", "b", "c"]]


def test_document_can_be_read_back():
    document = a_document(both([1.0, 2.0, 3.0], [9.0]))
    assert decode(msgspec.json.encode(document)) == document


def test_document_of_another_format_is_refused():
    with pytest.raises(NotTheSame, match="radixcache-bench-peers-1"):
        decode(msgspec.json.encode(a_document(format="radixcache-bench-peers-1")))


def test_resumed_run_keeps_the_samples_of_both_by_repetition():
    first, second = a_document(both([1.0], [9.0])), a_document(both([3.0], [5.0]))
    merged = first.extended(second)
    assert merged.centers("radixcache", "peek, 8 tokens") == [1.0, 3.0]
    assert merged.centers("Peer, slow", "peek, 8 tokens") == [9.0, 5.0]
    assert len(first.repetitions) == 1


def test_resumed_run_may_measure_a_part_only():
    ours_only = (both([3.0], [5.0])[0],)
    merged = a_document(both([1.0], [9.0])).extended(a_document(ours_only))
    assert merged.centers("radixcache", "peek, 8 tokens") == [1.0, 3.0]
    assert merged.centers("Peer, slow", "peek, 8 tokens") == [9.0]


@pytest.mark.parametrize(
    "changes", [{"cpu": "another"}, {"peers": {"peer": "2"}}, {"options": Options(seed=1)}]
)
def test_runs_under_other_conditions_are_not_merged(changes):
    with pytest.raises(NotTheSame, match=f"{next(iter(changes))} differs"):
        a_document().extended(a_document(**changes))


# The table


def test_cell_shows_min_median_and_max_over_the_repetitions_medians_and_the_ratio():
    document = a_document(both([1.0, 2.0, 90.0], [20.0]), both([4.0], [50.0, 50.0, 1.0]), both([3.0], [40.0]))
    assert "| peek, 8 tokens [us] | 2 / 3 / 4 | 20 / 40 / 50 (13.3 x) |" in rows_of(document, "Long hit")
    assert rows_of(document, "Where ours is behind, or not five times ahead of Python") == ("Nowhere.",)


def test_row_that_is_lost_says_so_and_why():
    name, peer = "evict a page and insert a leaf", "vLLM, xxhash"
    document = a_document(both([2.0], [1.0], name=name, peer=peer), contenders=("radixcache", peer))
    lines = rows_of(document, "Eviction")
    assert lines[2] == f"| {name} [us] | 2 / 2 / 2 | 1 / 1 / 1 (0.5 x) **behind** [1] |"
    assert lines[-1] == f"* [1] {reason(peer, name)}."
    (lost,) = rows_of(document, "Where ours is behind, or not five times ahead of Python")
    assert lost.startswith(f"* **behind**, {peer}: {name} (0.5 x). It has no tree")


def test_peer_in_python_has_to_be_five_times_behind_and_a_compiled_one_only_behind():
    repetition = both([2.0], [9.0])
    assert standing(a_document(repetition), "Peer, slow", "peek, 8 tokens", "us").mark == "under 5 x"
    compiled = a_document(repetition, compiled=("Peer, slow",))
    assert standing(compiled, "Peer, slow", "peek, 8 tokens", "us").mark == ""
    assert "not explained yet" in markdown(a_document(repetition))


def test_higher_hit_rate_is_the_better_one():
    unit = "share of prompt tokens"
    for ours, theirs, mark in ((0.3, 0.2, ""), (0.3, 0.3, ""), (0.2, 0.3, "behind")):
        document = a_document(both([ours], [theirs], name="hit rate", unit=unit, clock="value"))
        assert standing(document, "Peer, slow", "hit rate", unit).mark == mark


def test_what_a_contender_lacks_is_empty_with_the_reason():
    ours, theirs = both([2.0], [40.0])
    ours = dataclasses.replace(ours, figures=(*ours.figures, figure("peek, 9 tokens", 3.0)))
    theirs = dataclasses.replace(
        theirs, lacks={"peek, 9": "it is too long"}, remarks={"peek, 8": "it hashes"}
    )
    lines = rows_of(a_document((ours, theirs)), "Long hit")
    assert "| peek, 8 tokens [us] | 2 / 2 / 2 | 40 / 40 / 40 (20.0 x) [1] |" in lines
    assert "| peek, 9 tokens [us] | 3 / 3 / 3 | none [2] |" in lines
    assert lines[-2:] == ("* [1] it hashes.", "* [2] it is too long.")


def test_contender_without_any_figure_of_a_table_is_named_below_it():
    ours = both([2.0], [40.0])[0]
    lacking = Measured(contender="Peer, slow", lacks={"peek": "it cannot look"})
    lines = rows_of(a_document((ours, lacking)), "Long hit")
    assert lines[0] == "| figure | radixcache 0.1.0 |"
    assert lines[-1] == "* Peer, slow: it cannot look."


def test_failure_has_a_section_of_its_own_and_the_others_are_shown():
    broken = Measured(contender="Peer, slow", errors={"peek": "Traceback\nWrongResult: tokens found"})
    document = a_document((both([2.0], [40.0])[0], broken))
    assert rows_of(document, "Failed") == ("* repetition 1, Peer, slow, peek: WrongResult: tokens found",)
    assert "| peek, 8 tokens [us] | 2 / 2 / 2 | none |" in rows_of(document, "Long hit")


def test_page_says_where_it_was_taken_and_how_to_take_it_again():
    text = markdown(a_document(both([2.0], [40.0]), both([2.0], [40.0])))
    assert "commit c0; c1" in text
    assert "peers: peer 1.2.3" in text
    assert "settings: samples 3, waiting [128, 1000]" in text
    assert "`python -m bench peers --build --repetitions 2 --trace some_trace.jsonl`" in text


# The command


def test_ours_alone_needs_no_peers_and_a_run_can_be_resumed(tmp_path):
    document = tmp_path / "run.json"
    arguments = ["peers", "--size", "tiny", "--contenders", "radixcache", "--rows", "peek", "--rows", "hold"]
    arguments += ["--folder", str(tmp_path), "--repetitions", "1", "--json", str(document)]
    first = CliRunner().invoke(bench.cli.main, arguments)
    assert first.exit_code == 0, first.output
    again = CliRunner().invoke(bench.cli.main, [*arguments, "--resume", str(document)])
    assert again.exit_code == 0, again.output
    found = decode(document.read_bytes())
    assert len(found.repetitions) == 2
    assert len(found.centers("radixcache", "peek, 1,024 tokens")) == 2
    assert decode(again.stdout.splitlines()[-1].encode()) == found


def test_file_that_is_no_such_document_is_refused_before_anything_runs(tmp_path):
    path = tmp_path / "run.json"
    path.write_text("{}")
    arguments = ["peers", "--size", "tiny", "--contenders", "radixcache", "--resume", str(path)]
    result = CliRunner().invoke(bench.cli.main, arguments)
    assert result.exit_code == 2
    assert "missing required field" in result.output
