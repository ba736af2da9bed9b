// The part of the device runtime that writes: vprintf and __assertfail, which compilers declare and
// leave to whoever links the program. Records lie one behind the other; the host reads them when
// the launches have ended.
#define __device__ __attribute__((device))
typedef unsigned int u32;
typedef unsigned long long u64;
typedef __SIZE_TYPE__ word;
extern "C" {
// Bytes of records, and printfs that found no room.
__device__ u64 __warpsim_output_used, __warpsim_output_lost;
// How large the buffer is is a limit of the device: the address of the second variable is its bytes.
__device__ __attribute__((aligned(8))) unsigned char __warpsim_output[1 << 20];
__device__ unsigned char __warpsim_output_bytes;
// Threads that failed; of each of the first ones message, file, function, line, thread, block.
__device__ u64 __warpsim_failed;
__device__ word __warpsim_failures[64][10];
}
static __device__ u64 reserve(u64 *counter, u64 bytes) {
  u64 old;
  asm volatile("atom.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"((u64)counter), "l"(bytes) : "memory");
  return old;
}
// Bytes of the argument of a conversion, which begins behind its percent sign; moves on to its end.
static __device__ u32 argument(const char *&at, u32 &stars) {
  int longs = 0;
  stars = 0;
  for (;; at++) {
    char c = *at;
    if (c == '*') stars++;
    else if (c == 'l') longs++;
    else if (c == 'j' || c == 'z' || c == 't') longs += 2;
    else if (c != 'h' && c != '-' && c != '+' && c != ' ' && c != '#' && c != '.' && !(c >= '0' && c <= '9')) break;
  }
  switch (*at) {
    case 'd': case 'i': case 'u': case 'o': case 'x': case 'X': case 'c':
      return longs > 1 ? 8 : longs == 1 ? sizeof(long) : 4;
    case 'e': case 'E': case 'f': case 'F': case 'g': case 'G': case 'a': case 'A':
      return 8;
    case 's': case 'p': case 'n':
      return sizeof(word);
    default:
      return 0;
  }
}
extern "C" __device__ int vprintf(const char *format, const void *arguments) {
  if (!format) return -1;
  u32 bytes = 0;
  int count = 0;
  for (const char *at = format; *at; at++) {
    if (*at != '%') continue;
    at++;
    u32 stars, size = argument(at, stars);
    bytes += 4 * stars;
    count += stars + (size != 0);
    if (size) bytes = ((bytes + size - 1) & ~(size - 1)) + size;
    if (!*at) break;
  }
  u32 record = 16 + ((bytes + 7) & ~7u);
  u64 at = reserve(&__warpsim_output_used, record);
  if (at + record > (word)&__warpsim_output_bytes) {
    reserve(&__warpsim_output_lost, 1);
    return -2;
  }
  u32 *out = (u32 *)(__warpsim_output + at);
  out[0] = record;
  out[1] = bytes;
  *(u64 *)(out + 2) = (word)format;
  for (u32 i = 0; i < bytes; i += 4) out[4 + i / 4] = ((const u32 *)arguments)[i / 4];
  return count;
}
extern "C" __device__ void __assertfail(const char *message, const char *file, u32 line, const char *function, word) {
  u64 at = reserve(&__warpsim_failed, 1);
  // Those that have an entry stop the device once it is written.
  if (at >= 64) asm volatile("exit;");
  word *out = __warpsim_failures[at];
  out[1] = (word)file;
  out[2] = (word)function;
  out[3] = line;
  out[4] = __nvvm_read_ptx_sreg_tid_x();
  out[5] = __nvvm_read_ptx_sreg_tid_y();
  out[6] = __nvvm_read_ptx_sreg_tid_z();
  out[7] = __nvvm_read_ptx_sreg_ctaid_x();
  out[8] = __nvvm_read_ptx_sreg_ctaid_y();
  out[9] = __nvvm_read_ptx_sreg_ctaid_z();
  // Another warp may stop the device now: an entry counts once this is there.
  asm volatile("membar.gl;" ::: "memory");
  out[0] = (word)message;
  asm volatile("membar.sys;\n\ttrap;" ::: "memory");
}
