"""Caches in the states that are measured, and the calls to time; shared by both ways to run them."""
