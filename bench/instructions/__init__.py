"""A regression guard that is no timed test: instructions that the hot verbs execute, beside baselines."""
