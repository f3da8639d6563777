"""`python -m rostra`: the `rostra` command, for where its script is not on the path."""

from rostra.cli import main

main()
