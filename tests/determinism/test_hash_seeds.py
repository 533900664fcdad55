import os
import subprocess
import sys
from pathlib import Path

import pytest

from radixcache import Namespace
from radixcache.namespace import namespace_key

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests/determinism/million.py"

GOLDEN_KEYS: list[tuple[Namespace, bytes]] = [
    (None, b"n0:"),
    ("", b"s0:"),
    (b"", b"b0:"),
    ((), b"t0:"),
    ((None,), b"t1:n0:"),
    (("",), b"t1:s0:"),
    ("model", b"s5:model"),
    (b"model", b"b5:model"),
    ("Modèle", b"s7:Mod\xc3\xa8le"),
    ("\ud800", b"s3:\xed\xa0\x80"),
    (("ab", "c"), b"t2:s2:abs1:c"),
    (("a", "bc"), b"t2:s1:as2:bc"),
    (("a", b"bc", None), b"t3:s1:ab2:bcn0:"),
    (("s1:a",), b"t1:s4:s1:a"),
]


def start(*command: str, hash_seed: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-W", "error", *command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outputs(*command: str) -> list[str]:
    """What the same command prints in two fresh processes with different hash seeds."""
    processes = [start(*command, hash_seed=seed) for seed in ("1", "4242")]
    found = [process.communicate(timeout=300) for process in processes]
    assert all(not errors for _, errors in found), found
    return [text for text, _ in found]


def test_a_million_verbs_lead_to_one_tree_and_one_free_list_under_any_hash_seed() -> None:
    first, second = outputs(str(SCRIPT))
    assert first == second
    assert int(first.split()[0]) >= 1_000_000


@pytest.mark.parametrize(("namespace", "key"), GOLDEN_KEYS)
def test_keys_of_namespaces_never_change(namespace: Namespace, key: bytes) -> None:
    assert namespace_key(namespace) == key


def test_golden_keys_are_all_different() -> None:
    assert len({key for _, key in GOLDEN_KEYS}) == len(GOLDEN_KEYS)


def test_keys_of_namespaces_agree_between_processes() -> None:
    program = (
        "from radixcache.namespace import namespace_key\n"
        f"for namespace in {[namespace for namespace, _ in GOLDEN_KEYS]!r}:\n"
        "    print(namespace_key(namespace))"
    )
    first, second = outputs("-c", program)
    assert first == second
    assert first.splitlines() == [repr(key) for _, key in GOLDEN_KEYS]
