"""What valgrind runs: each set-up in a child of its own, each operation between two marks.

The children share the imports, so that these are paid once, and nothing else: what one set-up leaves in the
heap or teaches the interpreter reaches no other. Python's garbage collector is off: whether one of its passes
falls between two marks depends on what was allocated long before.
"""

import gc
import os
import sys
import traceback
from collections.abc import Iterable
from itertools import repeat

from bench.instructions.operations import CALLS, SETUPS, WARM_UP, Operation, Setup
from bench.instructions.requests import Requests


def count(operations: Iterable[Operation], requests: Requests) -> None:
    """Count each operation in a section that bears its name."""
    start, zero, stop = requests.start(), requests.zero(), requests.stop()
    for operation in operations:
        call, dump = operation.call, requests.dump(operation.name)
        for _ in repeat(None, WARM_UP):
            call()
        start()
        zero()
        for _ in repeat(None, CALLS):
            call()
        dump()
        stop()


def run(setups: Iterable[Setup] = SETUPS) -> None:
    """Count everything. Ends the process with exit code 1 at the first set-up that fails."""
    gc.disable()
    requests = Requests()
    for setup in setups:
        child = os.fork()
        if not child:
            os._exit(_succeeds(setup, requests))
        if os.waitpid(child, 0)[1]:
            sys.exit(1)


def _succeeds(setup: Setup, requests: Requests) -> int:
    try:
        count(setup(), requests)
    except BaseException:  # noqa: BLE001 - a child never goes on as its parent
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    run()
