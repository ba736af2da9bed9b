"""The command `warpsim`, as the package has it."""

import sys

from . import _start as _start
from . import _warpsim


def main() -> int:
    """Runs the command line of this process; gives the exit status."""
    return _warpsim.command(["warpsim", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
