"""What a caller may choose about a trace. Each loader reads what concerns its format."""

from dataclasses import dataclass, field

from runtime.workload.arrivals import ArrivalProcess, Poisson
from runtime.workload.traces.templated import ChatCodec
from runtime.workload.traces.tokenizers import ByteTokenizer, Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """Choices where a trace is silent.

    Attributes:
        seed: Seed of everything that is drawn, >= 0.
        arrivals: When sessions start, in traces whose sessions have no common clock (agentic, chat).
        share_prefixes: Whether sessions with equal model and equal lengths of tools and system
            prompt share those (agentic).
        model_namespaces: Whether requests recorded on different models never share (agentic).
        tokenizer: Makes tokens of texts (chat).
        chat: Writes messages as a model's chat template does; `None`: marks of our own say who speaks (chat).
    """

    seed: int = 0
    arrivals: ArrivalProcess = field(default_factory=lambda: Poisson(rate_per_s=0.1))
    share_prefixes: bool = True
    model_namespaces: bool = True
    tokenizer: Tokenizer = field(default_factory=ByteTokenizer)
    chat: ChatCodec | None = None
