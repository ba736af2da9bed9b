// A product of matrices in half precision with sums in single precision, by wmma: a block of four warps makes 64 by
// 64 elements, each warp 32 by 32. The instructions are written down, so that no header is needed.

typedef unsigned short half_bits;

extern "C" __global__ void to_half(const float *from, half_bits *to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to[i]) : "f"(from[i]));
}

struct Fragment {
    unsigned x[8];
};

struct Sums {
    float x[8];
};

__device__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

#define EIGHT(c, v) c(v[0]), c(v[1]), c(v[2]), c(v[3]), c(v[4]), c(v[5]), c(v[6]), c(v[7])

__device__ Fragment load_a(const half_bits *p, int stride)
{
    Fragment f;
    asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"
                 : EIGHT("=r", f.x) : "r"(shared_address(p)), "r"(stride));
    return f;
}

__device__ Fragment load_b(const half_bits *p, int stride)
{
    Fragment f;
    asm volatile("wmma.load.b.sync.aligned.row.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"
                 : EIGHT("=r", f.x) : "r"(shared_address(p)), "r"(stride));
    return f;
}

__device__ void multiply(Sums &d, const Fragment &a, const Fragment &b)
{
    asm volatile("wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, "
                 "{%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19, %20, %21, %22, %23}, "
                 "{%0, %1, %2, %3, %4, %5, %6, %7};"
                 : EIGHT("+f", d.x) : EIGHT("r", a.x), EIGHT("r", b.x));
}

__device__ void store(float *p, const Sums &d, int stride)
{
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8}, %9;"
                 :: "l"(__cvta_generic_to_global(p)), EIGHT("f", d.x), "r"(stride) : "memory");
}

// Rows of A in shared memory have 40 halves, those of B 72: no bank conflicts.
const int DEPTH = 32, A_ROW = 40, B_ROW = 72;

extern "C" __global__ void hgemm_wmma(const half_bits *a, const half_bits *b, float *c, int n)
{
    __shared__ __align__(32) half_bits tile_a[64 * A_ROW];
    __shared__ __align__(32) half_bits tile_b[DEPTH * B_ROW];
    int t = threadIdx.x, warp = t / 32;
    int row = blockIdx.y * 64, column = blockIdx.x * 64;
    int own_row = warp / 2 * 32, own_column = warp % 2 * 32;
    Sums sums[2][2] = {};
    for (int k = 0; k < n; k += DEPTH) {
        for (int i = t; i < 256; i += 128) {
            // 16 bytes each: four of a row of A, eight of one of B.
            *(uint4 *)&tile_a[i / 4 * A_ROW + i % 4 * 8] = *(const uint4 *)&a[(row + i / 4) * n + k + i % 4 * 8];
            *(uint4 *)&tile_b[i / 8 * B_ROW + i % 8 * 8] = *(const uint4 *)&b[(k + i / 8) * n + column + i % 8 * 8];
        }
        __syncthreads();
        for (int part = 0; part < DEPTH; part += 16) {
            Fragment of_a[2], of_b[2];
            for (int i = 0; i < 2; i++) {
                of_a[i] = load_a(&tile_a[(own_row + 16 * i) * A_ROW + part], A_ROW);
                of_b[i] = load_b(&tile_b[part * B_ROW + own_column + 16 * i], B_ROW);
            }
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    multiply(sums[i][j], of_a[i], of_b[j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            store(&c[(row + own_row + 16 * i) * n + column + own_column + 16 * j], sums[i][j], n);
}
