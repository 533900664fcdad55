import errno
import json
from pathlib import Path

import numpy as np
import pytest

from radixcache import CacheConfig, PrefixCache
from radixcache.errors import InvalidArgument
from runtime.executor import CostModelExecutor
from runtime.recording import RecordingFailed, TraceRecorder
from runtime.result import RunResult
from runtime.simulation import OpenLoop, Simulation
from runtime.workload import GENERATORS, Workload, load_trace
from runtime.workload.traces.native_scan import violations
from scheduler import Request, Scheduler, SchedulerConfig
from tests.unit.runtime.simulated import small_cost
from tests.unit.runtime.trace_lines import read
from tests.unit.scheduler.loop import Loop, ids

KEY = b"not for others"
PAGE_SIZE = 16
WORKLOADS = {
    "chat": {"num_sessions": 20},
    "rag": {"num_sessions": 60},
    "tree-of-thought": {"num_sessions": 4},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recorded.jsonl"


def recorder(path: Path, **more) -> TraceRecorder:
    return TraceRecorder(path, **({"key": KEY, "block_size": 2} | more))


def simulate(load: Workload, recorder: TraceRecorder | None = None) -> tuple[RunResult, float]:
    """The run and its hit rate, in a pool that is small enough for evictions."""
    cache = PrefixCache(CacheConfig(num_pages=1500, page_size=PAGE_SIZE))
    scheduler = Scheduler(cache, SchedulerConfig(policy="lpm"))
    if recorder is not None:
        scheduler.subscribe(recorder)
    run = Simulation(
        load, OpenLoop(), cache=cache, scheduler=scheduler, executor=CostModelExecutor(small_cost())
    ).run()
    return run, cache.stats.hit_rate


@pytest.mark.parametrize("named", [True, False], ids=["sessions named", "sessions found out"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_recorded_simulation_is_replayed_with_the_same_hit_rate(name: str, named: bool, path: Path) -> None:
    def session_of(request: Request) -> str | None:
        return request.request_id.rpartition("/")[0] if named else None

    load = GENERATORS[name](**WORKLOADS[name]).generate(5)
    more = {"block_size": PAGE_SIZE, "time_unit": "ps", "session_of": session_of}
    with recorder(path, **more) as recording:
        run, hit_rate = simulate(load, recording)
    again = load_trace(path)
    replayed, replayed_rate = simulate(again)
    assert hit_rate > 0.1
    assert replayed_rate == hit_rate
    assert again.num_turns == load.num_turns == recording.num_written
    totals = [
        [
            sum(getattr(record, field) for record in result.requests)
            for field in ("prompt_tokens", "output_tokens")
        ]
        for result in (run, replayed)
    ]
    assert totals[0] == totals[1]
    assert violations(path, 10) == []


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    load = GENERATORS["chat"](num_sessions=4).generate(1)
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file in files:
        with recorder(file, block_size=16, time_unit="ps") as recording:
            simulate(load, recording)
    assert files[0].read_bytes() == files[1].read_bytes()


# Beside a scheduler


def test_every_way_to_end_is_recorded(path: Path) -> None:
    loop = Loop()
    with recorder(path) as recording:
        loop.scheduler.subscribe(recording)
        for name in ("done", "gone", "left"):
            loop.scheduler.submit(Request.of(name, ids(1, 6), 4, client="acme"), now=1)
        loop.scheduler.abort("gone", now=2)
        plan = loop.scheduler.schedule(now=2)
        loop.scheduler.commit(
            plan, {row.request.request_id: [7] for row in plan.rows if row.max_tokens}, now=3
        )
        loop.scheduler.finish("done", now=4)
    lines = read(path)[1:]
    assert [(each.get("finished"), each["output_length"]) for each in lines[:2]] == [(2, 0), (4, 1)]
    assert "finished" not in lines[2]
    assert {each["arrival"] for each in lines} == {1}
    assert recording.num_written == 3


def test_a_recorder_that_was_taken_off_hears_nothing(path: Path) -> None:
    loop = Loop()
    with recorder(path) as recording:
        loop.scheduler.subscribe(recording)
        loop.scheduler.unsubscribe(recording)
        loop.scheduler.submit(Request.of("a", ids(1, 6), 4), now=1)
    assert len(read(path)) == 1
    with pytest.raises(InvalidArgument, match="not subscribed"):
        loop.scheduler.unsubscribe(recording)


def test_a_full_disk_stops_the_recording_not_the_engine(path: Path, monkeypatch) -> None:
    loop = Loop()
    recording = recorder(path)
    loop.scheduler.subscribe(recording)

    def full(line: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(recording._writer, "write", full)
    loop.scheduler.submit(Request.of("a", ids(1, 6), 4), now=1)
    loop.scheduler.abort("a", now=2)
    assert loop.scheduler.is_idle
    with pytest.raises(RecordingFailed, match=r"ends after 0 requests.*No space left"):
        recording.close()
    recording.close()


def test_a_time_that_is_none_is_told_at_the_end(path: Path) -> None:
    loop = Loop()
    recording = recorder(path)
    loop.scheduler.subscribe(recording)
    loop.scheduler.submit(Request.of("a", ids(1, 6), 4), now=-1)
    loop.scheduler.abort("a", now=2)
    with pytest.raises(RecordingFailed, match="finite number >= 0, got -1"):
        recording.close()


# Beside a cache


def test_no_token_and_no_name_leaves_the_process(path: Path) -> None:
    with recorder(path) as recording:
        asked = recording.opened(
            [123456, 234567, 345678], "lora-7", now=0.5, session="ann", tenant="acme", kind="greeting"
        )
        recording.closed(asked, [456789, 567891], now=0.75)
    text = path.read_text()
    for secret in ("123456", "234567", "345678", "456789", "567891", "lora", "ann", "acme", KEY.decode()):
        assert secret not in text
    (written,) = read(path)[1:]
    assert (written["input_length"], written["output_length"], written["kind"]) == (3, 2, "greeting")
    assert (written["arrival"], written["finished"]) == (0.5, 0.75)


def test_names_stay_on_request(path: Path) -> None:
    with recorder(path, keep_names=True) as recording:
        recording.opened([1, 2], ("lora", b"\x01"), now=0, session="ann", tenant="acme")
    (written,) = read(path)[1:]
    assert (written["session"], written["tenant"]) == ("ann", "acme")
    assert written["namespace"] == ["lora", "bytes:01"]


def test_a_next_prompt_continues_the_blocks_of_prompt_and_output(path: Path) -> None:
    with recorder(path) as recording:
        recording.closed(recording.opened([1, 2, 3], now=0), [4, 5, 6], now=1)
        recording.opened([1, 2, 3, 4, 5, 6, 7], now=2)
        recording.opened([1, 2, 3, 4], "other", now=2)
    first, second, third = read(path)[1:]
    assert first["hash_ids"][:1] + first["output_hash_ids"] == second["hash_ids"][:3]
    assert first["hash_ids"][1] != first["output_hash_ids"][0]
    assert not set(third["hash_ids"]) & set(second["hash_ids"])


def test_equal_keys_make_files_that_can_be_put_together(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("a", "b", "c")}
    for name, key in {"a": KEY, "b": KEY, "c": KEY + b"!"}.items():
        with recorder(files[name], key=key) as recording:
            recording.opened([1, 2, 3, 4], now=0)
    a, b, c = (read(file)[1]["hash_ids"] for file in files.values())
    assert a == b
    assert not set(a) & set(c)


def test_open_requests_are_bounded_and_the_oldest_is_written_as_it_is(path: Path) -> None:
    with recorder(path, max_open=2) as recording:
        opened = [recording.opened([number], now=number) for number in range(3)]
        assert recording.num_written == 1
        recording.closed(opened[0], [9], now=5)
        recording.closed(opened[1], [9], now=5)
        recording.closed(opened[1], [9], now=6)
    assert [(each["arrival"], each.get("finished")) for each in read(path)[1:]] == [
        (0, None),
        (1, 5),
        (2, None),
    ]


def test_what_was_written_can_be_read_while_recording_goes_on(path: Path) -> None:
    recording = recorder(path)
    recording.closed(recording.opened([1], now=0), [], now=1)
    recording.flush()
    assert len(read(path)) == 2
    recording.close()
    recording.flush()


def test_numbers_of_numpy_are_written_as_plain_ones(path: Path) -> None:
    with recorder(path) as recording:
        asked = recording.opened(np.array([1, 2]), now=np.int64(3))
        recording.closed(asked, np.array([4]), now=np.float64(4.5))
    assert [read(path)[1][name] for name in ("arrival", "finished")] == [3, 4.5]


def test_a_packed_recording_is_read_like_any(tmp_path: Path) -> None:
    path = tmp_path / "recorded.jsonl.gz"
    with recorder(path) as recording:
        recording.opened([1, 2, 3], now=0)
        recording.flush()
    assert load_trace(path).num_turns == 1


def test_notes_and_unit_stand_in_the_header(path: Path) -> None:
    recorder(path, time_unit="ms", notes=["Two hours of Monday."]).close()
    header = json.loads(path.read_text())
    assert header["time_unit"] == "ms"
    assert header["notes"][-1] == "Two hours of Monday."


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"key": b"short"}, "at least 8 bytes, got 5"),
        ({"block_size": 0}, "got 0"),
        ({"max_open": 0}, "got 2 and 0"),
        ({"time_unit": "h"}, "'h'"),
    ],
)
def test_bad_settings_are_refused_before_a_file_is_made(path: Path, settings, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        recorder(path, **settings)
    assert not path.exists()


def test_bad_calls_are_refused_and_change_nothing(path: Path) -> None:
    with recorder(path) as recording:
        with pytest.raises(InvalidArgument, match="at least one token"):
            recording.opened([], now=0)
        with pytest.raises(InvalidArgument, match="got nan"):
            recording.opened([1], now=float("nan"))
        asked = recording.opened([1], now=2)
        with pytest.raises(InvalidArgument, match="arrived at 2 cannot finish at 1"):
            recording.closed(asked, [], now=1)
        recording.closed(asked, [], now=3)
    assert len(read(path)) == 2
