#!/usr/bin/env python3
"""Compares how many machine instructions kernels have with what NVIDIA's assembler writes.

For every kernel of data/ptxas-registers.csv whose PTX an sm_75 can run: instructions in SASS (without padding), and machine
operations by the cost table of a chip (`warpsim inspect`), both as they stand in the code. Where there are fewer than 60 % of
SASS's the assembler has unrolled a loop: these are left out of the summary, as are the chains of single operations. Usage:

    workloads/count-sass.py WARPSIM PTXAS CUOBJDUMP [KEY=VALUE ...]

KEY=VALUE as of `--set`, such as assembler.three_inputs=true. ptxas is in the CUDA toolkit or the package nvidia-cuda-nvcc-cu12,
cuobjdump in nvidia-cuda-cuobjdump (which needs nvidia-cuda-nvdisasm on the path).
"""

import csv
import os
import re
import statistics
import subprocess
import sys
import tempfile

CHIP, ARCHITECTURE = "rtx2080ti", 75
UNROLLED = 0.6
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def in_sass(ptxas, cuobjdump, path):
    """Instructions of each function of a file, but no padding behind the end."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = os.path.join(folder, "k.cubin")
        run(ptxas, f"-arch=sm_{ARCHITECTURE}", path, "-o", cubin)
        listing = run(cuobjdump, "-sass", cubin)
    counts, roots = {}, []
    for line in listing.splitlines():
        if named := re.search(r"Function : (\S+)", line):
            roots = counts[named[1]] = []
        elif found := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\S+\s+)?([A-Z][A-Z0-9_.]*)", line):
            roots.append(found[1])
    for roots in counts.values():
        # Behind the last instruction stand a jump to itself and NOPs.
        while roots and roots[-1] == "NOP":
            roots.pop()
        if roots and roots[-1] == "BRA":
            roots.pop()
    return {name: sum(root != "NOP" for root in roots) for name, roots in counts.items()}


def ours(warpsim, path, entry, settings):
    words = [word for setting in settings for word in ("--set", setting)]
    shown = run(warpsim, "inspect", path, "--entry", entry, "--chip", CHIP, *words)
    return int(re.search(r"machine operations by the cost table \S+: (\d+)", shown)[1])


def main():
    warpsim, ptxas, cuobjdump, *settings = sys.argv[1:]
    kernels = {}
    with open(os.path.join(ROOT, "data/ptxas-registers.csv")) as file:
        for row in csv.DictReader(file):
            kernels.setdefault(os.path.join(ROOT, "workloads", row["file"]), set()).add(row["entry"])
    ratios = []
    for path, entries in sorted(kernels.items()):
        with open(path) as file:
            target = int(re.search(r"\.target\s+sm_(\d+)", file.read())[1])
        if target > ARCHITECTURE:
            continue
        sass = in_sass(ptxas, cuobjdump, path)
        for entry in sorted(entries):
            operations = ours(warpsim, path, entry, settings)
            ratio = operations / sass[entry]
            print(f"{ratio:5.2f} {operations:5} {sass[entry]:5}  {os.path.relpath(path, ROOT)} {entry}")
            if ratio > UNROLLED and not entry.startswith("chain_"):
                ratios.append(ratio)
    errors = [abs(ratio - 1) for ratio in ratios]
    print(f"{len(ratios)} kernels: median ratio {statistics.median(ratios):.2f}, median absolute error {statistics.median(errors):.0%}, "
          f"mean absolute error {statistics.mean(errors):.0%}")


if __name__ == "__main__":
    main()
