from scheduler import Request
from scheduler.draft import Draft
from tests.unit.scheduler.loop import Loop, ids


def running(num_requests: int = 2, **settings) -> tuple[Loop, list[Request]]:
    loop = Loop(**settings)
    requests = [loop.submit(f"r{n}", ids(100 * n, 6), 9) for n in range(num_requests)]
    loop.step()
    return loop, requests


def test_rows_cost_budget_and_give_it_back_when_they_go():
    _, (first, second) = running()
    draft = Draft(10)
    draft.add(first, 1)
    draft.add(second, 1)
    assert draft.budget == 8
    draft.drop(first)
    assert draft.budget == 9
    assert [row.request for row in draft.rows.values()] == [second]


def test_a_request_without_a_row_is_dropped_without_effect():
    _, (first, _) = running()
    draft = Draft(10)
    draft.drop(first)
    assert draft.budget == 10


def test_a_row_generates_when_it_reaches_the_last_known_token():
    loop = Loop(prefill_chunk_tokens=4)
    request = loop.submit("a", ids(0, 10), 5)
    loop.step()
    draft = Draft(10)
    draft.add(request, 5)
    assert draft.rows[request.number].max_tokens == 0
    draft.drop(request)
    draft.add(request, 6)
    assert draft.rows[request.number].max_tokens == 1


def test_coalescing_lets_every_row_generate_so_many():
    _, requests = running()
    draft = Draft(10)
    for request in requests:
        draft.add(request, 1)
    draft.coalesce(7)
    assert [row.max_tokens for row in draft.rows.values()] == [7, 7]


def test_a_plan_has_rows_in_the_order_they_were_added_and_takes_copies_once():
    loop = Loop(partial_reuse=True)
    loop.warm(ids(0, 8))
    request = loop.submit("a", [*ids(0, 6), 90, 91], 2)
    plan = loop.schedule()
    assert len(plan.copies) == 1
    draft = Draft(10)
    draft.add(request, 2)
    assert draft.plan(5).copies == ()
    assert draft.plan(5).number == 5
