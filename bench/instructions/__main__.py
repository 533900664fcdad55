"""`python -m bench.instructions`."""

from bench.instructions.command import instructions

instructions(prog_name="python -m bench.instructions")
