"""`rostra`, and `python -m rostra`.

Commands take a moment to be imported; Ctrl-C meanwhile must not print a traceback either. Imports leave no
garbage, and looking for it is a sixth of that moment: Python does not, until the command begins
(`cli.common.command`).
"""

import sys


def main() -> None:
    try:
        import gc

        gc.disable()
        if sys.argv[1:2] == ["history"]:
            from rostra.history.handover import asked

            if (code := asked(sys.argv[1:])) is not None:
                sys.exit(code)
        from rostra.cli import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
