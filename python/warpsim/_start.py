"""Tells the native part how it is started again: sweeps and Slurm jobs start the command."""

import sys

from . import _warpsim

_warpsim.start([sys.executable, "-m", "warpsim"], _warpsim.__file__)
