"""What the engine keeps of requests that have not ended."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from runtime.engine.answer import AnswerText
from runtime.engine.completion import Chunk, Completion, FinishReason
from runtime.engine.sampling import SamplingParams
from scheduler import Request, RequestState

_ENDS = {
    RequestState.FINISHED: FinishReason.LENGTH,
    RequestState.ABORTED: FinishReason.ABORT,
    RequestState.FAILED: FinishReason.ERROR,
    RequestState.EXPIRED: FinishReason.DEADLINE,
}


@dataclass(slots=True, eq=False)
class LiveRequest:
    """A request, and what the engine adds to it.

    Attributes:
        request: As the scheduler sees it.
        params: What it wants.
        stop_ids: Tokens that end its output.
        answer: Its text.
        awaited: Somebody waits for it within `generate` or `stream`: its chunks stay here.
        stopped_by: Why the engine ended it.
        error: Why its text could not be made.
        num_read: Output tokens that were taken in as text.
        num_given: Output tokens that are in chunks.
        num_shown: Characters of its text that are in chunks.
        chunks: Chunks that were not fetched, where it is awaited.
        completion: The outcome, once there is one.
    """

    request: Request
    params: SamplingParams
    stop_ids: frozenset[int]
    answer: AnswerText
    awaited: bool
    stopped_by: FinishReason | None = None
    error: Exception | None = None
    num_read: int = 0
    num_given: int = 0
    num_shown: int = 0
    chunks: deque[Chunk] = field(default_factory=deque)
    completion: Completion | None = None

    def read(self) -> None:
        """Take in new tokens as text, until one ends the output; keep as `error` what a tokenizer raises."""
        for token in self.request.output[self.num_read :]:
            if self.stopped_by is not None or self.error is not None:
                return
            self.num_read += 1
            if token in self.stop_ids:
                self.stopped_by = FinishReason.STOP_TOKEN
                return
            try:
                _, stopped = self.answer.push(token)
            except Exception as error:  # noqa: BLE001  # whatever a tokenizer raises
                self.error = error
            else:
                self.stopped_by = FinishReason.STOP_TEXT if stopped else None

    def complete(self, *, cached: bool, prompt_logprobs: npt.NDArray[np.float32] | None) -> None:
        """The request ended: let out the text that was held back, and make its completion.

        Args:
            cached: Whether there is a cache that it could read.
            prompt_logprobs: Those that were computed, if any.
        """
        self.read()
        self._read_rest()
        request = self.request
        submitted_at, finished_at = request.submitted_at, request.finished_at
        assert submitted_at is not None
        assert finished_at is not None
        if self.params.prompt_logprobs and prompt_logprobs is None:
            prompt_logprobs = np.full(request.prompt_len, np.nan, dtype=np.float32)
        failed = self.error is not None
        self.completion = Completion(
            request_id=request.request_id,
            finish_reason=FinishReason.ERROR if failed else self.stopped_by or _ENDS[request.state],
            prompt_tokens=request.prompt_len,
            token_ids=list(request.output),
            text=self.answer.text,
            cached_tokens=request.matched_len + request.copied_len,
            computed_tokens=request.prefill_tokens,
            recomputed_tokens=request.recomputed_tokens,
            missed_tokens=dict(request.missed_tokens),
            cache_read=cached and request.read,
            prompt_logprobs=prompt_logprobs,
            preemptions=request.num_preemptions,
            queue_s=_since(submitted_at, request.first_scheduled_at),
            ttft_s=_since(submitted_at, request.first_token_at),
            e2e_s=finished_at - submitted_at,
            error=self.error or request.error,
        )

    def _read_rest(self) -> None:
        if self.stopped_by is FinishReason.STOP_TEXT or self.error is not None:
            return
        try:
            _, stopped = self.answer.finish()
        except Exception as error:  # noqa: BLE001
            self.error = error
            return
        if stopped and self.request.state is RequestState.FINISHED:
            self.stopped_by = FinishReason.STOP_TEXT

    def next_chunk(self) -> Chunk:
        """Tokens and text that no chunk had yet, and the completion if there is one."""
        tokens, text = self.request.output[self.num_given :], self.answer.text[self.num_shown :]
        self.num_given += len(tokens)
        self.num_shown += len(text)
        return Chunk(
            request_id=self.request.request_id, token_ids=tokens, text=text, completion=self.completion
        )


class EndedRequests:
    """Those that the scheduler ended, whoever made it do so, until they are taken. A `SchedulerObserver`."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()

    def __len__(self) -> int:
        return len(self._requests)

    def take(self) -> Request:
        """The one that ended first."""
        return self._requests.popleft()

    def submitted(self, request: Request, now: float) -> None:
        """See `SchedulerObserver`."""

    def ended(self, request: Request, now: float) -> None:
        """See `SchedulerObserver`."""
        self._requests.append(request)


def _since(start: float, moment: float | None) -> float | None:
    return None if moment is None else moment - start
