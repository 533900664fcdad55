"""What `runtime` raises on purpose. Every class is also the built-in a caller would catch."""

from pathlib import Path

from radixcache.errors import InvalidConfig, RadixCacheError


class ModelDoesNotFit(InvalidConfig):
    """Weights and working memory leave no room for a single page of KV.

    Attributes:
        needed_bytes: What one GPU would have to hold besides the KV pool.
        usable_bytes: What one GPU may use.
        smallest_tp: The smallest tensor-parallel degree that fits, or None if none does.
    """

    def __init__(
        self, message: str, *, needed_bytes: int, usable_bytes: int, smallest_tp: int | None
    ) -> None:
        super().__init__(message)
        self.needed_bytes = needed_bytes
        self.usable_bytes = usable_bytes
        self.smallest_tp = smallest_tp


class WorkloadError(RadixCacheError, ValueError):
    """A workload, or the settings of a generator, contradict themselves."""


class ContextExceeded(RadixCacheError, ValueError):
    """Prompt and output of a request are longer together than the model's context.

    Attributes:
        request_id: Which request.
        num_tokens: Tokens of prompt and output.
        max_context: What the model takes.
    """

    def __init__(self, request_id: str, num_tokens: int, max_context: int) -> None:
        super().__init__(
            f"request {request_id!r} has {num_tokens} tokens of prompt and output, "
            f"the model's context holds {max_context}"
        )
        self.request_id = request_id
        self.num_tokens = num_tokens
        self.max_context = max_context


class TraceError(RadixCacheError, ValueError):
    """A trace cannot be read. The message is one line: file, line, what is wrong with which value.

    Attributes:
        path: The file.
        line: Line number from 1, or None where the whole file is meant.
        reason: What is wrong.
    """

    def __init__(self, path: Path | str, line: int | None, reason: str) -> None:
        self.path = Path(path)
        self.line = line
        self.reason = " ".join(reason.split())
        place = f"{path}" if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {self.reason}")


class MetadataError(RadixCacheError, ValueError):
    """The rows of a step, or the arrays made of them, do not fit together."""


class BackendUnavailable(RadixCacheError, ImportError):
    """An attention backend needs a package or a device that is not there."""
