"""Public names and settings: whoever adds one changes this file, so that it is a decision."""

import dataclasses
import importlib
import inspect
from types import ModuleType

import pytest

import radixcache
import runtime
import scheduler
from radixcache import CacheConfig, PrefixCache, Sequence
from scheduler import SchedulerConfig

PUBLIC_NAMES = {
    radixcache: [
        "EVICTION_POLICIES",
        "CacheConfig",
        "CacheObserver",
        "CacheStats",
        "EvictionPolicy",
        "Match",
        "MissReason",
        "Namespace",
        "NullPrefixCache",
        "OutOfPages",
        "PageCopy",
        "PageCounts",
        "PrefixCache",
        "RadixCacheError",
        "Sequence",
        "Tokens",
        "check",
    ],
    scheduler: [
        "QUEUE_POLICIES",
        "DeadlineMissed",
        "Interrupted",
        "InvalidRequest",
        "PlanError",
        "PolicyOptions",
        "PoolOutgrown",
        "PreemptReason",
        "QueueFull",
        "QueuePolicy",
        "ReentrantCall",
        "Request",
        "RequestState",
        "RequestTooLong",
        "Row",
        "Scheduler",
        "SchedulerConfig",
        "SchedulerObserver",
        "Stalled",
        "StepPlan",
        "WrongThread",
    ],
    runtime: [],
}

SETTINGS = {
    CacheConfig: [
        "num_pages",
        "page_size",
        "first_page",
        "eviction",
        "partial_reuse",
        "max_ghosts",
        "max_events",
    ],
    SchedulerConfig: [
        "policy",
        "policy_options",
        "token_budget",
        "prefill_chunk_tokens",
        "max_running",
        "max_waiting",
        "max_overtakes",
        "share_in_flight",
        "priority_step",
        "max_empty_plans",
    ],
}

VERBS = {
    PrefixCache: [
        "advance_time",
        "evict",
        "open",
        "pages",
        "peek",
        "reset",
        "retire",
        "snapshot",
        "stats",
        "subscribe",
        "unsubscribe",
    ],
    Sequence: [
        "abort",
        "advance",
        "append",
        "close",
        "fork",
        "in_flight",
        "num_tokens",
        "page_table",
        "partial",
        "private_pages",
        "prompt_len",
        "publish",
        "published_len",
        "reserve",
        "reserved_len",
        "slots",
        "state",
        "take_copies",
    ],
}


@pytest.mark.parametrize("package", PUBLIC_NAMES, ids=lambda package: package.__name__)
def test_the_public_names_are_these(package: ModuleType) -> None:
    assert list(getattr(package, "__all__", [])) == PUBLIC_NAMES[package]
    for name in PUBLIC_NAMES[package]:
        assert hasattr(package, name)


@pytest.mark.parametrize("config", SETTINGS, ids=lambda config: config.__name__)
def test_the_settings_are_these_frozen_and_named(config: type) -> None:
    fields = dataclasses.fields(config)
    assert [each.name for each in fields] == SETTINGS[config]
    assert all(each.kw_only for each in fields)
    assert config.__dataclass_params__.frozen
    assert "__slots__" in vars(config)


@pytest.mark.parametrize("kind", VERBS, ids=lambda kind: kind.__name__)
def test_the_verbs_are_these(kind: type) -> None:
    found = [name for name in vars(kind) if not name.startswith("_")]
    assert sorted(found) == VERBS[kind]


@pytest.mark.parametrize("config", SETTINGS, ids=lambda config: config.__name__)
def test_every_setting_is_documented(config: type) -> None:
    for name in SETTINGS[config]:
        assert f"{name}: " in inspect.getdoc(config), name


def test_every_module_of_the_three_packages_can_be_imported() -> None:
    from tests.architecture.sources import ROOT, python_files

    for package in ("radixcache", "scheduler"):
        for path in python_files(package):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            importlib.import_module(name.removesuffix(".__init__"))
