import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

import bench.instructions.guard
from bench.errors import BenchError, Unavailable, WrongResult
from bench.instructions import tools
from bench.instructions.baselines import REMEMBERED, Baseline, accept, find, load, save, why_none
from bench.instructions.callgrind import section_totals
from bench.instructions.command import instructions
from bench.instructions.counting import Counts, count_instructions
from bench.instructions.operations import CALLS, GROWTHS, SETUPS, WARM_UP, Growth, Operation
from bench.instructions.program import count
from bench.instructions.requests import Requests
from bench.instructions.tools import Tools
from bench.instructions.verdicts import Change, compare, measure_growth
from bench.scenarios.steady_dispatch import SteadyDispatch

ROOT = Path(bench.instructions.guard.__file__).parents[2]
KEY = {"python": "CPython 3", "numpy": "2"}
FAKE_SETARCH = '#!/bin/sh\nshift\nexec "$@"\n'
FAKE_VALGRIND = """#!/bin/sh
for argument; do case $argument in --callgrind-out-file=*) name=${argument#*=};; esac; done
printf 'desc: Trigger: Client Request: peek\\n\\nevents: Ir\\n\\ntotals: 12345\\n' > "$name.1"
"""


def section(name, total="100", events="Ir"):
    return (
        f"pid: 1\ndesc: Trigger: Client Request: {name}\n\nevents: {events}\nsummary: 1\n\ntotals: {total}\n"
    )


def write(folder, *texts):
    for number, text in enumerate(texts):
        (folder / f"callgrind.1.{number}").write_text(text)
    return sorted(folder.iterdir())


class RecordedRequests:
    """Stands for requests to valgrind, and notes them."""

    def __init__(self):
        self.log = []

    def start(self):
        return lambda: self.log.append("start")

    def stop(self):
        return lambda: self.log.append("stop")

    def zero(self):
        return lambda: self.log.append("zero")

    def dump(self, name):
        return lambda: self.log.append(name)


class TestFiles:
    def test_sections_are_found_by_the_name_inside_the_file(self, tmp_path):
        end = "desc: Trigger: Program termination\nevents: Ir\ntotals: 7\n"
        files = write(tmp_path, section("peek, 8,192 tokens", "41"), end, section("lock", "0"))
        assert section_totals(files) == {"peek, 8,192 tokens": 41, "lock": 0}

    @pytest.mark.parametrize("text", [section("a", events="Ir Dr"), section("a").replace("totals", "total")])
    def test_file_without_a_plain_total_is_refused(self, tmp_path, text):
        with pytest.raises(BenchError, match=r"callgrind\.1\.0"):
            section_totals(write(tmp_path, text))

    def test_name_that_comes_twice_is_refused(self, tmp_path):
        with pytest.raises(BenchError, match="two sections 'a'"):
            section_totals(write(tmp_path, section("a"), section("a")))


class TestVerdicts:
    @pytest.mark.parametrize(
        ("before", "now", "verdict"),
        [
            (1000, 1000, "holds"),
            (1000, 1050, "holds"),
            (1000, 950, "holds"),
            (1000, 1051, "MORE"),
            (1000, 949, "FEWER"),
            (None, 1000, "NEW"),
            (1000, None, "GONE"),
        ],
    )
    def test_five_percent_either_way(self, before, now, verdict):
        assert Change("peek", before, now).verdict == verdict

    def test_what_is_missing_on_one_side_is_compared_too(self):
        assert compare({"old": 1, "peek": 2}, {"peek": 3, "new": 4}) == [
            Change("peek", 2, 3),
            Change("new", None, 4),
            Change("old", 1, None),
        ]

    def test_growth_is_the_ratio_of_two_sizes(self):
        (fits, exceeds) = measure_growth(
            [Growth("small", "large", 1.5), Growth("small", "large", 1.4)], {"small": 10, "large": 15}
        )
        assert (fits.factor, fits.holds, exceeds.holds) == (1.5, True, False)


class TestBaselines:
    def test_they_come_back_from_the_file_as_they_were(self, tmp_path):
        file = tmp_path / "baselines.json"
        baselines = accept((), KEY, compare({}, {"peek": 7}), "first", "abc")
        save(baselines, file)
        assert load(file) == baselines
        assert b'  "peek": 7' in file.read_bytes()

    def test_no_file_holds_none_and_a_broken_one_is_refused(self, tmp_path):
        assert load(tmp_path / "none.json") == ()
        (tmp_path / "broken.json").write_text('[{"key": 1}]')
        with pytest.raises(BenchError, match=r"broken\.json does not hold baselines"):
            load(tmp_path / "broken.json")

    def test_only_what_does_not_hold_moves(self):
        old = Baseline(KEY, {"drifted": 1000, "slower": 1000, "gone": 5})
        changes = compare(old.operations, {"drifted": 1040, "slower": 2000, "new": 3})
        (new,) = accept((old,), KEY, changes, "a reason", "abc")
        assert new.operations == {"drifted": 1000, "slower": 2000, "new": 3}
        (acceptance,) = new.history
        assert (acceptance.commit, acceptance.reason) == ("abc", "a reason")
        assert acceptance.changes == {"slower": (1000, 2000), "new": (None, 3), "gone": (5, None)}

    def test_nothing_to_accept_changes_nothing(self):
        old = (Baseline(KEY, {"peek": 1000}),)
        assert accept(old, KEY, compare({"peek": 1000}, {"peek": 1001}), "a reason", None) == old

    def test_other_machines_keep_theirs(self):
        other = Baseline({**KEY, "numpy": "1"}, {"peek": 1})
        first, second = accept((other,), KEY, compare({}, {"peek": 2}), "a reason", None)
        assert first == other
        assert (second.key, second.operations) == (KEY, {"peek": 2})

    def test_history_is_short(self):
        baselines = ()
        for number in range(REMEMBERED + 5):
            before = find(baselines, KEY) or Baseline(KEY, {})
            changes = compare(before.operations, {"peek": 2**number})
            baselines = accept(baselines, KEY, changes, f"reason {number}", None)
        assert [each.reason for each in baselines[0].history] == [
            f"reason {number}" for number in range(5, REMEMBERED + 5)
        ]

    def test_missing_set_names_what_differs_from_the_nearest_and_the_remedy(self):
        far = Baseline({"python": "PyPy", "numpy": "1"}, {})
        near = Baseline({**KEY, "numpy": "1"}, {})
        reason = why_none((far, near), KEY)
        assert "no baselines for numpy 2 (but for 1); " in reason
        assert "--accept --reason" in reason
        assert "there are no baselines; " in why_none((), KEY)


@pytest.fixture
def faked(monkeypatch):
    """Counts without valgrind: one dictionary, to be changed by the test."""
    counts = {name: 1000 for growth in GROWTHS for name in (growth.small, growth.large)}
    monkeypatch.setattr(bench.instructions.guard, "find_tools", lambda: Tools("valgrind", "setarch"))
    monkeypatch.setattr(bench.instructions.guard, "key", lambda _: KEY)
    monkeypatch.setattr(bench.instructions.guard, "count_instructions", lambda _: Counts(dict(counts), 1.0))
    return counts


def invoke(*arguments):
    return CliRunner().invoke(instructions, [str(argument) for argument in arguments])


class TestCommand:
    def test_it_is_skipped_with_the_reason_where_there_are_no_baselines(self, faked, tmp_path):
        file, document = tmp_path / "baselines.json", tmp_path / "run.json"
        result = invoke("--baselines", file, "--json", document)
        assert (result.exit_code, result.output[:32]) == (0, "skipped: there are no baselines;")
        assert list(msgspec.json.decode(document.read_bytes())) == ["skipped"]
        assert not file.exists()

    def test_accepted_counts_hold_until_one_drifts_in_either_direction(self, faked, tmp_path):
        file, document = tmp_path / "baselines.json", tmp_path / "run.json"
        name = GROWTHS[0].small
        assert invoke("--baselines", file, "--accept", "--reason", "first counts").exit_code == 0
        assert invoke("--baselines", file).exit_code == 0
        for now, verdict in ((1051, "MORE"), (949, "FEWER")):
            faked[name] = now
            result = invoke("--baselines", file, "--json", document)
            assert result.exit_code == 1
            assert verdict in result.output
            assert "--accept --reason" in result.output
            rows = msgspec.json.decode(document.read_bytes())["operations"]
            assert {"name": name, "before": 1000, "now": now, "verdict": verdict} in rows
        assert invoke("--baselines", file, "--accept", "--reason", "fewer pages are copied").exit_code == 0
        assert invoke("--baselines", file).exit_code == 0
        (baseline,) = load(file)
        assert [each.reason for each in baseline.history] == ["first counts", "fewer pages are copied"]
        assert baseline.history[-1].changes == {name: (1000, 949)}

    def test_missed_complexity_fails_and_cannot_be_accepted(self, faked, tmp_path):
        file = tmp_path / "baselines.json"
        faked[GROWTHS[0].large] = 2000
        result = invoke("--baselines", file, "--accept", "--reason", "first counts")
        assert result.exit_code == 1
        assert "complexity" in result.output
        result = invoke("--baselines", file)
        assert result.exit_code == 1
        assert "MISSED" in result.output

    @pytest.mark.parametrize("arguments", [["--accept"], ["--reason", "why"], ["--accept", "--reason", " "]])
    def test_nothing_is_accepted_without_a_reason(self, faked, tmp_path, arguments):
        result = invoke("--baselines", tmp_path / "baselines.json", *arguments)
        assert result.exit_code == 2
        assert "go together" in result.output

    def test_missing_tool_skips_a_comparison_and_fails_an_acceptance(self, monkeypatch, tmp_path):
        monkeypatch.setattr(tools.shutil, "which", lambda _: None)
        file = tmp_path / "baselines.json"
        assert "skipped: valgrind is not installed" in invoke("--baselines", file).output
        result = invoke("--baselines", file, "--accept", "--reason", "why")
        assert result.exit_code == 1
        assert "valgrind is not installed" in result.output


class TestTools:
    def test_missing_programs_are_named(self, monkeypatch):
        monkeypatch.setattr(tools.shutil, "which", lambda name: None if name == "setarch" else f"/{name}")
        with pytest.raises(Unavailable, match="setarch is not installed"):
            tools.find_tools()

    def test_interpreter_that_is_a_script_is_refused(self, monkeypatch, tmp_path):
        shim = program(tmp_path, "python", FAKE_SETARCH)
        monkeypatch.setattr(tools.shutil, "which", lambda name: f"/{name}")
        monkeypatch.setattr(tools.sys, "executable", shim)
        with pytest.raises(Unavailable, match="python, which is a script"):
            tools.find_tools()

    def test_kernel_that_insists_on_randomisation_is_told(self, monkeypatch, tmp_path):
        refusing = program(tmp_path, "setarch", "#!/bin/sh\necho Operation not permitted >&2\nexit 1\n")
        monkeypatch.setattr(tools.shutil, "which", lambda _: refusing)
        with pytest.raises(Unavailable, match="turned off here: Operation not permitted"):
            tools.find_tools()

    def test_key_tells_builds_of_one_version_apart(self, tmp_path):
        found = tools.key(
            Tools(program(tmp_path, "valgrind", "#!/bin/sh\necho valgrind-3.19.0\n"), "setarch")
        )
        assert found["valgrind"] == "3.19.0"
        assert found["python"].endswith(sys.version)
        assert all(isinstance(value, str) for value in found.values())


def program(folder, name, text):
    file = folder / name
    file.write_text(text)
    file.chmod(0o755)
    return str(file)


class TestCounting:
    @pytest.fixture
    def fakes(self, tmp_path):
        return Tools(
            valgrind=program(tmp_path, "valgrind", FAKE_VALGRIND),
            setarch=program(tmp_path, "setarch", FAKE_SETARCH),
        )

    def test_totals_are_divided_by_the_calls(self, fakes):
        assert count_instructions(fakes, ["-c", ""]).operations == {"peek": round(12345 / CALLS)}

    def test_program_sees_nothing_of_the_callers_environment(self, fakes, monkeypatch):
        monkeypatch.setenv("UNHEARD_OF", "1")
        monkeypatch.setenv("PYTHONHASHSEED", "7")
        test = 'import os; assert os.environ["PYTHONHASHSEED"] == "0"; assert "UNHEARD_OF" not in os.environ'
        count_instructions(fakes, ["-c", test])

    def test_program_that_fails_is_shown_with_what_it_said(self, fakes):
        with pytest.raises(BenchError, match="ValueError: so there"):
            count_instructions(fakes, ["-c", "raise ValueError('so there')"])

    def test_run_in_which_nothing_was_counted_is_an_error(self, fakes, tmp_path):
        program(tmp_path, "valgrind", "#!/bin/sh\n")
        with pytest.raises(BenchError, match="nothing was counted"):
            count_instructions(fakes, ["-c", ""])


class TestProgram:
    def test_warm_up_is_not_counted_and_the_marks_enclose_the_calls(self):
        requests = RecordedRequests()
        count([Operation("peek", lambda: requests.log.append("call"))], requests)
        calls = ["call"] * CALLS
        assert requests.log == ["call"] * WARM_UP + ["start", "zero", *calls, "peek", "stop"]

    def test_set_up_that_fails_ends_the_program_with_its_traceback(self):
        text = (
            "from bench.instructions.program import run\n"
            "def broken():\n    raise ValueError('so there')\n    yield\n"
            "run([broken])"
        )
        done = subprocess.run(
            [sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 1
        assert "ValueError: so there" in done.stderr

    def test_requests_do_nothing_on_a_bare_processor(self):
        try:
            requests = Requests()
        except Unavailable as missing:
            pytest.skip(str(missing))
        ready = [requests.start(), requests.zero(), requests.dump("peek"), requests.stop()]
        assert [request() for request in ready] == [0, 0, 0, 0]

    def test_requests_are_refused_on_other_processors(self, monkeypatch):
        monkeypatch.setattr("platform.machine", lambda: "riscv64")
        with pytest.raises(Unavailable, match="riscv64"):
            Requests()

    def test_every_set_up_verifies_and_every_name_that_is_relied_on_exists_once(self):
        names = []
        for setup in SETUPS:
            requests = RecordedRequests()
            count(setup(), requests)
            names += [name for name in requests.log if name not in {"start", "zero", "stop"}]
        assert len(names) == len(set(names))
        assert {name for growth in GROWTHS for name in (growth.small, growth.large)} <= set(names)
        for baseline in load():
            assert set(baseline.operations) == set(names)


class TestSteadyDispatch:
    @pytest.mark.parametrize("num_waiting", [9, 70])
    def test_one_is_served_and_one_arrives(self, num_waiting):
        scenario = SteadyDispatch("lpm", num_waiting, page_size=4, seed=0)
        scenario.prepare(100)
        for _ in range(100):
            scenario.dispatch()
        scenario.verify()

    def test_other_order_is_noticed(self):
        with pytest.raises(WrongResult, match="next"):
            SteadyDispatch("fcfs", 70, page_size=4, seed=0).verify()
