"""An observer that replays what it is told into an index, and peeks while it is told."""

from radixcache import Namespace, PrefixCache, Tokens
from radixcache.allocator import PageArray
from tests.oracles.model import Prefix
from tests.oracles.prefix_dict import PrefixDict


class Recorder:
    """Keeps which page holds which prefix, and what the last verb stored and evicted."""

    def __init__(self, cache: PrefixCache) -> None:
        self._cache = cache
        self._page_size = cache.config.page_size
        self.index = PrefixDict(self._page_size)
        self.pages: dict[int, Prefix] = {}
        self.stored: list[Prefix] = []
        self.victims: list[Prefix] = []
        self.num_runs = 0

    def forget_last_verb(self) -> None:
        self.stored, self.victims = [], []

    def published(
        self,
        namespace: Namespace,
        parent_page: int | None,
        new_pages: PageArray,
        tokens: Tokens,
        depth: int,
    ) -> None:
        parent = self._parent(namespace, parent_page, depth)
        known = list(tokens)
        assert len(known) == len(new_pages) * self._page_size > 0
        for number, page in enumerate(new_pages.tolist(), 1):
            prefix = (namespace, (*parent, *known[: number * self._page_size]))
            assert page not in self.pages, f"page {page} is published twice"
            self.index.store([prefix])
            self.pages[page] = prefix
            self.stored.append(prefix)
        match = self._cache.peek([*parent, *known, 0], namespace)
        assert match.matched_len == len(parent) + len(known), "told before the change was complete"

    def evicted(
        self, namespace: Namespace, pages: PageArray, surviving_parent_page: int | None, depth: int
    ) -> None:
        parent = self._parent(namespace, surviving_parent_page, depth)
        assert len(pages)
        for page in reversed(pages.tolist()):
            prefix = self.pages.pop(page)
            self.index.remove([prefix])
            self.victims.append(prefix)
        assert prefix == (namespace, (*parent, *prefix[1][-self._page_size :]))
        match = self._cache.peek([*prefix[1], 0], namespace)
        assert match.matched_len <= len(parent), "told before the change was complete"
        self.num_runs += 1

    def cleared(self, namespace: Namespace, *, everything: bool) -> None:
        if everything:
            self.index.clear()
        else:
            self.index.clear_namespace(namespace)
        self.pages = {page: prefix for page, prefix in self.pages.items() if prefix in self.index.cached}

    def _parent(self, namespace: Namespace, page: int | None, depth: int) -> tuple[int, ...]:
        parent_namespace, tokens = (namespace, ()) if page is None else self.pages[page]
        assert parent_namespace == namespace
        assert type(parent_namespace) is type(namespace)
        assert len(tokens) == depth * self._page_size
        return tokens
