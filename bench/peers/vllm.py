"""vLLM's `KVCacheManager` with one full-attention group, and its scheduler.

It has no tree: a prefix is a chain of hashes. A request computes its block hashes when it is made, so that is
part of every lookup; once a request.
"""

import importlib
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from bench.errors import expect
from bench.harness.meter import Meter
from bench.peers.standins import stand_in_for
from bench.workloads.material import Ids
from bench.workloads.prompt_stream import StreamedRequest

STAND_INS = ("triton", "xgrammar", "llguidance", "vllm._C", "vllm._moe_C", "vllm._C_stable_libtorch")
UNBOUNDED = 1 << 20


class _Requests:
    """Makes its request objects; the block hashes are computed on the way.

    Args:
        page_size: Tokens of a block.
        hash_name: "sha256" (its default) or "xxhash" (its fastest).
        folder: Where vLLM and the openai package that it wants are installed.
    """

    def __init__(self, page_size: int, hash_name: str, folder: Path) -> None:
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        stand_in_for(STAND_INS)
        importlib.import_module("torch").set_num_threads(1)
        utils = importlib.import_module("vllm.v1.core.kv_cache_utils")
        hash_function = getattr(importlib.import_module("vllm.utils.hashing"), hash_name)
        self._request = importlib.import_module("vllm.v1.request").Request
        self._sampling = importlib.import_module("vllm.sampling_params").SamplingParams
        utils.init_none_hash(hash_function)
        self._hasher = utils.get_request_block_hasher(page_size, hash_function)
        self._number = 0

    def make(self, tokens: list[int], max_tokens: int) -> Any:
        """A request, numbered from 1."""
        self._number += 1
        sampling = self._sampling(max_tokens=max_tokens)
        return self._request(str(self._number), tokens, sampling, None, block_hasher=self._hasher)


def _cache_config(num_pages: int, page_size: int) -> Any:
    """One more block than pages, as vLLM keeps one for itself."""
    specs = importlib.import_module("vllm.v1.kv_cache_interface")
    half = importlib.import_module("torch").float16
    spec = specs.FullAttentionSpec(block_size=page_size, num_kv_heads=1, head_size=1, dtype=half)
    group = specs.KVCacheGroupSpec(["layer"], spec)
    return specs.KVCacheConfig(num_blocks=num_pages + 1, kv_cache_tensors=[], kv_cache_groups=[group])


class VLLM:
    """The block pool on the CPU.

    Args:
        num_pages: Pages of the pool.
        page_size: Tokens of a page.
        hash_name: "sha256" (its default) or "xxhash" (its fastest).
        folder: Where vLLM and the openai package that it wants are installed.
    """

    def __init__(self, num_pages: int, page_size: int, hash_name: str, folder: Path) -> None:
        self._requests = _Requests(page_size, hash_name, folder)
        self._page_size = page_size
        self._manager = importlib.import_module("vllm.v1.core.kv_cache_manager").KVCacheManager(
            _cache_config(num_pages, page_size),
            max_model_len=UNBOUNDED,
            scheduler_block_size=page_size,
            hash_block_size=page_size,
        )

    def make_tokens(self, ids: Ids | list[int]) -> list[int]:
        """See `Contender`."""
        if isinstance(ids, list):
            return ids
        tokens: list[int] = ids.tolist()
        return tokens

    def _make_request(self, tokens: list[int]) -> Any:
        return self._requests.make(tokens, UNBOUNDED)

    def peek(self, tokens: list[int]) -> int:
        """See `Contender`."""
        return int(self._manager.get_computed_blocks(self._make_request(tokens))[1])

    def hold(self, tokens: list[int]) -> int:
        """See `Contender`; needs a block for the last token, as allocating slots is what locks."""
        request = self._make_request(tokens)
        blocks, matched_len, _ = self._manager.get_computed_blocks(request)
        self._manager.allocate_slots(request, 1, matched_len, blocks)
        self._manager.get_block_ids(request.request_id)
        self._manager.free(request)
        return int(matched_len)

    def serve(self, tokens: list[int], output: list[int] | None) -> int:
        """See `Contender`."""
        manager = self._manager
        request = self._make_request(tokens)
        blocks, matched_len, _ = manager.get_computed_blocks(request)
        manager.allocate_slots(request, len(tokens) - matched_len, matched_len, blocks)
        request.num_computed_tokens = len(tokens)
        if output:
            request.append_output_token_ids(output)
            manager.allocate_slots(request, len(output))
            request.num_computed_tokens += len(output)
        manager.free(request)
        return int(matched_len)

    def cached_tokens(self) -> int:
        """See `Contender`."""
        return len(self._manager.block_pool.cached_block_hash_to_block) * self._page_size


class VLLMQueue:
    """The waiting queue of its `Scheduler`, which knows no order but that of arrival and that of priority.

    One request runs at a time, and generates one token. The configuration of a model, of which the scheduler
    asks only what it is not, and the manager of structured outputs are stand-ins.

    Args:
        num_waiting: Requests that wait.
        requests: What arrives.
        num_pages: Pages of the pool.
        page_size: Tokens of a page.
        hash_name: As for `VLLM`.
        folder: As for `VLLM`.
    """

    def __init__(
        self,
        num_waiting: int,
        requests: Iterator[StreamedRequest],
        num_pages: int,
        page_size: int,
        hash_name: str,
        folder: Path,
    ) -> None:
        self._make = _Requests(page_size, hash_name, folder).make
        self._requests, self._waiting = requests, deque[str]()
        self._output = importlib.import_module("vllm.v1.outputs").ModelRunnerOutput
        schedulers = importlib.import_module("vllm.v1.core.sched.scheduler")
        self._scheduler = schedulers.Scheduler(
            _engine_config(num_pages, page_size),
            _cache_config(num_pages, page_size),
            structured_output_manager=MagicMock(),
            block_size=page_size,
        )
        self.passes = Meter()
        for _ in range(num_waiting):
            self._join()

    def _join(self) -> None:
        prompt, _ = next(self._requests)
        request = self._make(prompt.tolist(), 1)
        self._scheduler.add_request(request)
        self._waiting.append(request.request_id)

    def dispatch(self) -> None:
        """See `Queue`."""
        step = self.passes.time(self._scheduler.schedule)
        self.passes.lap()
        expect("who is next", list(step.num_scheduled_tokens), [self._waiting.popleft()])
        (number,) = step.num_scheduled_tokens
        done = self._output(req_ids=[number], req_id_to_index={number: 0}, sampled_token_ids=[[0]])
        self._scheduler.update_from_output(step, done)
        self._join()

    def warm_up(self, times: int) -> None:
        """See `Queue`."""
        pool = self._scheduler.kv_cache_manager.block_pool
        before = -1
        while times > 0 or before < (before := len(pool.cached_block_hash_to_block)):
            times -= 1
            self.dispatch()

    def verify(self) -> None:
        """See `Queue`; every dispatch compares who is next with the order of arrival."""
        expect("who runs", self._scheduler.running, [])
        expect("who waits", [request.request_id for request in self._scheduler.waiting], list(self._waiting))


def _engine_config(num_pages: int, page_size: int) -> Any:
    configs = importlib.import_module("vllm.config")
    longest = 1 << 17
    config = configs.VllmConfig(
        scheduler_config=configs.SchedulerConfig(
            max_num_seqs=1, max_num_batched_tokens=longest, max_model_len=longest, is_encoder_decoder=False
        ),
        cache_config=configs.CacheConfig(block_size=page_size, enable_prefix_caching=True),
        device_config=configs.DeviceConfig(device="cpu"),
    )
    config.cache_config.num_gpu_blocks = num_pages + 1
    config.model_config = SimpleNamespace(
        max_model_len=longest,
        runner_type="generate",
        uses_mrope=False,
        is_encoder_decoder=False,
        multimodal_config=None,
        is_diffusion=False,
        supports_multimodal_inputs=False,
        return_sampling_mask=False,
    )
    return config
