"""Every contender by its label. Imports none of their code; the requirements beside this file pin it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.peers.contender import Build, BuildQueue, Contender, Queue, Spec
from bench.peers.ray import RayServe
from bench.peers.sglang import SGLang, SGLangQueue
from bench.peers.vllm import VLLM, VLLMQueue
from bench.workloads.prompt_stream import StreamedRequest

OURS = "radixcache"
AS_SHIPPED = "as shipped"
LONGEST_FIRST = "longest prefix first"

_SAME = "differs from the Rust core beside it in requests with output only"
_UNSEEN = {
    f"growth over {base}, tracemalloc": "tracemalloc does not see what Rust allocates"
    for base in ("an empty cache", "no cache")
}
_PARTLY = dict.fromkeys(_UNSEEN, "without its torch tensors, 8 bytes a token, which tracemalloc does not see")
_ONE_CAPACITY = "hashing does not depend on the capacity, and a pass takes half a minute"


def _ours(num_pages: int, page_size: int) -> Contender:
    from bench.peers.ours import Ours  # the peers' environment lacks what ours needs

    return Ours(num_pages, page_size)


def _our_queue(
    num_waiting: int, requests: Iterator[StreamedRequest], num_pages: int, page_size: int
) -> Queue:
    from bench.peers.ours import OurQueue

    return OurQueue(num_waiting, requests, num_pages, page_size)


def _sglang(_: Path, core: str, **options: Any) -> Build:
    return partial(SGLang, core=core, **options)


def _sglang_queue(_: Path, core: str, *, always: bool) -> BuildQueue:
    return partial(SGLangQueue, core=core, always=always)


def _vllm(folder: Path, hash_name: str) -> Build:
    return partial(VLLM, hash_name=hash_name, folder=folder / "vllm")


def _vllm_queue(folder: Path) -> BuildQueue:
    return partial(VLLMQueue, hash_name="xxhash", folder=folder / "vllm")


def _ray(folder: Path) -> Build:
    return partial(RayServe, folder=folder / "ray")


def _sglang_spec(core: str) -> Spec:
    above = "in the order of arrival: above 128 waiting requests its lpm does not match"
    return Spec(
        package="sglang",
        compiled=core == "rust",
        build=partial(_sglang, core=core),
        queues={
            (AS_SHIPPED,): partial(_sglang_queue, core=core, always=False),
            (LONGEST_FIRST,): partial(_sglang_queue, core=core, always=True),
        },
        remarks={
            f"scheduling pass, {AS_SHIPPED}, 1,000 waiting": above,
            f"scheduling pass, {AS_SHIPPED}, 10,000 waiting": above,
            **({} if core == "rust" else _PARTLY),
        },
        lacks=_UNSEEN if core == "rust" else {},
    )


CONTENDERS: dict[str, Spec] = {
    OURS: Spec(
        package="radixcache",
        build=lambda _: _ours,
        page_exact=True,
        queues={(AS_SHIPPED, LONGEST_FIRST): lambda _: _our_queue},
    ),
    "SGLang, Rust core": _sglang_spec("rust"),
    "SGLang, Rust core, as served": Spec(
        package="sglang",
        compiled=True,
        build=partial(_sglang, core="rust", as_served=True),
        lacks={**dict.fromkeys(("peek", "hold", "churn", "convert", "schedule"), _SAME), **_UNSEEN},
    ),
    "SGLang, Python core": _sglang_spec("python"),
    "vLLM, xxhash": Spec(
        package="vllm",
        build=partial(_vllm, hash_name="xxhash"),
        page_exact=True,
        queues={(AS_SHIPPED,): _vllm_queue},
        lacks={f"scheduling pass, {LONGEST_FIRST}": "its scheduler has no such order"},
        remarks={
            "make tokens of a Python list": "its own type is that list: nothing is made",
            f"scheduling pass, {AS_SHIPPED}": (
                "in the order of arrival; the whole of `schedule()`, which also looks the prompt up, "
                "allocates its blocks and makes the step"
            ),
        },
    ),
    "vLLM, sha256": Spec(
        package="vllm",
        build=partial(_vllm, hash_name="sha256"),
        page_exact=True,
        capacities=(3_000_000,),
        lacks={
            "convert": "as with xxhash",
            "schedule": "as with xxhash",
            "a request of the trace": _ONE_CAPACITY,
            "hit rate": _ONE_CAPACITY,
        },
    ),
    "Ray Serve": Spec(
        package="ray",
        build=_ray,
        lacks={
            "hold": "it owns no pages: there is nothing to lock and no page table",
            "convert": "it takes text as it arrives and never sees tokens",
            "schedule": "it routes a request when it comes, and has no queue to put in order",
        },
        remarks={
            "evict a page": (
                "its eviction called after each insertion; its router leaves eviction off, or to a thread "
                "every 10 s"
            ),
            "a request of the trace": (
                "only prompts become known, as its router does it; the excess is evicted at once"
            ),
            "hit rate": "outputs take no room, as they do not become known",
        },
    ),
}
