"""Independent oracles: the dumbest code that says what the product must do. Never imports it."""
