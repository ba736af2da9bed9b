// How fast products of a warpgroup follow one another: four warps multiply matrices of ones into the same sums, A from
// shared memory or from registers, with fewer and fewer columns, and of several types. cycles[i]: those of kind i,
// from before the first product to after the wait for all.

// As many operands, as a list.
#define S4 "%0, %1, %2, %3"
#define S8 S4 ", %4, %5, %6, %7"
#define S16 S8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define S32 S16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define S64                                                                                                          \
    S32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, " \
        "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define S128                                                                                                         \
    S64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, " \
        "%85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, "  \
        "%105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, "     \
        "%122, %123, %124, %125, %126, %127"

// As many registers of D, of a kind of register.
#define R4(c, i) "+" c(d[i]), "+" c(d[i + 1]), "+" c(d[i + 2]), "+" c(d[i + 3])
#define R8(c, i) R4(c, i), R4(c, i + 4)
#define R16(c, i) R8(c, i), R8(c, i + 8)
#define R32(c, i) R16(c, i), R16(c, i + 16)
#define R64(c, i) R32(c, i), R32(c, i + 32)
#define R128(c, i) R64(c, i), R64(c, i + 64)

// Core matrices of 128 bytes: two along K, then the next eight rows or columns.
__device__ unsigned long long describe(const unsigned char *at)
{
    unsigned long long start = (unsigned)__cvta_generic_to_shared(at) >> 4;
    return start | 128ull >> 4 << 16 | 256ull >> 4 << 32;
}

// `registers` of D of type `sum`; `shape` with its types; A and B as operands; what follows `scale-d`.
#define RATE(name, kind, registers, sum, c, ones, shape, a, b, scales, ...)                                          \
    extern "C" __global__ void name(unsigned long long *cycles, float *results, int rounds)                          \
    {                                                                                                                \
        __shared__ __align__(128) unsigned char room[2048 + 8192];                                                   \
        sum d[registers] = {};                                                                                       \
        for (int i = threadIdx.x; i < (int)sizeof room / 4; i += 128)                                                \
            ((unsigned *)room)[i] = ones;                                                                            \
        asm volatile("fence.proxy.async;" ::: "memory");                                                             \
        __syncthreads();                                                                                             \
        unsigned long long b_place = describe(room + 2048);                                                          \
        asm volatile("" : R##registers(c, 0)::"memory");                                                             \
        unsigned long long start = clock64();                                                                        \
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");                                                      \
        int i = 0;                                                                                                   \
        _Pragma("unroll 1") do {                                                                                     \
            _Pragma("unroll") for (int j = 0; j < 8; j++)                                                            \
                asm volatile("wgmma.mma_async.sync.aligned." shape " {" S##registers "}, " a ", " b ", 1" scales ";"  \
                             : R##registers(c, 0) : __VA_ARGS__, "l"(b_place));                                      \
            i += 8;                                                                                                  \
        } while (i < rounds);                                                                                        \
        asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;" ::: "memory");           \
        unsigned long long end = clock64();                                                                          \
        if (threadIdx.x == 0)                                                                                        \
            cycles[kind] = end - start;                                                                              \
        results[kind * 128 + threadIdx.x] = (float)d[registers - 1];                                                 \
    }

#define HALVES(n, registers, a, b, kind)                                                                             \
    RATE(f16_shared_##n, kind, registers, float, "f", 0x3c003c00, "m64n" #n "k16.f32.f16.f16", "%" #a, "%" #b,        \
         ", 1, 1, 0, 0", "l"(describe(room)))                                                                        \
    RATE(f16_registers_##n, (kind + 6), registers, float, "f", 0x3c003c00, "m64n" #n "k16.f32.f16.f16",                \
         "{%" #a ", %" #a ", %" #a ", %" #a "}", "%" #b, ", 1, 1, 0", "r"(0x3c003c00))

HALVES(8, 4, 4, 5, 0)
HALVES(16, 8, 8, 9, 1)
HALVES(32, 16, 16, 17, 2)
HALVES(64, 32, 32, 33, 3)
HALVES(128, 64, 64, 65, 4)
HALVES(256, 128, 128, 129, 5)
RATE(bf16_256, 12, 128, float, "f", 0x3f803f80, "m64n256k16.f32.bf16.bf16", "%128", "%129", ", 1, 1, 0, 0",
     "l"(describe(room)))
RATE(tf32_256, 13, 128, float, "f", 0x3f800000, "m64n256k8.f32.tf32.tf32", "%128", "%129", ", 1, 1",
     "l"(describe(room)))
RATE(e4m3_256, 14, 128, float, "f", 0x38383838, "m64n256k32.f32.e4m3.e4m3", "%128", "%129", ", 1, 1",
     "l"(describe(room)))
RATE(s8_256, 15, 128, int, "r", 0x01010101, "m64n256k32.s32.s8.s8", "%128", "%129", "", "l"(describe(room)))
