"""What a request brought."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt


class FinishReason(StrEnum):
    """Why an output ended."""

    LENGTH = "length"
    STOP_TOKEN = "stop_token"
    STOP_TEXT = "stop_text"
    ABORT = "abort"
    ERROR = "error"
    DEADLINE = "deadline"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Completion:
    """The outcome of one request.

    Attributes:
        request_id: Which request.
        finish_reason: Why it ended.
        prompt_tokens: Tokens of the prompt.
        token_ids: Tokens generated; a stop token is among them.
        text: Their text without what stopped it; empty where there is no tokenizer. All chunks' texts.
        cached_tokens: Prompt tokens found in the cache when it first ran, those of copied pages included.
        computed_tokens: Prompt tokens computed. With `cached_tokens` that is the whole prompt, unless the
            request ended early, or found more of it when it came back from a preemption.
        recomputed_tokens: Tokens computed again after preemptions.
        missed_tokens: Prompt tokens that were not found, by reason. Empty where nothing was looked for.
        cache_read: `False`: the cache was not read, because the prompt's log-probabilities were wanted or
            the request said so.
        prompt_logprobs: Log-probability of each prompt token but the first, which has none and is NaN;
            float32 of shape [prompt], NaN also where it was never computed. `None` where not wanted.
        preemptions: How often it was thrown back.
        queue_s: Seconds from `add_request` until it first ran; `None`: it never did.
        ttft_s: Seconds from `add_request` to its first token; `None`: there was none.
        e2e_s: Seconds from `add_request` to its end.
        error: Why it failed; `None` where it did not.
    """

    request_id: str
    finish_reason: FinishReason
    prompt_tokens: int
    token_ids: list[int]
    text: str
    cached_tokens: int
    computed_tokens: int
    recomputed_tokens: int
    missed_tokens: dict[str, int]
    cache_read: bool
    prompt_logprobs: npt.NDArray[np.float32] | None
    preemptions: int
    queue_s: float | None
    ttft_s: float | None
    e2e_s: float
    error: Exception | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunk:
    """What a step brought for one request.

    Attributes:
        request_id: Which request.
        token_ids: New tokens.
        text: Text that is certain now and was not before.
        completion: The outcome, in the last chunk of a request.
    """

    request_id: str
    token_ids: list[int]
    text: str
    completion: Completion | None = None
