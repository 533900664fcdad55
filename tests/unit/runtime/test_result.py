import dataclasses

import msgspec
import numpy as np
import pytest

from radixcache.errors import RadixCacheError
from runtime.result import Bounds, InvalidResult, SimulationResult, TreeBox, from_json, to_json
from tests.unit.runtime.sample_result import plausible_result, record, run, sample, simulation


def edited(data: bytes, edit: object) -> bytes:
    document = msgspec.json.decode(data)
    edit(document)  # type: ignore[operator]
    return msgspec.json.encode(document)


def written() -> bytes:
    return to_json(simulation(run([record(), record(request_id="r1")], timeline=[sample(0.0)])))


def test_a_result_comes_back_as_it_was():
    result = plausible_result(60, 40)
    assert from_json(to_json(result)) == result


def test_writing_what_was_read_gives_the_same_bytes():
    data = to_json(plausible_result(60, 40))
    assert to_json(from_json(data)) == data


def test_a_result_without_runs_comes_back():
    assert from_json(to_json(simulation())) == simulation()


def test_a_run_without_requests_or_samples_comes_back():
    empty = simulation(run([]))
    assert from_json(to_json(empty)) == empty


def test_equal_results_give_equal_bytes_whatever_the_order_of_their_dictionaries():
    one = simulation(config={"a": {"x": 1, "y": 2}, "b": 3}, versions={"n": "1", "m": "2"})
    other = simulation(config={"b": 3, "a": {"y": 2, "x": 1}}, versions={"m": "2", "n": "1"})
    assert to_json(one) == to_json(other)


def test_a_miss_reason_of_zero_tokens_is_told_from_one_not_named():
    result = simulation(run([record(miss={"evicted": 0}), record(miss={"never_seen": 3})]))
    misses = [each.miss for each in from_json(to_json(result)).runs[0].requests]
    assert misses == [{"evicted": 0}, {"never_seen": 3}]


def test_a_record_named_only_by_required_fields_has_no_error():
    assert record().error is None


def test_seconds_keep_every_bit():
    result = simulation(run([record(arrival_s=0.1 + 0.2)]))
    assert from_json(to_json(result)).runs[0].requests[0].arrival_s == 0.1 + 0.2


def test_whole_seconds_stay_floats():
    result = from_json(to_json(simulation(run(makespan_s=10))))
    assert isinstance(result.runs[0].makespan_s, float)


def test_text_of_any_language_survives():
    result = simulation(notes=["Grüße, 世界 </script> \u2028 \x00"])
    assert from_json(to_json(result)) == result


def test_columns_take_less_than_half_the_space_of_objects():
    result = plausible_result(300, 300)
    assert len(to_json(result)) < len(msgspec.json.encode(result)) / 2


def test_each_column_stands_on_one_line():
    lines = to_json(plausible_result(50, 50)).decode().splitlines()
    assert sum('"arrival_s"' in line for line in lines) == 2
    assert len(lines) < 200


def test_a_deep_tree_survives():
    box = TreeBox(depth_tokens=0, num_tokens=1, locked=False, children=[], label="")
    for _ in range(300):
        box = dataclasses.replace(box, children=[box])
    result = simulation(run(tree=[box]))
    assert to_json(from_json(to_json(result))) == to_json(result)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_cannot_say_is_refused_with_its_place(bad: float):
    with pytest.raises(InvalidResult, match=r"runs\[0\]\.requests\.arrival_s\[1\] is"):
        to_json(simulation(run([record(), record(arrival_s=bad)])))


def test_a_nan_in_the_configuration_is_refused_with_its_place():
    with pytest.raises(InvalidResult, match=r"config\.cost_model\.shares\[0\] is nan"):
        to_json(simulation(config={"cost_model": {"shares": [float("nan")]}}))


@pytest.mark.parametrize(
    "result",
    [
        simulation(run([record(prompt_tokens=np.int64(3))])),
        simulation(config={"a": object()}),  # type: ignore[dict-item]
        simulation(notes=["\ud800"]),
    ],
)
def test_a_value_that_is_no_json_is_refused(result: SimulationResult):
    with pytest.raises(InvalidResult, match="cannot be written as JSON"):
        to_json(result)


def test_an_invalid_result_is_a_value_error_and_one_of_ours():
    assert issubclass(InvalidResult, ValueError)
    assert issubclass(InvalidResult, RadixCacheError)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[1]", b"null", b"{}"])
def test_something_else_than_a_result_is_refused(data: bytes):
    with pytest.raises(InvalidResult):
        from_json(data)


def test_another_schema_version_is_refused_by_number():
    data = edited(written(), lambda document: document.update(schema_version=2))
    with pytest.raises(InvalidResult, match="schema_version 2, this release reads 1"):
        from_json(data)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: d.update(seed="7"), r"Expected `int`, got `str` - at `\$.seed`"),
        (lambda d: d.update(schema="other"), "schema"),
        (lambda d: d.update(extra=1), "unknown field `extra`"),
        (lambda d: d["runs"][0].update(extra=1), "unknown field `extra`"),
        (lambda d: d["runs"][0]["requests"].pop("turn"), "missing or unknown: .'turn'"),
        (lambda d: d["runs"][0]["requests"].update(more=[1, 2]), "missing or unknown: .'more'"),
        (lambda d: d["runs"][0]["requests"].update(turn=3), "column turn"),
        (lambda d: d["runs"][0]["requests"]["turn"].pop(), "differ in length"),
        (lambda d: d["runs"][0]["requests"]["miss"]["last_token"].pop(), "miss.last_token"),
        (lambda d: d["runs"][0]["requests"].update(turn=[0, 1.5]), r"\$\[1\]\.turn"),
        (lambda d: d["runs"][0]["requests"].update(status=["done", "failed"]), "status"),
        (lambda d: d["runs"][0]["timeline"].update(waiting=["1"]), "waiting"),
        (lambda d: d["runs"][0]["timeline"].pop("time_s"), "time_s"),
    ],
)
def test_a_document_that_breaks_the_schema_is_refused_with_its_place(edit: object, message: str):
    with pytest.raises(InvalidResult, match=message):
        from_json(edited(written(), edit))


def test_bounds_survive_their_file_and_older_files_have_none():
    bounds = Bounds(
        capacity_tokens=64,
        prompt_tokens=100,
        ceiling_tokens=80,
        optimum_tokens=70,
        num_requests=1,
        num_left_out=0,
    )
    result = simulation(run(bounds=bounds), run(label="no cache"))
    assert from_json(to_json(result)) == result
    older = edited(to_json(result), lambda document: [each.pop("bounds") for each in document["runs"]])
    assert [each.bounds for each in from_json(older).runs] == [None, None]
