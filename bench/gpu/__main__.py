"""`python -m bench.gpu`."""

from bench.gpu.cli import main

main(prog_name="python -m bench.gpu")
