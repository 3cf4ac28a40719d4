"""The command ``refusal-checks``.

It can catch Ctrl-C before it imports anything: imports take a second or two, and an interrupt
during that time would print a traceback of Python's import system.
"""

import sys


def main() -> None:
    """Run the command; exit with 130, as shells do, if Ctrl-C stops it."""
    try:
        from refusal_checks.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
