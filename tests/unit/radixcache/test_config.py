import dataclasses

import pytest

from radixcache import EVICTION_POLICIES, CacheConfig, EvictionPolicy, PrefixCache, RadixCacheError
from radixcache.errors import InvalidConfig

LOWEST = {"num_pages": 1, "page_size": 1, "first_page": 0, "max_events": 0, "max_ghosts": 0}


def test_only_the_number_of_pages_has_no_default() -> None:
    config = CacheConfig(num_pages=7)
    assert dataclasses.asdict(config) == {
        "num_pages": 7,
        "page_size": 16,
        "first_page": 0,
        "eviction": "lru",
        "partial_reuse": False,
        "max_ghosts": None,
        "max_events": 0,
    }


@pytest.mark.parametrize(("name", "lowest"), LOWEST.items())
def test_the_lowest_value_is_legal_and_what_lies_below_is_not(name: str, lowest: int) -> None:
    settings = {"num_pages": 1, name: lowest}
    PrefixCache(CacheConfig(**settings))
    with pytest.raises(InvalidConfig, match=f"{name} is an integer >= {lowest}, got {lowest - 1}"):
        CacheConfig(**{**settings, name: lowest - 1})


@pytest.mark.parametrize("name", LOWEST)
@pytest.mark.parametrize("value", [1.0, "8", True, [8]])
def test_numbers_are_integers(name: str, value: object) -> None:
    with pytest.raises(InvalidConfig, match=f"{name} is an integer"):
        CacheConfig(**{"num_pages": 1, name: value})


@pytest.mark.parametrize("name", ["num_pages", "page_size", "first_page", "max_events"])
def test_numbers_are_not_none(name: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{name} is an integer >= ., got None"):
        CacheConfig(**{"num_pages": 1, name: None})


def test_page_ids_fit_into_int32() -> None:
    CacheConfig(num_pages=2, first_page=2**31 - 2)
    with pytest.raises(
        InvalidConfig, match="page ids go up to 2147483647, but 2 pages from 2147483647 on end at"
    ):
        CacheConfig(num_pages=2, first_page=2**31 - 1)


def test_an_unknown_policy_is_refused_with_the_nearest_name_and_the_list() -> None:
    with pytest.raises(
        InvalidConfig, match=r"unknown eviction policy 'slur': did you mean slru.*known are fifo, "
    ):
        CacheConfig(num_pages=1, eviction="slur")


def test_a_name_near_nothing_gets_no_hint() -> None:
    with pytest.raises(InvalidConfig) as caught:
        CacheConfig(num_pages=1, eviction="zzzzzz")
    assert "mean" not in str(caught.value)


@pytest.mark.parametrize("value", [5, None, ["lru"]])
def test_what_is_neither_name_nor_function_is_no_policy(value: object) -> None:
    with pytest.raises(InvalidConfig, match="eviction"):
        CacheConfig(num_pages=1, eviction=value)


def test_a_users_own_policy_is_made_for_the_size_of_the_pool() -> None:
    class Mine(EvictionPolicy):
        pass

    policy = CacheConfig(num_pages=3, eviction=Mine).make_policy()
    assert type(policy) is Mine
    assert policy.num_pages == 3


@pytest.mark.parametrize("name", EVICTION_POLICIES)
def test_every_name_makes_a_fresh_policy(name: str) -> None:
    config = CacheConfig(num_pages=3, eviction=name)
    assert config.make_policy() is not config.make_policy()


@pytest.mark.parametrize(
    ("num_pages", "max_ghosts", "records"),
    [(1, None, 1024), (640_000, None, 10_000), (640_000, 7, 7), (9, 0, 0)],
)
def test_one_ghost_for_64_pages_and_at_least_1024(
    num_pages: int, max_ghosts: int | None, records: int
) -> None:
    assert CacheConfig(num_pages=num_pages, max_ghosts=max_ghosts).ghost_records() == records


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        CacheConfig(num_pages=1).num_pages = 2


def test_settings_are_given_by_name() -> None:
    with pytest.raises(TypeError, match="positional"):
        CacheConfig(1)


def test_the_error_is_ours_and_a_value_error() -> None:
    assert issubclass(InvalidConfig, RadixCacheError)
    assert issubclass(InvalidConfig, ValueError)
