"""What benchmarks raise."""


class BenchError(Exception):
    """Base of what the benchmarks raise."""


class WrongResult(BenchError, AssertionError):
    """What was measured did not do its job, so its time means nothing."""


class Unavailable(BenchError):
    """A package or a file that a benchmark needs is not there."""


def expect(what: str, found: object, wanted: object) -> None:
    """Raise `WrongResult` unless `found` equals `wanted`."""
    if found != wanted:
        raise WrongResult(f"{what}: found {found}, wanted {wanted}")
