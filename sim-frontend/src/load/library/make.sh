#!/bin/sh
# Makes the PTX of the device runtime from its sources, by Debian's clang-14.
cd "$(dirname "$0")" || exit 1
for bits in 64 32; do
  for name in output heap graph; do
    clang-14 -x cuda --cuda-device-only --cuda-gpu-arch=sm_20 -nocudainc -nocudalib -O2 -m$bits -S \
      -o "$name.$bits.ptx" "$name.cu" || exit 1
  done
done
