#!/usr/bin/env bash
# Runs four kernels under warpsim and under GPGPU-Sim in turns, and prints cycles and host speeds side by side.
#
#   benches/peer.sh CONFIG CHIP [CONFIG CHIP …]
#
# CONFIG: a folder with a configuration of GPGPU-Sim, such as configs/tested-cfgs/SM7_QV100 of its sources. CHIP: the chip of
# warpsim beside it, such as qv100. Both simulate one program (benches/cuda/peer.cu), compiled once: the same PTX, which warpsim takes
# as it is written (assembler.clean_up=false). Cycles contain the launch latency, where the chip has any. Speed is warp
# instructions per second of user time of the whole process, on one thread; seconds are the median of three runs.
#
# Needs GPGPU-Sim, built, and its environment in this shell (`source setup_environment`), and the nvcc that it was built with
# ($CUDA_INSTALL_PATH/bin/nvcc). PEER_ARCH: the architecture of the PTX, compute_52 unless set.
set -euo pipefail
fail() { echo "peer.sh: $1" >&2; exit 2; }
[ $# -ge 2 ] && [ $(($# % 2)) = 0 ] || fail "benches/peer.sh CONFIG CHIP [CONFIG CHIP …]"
[ -n "${GPGPUSIM_ROOT:-}" ] || fail "GPGPUSIM_ROOT is not set: source setup_environment of GPGPU-Sim first"
nvcc=${CUDA_INSTALL_PATH:+$CUDA_INSTALL_PATH/bin/}nvcc
command -v "$nvcc" >/dev/null || fail "there is no $nvcc: set CUDA_INSTALL_PATH"
arguments=()
for argument in "$@"; do
  if [ $((${#arguments[@]} % 2)) = 0 ]; then
    [ -f "$argument/gpgpusim.config" ] || fail "there is no $argument/gpgpusim.config"
    argument=$(realpath "$argument")
  fi
  arguments+=("$argument")
done
cd "$(dirname "$0")/.."
cargo build --release --quiet -p warpsim -p warpsim-cuda
warpsim=$PWD/target/release/warpsim
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
arch=${PEER_ARCH:-compute_52}
"$nvcc" -cudart shared -gencode "arch=$arch,code=$arch" -o "$work/peer" benches/cuda/peer.cu

# The last value of a statistic that GPGPU-Sim prints.
statistic() { sed -n "s/^$1 *= *\([0-9]*\).*/\1/p" "$2" | tail -n 1; }
# The sum of a counter of all kernels of a report.
counter() { sed -n "s/^ *\"$1\": \([0-9]*\),*$/\1/p" "$2" | head -n 1; }
median() { sort -n "$1" | sed -n 2p; }
# User seconds of a command, whose output goes to a file.
seconds() {
  local log=$1
  shift
  local TIMEFORMAT=%U
  { time "$@" >"$log" 2>&1; } 2>&1 || { cat "$log" >&2; fail "$* failed"; }
}

printf '%-8s %-10s %12s %12s %10s %10s %12s %12s %8s\n' \
  kernel chip "instr. ours" "theirs" "cycles" "theirs" "instr./s" "theirs" "ratio"
while [ ${#arguments[@]} -gt 0 ]; do
  config=${arguments[0]} chip=${arguments[1]}
  arguments=("${arguments[@]:2}")
  ratios=$work/ratios
  : >"$ratios"
  for kernel in vecadd fmaloop sgemm reduce; do
    : >"$work/ours"
    : >"$work/theirs"
    for _ in 1 2 3; do
      rm -rf "$work/out" "$work/run"
      mkdir "$work/run"
      cp -r "$config/." "$work/run"
      seconds "$work/ours.log" "$warpsim" cuda --chip "$chip" --set assembler.clean_up=false --allow-newer-isa \
        --out "$work/out" -- "$work/peer" "$kernel" >>"$work/ours"
      cd "$work/run"
      seconds "$work/theirs.log" "$work/peer" "$kernel" >>"$work/theirs"
      cd "$OLDPWD"
    done
    report=$work/out/report.json
    own=$(counter warp_instructions "$report")
    cycles=$(($(counter cycles "$report") + $(counter launch_cycles "$report")))
    their=$(statistic gpgpu_n_tot_w_icount "$work/theirs.log")
    their_cycles=$(statistic gpu_tot_sim_cycle "$work/theirs.log")
    [ -n "$their" ] && [ -n "$their_cycles" ] || {
      tail -n 20 "$work/theirs.log" >&2
      fail "the program did not run under GPGPU-Sim: its libcudart must come first in LD_LIBRARY_PATH"
    }
    for side in ours theirs; do grep -h '^checksum = ' "$work/$side.log"; done | sort -u >"$work/checksums"
    [ "$(wc -l <"$work/checksums")" = 1 ] || fail "the simulators computed different results of $kernel"
    awk -v kernel="$kernel" -v chip="$chip" -v own="$own" -v their="$their" -v cycles="$cycles" \
      -v their_cycles="$their_cycles" -v seconds="$(median "$work/ours")" -v their_seconds="$(median "$work/theirs")" \
      -v ratios="$ratios" 'BEGIN {
        rate = own / (seconds > 0 ? seconds : 0.001); their_rate = their / (their_seconds > 0 ? their_seconds : 0.001)
        printf "%-8s %-10s %12d %12d %10d %10d %12.0f %12.0f %8.0f\n",
          kernel, chip, own, their, cycles, their_cycles, rate, their_rate, rate / their_rate
        print rate / their_rate >> ratios
      }'
  done
  awk -v chip="$chip" '{ sum += log($1) } END { printf "%s: %.0f times as fast (geometric mean)\n", chip, exp(sum / NR) }' "$ratios"
done
