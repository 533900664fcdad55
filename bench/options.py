"""What a run was asked for."""

from dataclasses import dataclass
from typing import Literal

Size = Literal["tiny", "full"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings that all benchmarks share.

    Attributes:
        size: "tiny" shows that everything runs, "full" is worth reading.
        seed: For all token material.
        trace: A trace in the Mooncake format to replay; `None`: a generated one.
        agents: Runs of agents to replay: conversations of chat messages, a line each, or where only their
            blocks are looked at any trace of sessions; `None`: none are there.
        tools: Schemas of the tools that these agents had, a JSON list; `None`: they had none.
        page_size: Tokens of a page.
    """

    size: Size = "full"
    seed: int = 0
    trace: str | None = None
    agents: str | None = None
    tools: str | None = None
    page_size: int = 16

    def pick(self, *, tiny: int, full: int) -> int:
        """A number that depends on the size."""
        return tiny if self.size == "tiny" else full
