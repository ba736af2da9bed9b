#include "../common/prelude.cuh"
// Small shapes of divergent control flow, one a kernel. Each thread's result is a hash of the steps
// it took; the steps are volatile, so that no compiler makes a selection of a branch.
#define STEP(x, c) asm volatile("mad.lo.u32 %0, %0, 1664525, %1;" : "+r"(x) : "n"(c))
#define START u32 t = BX * BDX + TX; u32 x = t * 2654435761u + 12345u

KERNEL if_else(u32 *out) {
  START;
  if (t & 1) { STEP(x, 1); STEP(x, 2); STEP(x, 3); STEP(x, 4); STEP(x, 5); STEP(x, 6); }
  else { STEP(x, 7); STEP(x, 8); STEP(x, 9); STEP(x, 10); STEP(x, 11); STEP(x, 12); }
  STEP(x, 13);
  out[t] = x;
}
KERNEL nested_if(u32 *out) {
  START;
  if (t & 1) {
    STEP(x, 1);
    if (t & 2) {
      STEP(x, 2);
      if (t & 4) {
        STEP(x, 3);
        if (t & 8) {
          STEP(x, 4);
          if (t & 16) { STEP(x, 5); } else { STEP(x, 6); }
          STEP(x, 7);
        } else { STEP(x, 8); }
        STEP(x, 9);
      } else { STEP(x, 10); }
      STEP(x, 11);
    } else { STEP(x, 12); }
    STEP(x, 13);
  } else { STEP(x, 14); }
  STEP(x, 15);
  out[t] = x;
}
KERNEL trip_count(u32 *out) {
  START;
  for (u32 i = 0; i < (t & 31); i++) { STEP(x, 1); STEP(x, 2); }
  STEP(x, 3);
  out[t] = x;
}
KERNEL break_continue(u32 *out) {
  START;
  for (u32 i = 0; i < 24; i++) {
    STEP(x, 1);
    if (x >> 31) continue;
    STEP(x, 2);
    if ((x >> 24 & 15) == 0) break;
    STEP(x, 3);
  }
  STEP(x, 4);
  out[t] = x;
}
KERNEL switch_case(u32 *out) {
  START;
  for (u32 i = 0; i < 4; i++) {
    switch (x >> 13 & 7) {
      case 0: STEP(x, 1); break;
      case 1: STEP(x, 2); STEP(x, 3); break;
      case 2: STEP(x, 4); // falls through
      case 3: STEP(x, 5); STEP(x, 6); break;
      case 4: STEP(x, 7); STEP(x, 8); STEP(x, 9); break;
      case 5: STEP(x, 10); break;
      default: STEP(x, 11); STEP(x, 12);
    }
    STEP(x, 13);
  }
  out[t] = x;
}
KERNEL early_exit(u32 *out) {
  START;
  STEP(x, 1);
  if (t % 3 == 0) { out[t] = x; return; }
  STEP(x, 2); STEP(x, 3);
  if (t % 5 == 0) { out[t] = x; return; }
  STEP(x, 4); STEP(x, 5); STEP(x, 6);
  out[t] = x;
}
__device__ inline bool test(u32 &x, u32 shift) { STEP(x, 21); return x >> shift & 1; }
KERNEL short_circuit(u32 *out) {
  START;
  for (u32 i = 0; i < 4; i++) {
    if ((test(x, 17) && test(x, 19)) || (test(x, 23) && !test(x, 29))) { STEP(x, 1); STEP(x, 2); }
    else { STEP(x, 3); }
    STEP(x, 4);
  }
  out[t] = x;
}
KERNEL loop_of_two_entries(u32 *out) {
  START;
  u32 left = (t & 7) + 3;
  if (t & 1) goto second;
first:
  STEP(x, 1);
  if (left-- == 0) goto end;
second:
  STEP(x, 2);
  if (left-- == 0) goto end;
  STEP(x, 3);
  goto first;
end:
  STEP(x, 4);
  out[t] = x;
}
__noinline__ __device__ u32 callee(u32 x) {
  STEP(x, 1);
  if (x >> 30 & 1) return x;
  STEP(x, 2); STEP(x, 3);
  if (x >> 29 & 1) { STEP(x, 4); return x; }
  STEP(x, 5);
  return x;
}
KERNEL divergent_call(u32 *out) {
  START;
  if (t & 3) x = callee(x);
  STEP(x, 6);
  if (!(t & 4)) x = callee(x) + callee(x + 1);
  STEP(x, 7);
  out[t] = x;
}
KERNEL divergent_barrier(u32 *out) {
  static __shared__ u32 room[128];
  START;
  // Whole warps take either side; each side has a barrier of its own text.
  if (TX >> 5 & 1) { STEP(x, 1); room[TX] = x; SYNC(); STEP(x, 2); }
  else { STEP(x, 3); STEP(x, 4); room[TX] = x; SYNC(); STEP(x, 5); }
  x += room[(TX + 32) & 127];
  out[t] = x;
}
KERNEL unstructured_mandelbrot(u32 *out, int most) {
  u32 t = BX * BDX + TX;
  float cx = mul((float)(int)(t & 31), 0.09375f) - 2.0f, cy = mul((float)(int)(t >> 5), 0.125f) - 1.0f;
  float x = 0, y = 0;
  int count = 0;
again: {
    float xx = mul(x, x), yy = mul(y, y);
    if (add(xx, yy) > 4.0f) goto escaped;
    if (count >= most) goto inside;
    y = add(mul(2.0f, mul(x, y)), cy);
    x = add(add(xx, -yy), cx);
    count++;
    if (count == 4 && y > 1.0f) goto escaped;
    goto again;
  }
inside:
  out[t] = 0xffffffffu;
  return;
escaped:
  out[t] = (u32)count;
}
