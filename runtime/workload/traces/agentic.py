"""Agentic-coding sessions as closed loops: the next request follows the answer and the recorded pause.

What the recordings show about sub-agents, and what is made of it: their prompts share no block with
the main agent's, but much with one another; they start right after the answer that asked for them; and
the time of their entry is when they reported back, just before the main agent's next request. So
a sub-agent's requests become turns with a chain of prompts of their own, the first of them after the
main agent's answer, and the main agent's next turn waits for the last of each. Entries without a
duration were started in the background: nobody waits for them.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from runtime.errors import TraceError
from runtime.workload.draws import seeded
from runtime.workload.model import FRESH_TOKEN_BASE, Session, Spans, Turn, Workload
from runtime.workload.traces.agentic_format import (
    AgentSession,
    Request,
    Runs,
    SubAgent,
    common_blocks,
    first_blocks,
    runs_of,
)
from runtime.workload.traces.lines import decode, numbered_lines, read_bytes
from runtime.workload.traces.notes import note_empty
from runtime.workload.traces.options import TraceOptions

NOTES: Final = (
    "Outputs carry no token ids in this format: they are fresh tokens, which occupy the cache and"
    " are never hit; the next prompt holds them as recorded blocks.\n"
    "Block ids cover full blocks only: the rest of each prompt is taken to be unlike any other.\n"
    "Sessions have no common clock: their start times were drawn by the seed.\n"
    "Sub-agents run beside the main agent, whose next request waits for all but background ones."
).splitlines()


def load_agentic(path: Path, options: TraceOptions) -> Workload:
    """Sessions of a packed file (a session a line), of an original file, or of a folder of these.

    Args:
        path: `.jsonl` (plain or gzip), `.json`, or a folder of `.json` files, taken by name.
        options: `seed` and `arrivals` draw the start times; `share_prefixes` and
            `model_namespaces` say what is shared.

    Raises:
        TraceError: See `runtime.workload.traces`.

    Complexity:
        O(requests + runs of block ids); prompts stay unexpanded.
    """
    decoder = msgspec.json.Decoder(AgentSession)
    tokens = _TokenSpace()
    turns: list[tuple[str, tuple[Turn, ...]]] = []
    block_sizes: set[int] = set()
    for place, line, text in _documents(path):
        session = decode(decoder, text, place, line)
        if session.hash_id_scope != "local":
            reason = f"hash_id_scope {session.hash_id_scope!r} is not known, only 'local' is"
            raise TraceError(place, line, reason)
        turns.append((session.id, _Builder(session, options, tokens, place, line).build()))
        block_sizes.add(session.block_size)
    starts = options.arrivals.start_times(len(turns), seeded(options.seed))
    sessions = [
        Session(session_id=name, start_s=float(start), turns=session_turns)
        for start, (name, session_turns) in zip(starts, turns, strict=True)
    ]
    return Workload(
        name=path.name,
        sessions=tuple(sessions),
        notes=tuple(_notes(options, tokens)),
        block_size=block_sizes.pop() if len(block_sizes) == 1 else None,
    )


def _documents(path: Path) -> list[tuple[Path, int | None, bytes]]:
    """File, line and text of each session."""
    if path.is_dir():
        files = sorted(path.glob("*.json"))
        if not files:
            raise TraceError(path, None, "holds no .json file")
        return [(file, None, read_bytes(file)) for file in files]
    data = read_bytes(path)
    if ".json" in path.suffixes:
        return [(path, None, data)]
    return [(path, number, text) for number, text in numbered_lines(data)]


def _notes(options: TraceOptions, tokens: "_TokenSpace") -> list[str]:
    notes = list(NOTES)
    if options.share_prefixes:
        groups = "1 group" if tokens.num_shared == 1 else f"{tokens.num_shared} groups"
        notes.append(
            "Block ids are local to a session. Sessions (and sub-agents) with equal model and "
            "equal lengths of tools and system prompt are taken to share these: an assumption, "
            f"made for {groups}."
        )
    else:
        notes.append("Block ids are local to a session: sessions share nothing.")
    if options.model_namespaces:
        notes.append("Requests recorded on different models have namespaces of their own.")
    if tokens.num_empty:
        notes.append(note_empty(tokens.num_empty))
    if tokens.num_estimated:
        some = "1 pause is" if tokens.num_estimated == 1 else f"{tokens.num_estimated} pauses are"
        notes.append(f"{some} not recorded, but taken from start times.")
    return notes


_PrefixKey = tuple[str, int, int, int]
"""Model, tokens of tools, tokens of system prompt, block size."""


@dataclass(slots=True)
class _TokenSpace:
    """Global token ids as they are given out, and what the notes count."""

    used: int = 0
    shared: dict[_PrefixKey, int] = field(default_factory=dict)
    num_empty: int = 0
    num_estimated: int = 0

    @property
    def num_shared(self) -> int:
        return len(self.shared)

    def take(self, num_tokens: int) -> int:
        """First of `num_tokens` new ids; may pass the limit, which `check` finds."""
        first = self.used
        self.used += num_tokens
        return first

    def shared_prefix(self, key: _PrefixKey) -> int:
        """First id of the tools and system prompt of that key."""
        if key not in self.shared:
            self.shared[key] = self.take(key[1] + key[2])
        return self.shared[key]


class _Builder:
    """The turns of one session."""

    def __init__(
        self,
        session: AgentSession,
        options: TraceOptions,
        tokens: _TokenSpace,
        path: Path,
        line: int | None,
    ) -> None:
        self._session = session
        self._options = options
        self._tokens = tokens
        self._path = path
        self._line = line
        self._turns: list[Turn] = []
        self._first_token = 0
        self._claimed: dict[_PrefixKey, Runs] = {}

    def build(self) -> tuple[Turn, ...]:
        session = self._session
        self._first_token = self._tokens.take(self._num_local_ids() * session.block_size)
        self._check_space()
        main = _Chain(session.tool_tokens, session.system_tokens, "")
        started: list[tuple[int, float]] = []
        for entry in session.requests:
            if isinstance(entry, SubAgent):
                background = entry.duration_ms is None
                done = self._add_sub_agent(entry, main)
                if done is not None and not background:
                    started.append(done)
            else:
                self._add(entry, main, started)
                started = []
        self._check_space()
        if not self._turns:
            raise TraceError(self._path, self._line, f"session {session.id} has no requests")
        return tuple(self._turns)

    def _num_local_ids(self) -> int:
        """One more than the largest block id that the session names."""
        largest = -1
        for entry in self._session.requests:
            for request in entry.requests if isinstance(entry, SubAgent) else (entry,):
                ends = [first + count - 1 for first, count in request.runs or ()]
                largest = max(largest, *ends, *(request.hash_ids or ()), -1)
        return largest + 1

    def _check_space(self) -> None:
        if self._tokens.used > FRESH_TOKEN_BASE:
            largest = self._num_local_ids() - 1
            raise TraceError(
                self._path,
                self._line,
                f"block ids up to {largest}: token ids of all sessions would pass 2**30",
            )

    def _add_sub_agent(self, agent: SubAgent, main: "_Chain") -> tuple[int, float] | None:
        """Add its turns; the last of them and when that ended in the recording."""
        start_s = agent.t - (agent.duration_ms or 0) / 1000
        own = _Chain(agent.tool_tokens, agent.system_tokens, "sub-agent")
        own.last, own.end_s, own.offset_s = main.last, main.end_s, start_s
        for request in agent.requests:
            self._add(request, own, [])
        return (own.last, own.end_s) if agent.requests and own.last is not None else None

    def _add(self, request: Request, chain: "_Chain", started: list[tuple[int, float]]) -> None:
        """Add a turn behind the last of its chain and behind the sub-agents that were `started`."""
        session = self._session
        chain.runs = runs_of(request, chain.runs, session.block_size, self._path, self._line)
        after = [number for number, _ in started]
        if chain.last is not None:
            after.insert(0, chain.last)
        num_output = request.num_output
        self._tokens.num_empty += num_output == 0
        self._turns.append(
            Turn(
                segments=(self._prompt(request, chain),),
                output_len=max(num_output, 1),
                after=tuple(after),
                think_s=self._pause_s(request, chain, [end_s for _, end_s in started]),
                namespace=request.model if self._options.model_namespaces else None,
                kind=_kind(request, chain),
            )
        )
        chain.last = len(self._turns) - 1
        chain.end_s = chain.offset_s + request.t + (request.api_time or 0.0)
        chain.length += 1

    def _pause_s(self, request: Request, chain: "_Chain", ends_s: list[float]) -> float:
        start_s = chain.offset_s + request.t
        if chain.length and not ends_s:
            if request.think_time is not None:
                return request.think_time
            self._tokens.num_estimated += 1
        return max(0.0, start_s - max([chain.end_s, *ends_s]))

    def _prompt(self, request: Request, chain: "_Chain") -> Spans:
        """Global token ids of a request's prompt; its partial block is of its own."""
        block_size = self._session.block_size
        shared = self._shared_blocks(request, chain)
        spans = []
        if shared:
            spans.append((self._tokens.shared_prefix(chain.key), shared * block_size))
        skip = shared
        for first, count in chain.runs:
            if count > skip:
                first_token = self._first_token + (first + skip) * block_size
                spans.append((first_token, (count - skip) * block_size))
            skip = max(0, skip - count)
        rest = request.num_input % block_size
        if rest:
            spans.append((self._tokens.take(rest), rest))
            self._check_space()
        return Spans(np.array(spans, dtype=np.int32).reshape(-1, 2), request.num_input)

    def _shared_blocks(self, request: Request, chain: "_Chain") -> int:
        """Blocks at the start that are tools and system prompt shared with other sessions.

        The first list of a kind in a session says which of its local ids those are. Lists that leave
        it earlier (the recorded lengths are a little too long) share only up to there.
        """
        if not self._options.share_prefixes:
            return 0
        if not chain.length:
            lengths = (chain.tool_tokens, chain.system_tokens, self._session.block_size)
            chain.key = (request.model, *lengths)
        num_blocks = (chain.tool_tokens + chain.system_tokens) // self._session.block_size
        claimed = self._claimed.setdefault(chain.key, first_blocks(chain.runs, num_blocks))
        return common_blocks(claimed, chain.runs)


@dataclass(slots=True)
class _Chain:
    """A list of requests, each of which continues the one before."""

    tool_tokens: int
    system_tokens: int
    kind: str
    key: _PrefixKey = ("", 0, 0, 1)
    runs: Runs = field(default_factory=list)
    last: int | None = None
    end_s: float = 0.0
    offset_s: float = 0.0
    length: int = 0


def _kind(request: Request, chain: _Chain) -> str:
    if chain.kind:
        return chain.kind
    if not chain.length:
        return "first"
    return "tool result" if "tool_result" in request.input_types else "follow-up"
