"""Tiny worlds and random verbs: few tokens, few pages, much sharing, constant shortage.

One generator serves both drivers: it only ever chooses from a finite sequence, so `pick` can be
`random.Random(seed).choice` (long runs) or a draw from Hypothesis (`worlds`, `scripts`: shrinks to
small examples). A verb names a sequence by any number (-1: the youngest) and a length perhaps by
`None` (all known tokens not yet written); `legal` turns it, given the oracle's state, into the same
verb on a live sequence with a length that is allowed there.
"""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from hypothesis import strategies as st

from tests.oracles.model import Namespace, Prefix
from tests.oracles.page_cache import PageCacheOracle

# `Any` and not a type variable: a callable that is generic in its result cannot be aliased.
Pick = Callable[[Sequence[Any]], Any]

PAGE_SIZES = (1, 2, 4, 16)
POOL_SIZES = tuple(range(4, 17))
NAMESPACES: tuple[Namespace, ...] = (None, "a", b"a", ("a", b"b"))


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One configuration and the material that prompts are made of."""

    page_size: int
    num_pages: int
    alphabet: tuple[int, ...]
    namespaces: tuple[Namespace, ...]
    partial_reuse: bool

    @property
    def page_contents(self) -> tuple[tuple[int, ...], ...]:
        """Every page that prompts are built from; two that start alike differ in their middle."""
        half = (self.page_size + 1) // 2
        rest = self.page_size - half
        tails = self.alphabet if rest else self.alphabet[:1]
        return tuple((head,) * half + (tail,) * rest for head in self.alphabet for tail in tails)


@dataclass(frozen=True, slots=True)
class Open:
    """`open`; its sequence joins the end of the live ones.

    Where `oracle.offers` names several sources, the driver fills in the one the product chose.
    """

    prompt: tuple[int, ...]
    namespace: Namespace = None
    read: bool = True
    write: bool = True
    resumed: bool = False
    source: Prefix | None = None


@dataclass(frozen=True, slots=True)
class Peek:
    """`peek`."""

    prompt: tuple[int, ...]
    namespace: Namespace = None


@dataclass(frozen=True, slots=True)
class Evict:
    """`cache.evict`."""

    num_pages: int


@dataclass(frozen=True, slots=True)
class Reset:
    """`cache.reset`."""


@dataclass(frozen=True, slots=True)
class Retire:
    """`cache.retire`."""

    namespace: Namespace


@dataclass(frozen=True, slots=True)
class Reserve:
    """`reserve` on a sequence."""

    which: int
    extend_len: int | None


@dataclass(frozen=True, slots=True)
class Advance:
    """`advance` on a sequence."""

    which: int
    extend_len: int | None


@dataclass(frozen=True, slots=True)
class Append:
    """`append` on a sequence."""

    which: int
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TakeCopies:
    """`take_copies` on a sequence."""

    which: int


@dataclass(frozen=True, slots=True)
class Publish:
    """`publish` on a sequence."""

    which: int


@dataclass(frozen=True, slots=True)
class Fork:
    """`fork` of a sequence; the child joins the end of the live ones."""

    which: int


@dataclass(frozen=True, slots=True)
class Close:
    """`close` of a sequence."""

    which: int


@dataclass(frozen=True, slots=True)
class Abort:
    """`abort` of a sequence."""

    which: int


OnSequence = Reserve | Advance | Append | TakeCopies | Publish | Fork | Close | Abort
Verb = Open | Peek | Evict | Reset | Retire | OnSequence

_WEIGHTS: tuple[tuple[type[Verb], int], ...] = (
    (Open, 2),
    (Reserve, 5),
    (TakeCopies, 3),
    (Advance, 6),
    (Append, 3),
    (Publish, 3),
    (Fork, 2),
    (Close, 6),
    (Abort, 2),
    (Evict, 1),
    (Peek, 1),
)
_KINDS: tuple[type[Verb], ...] = tuple(kind for kind, weight in _WEIGHTS for _ in range(weight))


def pick_world(pick: Pick) -> World:
    """Choose a configuration; half of them with partial-page reuse."""
    return World(
        page_size=pick(PAGE_SIZES),
        num_pages=pick(POOL_SIZES),
        alphabet=pick(((1, 2), (1, 2, 3))),
        namespaces=NAMESPACES[: pick((1, 1, 2, 4))],
        partial_reuse=pick((False, True)),
    )


def pick_prompt(pick: Pick, world: World) -> tuple[int, ...]:
    """Choose 1 to about 5 pages of tokens, often cut in the middle or at the end of a page."""
    tokens: list[int] = []
    # Mostly two contents, so that prompts share more than their first page.
    contents = world.page_contents[: pick((2, 2, 2, len(world.page_contents)))]
    for _ in range(pick((1, 1, 2, 2, 3, 4))):
        tokens += pick(contents)
    if pick((False, True)):
        tokens += pick(world.page_contents)[: pick(range(world.page_size)) + 1]
    if pick((False, True)):
        tokens.append(pick(world.alphabet))
    return tuple(tokens)


def pick_verb(pick: Pick, world: World) -> Verb:
    """Choose a verb; what it names need not be legal (see `legal`)."""
    kind = pick(_KINDS)
    if kind is Open:
        prompt = pick_prompt(pick, world)
        read, write = pick(((True, True),) * 6 + ((False, True), (True, False), (False, False)))
        resumed = pick((False, False, False, True))
        return Open(prompt, pick(world.namespaces), read, write, resumed)
    if kind is Peek:
        return Peek(pick_prompt(pick, world), pick(world.namespaces))
    if kind is Evict:
        return Evict(pick((1, 1, 2, 3, world.num_pages)))
    which = pick((-1, -1, *range(6)))
    if kind is Reserve or kind is Advance:
        return kind(which, pick((None, None, 1, 1, *range(1, 2 * world.page_size + 2))))
    if kind is Append:
        num_tokens = pick((1, 1, 2, world.page_size, world.page_size + 1))
        return Append(which, tuple(pick(world.alphabet) for _ in range(num_tokens)))
    on_sequence: dict[type[Verb], Callable[[int], Verb]] = {
        TakeCopies: TakeCopies,
        Publish: Publish,
        Fork: Fork,
        Close: Close,
        Abort: Abort,
    }
    return on_sequence[kind](which)


def pick_story(pick: Pick, world: World) -> list[Verb]:
    """Choose what usually happens to a request, up to a random point, or a single verb.

    Single verbs alone seldom get a request computed and published; stories that break off leave
    sequences in every state for the single verbs to act on.
    """
    if pick((False, True, True)):
        return [pick_verb(pick, world)]
    read, write = pick(((True, True),) * 6 + ((False, True), (True, False), (False, False)))
    story: list[Verb] = [
        Open(pick_prompt(pick, world), pick(world.namespaces), read, write),
        Reserve(-1, None),
        TakeCopies(-1),
        Advance(-1, None),
    ]
    if pick((False, False, True)):
        story += [Fork(-1), TakeCopies(-1)]
    if pick((False, True)):
        num_tokens = pick((1, 2, world.page_size + 1))
        answer = tuple(pick(world.alphabet) for _ in range(num_tokens))
        story += [Append(-1, answer), Reserve(-1, None), Advance(-1, None)]
    story.append(Close(-1))
    return story[: pick((3, 4, len(story), len(story), len(story)))]


def random_script(seed: int, length: int) -> tuple[World, Iterator[Verb]]:
    """Return a world and `length` verbs, made lazily; the same for the same seed."""
    pick: Pick = random.Random(seed).choice
    world = pick_world(pick)
    endless = itertools.chain.from_iterable(pick_story(pick, world) for _ in itertools.count())
    return world, itertools.islice(endless, length)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw a configuration."""
    return pick_world(lambda options: draw(st.sampled_from(options)))


@st.composite
def prompts(draw: st.DrawFn, world: World) -> tuple[int, ...]:
    """Draw a prompt of a world."""
    return pick_prompt(lambda options: draw(st.sampled_from(options)), world)


@st.composite
def verbs(draw: st.DrawFn, world: World) -> Verb:
    """Draw a verb of a world."""
    return pick_verb(lambda options: draw(st.sampled_from(options)), world)


@st.composite
def stories(draw: st.DrawFn, world: World) -> list[Verb]:
    """Draw a few verbs that belong together, or a single one."""
    return pick_story(lambda options: draw(st.sampled_from(options)), world)


@st.composite
def scripts(draw: st.DrawFn, *, max_stories: int = 25) -> tuple[World, list[Verb]]:
    """Draw a world and a list of verbs."""
    world = draw(worlds())
    drawn = draw(st.lists(stories(world), min_size=1, max_size=max_stories))
    return world, [verb for story in drawn for verb in story]


def legal(verb: Verb, oracle: PageCacheOracle) -> Verb | None:
    """Return the verb on a live sequence of the oracle, lengths clipped to what is allowed.

    `which` becomes the number of a live sequence. `None` when nothing legal is left of the verb (no
    sequence lives, nothing can be advanced, copies must be taken first), and for one more sequence
    in a pool so crowded that hardly anything could be cached. A verb that is returned either works
    or runs out of pages.
    """
    is_crowded = len(oracle.live) >= max(2, oracle.num_pages // 3)
    if isinstance(verb, Open | Fork) and is_crowded:
        return None
    if isinstance(verb, Open | Peek | Evict | Retire):
        return verb
    if isinstance(verb, Reset):
        return None if oracle.live else verb
    if not oracle.live:
        return None
    handles = list(oracle.live)
    verb = replace(verb, which=handles[verb.which % len(handles)])
    seq = oracle.live[verb.which]
    if isinstance(verb, Advance | Fork) and seq.copies:
        return None
    if isinstance(verb, Reserve) and verb.extend_len is None:
        return replace(verb, extend_len=max(1, seq.num_tokens - seq.computed_len))
    if isinstance(verb, Advance):
        room = min(seq.num_tokens, len(seq.pages) * oracle.page_size) - seq.computed_len
        length = room if verb.extend_len is None else min(verb.extend_len, room)
        return replace(verb, extend_len=length) if length > 0 else None
    return verb


def apply(verb: Verb, oracle: PageCacheOracle) -> int | None:  # noqa: C901  (one case a verb)
    """Run a verb on the oracle; return the number of the sequence it made, or pages it counted.

    Raises:
        OutOfPagesOracle: the product must raise `OutOfPages`.
        MisuseOracle: the product must refuse the verb.
    """
    match verb:
        case Open():
            return oracle.open(**{field.name: getattr(verb, field.name) for field in fields(verb)})
        case Peek(prompt, namespace):
            return oracle.peek(prompt, namespace=namespace)
        case Evict(num_pages):
            return oracle.evict(num_pages)
        case Reset():
            oracle.reset()
        case Retire(namespace):
            return oracle.retire(namespace)
        case Reserve(which, int(extend_len)):
            oracle.reserve(which, extend_len)
        case Advance(which, int(extend_len)):
            oracle.advance(which, extend_len)
        case Append(which, token_ids):
            oracle.append(which, token_ids)
        case TakeCopies(which):
            oracle.take_copies(which)
        case Publish(which):
            oracle.publish(which)
        case Fork(which):
            return oracle.fork(which)
        case Close(which):
            oracle.close(which)
        case Abort(which):
            oracle.abort(which)
        case _:
            raise AssertionError(f"{verb} did not go through `legal`")
    return None
