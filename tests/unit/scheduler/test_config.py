import pytest

from radixcache import RadixCacheError
from radixcache.errors import InvalidConfig
from scheduler import QUEUE_POLICIES, PolicyOptions, SchedulerConfig

NUMBERS = ["token_budget", "prefill_chunk_tokens", "max_running", "max_empty_plans"]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [0, -1, 1.5, "8", True])
def test_a_number_out_of_range_is_refused_with_its_name_and_value(name, value):
    with pytest.raises(InvalidConfig, match=f"{name} is an integer >= 1, got {value!r}") as caught:
        SchedulerConfig(**{name: value})
    assert isinstance(caught.value, RadixCacheError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name", ["token_budget", "max_running", "max_empty_plans"])
def test_only_the_chunk_may_be_left_open(name):
    with pytest.raises(InvalidConfig, match=name):
        SchedulerConfig(**{name: None})


@pytest.mark.parametrize("name", NUMBERS)
def test_one_is_enough(name):
    assert getattr(SchedulerConfig(**{name: 1}), name) == 1


@pytest.mark.parametrize(
    ("budget", "chunk", "expected"), [(100, None, 100), (100, 30, 30), (100, 200, 100), (1, 1, 1)]
)
def test_a_chunk_never_exceeds_the_budget(budget, chunk, expected):
    assert SchedulerConfig(token_budget=budget, prefill_chunk_tokens=chunk).chunk_tokens == expected


@pytest.mark.parametrize("policy", [None, 3])
def test_a_policy_is_a_name_or_a_function(policy):
    with pytest.raises(InvalidConfig, match=f"policy is a name or a function, got {policy}"):
        SchedulerConfig(policy=policy)


@pytest.mark.parametrize("policy", ["fcfz", "", "FCFS"])
def test_an_unknown_policy_is_refused_with_the_known_ones(policy):
    with pytest.raises(InvalidConfig, match=r"unknown queue policy .*fcfs.*lpm"):
        SchedulerConfig(policy=policy)


def test_a_near_miss_is_offered_the_right_name():
    with pytest.raises(InvalidConfig, match=r"did you mean fcfs\?"):
        SchedulerConfig(policy="fcfz")


@pytest.mark.parametrize("policy", sorted(QUEUE_POLICIES))
def test_every_registered_policy_is_accepted(policy):
    assert SchedulerConfig(policy=policy).policy == policy


def test_settings_cannot_be_changed():
    with pytest.raises(AttributeError):
        SchedulerConfig().token_budget = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value"), [("k", 0), ("k", 1.5), ("quantum", 0), ("quantum", True), ("output_weight", -1.0)]
)
def test_options_of_orders_are_checked_by_name(name, value):
    with pytest.raises(InvalidConfig, match=f"{name} .*got {value}"):
        PolicyOptions(**{name: value})
