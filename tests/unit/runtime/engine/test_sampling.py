import numpy as np
import pytest
import torch

from radixcache.errors import InvalidArgumentType, InvalidConfig
from runtime.engine import Sampler, SamplingError, SamplingParams

PROBABILITIES = [0.4, 0.3, 0.15, 0.1, 0.05]
LOGITS = torch.log(torch.tensor(PROBABILITIES))[None]


def draws(params: SamplingParams, count: int = 4000) -> np.ndarray:
    """Shares of tokens over many places of one output."""
    sampler = Sampler()
    sampler.add("a", params)
    found = [sampler.sample(["a"], [place], LOGITS)[0] for place in range(count)]
    return np.bincount(found, minlength=len(PROBABILITIES)) / count


def test_without_temperature_the_likeliest_token_is_taken():
    assert draws(SamplingParams(), 10).tolist() == [1, 0, 0, 0, 0]


def test_a_request_that_was_not_added_gets_the_likeliest():
    assert Sampler().sample(["stranger"], [0], LOGITS) == [0]


def test_tokens_come_as_often_as_they_are_likely():
    assert np.abs(draws(SamplingParams(temperature=1.0)) - PROBABILITIES).max() < 0.03


def test_temperature_sharpens():
    sharp = np.array(PROBABILITIES) ** 2
    assert np.abs(draws(SamplingParams(temperature=0.5)) - sharp / sharp.sum()).max() < 0.03


def test_top_k_leaves_the_k_likeliest():
    shares = draws(SamplingParams(temperature=1.0, top_k=2))
    assert np.abs(shares - np.array([4 / 7, 3 / 7, 0, 0, 0])).max() < 0.03
    assert draws(SamplingParams(temperature=1.0, top_k=1), 50)[0] == 1


@pytest.mark.parametrize(("top_p", "kept"), [(0.3, 1), (0.4001, 2), (0.7, 2), (0.71, 3), (0.9, 4), (1.0, 5)])
def test_top_p_leaves_the_fewest_that_reach_it(top_p, kept):
    shares = draws(SamplingParams(temperature=1.0, top_p=top_p), 600)
    assert (shares > 0).sum() == kept


def test_top_p_counts_among_what_top_k_left():
    shares = draws(SamplingParams(temperature=1.0, top_k=2, top_p=0.5), 600)
    assert (shares > 0).tolist() == [True, False, False, False, False]


def test_equal_logits_are_kept_in_the_order_of_their_ids():
    sampler = Sampler()
    sampler.add("a", SamplingParams(temperature=1.0, top_k=2, seed=5))
    found = {sampler.sample(["a"], [place], torch.zeros(1, 6))[0] for place in range(60)}
    assert found == {0, 1}


def test_a_draw_depends_on_seed_and_place_alone():
    params = SamplingParams(temperature=1.0, seed=7)
    alone, together = Sampler(), Sampler(seed=99)
    alone.add("a", params)
    together.add("b", SamplingParams(temperature=2.0))
    together.add("c", params)
    for place in range(20):
        (one,) = alone.sample(["a"], [place], LOGITS)
        _, other = together.sample(["b", "c"], [3 * place, place], LOGITS.repeat(2, 1))
        again = together.sample(["c"], [place], LOGITS)
        assert [one] == [other] == again


def test_requests_without_a_seed_differ_and_engines_with_one_seed_agree():
    params = SamplingParams(temperature=1.0)
    first, second, other = Sampler(3), Sampler(3), Sampler(4)
    for sampler in (first, second, other):
        for name in ("a", "b"):
            sampler.add(name, params)

    def outputs(sampler: Sampler, name: str) -> list[int]:
        return [sampler.sample([name], [place], LOGITS)[0] for place in range(30)]

    assert outputs(first, "a") == outputs(second, "a")
    assert outputs(first, "a") != outputs(first, "b")
    assert outputs(first, "a") != outputs(other, "a")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_name_their_request(bad):
    logits = LOGITS.repeat(2, 1)
    logits[1, 2] = bad
    good, error, last = Sampler().sample(["a", "b", "c"], [0, 0, 0], torch.cat((logits, LOGITS)))
    assert good == last == int(LOGITS.argmax())
    assert isinstance(error, SamplingError)
    assert str(error) == f"request 'b': its largest logit is {bad}"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_new_tokens": 0}, "at least 1, got 0"),
        ({"temperature": -0.1}, "finite number >= 0, got -0.1"),
        ({"temperature": float("nan")}, "finite number >= 0, got nan"),
        ({"top_k": 0}, "at least 1, got 0"),
        ({"top_p": 0.0}, r"lies in \(0, 1\], got 0.0"),
        ({"top_p": 1.1}, r"lies in \(0, 1\], got 1.1"),
        ({"seed": -1}, "got -1"),
        ({"seed": 2**64}, f"got {2**64}"),
        ({"stop": "text"}, "tuple of texts that are not empty, got 'text'"),
        ({"stop": ("",)}, "not empty"),
    ],
)
def test_a_value_out_of_range_is_named_with_its_limit(settings, message):
    with pytest.raises(InvalidConfig, match=message):
        SamplingParams(**settings)


def test_a_number_of_another_type_is_refused():
    with pytest.raises(InvalidArgumentType, match="max_new_tokens"):
        SamplingParams(max_new_tokens=1.5)
