import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from plotly.offline import get_plotlyjs

from runtime.report import Fact, Sheet, Study, render, render_study
from runtime.result import Bounds, TreeBox, from_json, to_json
from tests.unit.runtime.sample_result import plausible_result, record, run, sample, simulation

EVIL = "</script><img src=x onerror=alert(1)>&\u2028{{ 7*7 }}"


def own_part(page: str) -> str:
    """The page without Plotly.js."""
    return page.replace(get_plotlyjs(), "")


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.targets: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in {"src", "href", "action", "data", "poster", "srcset"}:
                self.targets.append(value or "")
            if name == "id":
                self.ids.append(value or "")


def parsed(page: str) -> Links:
    links = Links()
    links.feed(page)
    return links


@pytest.fixture(scope="module")
def page() -> str:
    return render(plausible_result(200, 100))


def test_the_page_asks_nothing_of_the_network(page: str):
    assert [target for target in parsed(page).targets if not target.startswith("#")] == []
    assert "http" not in own_part(page).replace("http-equiv", "")
    assert "url(" not in own_part(page)
    assert "@import" not in own_part(page)


def test_the_page_forbids_every_request(page: str):
    assert "default-src 'none'" in page


def test_plotly_is_embedded_once(page: str):
    assert page.count("* plotly.js v") == 1


def test_ids_are_unique_and_the_same_in_every_page(page: str):
    ids = parsed(page).ids
    assert len(ids) == len(set(ids))
    assert {"plot-ttft-cdf", "plot-ttft-histogram", "plot-hit-rate", "plot-waiting"} <= set(ids)
    assert {"plot-running", "plot-pages-0", "plot-prompt-tokens", "plot-tree-1"} <= set(ids)


def test_equal_results_give_equal_pages(page: str):
    assert render(plausible_result(200, 100)) == page


def test_a_result_that_was_read_back_gives_the_same_page(page: str):
    assert render(from_json(to_json(plausible_result(200, 100)))) == page


def test_the_page_says_simulated_time_and_shows_the_cost_model(page: str):
    text = own_part(page)
    assert "simulated time" in text
    assert "Llama-3.1-8B" in text
    assert "NVIDIA H100 data sheet" in text
    assert "989,000,000,000,000" in text


def test_a_measured_page_says_so_and_shows_the_machine():
    result = replace(
        plausible_result(20, 10), config={"machine": {"device_name": "A fine processor"}}, notes=[]
    )
    text = own_part(render(result))
    assert "measured time" in text
    assert "A fine processor" in text
    assert "simulat" not in text.lower()


def test_the_page_shows_seed_versions_notes_and_warnings(page: str):
    text = own_part(page)
    for expected in ("version of numpy", "2.4.6", "never hit", "Warning.", "scheduler.policy"):
        assert expected in text


def test_the_page_shows_errors_and_counters(page: str):
    assert "longest servable: 320000 tokens" in own_part(page)
    assert "40,321" in own_part(page)


def test_the_page_says_that_plots_are_thinned(page: str):
    assert "Plots are thinned" in page


def test_text_from_outside_is_escaped_everywhere():
    box = TreeBox(depth_tokens=0, num_tokens=5, locked=False, children=[], label=EVIL)
    bad = record(status="failed", error=EVIL, kind=EVIL, finished_s=None, miss={EVIL: 36})
    timeline = [sample(0.0), sample(1.0, matched_tokens=5, prompt_tokens=9)]
    evil = run([bad, record()], label=EVIL, tree=[box], counters={EVIL: 1}, timeline=timeline)
    page = render(
        simulation(
            evil,
            config={"workload": EVIL, EVIL: EVIL, "cost_model": {EVIL: [EVIL, {"a": EVIL}]}},
            versions={EVIL: EVIL},
            notes=[EVIL],
            warnings=[EVIL],
        )
    )
    text = own_part(page)
    assert "<img" not in text
    assert "{{ 7*7 }}" in text
    assert "49" not in re.findall(r"<h1>(.*?)</h1>", text, re.DOTALL)[0]
    assert parsed(text).tags.count("script") == 4
    assert text.count("</script>") == 4


def test_a_large_run_stays_small():
    page = render(plausible_result(12_000, 5_000))
    assert len(own_part(page).encode()) < 400_000


def test_a_result_without_runs_is_a_page_too():
    assert "No run." in render(simulation())


def test_a_run_of_nothing_is_a_page_without_plots():
    text = own_part(render(simulation(run([]))))
    assert "<figure" not in text
    assert "All metrics" in text


def test_one_run_is_not_compared():
    text = own_part(render(simulation(run())))
    assert 'class="before"' not in text
    assert "Ratio:" not in text


def test_the_cache_is_the_headline_whatever_the_order_of_the_runs():
    cache, none = run([record(matched_tokens=64)]), run([record()], label="no cache")
    pages = [own_part(render(simulation(*runs))) for runs in ((cache, none), (none, cache))]
    assert pages[0] == pages[1]


def test_a_third_run_is_shown():
    text = own_part(render(simulation(run(label="no cache"), run(), run(label="slru"))))
    assert text.count('<th scope="col">ratio</th>') == 2


def test_a_config_without_a_cost_model_is_said_to_have_none():
    assert "names no cost model" in render(simulation(run()))


def test_hit_over_optimum_is_a_headline_where_it_is_known(page: str):
    assert "<h2>Hit / optimum</h2>" not in page
    bounds = Bounds(
        capacity_tokens=640,
        prompt_tokens=100,
        ceiling_tokens=80,
        optimum_tokens=64,
        num_requests=1,
        num_left_out=0,
    )
    known = render(simulation(run([record(matched_tokens=32)], bounds=bounds), run(label="no cache")))
    assert "<h2>Hit / optimum</h2>" in known
    assert "<h2>Hit / ceiling</h2>" in known
    assert "50.0 %" in own_part(known)


def test_a_study_escapes_what_came_from_outside():
    sheet = Sheet(title=EVIL, columns=[EVIL, "b"], rows=[[EVIL, EVIL]], remark=EVIL)
    study = Study(
        command="curve",
        title=EVIL,
        lead=EVIL,
        facts=[Fact(name=EVIL, value=EVIL, remark=EVIL)],
        figures=[],
        sheets=[sheet],
        warnings=[EVIL],
        notes=[EVIL],
        config={"name": EVIL},
    )
    page = own_part(render_study(study))
    assert "<img" not in page
    assert "49" not in page.split("<main>")[1].split("</main>")[0]
    assert [target for target in parsed(page).targets if not target.startswith("#")] == []
