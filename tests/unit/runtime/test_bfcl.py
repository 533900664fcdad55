import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from runtime.errors import TraceError, WorkloadError
from runtime.workload import Constant, OutputOf, Workload, prompt_of
from runtime.workload.bfcl import BfclTasks
from tests.unit.runtime.tiny_model import tiny_text


def task(name: str, *requests: str, **more: Any) -> dict[str, Any]:
    question = [[{"role": "user", "content": request}] if request else [] for request in requests]
    return {"id": name, "question": question, "involved_classes": ["MathAPI"], "initial_config": {}} | more


TASKS = [task("t0", "add 1 and 2", "and 3"), task("t1", "", "log of 8", excluded_function=["log"])]


def write_tasks(folder: Path, tasks: list[dict[str, Any]] = TASKS) -> Path:
    (folder / "multi_turn_func_doc").mkdir(exist_ok=True)
    (folder / "BFCL_v4_multi_turn_base.json").write_text("\n".join(map(json.dumps, tasks)))
    functions = [{"name": "add", "parameters": {}}, {"name": "log", "parameters": {}}]
    text = "\n".join(map(json.dumps, functions))
    (folder / "multi_turn_func_doc" / "math_api.json").write_text(text)
    return folder


def load(folder: Path, **settings: Any) -> Workload:
    tasks = BfclTasks(**{"first_task": 0} | settings)
    return tasks.load(tiny_text(), Constant(rate_per_s=1.0), 0, folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tasks(tmp_path)


def test_functions_are_the_system_prompt_and_each_request_is_a_turn(folder: Path) -> None:
    first, second = load(folder).sessions
    assert [turn.output_len for turn in first.turns] == [16, 16]
    assert [turn.kind for turn in first.turns] == ["first", "follow-up"]
    answer = np.array([7, 7], dtype=np.int32)
    text = tiny_text().decode(prompt_of(first.turns[1], {0: answer}), skip_special_tokens=False)
    assert text.startswith("<|im_start|>system\nYou act by calling functions.")
    assert '"name": "add"' in text
    assert '"name": "log"' in text
    answered = tiny_text().decode(answer)
    assert (
        f"add 1 and 2<|im_end|>\n<|im_start|>assistant\n{answered}<|im_end|>\n<|im_start|>user\nand 3" in text
    )
    assert OutputOf(0) in first.turns[1].segments
    assert len(second.turns) == 1


def test_excluded_functions_are_left_out(folder: Path) -> None:
    text = tiny_text().decode(prompt_of(load(folder).sessions[1].turns[0], {}))
    assert '"name": "add"' in text
    assert '"name": "log"' not in text


def test_tasks_are_counted_from_the_first_that_is_wanted(folder: Path) -> None:
    assert [each.session_id for each in load(folder, first_task=1, num_tasks=5).sessions] == ["t1"]
    with pytest.raises(WorkloadError, match="first_task 2"):
        load(folder, first_task=2)


@pytest.mark.parametrize(
    "settings", [{"num_tasks": 0}, {"first_task": -1}, {"output_len": 0}, {"mean_think_s": float("nan")}]
)
def test_settings_are_checked(settings: dict[str, Any]) -> None:
    with pytest.raises(WorkloadError, match=next(iter(settings))):
        BfclTasks(**settings)


def test_a_class_that_nobody_knows_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="'ChessAPI'"):
        load(write_tasks(tmp_path, [task("t", "hi", involved_classes=["ChessAPI"])]))


def test_a_damaged_file_is_named_with_its_line(folder: Path) -> None:
    (folder / "multi_turn_func_doc" / "math_api.json").write_text('{"name": "add"}\n{"nome": "log"}')
    with pytest.raises(TraceError, match=r"math_api\.json:2: .*name"):
        load(folder)
    (folder / "BFCL_v4_multi_turn_base.json").unlink()
    with pytest.raises(TraceError, match="no such file"):
        load(folder)
