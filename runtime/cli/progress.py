"""Progress bars. They go to stderr, and only where a person looks at it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

OnProgress = Callable[[str, int], None]
"""Called with the name of a piece of work and how much of it was done since the last call."""


@contextmanager
def bars(totals: Mapping[str, int]) -> Iterator[OnProgress]:
    """One bar for each piece of work that is known from the start."""
    with _progress() as progress:
        tasks = {name: progress.add_task(name, total=total) for name, total in totals.items()}
        yield lambda name, done: progress.advance(tasks[name], done)


@contextmanager
def one_after_another(total: int) -> Iterator[OnProgress]:
    """One bar, started anew whenever another name is told; each piece of work is of the same size."""
    with _progress() as progress:
        task = progress.add_task("", total=total)
        told = ""

        def on_progress(name: str, done: int) -> None:
            nonlocal told
            if name != told:
                progress.reset(task, description=name)
                told = name
            progress.advance(task, done)

        yield on_progress


def _progress() -> Progress:
    columns = (TextColumn("{task.description:>12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
