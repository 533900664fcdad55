"""The scenarios under pytest-benchmark: `pytest bench/micro --benchmark-only`."""
