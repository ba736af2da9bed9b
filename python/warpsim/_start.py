"""Tells the native part how it is started again: sweeps and Slurm jobs start the command."""

import sys

from . import _warpsim

# A folder or file named `warpsim` where the command is started must not hide the package.
_warpsim.start([sys.executable, "-P", "-m", "warpsim"], _warpsim.__file__)
