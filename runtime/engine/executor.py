"""Runs plans on a real model."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from radixcache import PageCopy
from runtime.attention import AttentionBackend, MetadataBuilder, rows_to_compute
from runtime.clock import Clock
from runtime.engine.errors import SamplingError
from runtime.engine.sampling import Sampler
from runtime.executor import StepOutput
from runtime.kv_pool import KVPool
from runtime.models import Decoder
from scheduler import Row, StepPlan


class TorchExecutor:
    """Computes a step on any device of torch: copies first, then one pass over all rows, then the sampler.

    Args:
        model: The decoder.
        pool: Its KV, as large as the cache's pages.
        attention: Of the pool's heads, page size and dtype.
        sampler: Chooses tokens.
        clock: Measures steps.
    """

    def __init__(
        self, model: Decoder, pool: KVPool, attention: AttentionBackend, sampler: Sampler, clock: Clock
    ) -> None:
        self.model = model
        self._pool = pool
        self._attention = attention
        self._sampler = sampler
        self._clock = clock
        self._metadata = MetadataBuilder(pool.page_size)
        self._logprobs: dict[str, npt.NDArray[np.float32]] = {}

    def execute(self, plan: StepPlan) -> StepOutput:
        """See `Executor`."""
        start_ps = self._clock.now_ps()
        self._copy(plan.copies)
        rows = rows_to_compute(plan)
        chosen = self._compute(rows) if rows else {}
        tokens = {name: [each] for name, each in chosen.items() if not isinstance(each, SamplingError)}
        errors = {name: each for name, each in chosen.items() if isinstance(each, SamplingError)}
        return StepOutput(tokens, self._clock.now_ps() - start_ps, errors)

    def take_prompt_logprobs(self, request_id: str) -> npt.NDArray[np.float32] | None:
        """Log-probabilities of a prompt's tokens, float32 of shape [prompt], NaN for the first; once."""
        return self._logprobs.pop(request_id, None)

    def _copy(self, copies: Sequence[PageCopy]) -> None:
        if copies:
            self._pool.copy(copies)

    def _compute(self, rows: Sequence[Row]) -> dict[str, int | SamplingError]:
        metadata = self._metadata.build(rows)
        self._attention.plan(metadata)
        device = self.model.device
        last = metadata.qo_indptr[1:].astype(np.int64) - 1
        generating = [place for place, row in enumerate(rows) if row.max_tokens]
        scored = [place for place, row in enumerate(rows) if self._is_scored(row)]
        wanted = [last[generating], *(np.arange(*metadata.qo_indptr[[place, place + 1]]) for place in scored)]
        logits = self.model.forward(
            _tensor(np.concatenate([known_ids(row) for row in rows]), device),
            _tensor(metadata.positions, device),
            _tensor(metadata.slot_mapping, device),
            self._pool,
            self._attention,
            _tensor(np.concatenate(wanted), device),
        )
        self._score([rows[place] for place in scored], logits[len(generating) :])
        requests = [rows[place].request for place in generating]
        chosen = self._sampler.sample(
            [request.request_id for request in requests],
            [len(request.output) for request in requests],
            logits[: len(generating)],
        )
        return {request.request_id: each for request, each in zip(requests, chosen, strict=True)}

    def _is_scored(self, row: Row) -> bool:
        """Whether the prompt's log-probabilities are wanted, and this row computes some of them."""
        request = row.request
        return row.start < request.prompt_len - 1 and self._sampler.wants_prompt_logprobs(request.request_id)

    def _score(self, rows: Sequence[Row], logits: Tensor) -> None:
        at = 0
        for row in rows:
            request = row.request
            own = logits[at : at + row.extend_len]
            at += row.extend_len
            if request.sequence is None:
                continue  # aborted meanwhile: nobody would take them
            stop = min(row.start + row.extend_len, request.prompt_len - 1)
            following = _tensor(request.prompt.numpy()[row.start + 1 : stop + 1], own.device)
            scores = torch.log_softmax(own[: len(following)], dim=-1).gather(1, following[:, None])[:, 0]
            found = self._logprobs.setdefault(
                request.request_id, np.full(request.prompt_len, np.nan, dtype=np.float32)
            )
            found[row.start + 1 : stop + 1] = scores.cpu().numpy()


def known_ids(row: Row) -> npt.NDArray[np.int32]:
    """Token ids that a row computes, int32 of shape [extend_len]."""
    request, start, stop = row.request, row.start, row.start + row.extend_len
    prompt_len = request.prompt_len
    if start >= prompt_len:
        return np.array(request.output[start - prompt_len : stop - prompt_len], dtype=np.int32)
    prompt = request.prompt.numpy()[start : min(stop, prompt_len)]
    if stop <= prompt_len:
        return prompt
    return np.concatenate((prompt, np.array(request.output[: stop - prompt_len], dtype=np.int32)))


def _tensor(values: npt.NDArray[np.integer], device: torch.device) -> Tensor:
    return torch.from_numpy(values.astype(np.int64)).to(device)
