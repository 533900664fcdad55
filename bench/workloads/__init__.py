"""Token material as plain NumPy arrays, the same for every contender. Imports no cache."""
