// Attention without the matrix of scores in memory: out = softmax(q * transposed k / sqrt(D)) * v, of half precision with
// sums in single precision. A block has 64 queries of a head: one warp asks for tiles of 64 keys and values by tensor
// maps, two stages deep, a warpgroup multiplies them. Scores stay in registers, which are the first matrix of the
// second product; the largest score of a row so far scales its sums when a larger one comes.

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

// A box has 64 rows of 64 halves: 128 bytes, as wide as the swizzle.
const int TILE = 64, BOX_BYTES = 64 * 64 * 2, STAGES = 2, CONSUMERS = 128;

__device__ void wait(unsigned barrier, unsigned parity)
{
    asm volatile("{\n.reg .pred done;\nAGAIN:\n"
                 "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN;\n}"
                 :: "r"(barrier), "r"(parity) : "memory");
}

__device__ void initialize(unsigned barrier, unsigned count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}

__device__ void arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}

__device__ void expect(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;"
                 :: "r"(barrier), "r"(bytes) : "memory");
}

// 64 rows from y on, all columns.
template <int D>
__device__ void fetch(unsigned to, const tensor_map *map, int y, unsigned barrier)
{
    expect(barrier, D / 64 * BOX_BYTES);
    for (int part = 0; part < D / 64; part++)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(to + part * BOX_BYTES), "l"(map), "r"(part * 64), "r"(y), "r"(barrier) : "memory");
}

// Eight rows of 128 bytes, then the next ones; the next 64 columns are a box further. Swizzle of 128 bytes.
__device__ unsigned long long describe(unsigned at)
{
    return at >> 4 | (unsigned long long)BOX_BYTES >> 4 << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

#define D8(i)                                                                                                        \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),      \
        "+f"(d[i + 7])
#define D32                                                                                                          \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31"

// Scores: rows of both matrices go along the columns of q and k.
__device__ void score(float *d, unsigned long long a, unsigned long long b, int add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" D32
                 "}, %32, %33, p, 1, 1, 0, 0;\n}"
                 : D8(0), D8(8), D8(16), D8(24) : "l"(a), "l"(b), "r"(add));
}

// Sums of values: weights in registers, rows of v go along its columns.
__device__ void weigh(float (&d)[32], const unsigned *a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" D32
                 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : D8(0), D8(8), D8(16), D8(24) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ void weigh(float (&d)[64], const unsigned *a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" D32
                 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, "
                 "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
                 : D8(0), D8(8), D8(16), D8(24), D8(32), D8(40), D8(48), D8(56)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ void begin_products()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ void end_products()
{
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}

__device__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ unsigned halves(float low, float high)
{
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

// The other threads that have parts of a row.
__device__ float of_row(float x, int mask)
{
    float y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(y) : "f"(x), "r"(mask));
    return y;
}

__device__ float larger(float a, float b)
{
    return a > b ? a : b;
}

template <int D, bool CAUSAL>
__device__ void attend(const tensor_map *q, const tensor_map *k, const tensor_map *v, float *out, int n)
{
    extern __shared__ __align__(1024) unsigned char room[];
    const unsigned TILE_BYTES = D / 64 * BOX_BYTES;
    unsigned queries = (unsigned)__cvta_generic_to_shared(room);
    unsigned keys = queries + TILE_BYTES, values = keys + STAGES * TILE_BYTES;
    unsigned ready = values + STAGES * TILE_BYTES, keys_full = ready + 8, values_full = keys_full + 8 * STAGES;
    unsigned empty = values_full + 8 * STAGES;
    int first = blockIdx.x * TILE, head = blockIdx.y * n;
    int tiles = CAUSAL ? blockIdx.x + 1 : n / TILE;
    if (threadIdx.x == 0) {
        initialize(ready, 1);
        for (int stage = 0; stage < STAGES; stage++) {
            initialize(keys_full + 8 * stage, 1);
            initialize(values_full + 8 * stage, 1);
            initialize(empty + 8 * stage, CONSUMERS / 32);
        }
        asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x >= CONSUMERS) {
        if (threadIdx.x == CONSUMERS) {
            fetch<D>(queries, q, head + first, ready);
            for (int tile = 0; tile < tiles; tile++) {
                int stage = tile % STAGES, round = tile / STAGES;
                wait(empty + 8 * stage, (round & 1) ^ 1);
                fetch<D>(keys + stage * TILE_BYTES, k, head + tile * TILE, keys_full + 8 * stage);
                fetch<D>(values + stage * TILE_BYTES, v, head + tile * TILE, values_full + 8 * stage);
            }
        }
        return;
    }
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
    // Powers of two in place of e.
    const float SCALE = 1.4426950408889634f / (D == 64 ? 8.0f : 11.313708498984761f);
    float sums[D / 2] = {}, most[2] = {-1e30f, -1e30f}, total[2] = {};
    wait(ready, 0);
    for (int tile = 0; tile < tiles; tile++) {
        int stage = tile % STAGES, round = tile / STAGES;
        float scores[32];
#pragma unroll
        for (int i = 0; i < 32; i++)
            scores[i] = 0;
        wait(keys_full + 8 * stage, round & 1);
        begin_products();
#pragma unroll
        for (int part = 0; part < D / 16; part++) {
            unsigned at = part / 4 * BOX_BYTES + part % 4 * 32;
            score(scores, describe(queries + at), describe(keys + stage * TILE_BYTES + at), part > 0);
        }
        end_products();
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float now = most[half];
#pragma unroll
            for (int i = 0; i < 16; i++) {
                float &own = scores[i / 2 * 4 + half * 2 + i % 2];
                int key = tile * TILE + i / 2 * 8 + lane % 4 * 2 + i % 2;
                own = CAUSAL && key > first + row + 8 * half ? -1e30f : own * SCALE;
                now = larger(now, own);
            }
            now = larger(now, of_row(now, 1));
            now = larger(now, of_row(now, 2));
            float scale = power_of_two(most[half] - now);
            most[half] = now;
            total[half] *= scale;
#pragma unroll
            for (int i = 0; i < 16; i++) {
                float &own = scores[i / 2 * 4 + half * 2 + i % 2];
                own = power_of_two(own - now);
                total[half] += own;
            }
#pragma unroll
            for (int i = 0; i < D / 4; i++)
                sums[i / 2 * 4 + half * 2 + i % 2] *= scale;
        }
        unsigned weights[16];
#pragma unroll
        for (int i = 0; i < 16; i++)
            weights[i] = halves(scores[2 * i], scores[2 * i + 1]);
        wait(values_full + 8 * stage, round & 1);
        begin_products();
#pragma unroll
        for (int part = 0; part < TILE / 16; part++)
            weigh(sums, weights + 4 * part, describe(values + stage * TILE_BYTES + part * 16 * 128));
        end_products();
        if (lane == 0)
            arrive(empty + 8 * stage);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        total[half] += of_row(total[half], 1);
        total[half] += of_row(total[half], 2);
        float *to = &out[(head + first + row + 8 * half) * D + lane % 4 * 2];
#pragma unroll
        for (int j = 0; j < D / 8; j++)
            *(float2 *)(to + 8 * j) =
                make_float2(sums[4 * j + 2 * half] / total[half], sums[4 * j + 2 * half + 1] / total[half]);
    }
}

#define ATTENTION(name, d, causal)                                                                                   \
    extern "C" __global__ void __launch_bounds__(CONSUMERS + 32)                                                     \
    name(const __grid_constant__ tensor_map q, const __grid_constant__ tensor_map k,                                 \
         const __grid_constant__ tensor_map v, float *out, int n)                                                    \
    {                                                                                                                \
        attend<d, causal>(&q, &k, &v, out, n);                                                                       \
    }

ATTENTION(full_64, 64, false)
ATTENTION(causal_64, 64, true)
ATTENTION(full_128, 128, false)
ATTENTION(causal_128, 128, true)
