"""What engines get wrong, each as a small story told to the engine."""

from collections.abc import Mapping
from typing import Final

from radixcache.config import CacheConfig
from radixcache.conformance.model import ConformanceFailure
from radixcache.conformance.trial import MakeEngine, Scenario, Trial

_PAGES = 48


def _trial(
    make_engine: MakeEngine, page_size: int, num_pages: int = _PAGES, *, partial: bool = False
) -> Trial:
    config = CacheConfig(num_pages=num_pages, page_size=page_size, first_page=1, partial_reuse=partial)
    return Trial(make_engine, config)


def _prompt(length: int, salt: int = 0) -> list[int]:
    return [(salt * 7919 + position * position) % 5003 for position in range(length)]


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ConformanceFailure(what)


def warm_equals_cold(make_engine: MakeEngine, page_size: int) -> None:
    """The same prompt twice: the second is served from the cache, with the same output."""
    trial = _trial(make_engine, page_size)
    prompt = _prompt(3 * page_size + 1)
    for request_id in ("cold", "warm"):
        trial.submit(request_id, prompt, 3)
        trial.drain()
    matched = trial.cache.stats.matched_tokens
    _require(matched == 3 * page_size, f"{matched} tokens matched, must be {3 * page_size}")


def next_turn_reuses_the_output(make_engine: MakeEngine, page_size: int) -> None:
    """A prompt that continues prompt + output finds both, but for the token whose KV was never written."""
    trial = _trial(make_engine, page_size)
    prompt = _prompt(2 * page_size)
    trial.submit("first", prompt, 2 * page_size)
    trial.drain()
    longer = prompt + trial.output("first") + _prompt(3, salt=1)
    trial.submit("second", longer, 2)
    trial.drain()
    matched, written = trial.cache.stats.matched_tokens, 4 * page_size - 1
    least = written // page_size * page_size
    _require(matched >= least, f"{matched} tokens of the next turn matched, must be {least}")


def every_length_around_a_page_edge(make_engine: MakeEngine, page_size: int) -> None:
    """Prompts and outputs that end just before, on and behind a page edge give every page back once."""
    trial = _trial(make_engine, page_size)
    edges = sorted({1, 2, page_size - 1, page_size, page_size + 1, 2 * page_size} - {0})
    for prompt_len in edges:
        for output_len in edges:
            trial.submit(f"{prompt_len}+{output_len}", _prompt(prompt_len, salt=prompt_len), output_len)
            trial.drain()


def equal_prompts_at_once(make_engine: MakeEngine, page_size: int) -> None:
    """Two compute the same prompt side by side; the slower one's pages are swapped, and used by others."""
    trial = _trial(make_engine, page_size)
    prompt = _prompt(4 * page_size + 2)
    trial.submit("one", prompt, 3 * page_size)
    trial.submit("two", prompt, 3 * page_size)
    trial.step(3)
    for number in range(4):
        trial.submit(f"other {number}", _prompt(2 * page_size, salt=2 + number), page_size)
        trial.step(2)
    trial.drain()


def abort_at_every_step(make_engine: MakeEngine, page_size: int) -> None:
    """One of two that share a prefix is aborted after any number of steps; the other does not notice."""
    prompt = _prompt(3 * page_size + 1)
    for num_steps in range(8):
        trial = _trial(make_engine, page_size)
        trial.submit("stays", [*prompt, 1], page_size + 2)
        trial.submit("goes", [*prompt, 2], page_size + 2)
        trial.step(num_steps)
        trial.abort("goes")
        trial.drain()
        trial.submit("later", [*prompt, 2], 2)
        trial.drain()


def preempt_at_every_step(make_engine: MakeEngine, page_size: int) -> None:
    """One of two is thrown back after any number of steps, and ends with the output it would have had."""
    prompt = _prompt(3 * page_size + 1)
    for num_steps in range(1, 8):
        trial = _trial(make_engine, page_size)
        trial.submit("stays", [*prompt, 1], page_size + 8)
        trial.submit("goes", [*prompt, 2], page_size + 8)
        trial.step(num_steps)
        trial.preempt("goes")
        trial.drain()


def more_than_the_pool_holds(make_engine: MakeEngine, page_size: int) -> None:
    """Many requests in a small pool all finish, whatever is evicted or thrown back meanwhile."""
    trial = _trial(make_engine, page_size, num_pages=12)
    for number in range(12):
        prompt = _prompt(2 * page_size) + _prompt(2 * page_size, salt=number % 5)
        trial.submit(f"request {number}", prompt, 2 * page_size + 1)
    trial.drain()


def namespaces_never_share(make_engine: MakeEngine, page_size: int) -> None:
    """The same prompt in three namespaces misses three times, and hits in each from then on."""
    trial = _trial(make_engine, page_size)
    prompt = _prompt(2 * page_size + 1)
    for turn in range(2):
        for namespace in (None, "adapter", ("adapter", "salt")):
            trial.submit(f"{namespace} {turn}", prompt, 1, namespace)
            trial.drain()
        matched = trial.cache.stats.matched_tokens
        _require(matched == turn * 3 * 2 * page_size, f"{matched} tokens matched after round {turn}")


def starts_of_pages_are_copied(make_engine: MakeEngine, page_size: int) -> None:
    """With partial-page reuse, prompts that part within a page copy its start before they compute."""
    trial = _trial(make_engine, page_size, partial=True)
    prompt = _prompt(3 * page_size)
    trial.submit("first", prompt, 2)
    trial.drain()
    for cut in range(2 * page_size + 1, 3 * page_size):
        trial.submit(f"parts at {cut}", [*prompt[:cut], 4999, *_prompt(page_size, salt=cut)], 2)
        trial.step(1)
    trial.drain()


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "warm equals cold": warm_equals_cold,
    "next turn reuses the output": next_turn_reuses_the_output,
    "every length around a page edge": every_length_around_a_page_edge,
    "equal prompts at once": equal_prompts_at_once,
    "abort at every step": abort_at_every_step,
    "preempt at every step": preempt_at_every_step,
    "more than the pool holds": more_than_the_pool_holds,
    "namespaces never share": namespaces_never_share,
    "starts of pages are copied": starts_of_pages_are_copied,
}
