"""`rostra`, and `python -m rostra`.

Commands take a moment to be imported; whoever presses Ctrl-C meanwhile wants no traceback either.
"""

import sys


def main() -> None:
    try:
        from rostra.cli import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
