#include "../common/prelude.cuh"
// Where a text is most like a query of 16 bytes: sums of absolute differences of bytes by video
// instructions, and dot products of bytes.
__device__ inline u32 sad4(u32 a, u32 b, u32 c) { u32 r; asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r; }
__device__ inline u32 dot4(u32 a, u32 b, u32 c) { u32 r; asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r; }
__device__ inline u32 shifted(u32 low, u32 high, u32 bytes) { u32 r; asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(low), "r"(high), "r"(0x3210u + 0x1111u * bytes)); return r; }
KERNEL string_search(const u32 *text, const u32 *query, u32 *differences, u32 *products, u32 *best, int n) {
  int i = BX * BDX + TX;
  if (i >= n) return;
  u32 sad = 0, dot = 0;
  for (int k = 0; k < 4; k++) {
    u32 word = shifted(text[i / 4 + k], text[i / 4 + k + 1], i & 3);
    sad = sad4(word, query[k], sad);
    dot = dot4(word, query[k], dot);
  }
  differences[i] = sad;
  products[i] = dot;
  atomicMin(best, sad << 16 | (u32)i);
}
