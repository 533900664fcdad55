import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from radixcache.errors import InvalidArgument
from runtime import cli
from runtime.lab import page_trace
from runtime.lab.trace_summary import Spread, summarise_trace
from runtime.report.study_trace import trace_study
from runtime.terminal import render_study
from runtime.workload import load_trace
from runtime.workload.traces.anonymise import AnonymiseOptions
from runtime.workload.traces.keyed import KeyedHash
from tests.unit.runtime.simulated import follow_up, turn, workload
from tests.unit.runtime.trace_lines import ASKED, FOLLOW_UP, HEADER, line, read, write

MOONCAKE = '{"timestamp": 0, "input_length": 10, "output_length": 2, "hash_ids": [1]}\n'
SECRET = "a very secret salt"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """`radixcache trace` in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["radixcache", "trace", *arguments])
        try:
            cli.main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    named = {"tenant": "acme", "namespace": "lora-7", "kind": "greeting", "session": "ann@example.org"}
    lines = [each | named | {"turn": number} for number, each in enumerate((ASKED, FOLLOW_UP))]
    lines[0]["arrival"] = 1.25
    lines.append(line(["a", "q"], 8, arrival=6.5))
    return write(tmp_path / "trace.jsonl", *lines, header=HEADER | {"notes": ["At Ann's."]})


# validate


def test_a_good_file_is_valid(run, trace) -> None:
    assert run("validate", "trace.jsonl") == (0, "trace.jsonl: valid (radixcache)\n", "")


def test_all_violations_are_named_by_line_and_the_exit_code_is_2(run, tmp_path) -> None:
    write(
        tmp_path / "bad.jsonl", line(["a"], 5), line(["a"], 4), "nope", line(["a"], 4, think=1, arrival=None)
    )
    code, out, err = run("validate", "bad.jsonl")
    assert (code, err) == (2, "")
    *named, last = out.splitlines()
    assert [each.split(" ")[0] for each in named] == [f"bad.jsonl:{number}:" for number in (2, 4, 5, 5)]
    assert last == "bad.jsonl: 4 violations (radixcache)"


def test_sessions_are_checked_where_all_lines_are_right(run, tmp_path) -> None:
    lines = [
        line(["a"], 4, session="s", turn=number, after=after)
        for number, after in ((0, []), (0, []), (2, [1]))
    ]
    write(tmp_path / "bad.jsonl", *lines)
    code, out, _ = run("validate", "bad.jsonl")
    assert code == 2
    assert out.count("session 's'") == 2


def test_violations_stop_at_the_limit(run, tmp_path) -> None:
    write(tmp_path / "bad.jsonl", *["nope"] * 50)
    code, out, _ = run("validate", "bad.jsonl", "--limit", "3")
    assert (code, len(out.splitlines())) == (2, 4)
    assert "3 or more violations" in out


def test_a_verdict_is_json_on_request(run, tmp_path, trace) -> None:
    assert json.loads(run("validate", "trace.jsonl", "--json")[1])["valid"] is True
    write(tmp_path / "bad.jsonl", "nope")
    code, out, _ = run("validate", "bad.jsonl", "--json")
    (violation,) = json.loads(out)["violations"]
    assert (code, violation["line"]) == (2, 2)


def test_mooncake_files_are_checked_line_by_line_too(run, tmp_path) -> None:
    (tmp_path / "moon.jsonl").write_text(MOONCAKE + MOONCAKE.replace("[1]", "[]") + MOONCAKE + "{\n")
    code, out, _ = run("validate", "moon.jsonl")
    assert code == 2
    assert [each.split(" ")[0] for each in out.splitlines()[:2]] == ["moon.jsonl:2:", "moon.jsonl:4:"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["gone.jsonl"], "gone.jsonl: no such file"),
        (["trace.jsonl", "--format", "moonkake"], "did you mean mooncake"),
        (["trace.jsonl", "--limit", "0"], "--limit"),
        ([], "FILE"),
    ],
)
def test_what_cannot_be_checked_is_one_line(run, trace, arguments, named) -> None:
    code, _, err = run("validate", *arguments)
    assert code == 2
    assert err.count("\n") == 1
    assert named in err


# convert


def test_a_trace_of_another_format_is_converted(run, tmp_path) -> None:
    (tmp_path / "moon.jsonl").write_text(MOONCAKE * 2)
    code, out, err = run("convert", "moon.jsonl", "out.jsonl.gz")
    assert (code, out, err) == (0, "wrote 2 requests to out.jsonl.gz\n", "")
    assert load_trace(tmp_path / "out.jsonl.gz").num_turns == 2


def test_what_mooncake_cannot_say_is_said(run, trace, tmp_path) -> None:
    code, out, err = run("convert", "trace.jsonl", "--to", "mooncake", "out.jsonl")
    assert (code, out) == (0, "wrote 3 requests to out.jsonl\n")
    assert err.count("note: ") == 4
    assert load_trace(tmp_path / "out.jsonl").num_turns == 3


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["trace.jsonl", "trace.jsonl"], "OUT is FILE"),
        (["trace.jsonl", "out.jsonl", "--block-size", "0"], "block_size is an integer >= 1, got 0"),
        (["trace.jsonl", "out.jsonl", "--to", "mooncake", "--block-size", "16"], "512"),
        (["trace.jsonl", "no/out.jsonl"], "no such folder: 'no'"),
        (["trace.jsonl", "out.jsonl", "--to", "csv"], "csv"),
        (["trace.jsonl"], "OUT"),
    ],
)
def test_a_conversion_that_cannot_be_is_one_line_and_no_file(run, trace, tmp_path, arguments, named) -> None:
    code, _, err = run("convert", *arguments)
    assert code == 2
    assert err.count("\n") == 1
    assert named in err
    assert [each.name for each in tmp_path.iterdir()] == ["trace.jsonl"]


# anonymise


def test_nothing_is_left_but_lengths_times_and_sharing(run, trace, tmp_path) -> None:
    code, out, err = run("anonymise", "trace.jsonl", "out.jsonl", "--salt", SECRET)
    assert (code, out, err) == (0, "wrote 3 requests to out.jsonl\n", "")
    text = (tmp_path / "out.jsonl").read_text()
    for secret in (SECRET, "acme", "lora", "greeting", "ann@", "Ann", '"a"', '"b1"'):
        assert secret not in text
    before, after = read(trace)[1:], read(tmp_path / "out.jsonl")[1:]
    for name in ("input_length", "output_length", "turn"):
        assert [each.get(name) for each in before] == [each.get(name) for each in after]
    assert [each["arrival"] for each in after] == [0.0, 3.75, 5.25]
    assert after[0]["finished"] == 0.75


def test_an_anonymous_trace_is_served_like_the_original(run, trace, tmp_path) -> None:
    run("anonymise", "trace.jsonl", "out.jsonl", "--salt", SECRET, "--no-shift")
    original, anonymous = load_trace(trace), load_trace(tmp_path / "out.jsonl")
    traces = [page_trace(load, page_size=4) for load in (original, anonymous)]
    for name in ("known_pages", "path_pages", "previous", "start", "stop"):
        assert getattr(traces[0], name).tolist() == getattr(traces[1], name).tolist()
    assert [s.start_s for s in original.sessions] == [s.start_s for s in anonymous.sessions]


def test_equal_salts_give_equal_files_and_others_do_not(run, trace, tmp_path) -> None:
    (tmp_path / "salt").write_text(SECRET + "\n")
    run("anonymise", "trace.jsonl", "a.jsonl", "--salt", SECRET)
    run("anonymise", "trace.jsonl", "b.jsonl", "--salt-file", "salt")
    run("anonymise", "trace.jsonl", "c.jsonl", "--salt", SECRET + "!")
    a, b, c = (read(tmp_path / f"{name}.jsonl") for name in "abc")
    assert a == b
    ids = [{hash_id for each in lines[1:] for hash_id in each["hash_ids"]} for lines in (a, c)]
    assert not ids[0] & ids[1]


def test_equal_blocks_behind_unequal_prefixes_look_unrelated(run, tmp_path) -> None:
    write(tmp_path / "trace.jsonl", line(["a", "x"], 8), line(["b", "x"], 8), line(["a", "x", "a"], 12))
    run("anonymise", "trace.jsonl", "out.jsonl", "--salt", SECRET)
    first, second, third = (each["hash_ids"] for each in read(tmp_path / "out.jsonl")[1:])
    assert first == third[:2]
    assert len({*first, *second, *third}) == 5


def test_times_are_rounded_and_kinds_kept_on_request(run, trace, tmp_path) -> None:
    run(
        "anonymise",
        "trace.jsonl",
        "out.jsonl",
        "--salt",
        SECRET,
        "--no-shift",
        "--round",
        "0.5",
        "--keep-kinds",
    )
    header, *lines = read(tmp_path / "out.jsonl")
    assert [each["arrival"] for each in lines] == [1.0, 5.0, 6.5]
    assert lines[0]["kind"] == "greeting"
    assert "multiples of 0.5 s" in header["notes"][-1]


def test_traces_of_other_formats_are_anonymised_too(run, tmp_path) -> None:
    (tmp_path / "moon.jsonl").write_text(MOONCAKE * 2)
    assert run("anonymise", "moon.jsonl", "out.jsonl", "--salt", SECRET)[0] == 0
    assert load_trace(tmp_path / "out.jsonl").block_size == 512


@pytest.mark.parametrize(
    "arguments",
    [[], ["--salt", "short"], ["--salt", SECRET, "--salt-file", "trace.jsonl"], ["--salt-file", "gone"]],
)
def test_a_bad_salt_is_refused_and_never_shown(run, trace, tmp_path, arguments) -> None:
    code, out, err = run("anonymise", "trace.jsonl", "out.jsonl", *arguments)
    assert code == 2
    assert err.count("\n") == 1
    assert SECRET not in out + err
    assert "short'" not in err
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_times_are_rounded_to_finite_steps(seconds: float) -> None:
    with pytest.raises(InvalidArgument, match="finite number of seconds"):
        AnonymiseOptions(round_s=seconds)


def test_a_key_is_not_shown_where_it_is_too_short() -> None:
    with pytest.raises(InvalidArgument, match="at least 8 bytes, got 7") as caught:
        KeyedHash(b"hunter2")
    assert "hunter2" not in str(caught.value)


# describe


def test_a_summary_counts_what_is_there() -> None:
    first = turn(0, 8, output_len=8)
    load = workload(
        (1.0, [first, follow_up(first, 0, 90, 4, think_s=3.0)]), (2.0, [turn(0, 6, kind="short")])
    )
    summary = summarise_trace(load, 4)
    assert (summary.num_requests, summary.num_sessions, summary.num_waiting) == (3, 2, 1)
    assert (summary.num_contain_output, summary.num_namespaces, summary.num_tenants) == (1, 1, 0)
    assert (summary.duration_s, summary.requests_per_s) == (3.0, 1.0)
    assert summary.kinds == {"turn": 2, "short": 1}
    assert (summary.prompt_tokens.total, summary.prompt_tokens.largest) == (34, 20)
    # Found: 1 page of 4 by the third request, 3 pages of the first one's prompt and output by the second.
    assert summary.ideal_hit_rate == pytest.approx(16 / 34)
    assert summary.reuse_after_s is not None
    assert summary.reuse_after_s.mean == pytest.approx((1.0 + 2.0 + 2 * 3.0) / 4)
    assert summary.think_s is not None
    assert summary.think_s.p50 == 3.0


def test_nothing_shared_and_no_time_are_described_too() -> None:
    summary = summarise_trace(workload((0.0, [turn(0, 3)])))
    assert (summary.requests_per_s, summary.reuse_after_s, summary.think_s) == (None, None, None)
    assert (summary.capacity, summary.ideal_hit_rate) == ([], 0.0)


def test_a_trace_without_requests_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no request"):
        summarise_trace(workload())


def test_a_description_is_shown_as_tables_or_json(run, trace) -> None:
    code, out, _ = run("describe", "trace.jsonl")
    assert code == 0
    for shown in ("Ideal hit rate", "prompt tokens", "greeting", "note: At Ann's."):
        assert shown in out
    document = json.loads(run("describe", "trace.jsonl", "--json")[1])
    assert document["schema"] == "radixcache.trace"
    assert document["num_requests"] == 3


def test_a_bad_page_size_is_one_line(run, trace) -> None:
    code, _, err = run("describe", "trace.jsonl", "--page-size", "0")
    assert (code, err.count("\n")) == (2, 1)
    assert "page_size" in err


def test_out_in_a_folder_that_is_not_there_and_out_that_is_a_folder(run, trace) -> None:
    for verb in (("convert",), ("anonymise", "--salt", "long enough")):
        code, _, err = run(*verb, str(trace), "nowhere/out.jsonl")
        assert (code, err) == (2, "radixcache: no such folder: 'nowhere'\n")
        code, _, err = run(*verb, str(trace), ".")
        assert code == 2
        assert "'.' is a directory" in err


def test_one_request_is_spoken_of_as_one(run, tmp_path) -> None:
    (tmp_path / "one.jsonl").write_text(
        '{"timestamp": 0, "input_length": 9, "output_length": 2, "hash_ids": [1]}'
    )
    assert run("convert", "one.jsonl", "out.jsonl")[1] == "wrote 1 request to out.jsonl\n"
    out = run("describe", "one.jsonl")[1]
    assert "one.jsonl" in out
    assert "1 request of 1 session." in out
    assert "0.0 %" in out
    # Nothing is waited for, nothing is used again: no table without rows.
    assert "Times" not in out
    code, out, _ = run("validate", "one.jsonl", "--format", "radixcache")
    assert (code, out.splitlines()[-1]) == (2, "one.jsonl: 1 violation (radixcache)")


def test_a_description_fits_80_columns_with_no_cell_broken(trace) -> None:
    large = Spread(total=144_793_823, mean=12_035.1, p50=6_909, p90=27_367, p99=85_401, largest=126_195)
    summary = summarise_trace(load_trace(trace))
    changed = dict.fromkeys(("prompt_tokens", "output_tokens", "turns", "think_s", "reuse_after_s"), large)
    shown = io.StringIO()
    Console(file=shown, width=80).print(render_study(trace_study(replace(summary, **changed))))
    rows = [line for line in shown.getvalue().splitlines() if "126,195" in line or "35.1 h" in line]
    assert [row.split("\N{BOX DRAWINGS LIGHT VERTICAL}")[1].strip() for row in rows] == [
        "prompt tokens",
        "output tokens",
        "session turns",
        "pause before a turn",
        "page used again after",
    ]
