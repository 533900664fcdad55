"""What benchmarks raise."""


class BenchError(Exception):
    """Base of what the benchmarks raise."""


class WrongResult(BenchError, AssertionError):
    """What was measured did not do its job, so its time means nothing."""


def expect(what: str, found: object, wanted: object) -> None:
    """Raise `WrongResult` unless `found` equals `wanted`."""
    if found != wanted:
        raise WrongResult(f"{what}: found {found}, wanted {wanted}")
