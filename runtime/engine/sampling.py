"""How the next token is chosen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from radixcache.arguments import as_integer
from radixcache.errors import InvalidArgumentType, InvalidConfig
from runtime.engine.errors import SamplingError

_SEED_END: Final = 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """What a request wants of its output.

    Attributes:
        max_new_tokens: Tokens at most, >= 1.
        temperature: 0: always the likeliest token. Above: logits are divided by it.
        top_k: Only the k likeliest tokens, >= 1; `None`: all.
        top_p: Only the likeliest tokens that together reach this probability, in (0, 1].
        seed: Of the draws, 0 to 2**64 - 1; `None`: the engine's own seed and the number of the request.
        stop: Texts that end the output; they are no part of it.
        stop_token_ids: Token ids >= 0 that end the output, besides the model's own.
        ignore_eos: Go on behind the model's own end tokens.
        prompt_logprobs: Return the log-probability of each prompt token. All of the prompt is computed
            then: nothing is read from the cache.

    Raises:
        InvalidConfig: A value lies outside its range; names it and the limit.
        InvalidArgumentType: A value is no number, or no integer, where one is needed.
    """

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    prompt_logprobs: bool = False

    def __post_init__(self) -> None:
        if as_integer("max_new_tokens", self.max_new_tokens) < 1:
            raise InvalidConfig(f"max_new_tokens is at least 1, got {self.max_new_tokens}")
        if not 0 <= _as_number("temperature", self.temperature) < float("inf"):
            raise InvalidConfig(f"temperature is a finite number >= 0, got {self.temperature}")
        if self.top_k is not None and as_integer("top_k", self.top_k) < 1:
            raise InvalidConfig(f"top_k is at least 1, got {self.top_k}")
        if not 0 < _as_number("top_p", self.top_p) <= 1:
            raise InvalidConfig(f"top_p lies in (0, 1], got {self.top_p}")
        if self.seed is not None:
            require_seed(self.seed)
        if not _are_texts(self.stop):
            raise InvalidConfig(f"stop is a tuple of texts that are not empty, got {self.stop!r}")
        if not _are_token_ids(self.stop_token_ids):
            raise InvalidConfig(f"stop_token_ids is a tuple of integers >= 0, got {self.stop_token_ids!r}")


def require_seed(seed: int) -> None:
    """Refuse what is no seed.

    Raises:
        InvalidConfig: Not 0 to 2**64 - 1.
        InvalidArgumentType: Not an integer.
    """
    if not 0 <= as_integer("seed", seed) < _SEED_END:
        raise InvalidConfig(f"seed is 0 to 2**64 - 1, got {seed}")


def _as_number(name: str, value: object) -> float:
    if not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidArgumentType(f"{name} is a number, got {value!r}")
    return float(value)


def _are_texts(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(text, str) and text for text in value)


def _are_token_ids(value: object) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(token, (int, np.integer)) and token >= 0 for token in value
    )


class Sampler:
    """Chooses the next token of each row, whoever else is in the batch.

    A draw depends on the request's seed and on the place of the token in its output, on nothing else: not on
    the batch, not on a step that failed and was run again, not on a preemption.

    Args:
        seed: For requests that bring none, 0 to 2**64 - 1.

    Raises:
        InvalidConfig, InvalidArgumentType: It is no seed.
    """

    def __init__(self, seed: int = 0) -> None:
        require_seed(seed)
        self._seed = seed
        self._params: dict[str, tuple[SamplingParams, int]] = {}
        self._num_added = 0

    def add(self, request_id: str, params: SamplingParams) -> None:
        """Remember what a request wants."""
        seed = params.seed
        if seed is None:
            seed = int(np.random.SeedSequence((self._seed, self._num_added)).generate_state(1, np.uint64)[0])
        self._params[request_id] = params, seed
        self._num_added += 1

    def drop(self, request_id: str) -> None:
        """Forget a request that ended."""
        self._params.pop(request_id, None)

    def wants_prompt_logprobs(self, request_id: str) -> bool:
        """Whether a request asked for the log-probabilities of its prompt."""
        entry = self._params.get(request_id)
        return entry is not None and entry[0].prompt_logprobs

    def sample(
        self, request_ids: Sequence[str], places: Sequence[int], logits: Tensor
    ) -> list[int | SamplingError]:
        """One token for each row; the likeliest for a request that was not added.

        Args:
            request_ids: Whose rows, k of them.
            places: Output tokens each had before.
            logits: float32 of shape [k, vocab].

        Returns:
            For each row its token; where the row's largest logit is not finite, an error instead, which
            names the request.
        """
        likeliest: list[int] = logits.argmax(dim=-1).tolist()
        chosen: list[int | SamplingError] = []
        for row, (request_id, place) in enumerate(zip(request_ids, places, strict=True)):
            token = likeliest[row]
            largest = float(logits[row, token])
            params, seed = self._params.get(request_id, (None, 0))
            if not np.isfinite(largest):
                chosen.append(SamplingError(f"request {request_id!r}: its largest logit is {largest}"))
            elif params is not None and params.temperature > 0:
                chosen.append(_draw(logits[row], params, seed, place))
            else:
                chosen.append(token)
        return chosen


def _draw(logits: Tensor, params: SamplingParams, seed: int, place: int) -> int:
    """One token: temperature first, then `top_k`, then `top_p`, then a draw from what is left."""
    sorted_logits, order = torch.sort(logits.double(), descending=True, stable=True)
    scaled = (sorted_logits - sorted_logits[0]) / params.temperature  # no temperature overflows at the top
    if params.top_k is not None:
        scaled = scaled[: params.top_k]
    reached = torch.softmax(scaled, dim=-1).cumsum(dim=-1).cpu().numpy()
    last = int(np.searchsorted(reached, params.top_p * reached[-1])) if params.top_p < 1 else len(reached) - 1
    uniform = np.random.Generator(np.random.Philox(key=seed, counter=place)).random()
    drawn = np.searchsorted(reached[: last + 1], uniform * reached[min(last, len(reached) - 1)], side="right")
    return int(order[min(int(drawn), last)])
