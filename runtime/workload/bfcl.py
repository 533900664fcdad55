"""The multi-turn tool tasks of the Berkeley Function Calling Leaderboard, from its Python package.

The package holds what users say and which functions there are, but no answers: a model has to give them. Only
its data files are read; none of its code is run.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec

from runtime.errors import WorkloadError
from runtime.workload.arrivals import ArrivalProcess
from runtime.workload.draws import check_counts, check_seconds, seeded
from runtime.workload.model import Session, Turn, Workload
from runtime.workload.traces.lines import decode, numbered_lines, read_bytes
from runtime.workload.traces.templated import ChatCodec, TemplatedPrompts

PACKAGE: Final = "bfcl-eval==2026.3.23"
"""What pip calls it, with the version that is known to work."""

_MODULE: Final = "bfcl_eval"
_TASKS: Final = "BFCL_v4_multi_turn_base.json"
_FUNCTIONS: Final = "multi_turn_func_doc"
_FILES: Final = {
    "GorillaFileSystem": "gorilla_file_system.json",
    "MathAPI": "math_api.json",
    "MessageAPI": "message_api.json",
    "TicketAPI": "ticket_api.json",
    "TradingBot": "trading_bot.json",
    "TravelAPI": "travel_booking.json",
    "TwitterAPI": "posting_api.json",
    "VehicleControlAPI": "vehicle_control.json",
}
_INTRODUCTION: Final = (
    "You act by calling functions. Answer with a list of calls, such as [name(argument=value)], and with "
    "nothing else. These are the functions, each with its parameters as a JSON schema:"
)


class _Task(msgspec.Struct, frozen=True):
    id: str
    question: list[list[dict[str, Any]]]
    involved_classes: list[str]
    excluded_function: list[str] = []


class _Function(msgspec.Struct, frozen=True):
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BfclTasks:
    """Which tasks, and how long answers are.

    Attributes:
        num_tasks: Tasks, >= 1; so many as there are, if there are fewer.
        first_task: How many to pass over, >= 0. Tasks of one tool set lie side by side; those from 120 on
            have one of the shorter ones.
        output_len: Tokens of every answer, >= 1.
        mean_think_s: Mean pause between an answer and the next request (exponential), seconds.
    """

    num_tasks: int = 2
    first_task: int = 120
    output_len: int = 16
    mean_think_s: float = 15.0

    def __post_init__(self) -> None:
        check_counts(num_tasks=self.num_tasks, output_len=self.output_len)
        check_seconds("mean_think_s", self.mean_think_s)
        if self.first_task < 0:
            raise WorkloadError(f"first_task {self.first_task} must be >= 0")

    def load(
        self, codec: ChatCodec, arrivals: ArrivalProcess, seed: int, folder: Path | None = None
    ) -> Workload:
        """The tasks as sessions: the functions are the system prompt, each request of the user is a turn.

        Args:
            codec: Tokenizer and chat template of the model that answers.
            arrivals: When tasks start.
            seed: Draws starts and pauses.
            folder: Where the data lies; `None`: in the installed package.

        Raises:
            WorkloadError: The package is not installed, or there is no such task.
            TraceError: A file of it is missing or is not what it should be.
            ValueError: The chat template refuses a system prompt or two messages of the user.
        """
        folder = bfcl_folder() if folder is None else folder
        tasks = list(_read(folder / _TASKS, _Task))[self.first_task :][: self.num_tasks]
        if not tasks:
            raise WorkloadError(f"first_task {self.first_task}: {_TASKS} has no task behind it")
        rng, prompts, library = seeded(seed), TemplatedPrompts(codec), _Library(folder / _FUNCTIONS)
        starts = arrivals.start_times(len(tasks), rng)
        sessions = []
        for task, start_s in zip(tasks, starts, strict=True):
            said: list[dict[str, Any]] = [{"role": "system", "content": library.text(task)}]
            turns: list[Turn] = []
            for request in filter(None, task.question):
                number = len(turns)
                said += request
                turns.append(
                    Turn(
                        segments=prompts.segments(said),
                        output_len=self.output_len,
                        after=(number - 1,) if number else (),
                        think_s=float(rng.exponential(self.mean_think_s)) if number else 0.0,
                        kind="follow-up" if number else "first",
                    )
                )
                said.append({"role": "assistant"})
            sessions.append(Session(session_id=task.id, start_s=float(start_s), turns=tuple(turns)))
        last = self.first_task + len(tasks) - 1
        notes = (
            f"Tasks {self.first_task} to {last} of {_TASKS}, in the form of the model's chat template.",
            "The functions that a task may call are its system prompt.",
            f"Every answer is what the model decodes, {self.output_len} tokens of it; no function is called.",
        )
        return Workload(name="bfcl", sessions=tuple(sessions), notes=notes)


def bfcl_folder() -> Path:
    """Where the data of the installed package lies. The package is found, never imported.

    Raises:
        WorkloadError: It is not installed.
    """
    spec = find_spec(_MODULE)
    if spec is None or spec.origin is None:
        raise WorkloadError(
            f"the workload 'bfcl' needs the package bfcl-eval: pip install --no-deps {PACKAGE}"
        )
    return Path(spec.origin).parent / "data"


class _Library:
    """Descriptions of functions, by the classes that have them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, list[tuple[str, str]]] = {}

    def text(self, task: _Task) -> str:
        """The system prompt of a task."""
        functions = [each for name in task.involved_classes for each in self._functions(name)]
        return "\n".join(
            [_INTRODUCTION, *(text for name, text in functions if name not in task.excluded_function)]
        )

    def _functions(self, class_name: str) -> list[tuple[str, str]]:
        known = self._known.get(class_name)
        if known is None:
            if class_name not in _FILES:
                raise WorkloadError(f"no file is known for the functions of {class_name!r}")
            path = self._folder / _FILES[class_name]
            decoder = msgspec.json.Decoder(_Function)
            known = self._known[class_name] = [
                (decode(decoder, line, path, number).name, line.decode())
                for number, line in numbered_lines(read_bytes(path))
            ]
        return known


def _read(path: Path, kind: type[_Task]) -> Iterator[_Task]:
    decoder = msgspec.json.Decoder(kind)
    for number, line in numbered_lines(read_bytes(path)):
        yield decode(decoder, line, path, number)
