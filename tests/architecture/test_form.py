"""Sizes, docstrings, and what no source file may hold. Every test lists all offenders."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.sources import ROOT, all_files, functions, name_of, python_files, tree_of

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 80
TEXT_SUFFIXES = {".py", ".md", ".toml", ".j2", ".txt", ".cfg", ".yml", ".yaml", ".sh"}
LIBRARIES = [path for package in ("radixcache", "scheduler") for path in python_files(package)]
PRODUCT = [*LIBRARIES, *python_files("runtime")]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def texts() -> list[Path]:
    folders = [ROOT / name for name in ("radixcache", "scheduler", "runtime", "bench")]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in TEXT_SUFFIXES]
    files += [path for path in ROOT.iterdir() if path.suffix in TEXT_SUFFIXES or path.name == "Makefile"]
    return sorted(path for path in files if "__pycache__" not in path.parts)


def test_files_are_short() -> None:
    lengths = {name_of(path): len(text_of(path).splitlines()) for path in all_files()}
    assert {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_most_files_are_very_short() -> None:
    lengths = sorted(len(text_of(path).splitlines()) for path in PRODUCT)
    assert lengths[len(lengths) // 2] <= 150


def test_functions_are_short() -> None:
    lengths = {
        f"{name_of(path)}:{function.name}": (function.end_lineno or 0) - function.lineno + 1
        for path in all_files()
        for function in functions(path)
    }
    assert {name: length for name, length in lengths.items() if length > MAX_FUNCTION_LINES} == {}


def test_every_module_begins_with_its_docstring() -> None:
    assert [name_of(path) for path in all_files() if not ast.get_docstring(tree_of(path))] == []


def public(body: list[ast.stmt], where: str) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef]]:
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
            continue
        decorators = {getattr(each, "id", getattr(each, "attr", "")) for each in node.decorator_list}
        if not decorators & {"overload", "setter"}:
            yield f"{where}.{node.name}", node
        if isinstance(node, ast.ClassDef):
            yield from public(node.body, f"{where}.{node.name}")


def test_everything_public_has_a_docstring() -> None:
    found = [each for path in PRODUCT for each in public(tree_of(path).body, name_of(path))]
    assert len(found) > 300
    assert [name for name, node in found if not ast.get_docstring(node)] == []


def test_libraries_do_not_print_or_ask() -> None:
    forbidden = {"print", "input", "open", "breakpoint", "eval", "exec"}
    found = [
        (name_of(path), node.id, node.lineno)
        for path in LIBRARIES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Name) and node.id in forbidden
    ]
    assert found == []


def raised(node: ast.AST) -> str | None:
    """Name of the class that a `raise` names."""
    if not isinstance(node, ast.Raise) or node.exc is None:
        return None
    what = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return what.id if isinstance(what, ast.Name) else None


def test_libraries_raise_errors_of_their_own() -> None:
    builtin = {
        "AssertionError",
        "Exception",
        "ValueError",
        "TypeError",
        "RuntimeError",
        "KeyError",
        "MemoryError",
    }
    found = [
        (name_of(path), getattr(node, "lineno", 0))
        for path in LIBRARIES
        for node in ast.walk(tree_of(path))
        if raised(node) in builtin
    ]
    assert found == []


def test_no_exception_is_swallowed() -> None:
    handlers = [
        (name_of(path), node)
        for path in all_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ExceptHandler)
    ]
    assert [(name, node.lineno) for name, node in handlers if node.type is None] == []
    passing = [(name, node.lineno) for name, node in handlers if isinstance(node.body[0], ast.Pass)]
    assert passing == []


def test_nothing_names_what_is_not_part_of_the_repository() -> None:
    outside = re.compile(r"\.\./shared|field-faults|design\.md|/work/|/home/|/root/")
    assert [(name_of(path), found) for path in texts() if (found := outside.findall(text_of(path)))] == []


def test_every_open_end_carries_the_number_of_its_issue() -> None:
    open_end = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b(?! ?\(?#\d+)")
    files = [*texts(), *(ROOT / "tests").rglob("*.py")]
    here = Path(__file__).resolve()
    assert [name_of(path) for path in files if path != here and open_end.search(text_of(path))] == []


def test_no_tabs_no_carriage_returns_no_byte_order_marks() -> None:
    assert [name_of(path) for path in all_files() if re.search("[\t\r\ufeff]", text_of(path))] == []
