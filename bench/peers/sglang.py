"""SGLang's `UnifiedRadixCache`, on its Rust core (its default) or its Python core, with its paged allocator.

The calls of a request follow its scheduler: match, lock, indices of the path, allocate (evicting what is
short), insert, free the rest, unlock.
"""

import importlib
from array import array
from collections.abc import Iterator
from typing import Any

from bench.errors import expect
from bench.harness.meter import Meter
from bench.peers.standins import stand_in_for
from bench.workloads.material import Ids
from bench.workloads.prompt_stream import StreamedRequest
from bench.workloads.trace import FreshOutputs

STAND_INS = ("triton", "sgl_kernel", "torchvision", "gguf", "compressed_tensors", "sentencepiece")


class SGLang:
    """The cache core and its allocator on the CPU.

    Args:
        num_pages: Pages of the pool.
        page_size: Tokens of a page.
        core: "rust" or "python".
        as_served: Also insert the prompt after prefill, and split at its end, as the server does.
    """

    def __init__(self, num_pages: int, page_size: int, core: str, *, as_served: bool = False) -> None:
        stand_in_for(STAND_INS)
        unified = importlib.import_module("sglang.srt.mem_cache.unified_radix_cache")
        components = importlib.import_module("sglang.srt.mem_cache.unified_cache.component_type")
        params = importlib.import_module("sglang.srt.mem_cache.cache_init_params")
        allocators = importlib.import_module("sglang.srt.mem_cache.allocator")
        self._api = importlib.import_module("sglang.srt.mem_cache.base_prefix_cache")
        self._key = importlib.import_module("sglang.srt.mem_cache.radix_cache").RadixKey
        self._torch = importlib.import_module("torch")
        self._torch.set_num_threads(1)
        self._page_size = page_size
        self._as_served = as_served
        self._allocator = allocators.PagedTokenToKVPoolAllocator(
            num_pages * page_size, page_size, self._torch.int64, "cpu", None, need_sort=True
        )
        self._cache = unified.UnifiedRadixCache(
            params.CacheInitParams(
                disable=False,
                req_to_token_pool=None,
                token_to_kv_pool_allocator=self._allocator,
                page_size=page_size,
                tree_components=(components.ComponentType.FULL,),
                tree_core_backend=core,
            )
        )

    def make_tokens(self, ids: Ids | list[int]) -> "array[int]":
        """See `Contender`."""
        if isinstance(ids, list):
            return array("q", ids)
        tokens = array("q")
        tokens.frombytes(ids.astype("<i8").tobytes())
        return tokens

    def _match(self, tokens: "array[int]") -> Any:
        key = self._key(tokens, limit=len(tokens) - 1)
        return self._cache.match_prefix(self._api.MatchPrefixParams(key=key))

    def peek(self, tokens: "array[int]") -> int:
        """See `Contender`."""
        return int(self._match(tokens).device_prefix_len)

    def hold(self, tokens: "array[int]") -> int:
        """See `Contender`."""
        match = self._match(tokens)
        lock = self._cache.lock(match.last_device_node)
        self._cache.path_device_indices(match.last_device_node)
        self._cache.unlock(lock)
        return int(match.device_prefix_len)

    def serve(self, tokens: "array[int]", output: "array[int] | None") -> int:
        """See `Contender`."""
        cache, allocator, page_size = self._cache, self._allocator, self._page_size
        match = self._match(tokens)
        prefix_len = match.device_prefix_len
        lock = cache.lock(match.last_device_node)
        known = tokens if output is None else tokens + output
        needed = -(-len(known) // page_size) * page_size - prefix_len
        short = needed - allocator.available_size()
        if short > 0:
            cache.evict(self._api.EvictParams(num_tokens=short))
        row = allocator.alloc(needed)
        if prefix_len:
            path = cache.path_device_indices(match.last_device_node)[:prefix_len]
            row = self._torch.cat((path, row))
        published_len = prefix_len
        if self._as_served and output is not None:
            lock = self._publish_prompt(tokens, row, prefix_len, lock)
            published_len = len(tokens) // page_size * page_size
        end = len(known) // page_size * page_size
        self._insert(known, row[:end], published_len)
        if self._as_served and output is not None:
            self._insert(tokens, row[:published_len], published_len)  # splits the leaf at the prompt's end
        if end < len(row):
            allocator.free_segment(row[end:], start_pos=end)
        cache.unlock(lock)
        return int(prefix_len)

    def _publish_prompt(self, tokens: "array[int]", row: Any, prefix_len: int, lock: Any) -> Any:
        end = len(tokens) // self._page_size * self._page_size
        node = self._insert(tokens, row[:end], prefix_len).last_device_node
        row[:end] = self._cache.path_device_indices(node)
        self._cache.unlock(lock)
        return self._cache.lock(node)

    def _insert(self, tokens: "array[int]", values: Any, published_len: int) -> Any:
        key = self._key(tokens).page_aligned(self._page_size)
        values = values.to(dtype=self._torch.int64, copy=True)
        params = self._api.InsertParams(key=key, value=values, prev_prefix_len=published_len)
        return self._cache.insert(params)

    def cached_tokens(self) -> int:
        """See `Contender`."""
        return int(self._cache.evictable_size() + self._cache.protected_size())

    @property
    def tree(self) -> Any:
        """Its prefix cache."""
        return self._cache


class SGLangQueue:
    """Its waiting queue of real request objects, put in order by `SchedulePolicy` with `lpm`.

    Above 128 waiting requests the policy by itself keeps the order of arrival.

    Args:
        num_waiting: Requests that wait.
        requests: What arrives.
        num_pages: Pages of the pool.
        page_size: Tokens of a page.
        core: "rust" or "python".
        always: Call what the policy calls for its longest-prefix order, whatever the length.
    """

    def __init__(
        self,
        num_waiting: int,
        requests: Iterator[StreamedRequest],
        num_pages: int,
        page_size: int,
        core: str,
        *,
        always: bool,
    ) -> None:
        self._server = SGLang(num_pages, page_size, core)
        context = importlib.import_module("sglang.srt.runtime_context").get_context()
        context.override_server_args(device="cpu").install()
        policies = importlib.import_module("sglang.srt.managers.schedule_policy")
        batches = importlib.import_module("sglang.srt.managers.schedule_batch")
        sampling = importlib.import_module("sglang.srt.sampling.sampling_params")
        self._request, self._sampling = batches.Req, sampling.SamplingParams
        self._lpm = policies.CacheAwarePolicy.LPM
        self._policy = policies.SchedulePolicy("lpm", self._server.tree, False, False, False)
        self._is_lpm = always or num_waiting <= policies.WAITING_QUEUE_PREFIX_MATCH_MAX
        self._order = self._put_in_order if always else self._calc_priority
        self._requests, self._outputs = requests, FreshOutputs()
        self._waiting: list[Any] = []
        self._num_joined = 0
        self._output_lens: dict[str, int] = {}
        self.passes = Meter()
        for _ in range(num_waiting):
            self._join()

    def _join(self) -> None:
        prompt, output_len = next(self._requests)
        rid = f"{self._num_joined}"
        self._num_joined += 1
        ids = self._server.make_tokens(prompt)
        self._waiting.append(self._request(rid, "", ids, self._sampling(max_new_tokens=output_len)))
        self._output_lens[rid] = output_len

    def _calc_priority(self) -> None:
        self._policy.calc_priority(self._waiting, None)

    def _put_in_order(self) -> None:
        last = self._policy._compute_prefix_matches(self._waiting, self._lpm)
        self._policy._sort_by_longest_prefix(self._waiting, last)

    def dispatch(self) -> None:
        """See `Queue`."""
        self.passes.time(self._order)
        self.passes.lap()
        self._serve_first()

    def _serve_first(self) -> None:
        request = self._waiting.pop(0)
        output = self._server.make_tokens(self._outputs.take(self._output_lens.pop(request.rid)))
        self._server.serve(request.origin_input_ids, output)
        self._join()

    def warm_up(self, times: int) -> None:
        """See `Queue`; in the order of arrival, as that fills the cache soonest."""
        before = -1
        while times > 0 or before < (before := self._server.cached_tokens()):
            times -= 1
            self._serve_first()
        self._order()

    def verify(self) -> None:
        """See `Queue`. Everybody is looked up anew."""
        self._order()
        if not self._is_lpm:
            numbers = [int(request.rid) for request in self._waiting]
            expect("order of arrival", numbers, sorted(numbers))
            return
        found = [self._server.peek(request.origin_input_ids) for request in self._waiting]
        expect("tokens found of the first", found[0], max(found))
