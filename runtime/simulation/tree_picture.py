"""The radix tree as nested boxes, small enough to look at."""

from radixcache import PrefixCache
from radixcache.events import Stored
from runtime.result import TreeBox

_MAX_BOXES = 300
_MAX_DEPTH = 48


def tree_picture(cache: PrefixCache) -> list[TreeBox]:
    """One box for each large branch, roots first; small branches are summed up beside their siblings.

    Complexity:
        O(n log n) for n nodes.
    """
    page_size = cache.config.page_size
    runs = [stored for stored in cache.snapshot().stored if stored.pages]
    holder = {page: index for index, run in enumerate(runs) for page in run.pages}
    children: dict[int | None, list[int]] = {}
    for index, run in enumerate(runs):
        parent = None if run.parent_page is None else holder[run.parent_page]
        children.setdefault(parent, []).append(index)
    weights = _subtree_pages(runs, children)
    kept = set(sorted(range(len(runs)), key=lambda index: (-weights[index], index))[:_MAX_BOXES])

    def boxes(parent: int | None, depth_tokens: int, level: int) -> list[TreeBox]:
        found: list[int] = []
        rest: list[int] = []
        for index in children.get(parent, []):
            (found if index in kept and level < _MAX_DEPTH else rest).append(index)
        made = [box(index, depth_tokens, level) for index in found]
        if rest:
            num_tokens = sum(weights[index] for index in rest) * page_size
            label = f"{len(rest)} smaller branches" if len(rest) > 1 else "1 smaller branch"
            made.append(
                TreeBox(
                    depth_tokens=depth_tokens, num_tokens=num_tokens, locked=False, children=[], label=label
                )
            )
        return made

    def box(index: int, depth_tokens: int, level: int) -> TreeBox:
        num_tokens = len(runs[index].pages) * page_size
        head = runs[index].tokens[:4]
        return TreeBox(
            depth_tokens=depth_tokens,
            num_tokens=num_tokens,
            locked=False,
            children=boxes(index, depth_tokens + num_tokens, level + 1),
            label=", ".join(map(str, head)) + " …",
        )

    return boxes(None, 0, 0)


def _subtree_pages(runs: list[Stored], children: dict[int | None, list[int]]) -> list[int]:
    """Pages of each run with all below it. Runs stand parents before children."""
    weights = [len(run.pages) for run in runs]
    order, pending = [], list(children.get(None, []))
    while pending:
        index = pending.pop()
        order.append(index)
        pending.extend(children.get(index, []))
    for index in reversed(order):
        weights[index] += sum(weights[child] for child in children.get(index, []))
    return weights
