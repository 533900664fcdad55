"""The command line, called within the test's own process."""

import io
import sys

import pytest

from runtime import cli


def call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str, said: str = ""
) -> tuple[int, str, str]:
    """`radixcache` with arguments and piped input: exit code, stdout, stderr."""
    monkeypatch.setattr(sys, "argv", ["radixcache", *arguments])
    monkeypatch.setattr(sys, "stdin", io.StringIO(said))
    try:
        cli.main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    heard = capsys.readouterr()
    return code, heard.out, heard.err


def assert_one_line(result: tuple[int, str, str], *parts: str) -> None:
    """The command was refused, in one line that contains these parts."""
    code, _, stderr = result
    assert code == 2
    assert stderr.startswith("radixcache: ")
    assert stderr.count("\n") == 1
    assert stderr.endswith("\n")
    assert "Traceback" not in stderr
    for part in parts:
        assert part in stderr
