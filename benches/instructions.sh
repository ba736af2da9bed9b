#!/usr/bin/env bash
# Counts host instructions of the end-to-end kernels with valgrind's callgrind, which noise does
# not reach, and compares them with the baseline of this toolchain.
#
#   benches/instructions.sh          compares: a rise of more than 2 % fails
#   benches/instructions.sh write    makes this tree's counts the baseline
#
# Needs valgrind. Baselines: benches/instructions/RUSTC-VERSION.txt, a line a run: instructions of
# the host, warp instructions, arguments.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-check}
toolchain=$(rustc --version | awk '{print $2}')
baseline=benches/instructions/$toolchain.txt
runs=(
  "fmaloop --chip gtx480"
  "sgemm --chip gtx480"
  "vecadd --chip gtx480"
  "reduce --chip gtx480"
  "bfs --chip gtx480"
  "mandelbrot --chip gtx480"
  "nqueens --chip gtx480"
  "sgemm --chip qv100"
  "vecadd --chip qv100"
  "vecadd --chip h100"
  "fmaloop --set n=1024 --chip gtx480"
  "vecadd --set n=524288 --chip gtx480"
  "bfs --set n=32768 --chip gtx480"
  "fmaloop --functional --chip gtx480"
  "sgemm --functional --chip gtx480"
  "vecadd --functional --chip gtx480"
)
cargo build --release --quiet
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
counts=$work/counts.txt
for run in "${runs[@]}"; do
  # shellcheck disable=SC2086
  valgrind --tool=callgrind --callgrind-out-file="$work/out" --collect-atstart=no \
    --toggle-collect='*device*Device*synchronize_until*' \
    ./target/release/warpsim run $run --json >"$work/report.json" 2>"$work/log" ||
    { cat "$work/log"; exit 1; }
  instructions=$(awk '/^summary:|^totals:/ {print $2; exit}' "$work/out")
  # Those of the kernels: runs without time have them too, and each SM's stand elsewhere.
  warps=$(sed -n '/^  "kernels": /,/^  \]/s/^      "warp_instructions": \([0-9]*\),*$/\1/p' "$work/report.json" |
    awk '{s+=$1} END {print s}')
  echo "$instructions $warps $run" | tee -a "$counts" |
    awk '{printf "%12d host instructions, %8d warp instructions: %6.0f each  %s\n", $1, $2, $1 / $2, substr($0, index($0, $3))}'
done
if [ "$mode" = write ]; then
  mkdir -p benches/instructions
  cp "$counts" "$baseline"
  exit
fi
[ -f "$baseline" ] || { echo "there is no baseline for rustc $toolchain: run benches/instructions.sh write" >&2; exit 2; }
awk '
  { key = ""; for (i = 3; i <= NF; i++) key = key " " $i }
  NR == FNR { before[key] = $1; next }
  !(key in before) { printf "new:%s\n", key; bad = 1; next }
  { change = 100 * ($1 / before[key] - 1); if (change > 2) { printf "%+.1f %%:%s\n", change, key; bad = 1 } }
  END { if (bad) exit 1; print "no rise of more than 2 %" }
' "$baseline" "$counts"
