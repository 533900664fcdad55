import pytest

from runtime.cost import StepLoad
from runtime.errors import WorkloadError
from runtime.executor import CostModelExecutor
from runtime.workload import FRESH_TOKEN_BASE
from scheduler.plan import Decodes
from tests.unit.runtime.simulated import small_cost
from tests.unit.scheduler.loop import Loop, ids


def decoding(output_lens=(20, 30)) -> Loop:
    loop = Loop()
    for number, output_len in enumerate(output_lens):
        loop.submit(f"r{number}", ids(100 * number, 5 + number), output_len)
    loop.step()
    return loop


def test_a_step_takes_what_the_cost_model_says_and_nothing_else():
    loop, cost = Loop(), small_cost()
    loop.submit("a", ids(0, 30), 2)
    loop.submit("b", ids(50, 7), 2)
    plan = loop.schedule()
    elapsed = CostModelExecutor(cost).execute(plan).elapsed_ps
    assert elapsed == cost.step_ps(StepLoad.of([(0, 30, True), (0, 7, True)]))


def test_a_chunk_that_is_not_the_last_needs_no_logits():
    loop, cost = Loop(prefill_chunk_tokens=8), small_cost()
    loop.submit("a", ids(0, 30), 2)
    output = CostModelExecutor(cost).execute(loop.schedule())
    assert output.elapsed_ps == cost.step_ps(StepLoad.of([(0, 8, False)]))
    assert output.tokens == {}


def test_coalesced_steps_take_exactly_as_long_as_single_ones():
    together, single, executor = decoding(), decoding(), CostModelExecutor(small_cost())
    at_once = executor.execute(together.schedule(lambda rows: 19)).elapsed_ps
    one_by_one = 0
    for _ in range(19):
        plan = single.schedule()
        output = executor.execute(plan)
        one_by_one += output.elapsed_ps
        single.commit(plan, output.tokens)
    assert at_once == one_by_one


def test_tokens_are_fresh_and_never_made_twice():
    loop, executor = Loop(), CostModelExecutor(small_cost())
    requests = [loop.submit(f"r{n}", ids(10 * n, 3), 1 + n) for n in range(6)]
    while not loop.scheduler.is_idle:
        plan = loop.schedule()
        loop.commit(plan, executor.execute(plan).tokens)
    made = [token for request in requests for token in request.output]
    assert len(set(made)) == len(made) == sum(range(1, 7))
    assert min(made) == FRESH_TOKEN_BASE


def test_coalescing_changes_no_token():
    outputs = []
    for horizon in (None, lambda rows: 4, lambda rows: 1000):
        loop, executor = Loop(), CostModelExecutor(small_cost())
        requests = [loop.submit(f"r{n}", ids(10 * n, 3), 5 + 4 * n) for n in range(3)]
        while not loop.scheduler.is_idle:
            plan = loop.schedule(horizon)
            loop.commit(plan, executor.execute(plan).tokens)
        outputs.append([request.output for request in requests])
    assert outputs[0] == outputs[1] == outputs[2]


def test_the_same_plans_bring_the_same_tokens():
    first, second = (CostModelExecutor(small_cost()).execute(decoding().schedule()) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("num_steps", [1, 2, 3, 17, 64, 1000])
def test_steps_until_a_moment_are_the_fewest_that_reach_it(num_steps):
    cost, decodes = small_cost(), Decodes(2, 11)
    executor, load = CostModelExecutor(cost), StepLoad.of([(5, 1, True), (6, 1, True)])
    reach = cost.decode_run_ps(load, num_steps)
    assert executor.steps_until(decodes, reach) == num_steps
    assert executor.steps_until(decodes, reach + 1) == num_steps + 1
    if num_steps > 1:
        assert executor.steps_until(decodes, cost.decode_run_ps(load, num_steps - 1) + 1) == num_steps


@pytest.mark.parametrize("left", [0, -5, 1])
def test_there_is_always_one_step(left):
    assert CostModelExecutor(small_cost()).steps_until(Decodes(2, 11), left) == 1


def test_more_tokens_than_there_are_ids_is_a_clear_error():
    executor = CostModelExecutor(small_cost())
    executor._next_token = 2**31 - 1
    with pytest.raises(WorkloadError, match=f"more than {2**30} tokens were generated"):
        executor.execute(decoding().schedule())


def test_the_last_id_is_still_given():
    executor = CostModelExecutor(small_cost())
    executor._next_token = 2**31 - 4
    tokens = executor.execute(decoding((2, 2)).schedule()).tokens
    assert [list(made) for made in tokens.values()] == [[2**31 - 3], [2**31 - 1]]


def test_no_output_is_made_up_for_a_request_that_may_go_on_for_ever():
    loop = Loop()
    loop.submit("a", [1, 2], None)
    with pytest.raises(WorkloadError, match="'a' has no output length"):
        CostModelExecutor(small_cost()).execute(loop.schedule())


def test_an_empty_plan_takes_no_time():
    output = CostModelExecutor(small_cost()).execute(Loop().schedule())
    assert output == ({}, 0, {})
