#include "../common/prelude.cuh"
__device__ inline u32 load_ca(const u32 *p) { u32 r; asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(r) : "l"(p) : "memory"); return r; }
__device__ inline u32 load_volatile(const u32 *p) { u32 r; asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(r) : "l"(p) : "memory"); return r; }
__device__ inline void store_volatile(u32 *p, u32 v) { asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
__device__ inline void fence() { asm volatile("membar.gl;" ::: "memory"); }
__device__ inline void wait_for(const u32 *flag) {
  if (TX == 0) while (load_volatile(flag) == 0) {}
  SYNC();
}
// Block 0 reads words, lets block 1 write them, and reads them again: at once, after a fence, and
// past L1. What the first two find is the memory protocol's doing.
KERNEL stale_reads(u32 *words, u32 *flags, u32 *seen, u32 *fresh) {
  if (BX == 0) {
    u32 before = load_ca(words + TX);
    SYNC();
    if (TX == 0) store_volatile(flags, 1 + before);
    wait_for(flags + 64);
    seen[TX] = load_ca(words + TX);
    fence();
    SYNC();
    seen[32 + TX] = load_ca(words + TX);
    fresh[TX] = load_volatile(words + TX);
  } else {
    wait_for(flags);
    store_volatile(words + TX, 7);
    fence();
    SYNC();
    if (TX == 0) store_volatile(flags + 64, 1);
  }
}
