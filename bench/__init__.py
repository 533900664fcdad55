"""Benchmarks of radixcache: costs beside their bounds. Imported by none of the packages it measures."""
