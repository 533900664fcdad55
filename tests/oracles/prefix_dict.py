"""An index that knows only the events: the set of cached prefixes, and what they make match.

It checks two things against the product: that the event stream, replayed, names exactly the cached
pages (invariant I12), and that a lookup finds what that set makes it find. Knows no sequences.
"""

from collections.abc import Iterable, Sequence

from tests.oracles.model import Namespace, Prefix


class PrefixDict:
    """The cached page prefixes of all namespaces, kept up to date by stored and removed events."""

    def __init__(self, page_size: int, cached: Iterable[Prefix] = ()) -> None:
        self.page_size = page_size
        self.cached: set[Prefix] = set()
        self.store(cached)

    def store(self, prefixes: Iterable[Prefix]) -> None:
        """Add pages, parents before children; asserts that each is new and hangs on a parent."""
        for namespace, tokens in prefixes:
            parent = tokens[: -self.page_size]
            assert len(tokens) % self.page_size == 0, f"{tokens} is not whole pages"
            assert (namespace, tokens) not in self.cached, f"{tokens} stored twice"
            assert not parent or (namespace, parent) in self.cached, f"{tokens} has no parent"
            self.cached.add((namespace, tokens))

    def remove(self, prefixes: Iterable[Prefix]) -> None:
        """Drop pages, children before parents; asserts that each is there and has no child."""
        for namespace, tokens in prefixes:
            self.cached.remove((namespace, tokens))
            parents = {(ns, longer[: -self.page_size]) for ns, longer in self.cached}
            assert (namespace, tokens) not in parents, f"{tokens} removed before its child"

    def clear(self) -> None:
        """Drop everything."""
        self.cached.clear()

    def clear_namespace(self, namespace: Namespace) -> None:
        """Drop everything of one namespace."""
        self.cached = {prefix for prefix in self.cached if prefix[0] != namespace}

    def matched_len(self, prompt: Sequence[int], *, namespace: Namespace = None) -> int:
        """Return the tokens that a lookup of `prompt` must find; never the whole prompt."""
        matched_len = 0
        while (
            matched_len + self.page_size < len(prompt)
            and (namespace, tuple(prompt[: matched_len + self.page_size])) in self.cached
        ):
            matched_len += self.page_size
        return matched_len
