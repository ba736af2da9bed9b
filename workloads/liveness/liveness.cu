#include "../common/prelude.cuh"
// Programs that end under fair schedules and may hang under others: programs 2, 3 and 4 of
// Habermaier and Knapp (ESOP 2012) and the lock of listing 6.1 of Habermaier (2011). Each thread
// that gets through says so in `out`. A store that others wait for is volatile, as their loads are.
KERNEL program_2(volatile u32 *lock, u32 *out) {
  u32 t = TX;
  if (t == 0) {
    *lock = 1;
  } else {
    while (*lock != 1) {}
  }
  out[t] = t + 1;
}
// The same with the parts exchanged: compilers branch to what thread 0 does, so here the path that
// is taken waits and the one that falls through sets.
KERNEL program_2_reversed(volatile u32 *lock, u32 *out) {
  u32 t = TX;
  if (t != 0) {
    *lock = 1;
  } else {
    while (*lock != 1) {}
  }
  out[t] = t + 1;
}
KERNEL program_3(volatile u32 *lock, u32 *out) {
  u32 t = TX;
  while (*lock != t) {}
  out[t] = t + 1;
  *lock = t + 1;
}
KERNEL program_4(volatile u32 *next, u32 *out) {
  u32 t = TX;
  while (*next != 32) {
    if (t == *next) *next = t + 1;
  }
  out[t] = t + 1;
}
__device__ inline u32 exchange_if(u32 *p, u32 expected, u32 v) { u32 r; asm volatile("atom.global.cas.b32 %0, [%1], %2, %3;" : "=r"(r) : "l"(p), "r"(expected), "r"(v) : "memory"); return r; }
KERNEL spin_lock(u32 *free, u32 *out) {
  u32 t = TX;
  while (exchange_if(free, 0, 1) != 0) {}
  // The critical section.
  out[t] = t + 1;
  *(volatile u32 *)free = 0;
}
