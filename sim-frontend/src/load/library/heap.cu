// The heap of the device runtime: malloc and free of threads. Pieces are powers of two; those that
// were freed lie in lists by size and lane, which threads change by compare and swap, so that a thread
// that waits for others of its warp never holds a lock, and those of a warp do not meet.
#define __device__ __attribute__((device))
typedef unsigned int u32;
typedef unsigned long long u64;
typedef __SIZE_TYPE__ word;
#define UNIT 16u
#define CLASSES 28
#define MARK 0x77610000u
#define NONE 0xffffffffu
extern "C" {
// Units that were ever given out; threads that find no room have added theirs for a moment.
__device__ u64 __warpsim_heap_used;
// By size and lane: the number of the first free piece's unit, plus one, and above it how often it changed.
__device__ u64 __warpsim_heap_free[CLASSES][32];
// The heap. How large it is is a limit of the device: the address of the second variable is its bytes.
__device__ __attribute__((aligned(16))) unsigned char __warpsim_heap[8 << 20];
__device__ unsigned char __warpsim_heap_bytes;
}
#define BYTES ((word)&__warpsim_heap_bytes)
static __device__ u64 swap(u64 *at, u64 expected, u64 next) {
  u64 old;
  asm volatile("atom.global.cas.b64 %0, [%1], %2, %3;" : "=l"(old) : "l"((u64)at), "l"(expected), "l"(next) : "memory");
  return old;
}
static __device__ u64 take(u64 units) {
  u64 old;
  asm volatile("atom.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"((u64)&__warpsim_heap_used), "l"(units) : "memory");
  return old;
}
// A piece: its mark and size class, then the list.
static __device__ volatile u32 *piece(u32 unit) { return (volatile u32 *)(__warpsim_heap + (word)unit * UNIT); }
// The first piece of a list.
static __device__ u32 pop(u64 *list) {
  u64 head = *(volatile u64 *)list;
  while ((u32)head != 0) {
    u64 old = swap(list, head, ((head >> 32) + 1) << 32 | piece((u32)head - 1)[1]);
    if (old == head) return (u32)head - 1;
    head = old;
  }
  return NONE;
}
extern "C" __device__ void *malloc(word size) {
  if (size == 0 || BYTES < UNIT || size > BYTES - UNIT || size > ((word)UNIT << (CLASSES - 1)) - UNIT) return 0;
  u32 units = (u32)((size + 2 * UNIT - 1) / UNIT), index = 0;
  while ((1u << index) < units) index++;
  u32 lane = __nvvm_read_ptx_sreg_laneid(), unit = pop(&__warpsim_heap_free[index][lane]);
  if (unit == NONE) {
    u64 first = take(1ull << index);
    unit = (u32)first;
    if (first + (1ull << index) > BYTES / UNIT) {
      take(0ull - (1ull << index));
      // What other lanes gave back.
      unit = NONE;
      for (u32 other = 1; other < 32 && unit == NONE; other++)
        unit = pop(&__warpsim_heap_free[index][(lane + other) % 32]);
      if (unit == NONE) return 0;
    }
  }
  piece(unit)[0] = MARK | index;
  return __warpsim_heap + (word)(unit + 1) * UNIT;
}
extern "C" __device__ void free(void *pointer) {
  if (!pointer) return;
  word offset = (unsigned char *)pointer - __warpsim_heap;
  u32 unit = (u32)(offset / UNIT) - 1, index;
  if (offset >= BYTES || offset % UNIT != 0 || offset == 0 || (index = piece(unit)[0] ^ MARK) >= CLASSES) {
    // Not from malloc, or freed before.
    asm volatile("trap;");
    return;
  }
  piece(unit)[0] = 0;
  u64 *list = &__warpsim_heap_free[index][__nvvm_read_ptx_sreg_laneid()], head = *(volatile u64 *)list;
  bool done = false;
  while (!done) {
    piece(unit)[1] = (u32)head;
    asm volatile("membar.gl;" ::: "memory");
    u64 old = swap(list, head, ((head >> 32) + 1) << 32 | (unit + 1));
    done = old == head;
    head = old;
  }
}
