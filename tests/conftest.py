"""Fixtures of all tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.property.driver", "tests.property.recorder", "tests.property.shadow")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak-seconds", type=float, default=600, help="how long a soak test runs")
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the expected results in tests/golden"
    )


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of the traces that are not part of the repository."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        reason = f"the shared data is not there: {folder}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


@pytest.fixture(scope="module")
def one_torch_thread() -> Iterator[None]:
    """On small tensors, and beside other test processes, threads that wait for one another only cost time."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
