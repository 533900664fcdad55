"""Namespaces: who may see whose pages."""

import ast
import itertools
import subprocess
import sys
from pathlib import Path

import pytest

import radixcache
from radixcache import MissReason, Namespace, PrefixCache, check
from radixcache.namespace import namespace_key
from radixcache.page_index import PageIndex
from tests.steps import Engine, begin, make_cache, matched, put, run_of

A, B, C = (run_of(100 * number, 4) for number in (1, 2, 3))


def first_and_second(cache: PrefixCache, namespace: Namespace) -> tuple[int, int]:
    seqs = []
    for _ in range(2):
        seq = begin(cache, [*A, *B, 1], namespace)
        seq.close()
        seqs.append(seq.matched_len)
    return seqs[0], seqs[1]


# E01


def test_e01_the_same_tokens_under_another_adapter_miss_at_first_and_hit_afterwards() -> None:
    cache = make_cache(num_pages=16, page_size=4)
    for namespace in ("adapter a", "adapter b", None):
        assert first_and_second(cache, namespace) == (0, 8)
    for namespace in ("adapter a", "adapter b", None):
        assert first_and_second(cache, namespace) == (8, 8)


def test_e01_pages_of_one_namespace_are_never_read_in_another() -> None:
    engine = Engine(make_cache(num_pages=9, page_size=4, partial_reuse=True))
    for round_ in range(6):
        for namespace in ("a", "b", None, ("a",), b"a"):
            running = engine.begin([*A, *B[: round_ % 4], 1], namespace)
            engine.generate(running, round_)
            engine.verify()
            engine.close(running)
            engine.verify()


def test_e01_a_miss_says_that_another_namespace_has_it() -> None:
    cache = make_cache(num_pages=16, page_size=4)
    put(cache, A + B, "a")
    seq = cache.open([*A, *B, 1], "b")
    assert seq.miss is not None
    assert seq.miss.reason is MissReason.OTHER_NAMESPACE
    seq.abort()


# E02


def test_e02_adapters_of_one_name_and_other_ids_share_nothing() -> None:
    cache = make_cache(num_pages=16, page_size=4)
    assert first_and_second(cache, ("my-adapter", "1")) == (0, 8)
    assert first_and_second(cache, ("my-adapter", "2")) == (0, 8)
    assert first_and_second(cache, ("my-adapter", None)) == (0, 8)


# E03


def test_e03_a_reloaded_adapter_of_a_new_version_sees_nothing_of_the_old() -> None:
    cache = make_cache(num_pages=16, page_size=4)
    assert first_and_second(cache, ("a", "v1")) == (0, 8)
    assert first_and_second(cache, ("a", "v2")) == (0, 8)
    assert first_and_second(cache, ("a", "v1")) == (8, 8)


def test_e03_or_the_name_stays_and_the_old_version_is_retired() -> None:
    cache = make_cache(num_pages=16, page_size=4)
    assert first_and_second(cache, "a") == (0, 8)
    cache.retire("a")
    assert first_and_second(cache, "a") == (0, 8)


# E09


def test_e09_no_two_namespaces_of_separators_and_empty_strings_meet(rarely_checked: None) -> None:
    fields = ["", ":", ",", "/", "a", "a:", ":a", "s1:", "n0:", "\x00", "a,", ",a", None, b"", b":", b"a"]
    namespaces = [*fields, *((field,) for field in fields), *itertools.product(fields, repeat=2), ()]
    keys = {namespace_key(namespace) for namespace in namespaces}
    assert len(keys) == len(namespaces)
    cache = make_cache(num_pages=len(namespaces), page_size=1)
    for namespace in namespaces:
        assert matched(cache, [7], namespace) == 0
        put(cache, [7], namespace)
    assert cache.stats.num_namespaces == len(namespaces)
    assert cache.stats.evictions == 0
    check(cache)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("tenant", ""), ("", "tenant")),
        (("ab", "c"), ("a", "bc")),
        ("a", b"a"),
        ("a", ("a",)),
        ((), None),
        ((None,), None),
        (("a", None), ("a",)),
        ("\ud800", "?"),
    ],
)
def test_e09_namespaces_that_look_alike_share_nothing(one: Namespace, other: Namespace) -> None:
    cache = make_cache(num_pages=4, page_size=4)
    put(cache, A, one)
    assert (matched(cache, A, one), matched(cache, A, other)) == (4, 0)
    cache.retire(other)
    assert matched(cache, A, one) == 4


@pytest.mark.parametrize("namespace", [1, True, 0, 1.0, ["a"], ("a", 1), ("a", ("b",))])
def test_e09_what_python_calls_equal_and_means_something_else_is_refused(namespace: object) -> None:
    cache = make_cache(num_pages=4, page_size=4)
    with pytest.raises(TypeError):
        cache.open(A, namespace)
    assert cache.stats.num_namespaces == 0


# E10


@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_e10_a_prompt_that_differs_in_one_token_never_matches_past_it(page_size: int) -> None:
    cache = make_cache(num_pages=64, page_size=page_size, max_events=10)
    prompt = run_of(0, 48)
    put(cache, prompt)
    index = PageIndex(page_size)
    index.load(cache.snapshot())
    for position in range(48):
        changed = list(prompt)
        changed[position] += 1000
        assert matched(cache, changed) == position // page_size * page_size
        assert index.matched_len([*changed, 1]) == position // page_size * page_size


def test_e10_nothing_is_known_by_a_hash_of_its_content() -> None:
    """Token bytes themselves are the keys, so that there is no collision to construct.

    `misses.py` spreads its records over dictionaries by a hash; they are found by their keys all the same.
    """
    for path in Path(radixcache.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        hashed = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "hash"
        ]
        assert path.name in ("tokens.py", "misses.py") or not hashed, f"{path} calls hash"
        imported = {
            alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        }
        assert not imported & {"hashlib", "zlib", "binascii"}, f"{path} imports a hash function"


# E11

SCRIPT = """
from radixcache import CacheConfig, PrefixCache
from radixcache.namespace import namespace_key
cache = PrefixCache(CacheConfig(num_pages=9, page_size=2))
for namespace in (None, "a", b"a", ("a", None, b"b"), ()):
    print(namespace_key(namespace).hex())
    with cache.open([1, 2, 3, 4, 5], namespace) as seq:
        seq.reserve(5)
        seq.advance(5)
print(cache.pages, cache.snapshot())
"""


def test_e11_keys_and_trees_are_the_same_in_every_process() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1", "random")
    }
    assert len(said) == 1
