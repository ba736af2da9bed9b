#!/usr/bin/env python3
"""Writes what NVIDIA's assembler says of the registers of kernels: a table for `warpsim study registers`.

Without files: data/ptxas-registers.csv, of the workloads. Each kernel is assembled for the architectures below, from the newest PTX there
is of it that is not of a later one. With files of PTX: a table of these to standard output, as `study registers --table` reads it;
their `.target` is changed to the architecture. Usage:

    workloads/ptxas-registers.py PTXAS
    workloads/ptxas-registers.py PTXAS ARCHITECTURE FILE... > table.csv

ptxas is in the CUDA toolkit or the package nvidia-cuda-nvcc-cu12.
"""

import csv
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ARCHITECTURES = [52, 70, 75, 80, 86, 90]


def target(path, text):
    found = re.search(r"\.target\s+sm_(\d+)([a-z]?)", text)
    if not found:
        sys.exit(f"{path}: no .target")
    return int(found[1]), found[2]


def assembled(ptxas, text, arch):
    """Entry, registers and bytes of spill stores of each kernel."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "k.ptx")
        with open(path, "w") as file:
            file.write(text)
        done = subprocess.run(
            [ptxas, "-v", f"-arch=sm_{arch}", path, "-o", os.path.join(folder, "k.cubin")],
            capture_output=True,
            text=True,
        )
    if done.returncode:
        sys.exit(f"{ptxas} -arch=sm_{arch}: {done.stderr or done.stdout or done.returncode}")
    found, entry, spilled = [], None, 0
    for line in done.stderr.splitlines():
        if named := re.search(r"Compiling entry function '(\S+)'", line):
            entry, spilled = named[1], 0
        elif bytes_ := re.search(r"(\d+) bytes spill stores", line):
            spilled = int(bytes_[1])
        elif (used := re.search(r"Used (\d+) registers", line)) and entry:
            found.append((entry, int(used[1]), spilled))
            entry = None
    return found


def of_workloads(ptxas):
    texts = {}
    for folder, _, names in sorted(os.walk(os.path.join(ROOT, "workloads"))):
        for name in sorted(names):
            if re.fullmatch(r".*\.sm_\d+\w?\.ptx", name):
                path = os.path.join(folder, name)
                with open(path) as file:
                    texts[os.path.relpath(path, os.path.join(ROOT, "workloads"))] = file.read()
    rows = []
    for arch in ARCHITECTURES:
        # By name of the file without its architecture: the newest text.
        newest = {}
        for name, text in texts.items():
            own, suffix = target(name, text)
            if own > arch or (suffix and own != arch):
                continue
            program = re.sub(r"\.sm_\d+\w?\.ptx$", "", name)
            if program not in newest or newest[program][0] < own:
                newest[program] = (own, name, suffix)
        seen = set()
        for _, (_, name, suffix) in sorted(newest.items()):
            for entry, registers, spilled in assembled(ptxas, texts[name], f"{arch}{suffix}"):
                # Some files have kernels of other programs too.
                if (entry, registers) not in seen:
                    seen.add((entry, registers))
                    rows.append((name, entry, arch, registers, spilled))
    return rows


def of_files(ptxas, arch, paths):
    rows = []
    for path in paths:
        with open(path) as file:
            text = file.read()
        # What needs the features of one architecture stays as it is.
        suffix = target(path, text)[1]
        if not suffix:
            text = re.sub(r"\.target\s+sm_\d+", f".target sm_{arch}", text, count=1)
        found = assembled(ptxas, text, f"{arch}{suffix}")
        rows += [(os.path.abspath(path), entry, arch, *rest) for entry, *rest in found]
    return rows


def main():
    if len(sys.argv) < 2 or len(sys.argv) == 3 or (len(sys.argv) > 3 and not sys.argv[2].isdigit()):
        sys.exit(__doc__)
    ptxas, *rest = sys.argv[1:]
    rows = of_files(ptxas, rest[0], rest[1:]) if rest else of_workloads(ptxas)
    out = sys.stdout if rest else open(os.path.join(ROOT, "data/ptxas-registers.csv"), "w", newline="")
    with out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(["file", "entry", "arch", "registers", "spill_bytes"])
        table.writerows(rows)


if __name__ == "__main__":
    main()
