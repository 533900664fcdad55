"""Programs that a benchmark runs in a process of their own."""
