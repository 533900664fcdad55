"""Fixtures of all tests."""

import os
from pathlib import Path

import pytest

# Test workers share the cores: torch's threads would only wait for one another.
os.environ["OMP_NUM_THREADS"] = "1"

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
