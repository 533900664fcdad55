"""Timing, results, and where they were taken. Knows nothing of caches."""
