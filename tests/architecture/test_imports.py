"""bench, tests -> runtime -> scheduler -> radixcache -> numpy, sortedcontainers; nothing points upward."""

import subprocess
import sys

import pytest

from tests.architecture.sources import PACKAGES, ROOT, imports, name_of, python_files

BASE = {"numpy", "sortedcontainers"}
MAY_IMPORT = {
    "radixcache": set(),
    "scheduler": {"radixcache"},
    "runtime": {"radixcache", "scheduler"},
    "bench": {"radixcache", "scheduler", "runtime"},
}
HEAVY = ("torch", "click", "rich", "plotly", "jinja2", "msgspec", "tokenizers", "flashinfer", "transformers")
IMPURE = {"time", "datetime", "os", "random", "secrets", "uuid", "logging", "warnings", "pathlib", "io"}
IMPURE |= {"asyncio", "multiprocessing", "socket", "subprocess", "argparse", "hashlib", "threading"}
ALLOWED = {("scheduler/guard.py", "threading")}
"""The scheduler detects misuse from a second thread."""

lower_packages = pytest.mark.parametrize("package", ["radixcache", "scheduler"])


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_points_upward_not_even_a_type_only_one(package: str) -> None:
    ours = {*PACKAGES, "tests"}
    for path in python_files(package):
        found = {name.split(".")[0] for name in imports(path)} & ours
        assert found <= MAY_IMPORT[package] | {package}, name_of(path)


@lower_packages
def test_the_two_lower_packages_depend_on_numpy_and_sortedcontainers_only(package: str) -> None:
    for path in python_files(package):
        strangers = {name.split(".")[0] for name in imports(path)} - set(sys.stdlib_module_names)
        assert strangers <= BASE | MAY_IMPORT[package] | {package}, name_of(path)


@lower_packages
def test_importing_a_lower_package_imports_nothing_heavy(package: str) -> None:
    assert run(f"import sys, {package}; print([name for name in {HEAVY} if name in sys.modules])") == "[]\n"


@pytest.mark.parametrize("module", ["runtime", "runtime.cli", "runtime.executor", "runtime.simulation"])
def test_the_simulator_and_its_command_line_import_no_torch(module: str) -> None:
    assert run(f"import sys, {module}; print('torch' in sys.modules)") == "False\n"


def test_importing_radixcache_imports_no_other_package_of_ours() -> None:
    above = ("scheduler", "runtime", "bench")
    assert run(f"import sys, radixcache; print([name for name in {above} if name in sys.modules])") == "[]\n"


@lower_packages
def test_no_clock_environment_randomness_log_or_file_in_the_lower_packages(package: str) -> None:
    for path in python_files(package):
        names = set(imports(path))
        found = {name.split(".")[0] for name in names} & IMPURE
        assert {(name_of(path), name) for name in found} <= ALLOWED
        assert not [name for name in names if name.startswith("numpy.random")], name_of(path)


@pytest.mark.parametrize("package", ["scheduler", "runtime"])
def test_nobody_above_touches_nodes_or_the_tree(package: str) -> None:
    inner = {f"radixcache.{name}" for name in ("tree", "state", "sequence", "copies", "agreement")}
    for path in python_files(package):
        assert not inner & set(imports(path)), name_of(path)
