"""Ray Serve's `PrefixTree`, by which its router sends a request to the replica that has its prefix.

It is a tree of text, shared by all replicas, that owns no pages. The router asks it with `prefix_match(text,
replicas)` and tells it with `insert(text, replica, time)`. Its file is loaded without all of Ray.
"""

import importlib.util
import sys
from pathlib import Path
from time import time
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import MagicMock

import numpy as np

from bench.workloads.material import Ids

SOURCE = Path("ray/llm/_internal/serve/routing_policies/prefix_aware/prefix_tree.py")
CHARACTERS = 4
"""Of a token: its four bytes as text. Text of a model's vocabulary has about as many."""
REPLICA = "replica"
LOADED = "bench_ray_prefix_tree"
"""What the file is called among the loaded modules."""


class Text(NamedTuple):
    """A prompt.

    Attributes:
        whole: All of its text.
        pages: The part of it that fills whole pages, which is what the others cache of it.
    """

    whole: str
    pages: str


class RayServe:
    """The tree of one replica.

    Args:
        num_pages: Pages of text that it may hold; as in the router's own loop, LRU evicts the excess.
        page_size: Tokens of a page.
        folder: Where the file lies, as in the wheel.
    """

    def __init__(self, num_pages: int, page_size: int, folder: Path) -> None:
        self._page_size = page_size
        self._target = num_pages * page_size * CHARACTERS
        self._tree = _load(folder / SOURCE).PrefixTree()
        self._tree.add_tenants([REPLICA], time())

    def make_tokens(self, ids: Ids | list[int]) -> Text:
        """See `Contender`."""
        whole = np.asarray(ids, dtype="<i4").tobytes().decode("latin-1")
        return Text(whole, whole[: len(ids) // self._page_size * self._page_size * CHARACTERS])

    def _matched_len(self, text: Text) -> int:
        matched, _ = self._tree.prefix_match(text.whole, [REPLICA])
        usable = min(len(matched), len(text.whole) - CHARACTERS) // CHARACTERS
        return usable // self._page_size * self._page_size

    def peek(self, tokens: Text) -> int:
        """See `Contender`."""
        return self._matched_len(tokens)

    def hold(self, tokens: Text) -> int:
        """See `Contender`.

        Raises:
            NotImplementedError: Always; there is nothing to lock.
        """
        raise NotImplementedError("the tree owns no pages")

    def serve(self, tokens: Text, output: Text | None) -> int:
        """See `Contender`; as the router does it, only the prompt becomes known."""
        tree = self._tree
        matched_len = self._matched_len(tokens)
        tree.insert(tokens.pages, REPLICA, time())
        excess = tree.tenant_to_char_count[REPLICA] - self._target
        if excess > 0:
            tree.evict_tenant_by_lru(REPLICA, excess)
        return matched_len

    def cached_tokens(self) -> int:
        """See `Contender`."""
        return int(self._tree.tenant_to_char_count[REPLICA]) // CHARACTERS


def _load(path: Path) -> Any:
    """The module at that path; of Ray it needs a decorator and the name of a logger."""
    if LOADED in sys.modules:
        return sys.modules[LOADED]
    constants = ModuleType("ray.serve._private.constants")
    constants.SERVE_LOGGER_NAME = "ray.serve"  # type: ignore[attr-defined]
    sys.modules["ray.serve._private.constants"] = constants
    for name in ("ray", "ray.serve", "ray.serve._private"):
        sys.modules[name] = MagicMock(__path__=[])
    spec = importlib.util.spec_from_file_location(LOADED, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[LOADED] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
