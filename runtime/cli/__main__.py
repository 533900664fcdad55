"""`python -m runtime.cli`: the command line without the installed script."""

from runtime.cli import main

main()
