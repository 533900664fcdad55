"""What a completion says of the cache, as a line for people and as JSON values."""

from typing import TYPE_CHECKING, Any, Final

from runtime.report.formatting import MISSING, duration, times

if TYPE_CHECKING:
    from runtime.engine import Completion

_FIELDS: Final = (
    "request_id",
    "prompt_tokens",
    "token_ids",
    "text",
    "cached_tokens",
    "computed_tokens",
    "recomputed_tokens",
    "missed_tokens",
    "cache_read",
    "preemptions",
    "queue_s",
    "ttft_s",
    "e2e_s",
)


def served_line(completion: "Completion", *, cold_s: float | None = None) -> str:
    """Tokens cached and computed, why the others were not found, and the time to first token.

    Args:
        completion: What a request brought.
        cold_s: Time to first token of the same prompt without the cache, where it was measured.
    """
    parts = [
        _prompt(completion),
        f"{len(completion.token_ids):,} generated ({completion.finish_reason.replace('_', ' ')})",
        _ttft(completion.ttft_s, cold_s),
    ]
    if completion.error is not None:
        parts.append(f"failed: {completion.error}")
    return "; ".join(parts)


def served_json(completion: "Completion") -> dict[str, Any]:
    """The fields of a completion as JSON values."""
    values = {name: getattr(completion, name) for name in _FIELDS}
    values["finish_reason"] = str(completion.finish_reason)
    values["error"] = None if completion.error is None else str(completion.error)
    return values


def _prompt(completion: "Completion") -> str:
    total, cached, computed = completion.prompt_tokens, completion.cached_tokens, completion.computed_tokens
    missed = _missed(completion.missed_tokens)
    return f"{total:,} prompt tokens: {cached:,} cached, {computed:,} computed{missed}"


def _missed(tokens: dict[str, int]) -> str:
    reasons = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in tokens.items() if count)
    return f" ({reasons})" if reasons else ""


def _ttft(ttft_s: float | None, cold_s: float | None) -> str:
    text = f"TTFT {MISSING if ttft_s is None else duration(ttft_s)}"
    if ttft_s is None or cold_s is None:
        return text
    return f"{text}, cold {duration(cold_s)} ({times(cold_s / ttft_s)} as long)"
