"""Token material of the benchmarks, as plain NumPy arrays: every contender gets the same. Imports no cache."""
