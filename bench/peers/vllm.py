"""vLLM's `KVCacheManager` with one full-attention group. It has no tree: a prefix is a chain of block hashes.

A request computes its block hashes when it is made, so that is part of every lookup; once a request.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

from bench.peers.standins import stand_in_for
from bench.workloads.material import Ids

STAND_INS = ("triton", "xgrammar", "llguidance", "vllm._C", "vllm._moe_C", "vllm._C_stable_libtorch")
UNBOUNDED = 1 << 20


class VLLM:
    """The block pool on the CPU.

    Args:
        num_pages: Pages of the pool; one more block is made, as vLLM keeps one for itself.
        page_size: Tokens of a page.
        hash_name: "sha256" (its default) or "xxhash" (its fastest).
        folder: Where vLLM and the openai package that it wants are installed.
    """

    def __init__(self, num_pages: int, page_size: int, hash_name: str, folder: Path) -> None:
        sys.path.insert(0, str(folder))
        stand_in_for(STAND_INS)
        torch = importlib.import_module("torch")
        torch.set_num_threads(1)
        managers = importlib.import_module("vllm.v1.core.kv_cache_manager")
        utils = importlib.import_module("vllm.v1.core.kv_cache_utils")
        specs = importlib.import_module("vllm.v1.kv_cache_interface")
        hash_function = getattr(importlib.import_module("vllm.utils.hashing"), hash_name)
        self._request = importlib.import_module("vllm.v1.request").Request
        self._sampling = importlib.import_module("vllm.sampling_params").SamplingParams(max_tokens=UNBOUNDED)
        utils.init_none_hash(hash_function)
        self._hasher = utils.get_request_block_hasher(page_size, hash_function)
        spec = specs.FullAttentionSpec(block_size=page_size, num_kv_heads=1, head_size=1, dtype=torch.float16)
        group = specs.KVCacheGroupSpec(["layer"], spec)
        config = specs.KVCacheConfig(num_blocks=num_pages + 1, kv_cache_tensors=[], kv_cache_groups=[group])
        self._manager = managers.KVCacheManager(
            config, max_model_len=UNBOUNDED, scheduler_block_size=page_size, hash_block_size=page_size
        )
        self._number = 0

    def make_tokens(self, ids: Ids) -> list[int]:
        """See `Contender`."""
        tokens: list[int] = ids.tolist()
        return tokens

    def _make_request(self, tokens: list[int]) -> Any:
        self._number += 1
        return self._request(str(self._number), tokens, self._sampling, None, block_hasher=self._hasher)

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
