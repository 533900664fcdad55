# ruff: noqa: E501, T201 - texts of the product as they stand there; a command that prints
"""Faults planted into a copy of the product one at a time, and the test that notices each.

    python -m tests.planted_faults            plant all, print the table of tests/README.md
    python -m tests.planted_faults NAME ...   plant these only

A fault that no test notices is a hole in the tests. Exit status 1 if there is one.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
QUICK = {
    "radixcache": ("tests/fault/core", "tests/unit/radixcache"),
    "scheduler": ("tests/unit/scheduler", "tests/fault/scheduler"),
}
"""What is run against each fault of a package: no subset of it is chosen to fit a fault."""
SLOW = "torch or thousand or every_process or bytes_are_compared or nothing_heavy"


class Fault(NamedTuple):
    """One text of one file, and what a tired programmer would have written instead."""

    name: str
    file: str
    old: str
    new: str
    package: str = "radixcache"

    @property
    def path(self) -> Path:
        """The file, from the folder of the project."""
        return Path(self.package, self.file)


FAULTS = (
    Fault(
        "open forgets to lock the matched node",
        "cache.py",
        "        tree.lock(node)\n        how =",
        "        how =",
    ),
    Fault(
        "duplicate pages are freed and the page table still names them",
        "sequence.py",
        "        self._table[start : start + len(pages)] = pages\n",
        "",
    ),
    Fault(
        "reserved pages are published before they are written",
        "sequence.py",
        "        full = self.computed_len // cache.page_size\n"
        "        if full <= self._num_published or not self._writes:\n            return False\n",
        "        full = min(self.num_tokens, self.reserved_len) // cache.page_size\n"
        "        if full <= self._num_published or not self._writes:\n            return False\n",
    ),
    Fault(
        "a locked leaf stays in the eviction order",
        "tree.py",
        "            if at.entry is not None:\n                self.order.discard(at)\n            at = at.parent\n",
        "            at = at.parent\n",
    ),
    Fault(
        "an unlocked leaf does not return to the eviction order",
        "tree.py",
        "            if at.children is None and at.parent is not None:\n                self.order.add(at)\n",
        "",
    ),
    Fault(
        "a partial hit refreshes the tail behind it",
        "eviction/base.py",
        'What it knows now, it will inherit."""\n',
        'What it knows now, it will inherit."""\n        lower.stamp = self.tick()\n',
    ),
    Fault(
        "a hit refreshes nothing",
        "sequence.py",
        "            cache.tree.policy.touch(self._node, how.use)\n",
        "            pass\n",
    ),
    Fault(
        "a parent does not inherit its child's recency",
        "eviction/base.py",
        "        if child.stamp > parent.stamp:\n            parent.stamp = child.stamp\n",
        "        return\n",
    ),
    Fault(
        "a merge that changes the order of eviction",
        "eviction/base.py",
        "        return upper.stamp <= lower.stamp\n",
        "        return True\n",
    ),
    Fault(
        "a merge swallows a node that has a holder",
        "tree.py",
        "            and upper.lock_count == (1 if low.lock_count else 0)  # no holder of its own\n",
        "",
    ),
    Fault(
        "every published chunk is merged at once",
        "sequence.py",
        "        self._published_before = leaf is not None\n",
        "        self._published_before = leaf is not None\n        tree.collapse(node)\n",
    ),
    Fault(
        "idle chains are never merged",
        "tree.py",
        "        if run:\n            self._absorb(low, run)\n",
        "        return\n",
    ),
    Fault(
        "OutOfPages is raised after evicting what there was",
        "state.py",
        "            if short > self.num_evictable:\n                raise self.out_of_pages(num_pages)\n"
        "            self.evict(short)\n",
        "            if self.evict(short) < short:\n                raise self.out_of_pages(num_pages)\n",
    ),
    Fault(
        "eviction counts matched pages of the sequence itself as room",
        "state.py",
        "            if short > self.num_evictable:\n",
        "            if short > self.tree.num_pages:\n",
    ),
    Fault(
        "peek touches",
        "cache.py",
        "        return Match((walk.at // page_bytes",
        "        state.tree.policy.touch(walk.node, Use())\n        return Match((walk.at // page_bytes",
    ),
    Fault(
        "peek splits",
        "cache.py",
        "        return Match((walk.at // page_bytes",
        "        if walk.child is not None:\n            state.tree.split(walk.child, walk.child_pages)\n"
        "        return Match((walk.at // page_bytes",
    ),
    Fault(
        "abort gives back from the matched length on",
        "sequence.py",
        "            cache.give_back(self._table[self._num_published : self._num_pages])\n",
        "            first = self.matched_len // cache.page_size\n"
        "            cache.give_back(self._table[first : self._num_pages])\n",
    ),
    Fault(
        "a fork shares the partial page",
        "sequence.py",
        "            child._copy_from(self._table[published : published + num_own], partial, own)\n",
        "            child._add_pages(self._table[published : published + num_own])\n",
    ),
    Fault(
        "a page is freed while a copy out of it is awaited",
        "state.py",
        "        pages = self.copies.withhold(pages)\n",
        "",
    ),
    Fault(
        "the source of a copy is unlocked when the copy is ordered, not when it was made",
        "sequence.py",
        "        copies, self._copies = self._copies, []\n",
        "        copies, self._copies = self._copies, []\n        self._settle_sources()\n",
    ),
    Fault(
        "an offer that was not taken stays locked for ever",
        "sequence.py",
        "            source, self._offer = self._offer[0], None\n            cache.settle(source)\n",
        "            self._offer = None\n",
    ),
    Fault(
        "records of evictions outlive the page they stand on",
        "misses.py",
        "            self._generations[position] += 1\n",
        "",
    ),
    Fault(
        "the upper half of a split locked edge is unlocked",
        "tree.py",
        "        upper.lock_count = 1 if node.lock_count else 0\n",
        "",
    ),
    Fault(
        "a failed reserve counts the lookup",
        "sequence.py",
        "        if missing > 0:\n            if self._offer",
        "        if missing > self._cache.page_counts().available:\n            self._cache.counters.lookups += 1\n"
        "        if missing > 0:\n            if self._offer",
    ),
    Fault(
        "a resumed sequence counts as a first admission",
        "sequence.py",
        "            if how.resumed:\n",
        "            if False:\n",
    ),
    Fault(
        "a trim frees the pages at the head",
        "tree.py",
        "        pages = node.pages[start:end]\n",
        "        pages = node.pages[: end - start]\n",
    ),
    Fault(
        "the last victim goes whole",
        "tree.py",
        "            quota = min(self.policy.quota(node), num_pages)\n",
        "            quota = node.num_pages\n",
    ),
    Fault(
        "a match may cover the whole prompt",
        "cache.py",
        "    return (len(data) - TOKEN_BYTES) // page_bytes * page_bytes\n",
        "    return len(data) // page_bytes * page_bytes\n",
    ),
    Fault(
        "closing twice gives back twice",
        "lifecycle.py",
        '    "close": LIVE,\n',
        '    "close": tuple(SequenceState),\n',
    ),
    Fault(
        "a page may be given back twice",
        "allocator.py",
        "            if not 0 <= index < self.num_pages or flags[index]:\n",
        "            if not 0 <= index < self.num_pages:\n",
    ),
    Fault(
        "sequences of a retired namespace go on publishing",
        "sequence.py",
        "        return self._how.write and not self._node.root.retired\n",
        "        return self._how.write\n",
    ),
    Fault(
        "namespaces are joined without the lengths of their parts",
        "namespace.py",
        '        return b"s%d:" % len(encoded) + encoded\n',
        '        return b"s:" + encoded\n',
    ),
    Fault(
        "pages in flight are forgotten by nobody",
        "sequence.py",
        "            self._cache.in_flight.discard(self._flight)\n",
        "",
    ),
    Fault(
        "parents are reported gone before their children",
        "state.py",
        "[_report_of(victim) for victim in victims]",
        "[_report_of(victim) for victim in reversed(victims)]",
    ),
    Fault(
        "an index applies what comes after a gap",
        "page_index.py",
        "        if self.needs_snapshot or (event.epoch, event.sequence) != (self._epoch, self._next_sequence):\n",
        "        if self.needs_snapshot:\n",
    ),
    Fault(
        "a request is due one overtake too early",
        "overtakes.py",
        "if self._left_to(number, self._rows.row_of_first(number)) <= 0:",
        "if self._left_to(number, self._rows.row_of_first(number)) <= 1:",
        "scheduler",
    ),
    Fault(
        "an older admission counts as an overtake",
        "overtakes.py",
        "len(self._admitted) - bisect_right(self._admitted, number)",
        "len(self._admitted)",
        "scheduler",
    ),
    Fault(
        "an overtake counts for those younger than who was admitted",
        "overtakes.py",
        "            if near < number:\n",
        "            if True:\n",
        "scheduler",
    ),
    Fault(
        "clients of whom nobody is listed are not looked at as a round begins",
        "policies/matches.py",
        "            if leading.first() is None and leading.end != LAST:\n",
        "            if False:\n",
        "scheduler",
    ),
    Fault(
        "a cold prompt is offered only once",
        "waiting/order.py",
        "            node.entry = None\n            return entry is not None\n",
        "            return entry is not None\n",
        "scheduler",
    ),
    Fault(
        "a run goes on reading a prompt that waits no longer",
        "waiting/forest.py",
        "            if at.source is source:\n",
        "            if False:\n",
        "scheduler",
    ),
    Fault(
        "a key that was looked up is not written",
        "waiting/columns.py",
        "self.keys[rows] = list(self._unwritten.values())",
        "pass",
        "scheduler",
    ),
    Fault(
        "a key is written for who left",
        "waiting/columns.py",
        "        self._unwritten.pop(request.number, None)\n",
        "",
        "scheduler",
    ),
    Fault(
        "steps stay steady when somebody ends",
        "running.py",
        "            return False\n        self.stir()\n",
        "            return False\n",
        "scheduler",
    ),
    Fault(
        "a request that just fits is refused",
        "admission.py",
        "if own_pages.sum() > room:",
        "if own_pages.sum() >= room:",
        "scheduler",
    ),
    Fault(
        "points stay where evicted pages were",
        "waiting/anchors.py",
        "return pages[is_end].tolist() if 1 in is_end.tobytes() else []",
        "return []",
        "scheduler",
    ),
    Fault(
        "a preempted request comes back before anybody ended",
        "line.py",
        "is_too_soon = num_running > 0 and num_ended == request.ended_before",
        "is_too_soon = False",
        "scheduler",
    ),
    Fault(
        "a leader that ends leaves its followers held",
        "leaders.py",
        "        if led is not None:\n            self._policy.release(*led[1])\n\n    def published",
        "\n    def published",
        "scheduler",
    ),
    Fault(
        "outputs are taken in although they fit no row",
        "scheduler.py",
        "        taken = checked_outputs(plan, outputs)\n        guard.is_changing = True\n",
        "        self._open_plan = None\n        taken = checked_outputs(plan, outputs)\n        guard.is_changing = True\n",
        "scheduler",
    ),
    Fault(
        "an observer that raises hides what it was told from the others",
        "observer_errors.py",
        "                    self.note(observer, error)\n",
        "                    raise\n",
    ),
    Fault(
        "whoever is told within a call may call",
        "guard.py",
        "        if self.verb is not None:\n",
        "        if False:\n",
        "scheduler",
    ),
    Fault(
        "a call that broke off leaves no mark",
        "guard.py",
        "            if guard.is_changing:\n",
        "            if False:\n",
        "scheduler",
    ),
    Fault(
        "a plan that nobody gets stays open",
        "scheduler.py",
        "            self._give_up(plan)  # nobody will get it\n",
        "            self._open_plan = plan\n",
        "scheduler",
    ),
)


def text_with(fault: Fault) -> str:
    """The file with the fault in it.

    Raises:
        LookupError: The text to replace does not stand there exactly once: the list is out of date.
    """
    text = (ROOT / fault.path).read_text(encoding="utf-8")
    if text.count(fault.old) != 1:
        raise LookupError(f"{fault.name!r} cannot be planted: its text stands {text.count(fault.old)} times")
    return text.replace(fault.old, fault.new)


def plant(fault: Fault) -> str | None:
    """The first test that notices the fault; `None` if no test does."""
    mutated = text_with(fault)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for package in (*QUICK, "tests"):
            shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        (copy / fault.path).write_text(mutated, encoding="utf-8")
        options = ["-x", "-q", "--no-header", "--tb=no", "--timeout=60", "-k", f"not ({SLOW})"]
        options += ["-p", "no:randomly", "-p", "no:xdist"]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(copy)}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *QUICK[fault.package], *options],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{fault.name!r}: pytest ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return found[1].partition("[")[0]


def main(names: list[str]) -> int:
    """Plant faults and print which test noticed each, as a Markdown table."""
    chosen = [fault for fault in FAULTS if not names or fault.name in names]
    print("| fault | in | first noticed by |\n|---|---|---|")
    num_survivors = 0
    for fault in chosen:
        killer = plant(fault)
        num_survivors += killer is None
        where = "**nothing**" if killer is None else f"`{killer.removeprefix('tests/').replace('::', '` `')}`"
        print(f"| {fault.name} | `{fault.path}` | {where} |", flush=True)
    print(f"\n{len(chosen)} planted, {num_survivors} unnoticed", file=sys.stderr)
    return 1 if num_survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
