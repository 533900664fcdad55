"""Caches in the states that are measured, and the calls to time. `python -m bench` and pytest-benchmark share them."""
