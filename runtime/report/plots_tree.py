"""The radix tree at the end of a run, as an icicle."""

from collections.abc import Sequence
from typing import Any

from runtime.report.figure import Figure, plain
from runtime.report.formatting import count
from runtime.report.palette import MAX_TREE_SHADES
from runtime.result import RunResult, TreeBox


def tree_figures(runs: Sequence[RunResult]) -> list[Figure]:
    """One icicle for each run whose tree holds anything."""
    return [_icicle(run, number) for number, run in enumerate(runs) if run.tree]


def _icicle(run: RunResult, number: int) -> Figure:
    root = TreeBox(depth_tokens=0, num_tokens=0, locked=False, children=run.tree, label="whole cache")
    boxes = _walk(root)
    subtree = _subtree_tokens(boxes)
    trace: dict[str, Any] = {
        "type": "icicle",
        "ids": [name for name, _, _ in boxes],
        "parents": [parent for _, parent, _ in boxes],
        "labels": [plain(box.label) for _, _, box in boxes],
        "values": [box.num_tokens for _, _, box in boxes],
        "branchvalues": "remainder",
        "sort": False,
        "maxdepth": 9,
        "tiling": {"orientation": "v", "pad": 1},
        "pathbar": {"visible": False},
        "leaf": {"opacity": 1},
        "marker": {
            "colors": [f"${_role(name, box)}" for name, _, box in boxes],
            "line": {"width": 0},
        },
        "text": [_hover(box, subtree[name]) for name, _, box in boxes],
        "textinfo": "label",
        "hovertemplate": "<b>%{label}</b><br>%{text}<extra></extra>",
    }
    locked = sum(box.locked for _, _, box in boxes)
    return Figure(
        name=f"tree-{number}",
        title=f"Radix tree at the end: {run.label}",
        caption="Width is tokens cached in a box and all below it; a box under another continues "
        "its prefix. Deeper boxes are stronger in colour"
        + (f"; the {count(locked)} locked ones have the colour of locked pages above" if locked else "")
        + ". Click a box to enlarge it, and again to go back. Small boxes are summed up.",
        data=[trace],
        layout={
            "margin": {"l": 0, "r": 0, "t": 4, "b": 4},
            "hovermode": "closest",
            "uniformtext": {"minsize": 11, "mode": "hide"},
        },
        height_px=460,
        wide=True,
    )


def _walk(root: TreeBox) -> list[tuple[str, str, TreeBox]]:
    """(id, id of the parent, box), parents before children; ids are paths of child numbers."""
    boxes, stack = [], [("0", "", root)]
    while stack:
        name, parent, box = stack.pop()
        boxes.append((name, parent, box))
        stack += [
            (f"{name}.{number}", name, child) for number, child in reversed(list(enumerate(box.children)))
        ]
    return boxes


def _subtree_tokens(boxes: Sequence[tuple[str, str, TreeBox]]) -> dict[str, int]:
    tokens = {name: box.num_tokens for name, _, box in boxes}
    for name, parent, _ in reversed(boxes):
        if parent:
            tokens[parent] += tokens[name]
    return tokens


def _role(name: str, box: TreeBox) -> str:
    if box.locked:
        return "locked"
    return f"depth-{min(name.count('.'), MAX_TREE_SHADES - 1)}"


def _hover(box: TreeBox, subtree_tokens: int) -> str:
    return (
        f"{count(box.num_tokens)} tokens from position {count(box.depth_tokens)}"
        f"<br>{count(subtree_tokens)} with all below"
        f"<br>{'locked' if box.locked else 'evictable'}"
    )
