// A product of matrices in half precision with sums in single precision. Warps have parts: one thread of the first
// warpgroup asks for tiles by tensor maps, three stages deep, two warpgroups multiply them. The two blocks of a cluster
// have the same rows of A: each asks for half of them, for both. A stage is full when its bytes have arrived, and
// empty when the consumers of both blocks, into which it is copied, have multiplied it.

typedef unsigned short half_bits;

// What the driver makes by cuTensorMapEncodeTiled.
struct __align__(64) tensor_map {
    unsigned long long words[16];
};

extern "C" __global__ void to_half(const float *from, half_bits *to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to[i]) : "f"(from[i]));
}

// Rows and columns of a block, and how far along K a stage goes. A box has 64 by 64 halves, rows of 128 bytes.
const int STAGES = 3, TILE = 128, STEP = 64, BOX_BYTES = 64 * 64 * 2;
const int STAGE_BYTES = 4 * BOX_BYTES, BARRIERS = STAGES * STAGE_BYTES;
const int CLUSTER = 2, CONSUMERS = 2;

__device__ unsigned rank()
{
    unsigned at;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(at));
    return at;
}

__device__ void wait(unsigned barrier, unsigned parity)
{
    asm volatile("{\n.reg .pred done;\nAGAIN:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN;\n}"
                 :: "r"(barrier), "r"(parity) : "memory");
}

__device__ void initialize(unsigned barrier, unsigned count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}

// The barrier of a block of the cluster.
__device__ void arrive(unsigned barrier, unsigned block)
{
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}"
                 :: "r"(barrier), "r"(block) : "memory");
}

__device__ void expect(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;"
                 :: "r"(barrier), "r"(bytes) : "memory");
}

__device__ void copy(unsigned to, const tensor_map *map, int x, int y, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

__device__ void copy_to_all(unsigned to, const tensor_map *map, int x, int y, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier), "h"((short)((1 << CLUSTER) - 1)) : "memory");
}

__device__ void meet()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Eight rows of 128 bytes, then the next ones; the next 64 columns of B are a box further. Swizzle of 128 bytes.
__device__ unsigned long long describe(unsigned at)
{
    return at >> 4 | (unsigned long long)BOX_BYTES >> 4 << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

#define D8(i)                                                                                                        \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),      \
        "+f"(d[i + 7])

// Rows of A go along K, those of B along N.
__device__ void multiply(float *d, unsigned long long a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                 "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, "
                 "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, 1, 1, 1, 0, 1;"
                 : D8(0), D8(8), D8(16), D8(24), D8(32), D8(40), D8(48), D8(56) : "l"(a), "l"(b));
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(128 * (1 + CONSUMERS), 1)
hgemm_tma(const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map b, float *c, int n)
{
    extern __shared__ __align__(1024) unsigned char room[];
    unsigned base = (unsigned)__cvta_generic_to_shared(room);
    unsigned full = base + BARRIERS, empty = full + 8 * STAGES;
    int group = threadIdx.x / 128, steps = n / STEP;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            initialize(full + 8 * stage, 1);
            initialize(empty + 8 * stage, CLUSTER * CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    meet();
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            unsigned half = rank();
            for (int step = 0; step < steps; step++) {
                int stage = step % STAGES, round = step / STAGES;
                unsigned to = base + stage * STAGE_BYTES, barrier = full + 8 * stage;
                // In the first round all stages are empty: the phase before the first counts as over.
                wait(empty + 8 * stage, (round & 1) ^ 1);
                expect(barrier, STAGE_BYTES);
                copy_to_all(to + half * BOX_BYTES, &a, step * STEP, blockIdx.y * TILE + half * 64, barrier);
                copy(to + 2 * BOX_BYTES, &b, blockIdx.x * TILE, step * STEP, barrier);
                copy(to + 3 * BOX_BYTES, &b, blockIdx.x * TILE + 64, step * STEP, barrier);
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        float d[64] = {};
        int consumer = group - 1;
        for (int step = 0; step < steps; step++) {
            int stage = step % STAGES, round = step / STAGES;
            unsigned from = base + stage * STAGE_BYTES;
            wait(full + 8 * stage, round & 1);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int part = 0; part < STEP / 16; part++)
                multiply(d, describe(from + consumer * BOX_BYTES + part * 32),
                         describe(from + 2 * BOX_BYTES + part * 16 * 128));
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            // The products of the step before are done: its stage is empty, in both blocks.
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            if (step > 0 && threadIdx.x % 128 < CLUSTER)
                arrive(empty + 8 * ((step - 1) % STAGES), threadIdx.x % 128);
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
        int row = blockIdx.y * TILE + consumer * 64 + 16 * warp + lane / 4;
        int column = blockIdx.x * TILE + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < TILE / 8; j++) {
            float *to = &c[row * n + column + 8 * j];
            *(float2 *)to = make_float2(d[4 * j], d[4 * j + 1]);
            *(float2 *)(to + 8 * n) = make_float2(d[4 * j + 2], d[4 * j + 3]);
        }
    }
    // Nobody leaves while the other block still copies into its memory.
    meet();
}
