"""What every contender does, so that one program can time all."""

from typing import Any, Protocol

from bench.workloads.material import Ids


class Contender(Protocol):
    """A cache of `num_pages` pages of `page_size` tokens, driven as its own engine drives it."""

    def make_tokens(self, ids: Ids) -> Any:
        """Token ids in the type the engine has them in. Not part of any timed section."""
        ...

    def peek(self, tokens: Any) -> int:
        """Look a prompt up; returns the tokens found."""
        ...

    def hold(self, tokens: Any) -> int:
        """Look a prompt up, lock it, get its page table, give it back; returns the tokens found."""
        ...

    def serve(self, tokens: Any, output: Any | None) -> int:
        """A whole request, prompt and output published at the end; returns the tokens found."""
        ...
