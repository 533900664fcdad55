import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixcache.errors import InvalidArgument
from runtime.errors import WorkloadError
from runtime.lab import page_trace
from runtime.workload import GENERATORS, Session, Turn, Workload, load_trace
from runtime.workload.traces.block_tree import BlockTree
from runtime.workload.traces.mooncake_writer import mooncake_lines, mooncake_losses
from runtime.workload.traces.native_writer import native_lines, write_lines, written_namespace
from tests.unit.runtime.simulated import follow_up, literal, turn, workload
from tests.unit.runtime.trace_lines import HEADER, line, load, read

SMALL = {"chat": {"num_sessions": 6}, "agents": {"num_sessions": 2}, "rag": {"num_sessions": 12}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


def written(load: Workload, path: Path, block_size: int | None = None) -> Workload:
    header, requests = native_lines(load, block_size)
    write_lines(path, [header, *requests])
    return load_trace(path)


def shape(load: Workload) -> list[tuple]:
    """All of a workload but its tokens."""
    return [
        (
            session.session_id,
            session.start_s,
            session.tenant,
            [(t.output_len, t.after, pytest.approx(t.think_s), t.namespace, t.kind) for t in session.turns],
        )
        for session in load.sessions
    ]


def same_reuse(a: Workload, b: Workload, page_size: int) -> bool:
    left, right = (page_trace(load, page_size=page_size) for load in (a, b))
    names = ("prompt_tokens", "known_pages", "path_pages", "request", "previous", "start", "stop")
    return all(getattr(left, name).tolist() == getattr(right, name).tolist() for name in names)


@pytest.mark.parametrize("name", SMALL)
def test_a_written_workload_is_read_back_with_the_same_turns_and_the_same_reuse(
    name: str, path: Path
) -> None:
    original = GENERATORS[name](**SMALL[name]).generate(3)
    again = written(original, path, 8)
    assert shape(again) == shape(original)
    assert same_reuse(again, original, 8)
    assert same_reuse(again, original, 16)


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=12), st.integers(1, 4)
)
@settings(max_examples=60, deadline=None)
def test_any_prompts_keep_their_reuse_in_whole_blocks(tmp_path_factory, prompts, block_size) -> None:
    turns = [Turn(segments=tuple(literal(token, 1) for token in prompt), output_len=2) for prompt in prompts]
    original = workload(*((float(number), [each]) for number, each in enumerate(turns)))
    again = written(original, tmp_path_factory.mktemp("any") / "trace.jsonl", block_size)
    assert same_reuse(again, original, block_size)


def test_writing_what_was_read_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    again = written(GENERATORS["chat"](num_sessions=4).generate(0), path)
    other = tmp_path / "other.jsonl"
    notes = replace(again, notes=tuple(read(path)[0]["notes"]))
    written(notes, other)
    assert other.read_bytes() == path.read_bytes()


def test_blocks_keep_their_ids(path: Path, tmp_path: Path) -> None:
    given = line([5, 0, 9], 11, arrival=0.5)
    (kept,) = list(native_lines(load(path, line([*range(9)], 36), given))[1])[1:]
    assert kept.hash_ids == [9, 10, 11]
    moon = tmp_path / "moon.jsonl"
    moon.write_text('{"timestamp": 7, "input_length": 700, "output_length": 2, "hash_ids": [40, 3]}\n')
    header, (request,) = native_lines(load_trace(moon))
    assert (header.block_size, request.hash_ids, request.arrival) == (512, [40, 3], 0.007)


def test_single_requests_name_no_session(path: Path) -> None:
    written(workload((0.0, [turn(0, 3)]), (1.0, [turn(9, 3)])), path)
    assert not {"session", "turn", "after"} & read(path)[1].keys()


def test_outputs_are_described_where_they_are_contained(path: Path) -> None:
    first = turn(0, 6, output_len=5)
    written(workload((0.0, [first, follow_up(first, 0, 50, 2, think_s=1.5)])), path, 4)
    _, asked, later = read(path)
    assert asked["output_hash_ids"][:1] == later["hash_ids"][1:2]
    assert later["after"] == [0]
    assert later["think"] == 1.5
    assert "arrival" not in later
    assert "output_hash_ids" not in later


def test_a_namespace_of_bytes_is_written_as_text() -> None:
    assert written_namespace(b"\x01\xff") == "bytes:01ff"
    assert written_namespace(("a", b"b")) == ["a", "bytes:62"]
    assert written_namespace(None) is None


def test_no_block_size_below_one() -> None:
    with pytest.raises(InvalidArgument, match="got 0"):
        native_lines(workload((0.0, [turn(0, 3)])), 0)


def test_a_packed_file_does_not_depend_on_its_name_or_the_time(tmp_path: Path) -> None:
    load = workload((0.0, [turn(0, 3)]))
    files = [tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"]
    for file in files:
        written(load, file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert gzip.decompress(files[0].read_bytes()).startswith(b'{"format":"radixcache"')


def test_a_file_that_breaks_off_leaves_what_was_there(path: Path) -> None:
    def lines():
        yield native_lines(workload((0.0, [turn(0, 3)])))[0]
        raise WorkloadError("no more")

    path.write_text("as it was")
    with pytest.raises(WorkloadError):
        write_lines(path, lines())
    assert path.read_text() == "as it was"
    assert [each.name for each in path.parent.iterdir()] == [path.name]


# Mooncake


def mooncake(load: Workload, path: Path) -> Workload:
    write_lines(path, mooncake_lines(load))
    return load_trace(path, "mooncake")


def test_a_mooncake_trace_survives_both_conversions(path: Path, tmp_path: Path) -> None:
    lines = [
        {"timestamp": 5, "input_length": 1030, "output_length": 4, "hash_ids": [0, 1, 2]},
        {"timestamp": 5, "input_length": 600, "output_length": 1, "hash_ids": [0, 3]},
        {"timestamp": 8.5, "input_length": 1024, "output_length": 9, "hash_ids": [0, 1]},
    ]
    path.write_text("".join(json.dumps(each, separators=(",", ":")) + "\n" for each in lines))
    there, back = tmp_path / "there.jsonl", tmp_path / "back.jsonl"
    mooncake(written(load_trace(path), there), back)
    assert back.read_bytes() == path.read_bytes()


def test_sessions_become_requests_by_arrival_with_blocks_of_512(path: Path) -> None:
    first = turn(0, 600, output_len=5)
    conversation = [first, follow_up(first, 0, 5000, 700, think_s=2.0)]
    load = workload((0.0, conversation), (1.0, [turn(0, 513)]))
    again = mooncake(load, path)
    assert [session.start_s for session in again.sessions] == [0.0, 1.0, 2.0]
    assert [each["hash_ids"] for each in read(path)] == [[0, 1], [0, 2], [0, 3, 4]]
    assert len(mooncake_losses(load)) == 2


def test_namespaces_share_nothing_in_a_format_without_them(path: Path) -> None:
    turns = [turn(0, 512, namespace=name) for name in ("a", "b", "a")]
    load = Workload(
        name="x",
        sessions=[Session(session_id=str(n), start_s=n, turns=(each,)) for n, each in enumerate(turns)],
    )
    mooncake(load, path)
    assert [each["hash_ids"] for each in read(path)] == [[0], [1], [0]]
    assert mooncake_losses(load) == ["Namespaces are left out; their blocks have ids of their own."]


# Blocks


@given(st.lists(st.lists(st.integers(0, 2), max_size=8), max_size=20), st.booleans())
def test_blocks_are_numbered_by_their_prefix(lists: list[list[int]], in_session: bool) -> None:
    tree = BlockTree(4)
    paths = [tree.prompt(blocks, "s" if in_session else None).tolist() for blocks in lists]
    numbers = {}
    for blocks, found in zip(lists, paths, strict=True):
        assert found == [
            numbers.setdefault(tuple(blocks[: depth + 1]), len(numbers)) for depth in range(len(blocks))
        ]


def test_many_sessions_are_forgotten_without_harm() -> None:
    tree = BlockTree(4)
    first = tree.prompt([1, 2], "first").tolist()
    for number in range(2000):
        tree.prompt([number], f"s{number}")
    assert tree.prompt([1, 2], "first").tolist() == first


def test_header_of_a_workload_names_its_block_size(path: Path) -> None:
    assert native_lines(load(path, line(["a"], 4)))[0].block_size == HEADER["block_size"]
