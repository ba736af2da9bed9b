// A product of matrices of bytes with sums of 32 bits: C = A * B, A by rows and B by columns, so that both are read
// along k. Two stages of cp.async, ldmatrix on pieces of 16 bytes, mma.sync.

typedef signed char byte;

const int DEPTH = 64, A_BYTES = 64 * DEPTH, STAGE_BYTES = 2 * A_BYTES;

__device__ void copy(unsigned to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(__cvta_generic_to_global(from)) : "memory");
}

__device__ void load(unsigned *f, unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3]) : "r"(from) : "memory");
}

__device__ void multiply(int *d, const unsigned *a, const unsigned *b)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ unsigned place(int row, int piece)
{
    return row * DEPTH + (piece ^ row / 2 % 4) * 16;
}

// Begins the copies of a step; where there is none, an empty group keeps the count.
__device__ void fetch(unsigned base, const byte *a, const byte *b, int step, int n)
{
    if (step < n / DEPTH)
        for (int i = threadIdx.x; i < 256; i += 128) {
            unsigned to = base + step % 2 * STAGE_BYTES + place(i / 4, i % 4);
            copy(to, &a[(blockIdx.y * 64 + i / 4) * n + step * DEPTH + i % 4 * 16]);
            copy(to + A_BYTES, &b[(blockIdx.x * 64 + i / 4) * n + step * DEPTH + i % 4 * 16]);
        }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

extern "C" __global__ void igemm(const byte *a, const byte *b, int *c, int n)
{
    __shared__ __align__(128) unsigned char room[2 * STAGE_BYTES];
    unsigned base = (unsigned)__cvta_generic_to_shared(room);
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    int row = blockIdx.y * 64, column = blockIdx.x * 64;
    int own_row = warp / 2 * 32, own_column = warp % 2 * 32;
    int steps = n / DEPTH;
    int sums[2][4][4] = {};
    fetch(base, a, b, 0, n);
    for (int step = 0; step < steps; step++) {
        fetch(base, a, b, step + 1, n);
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        unsigned stage = base + step % 2 * STAGE_BYTES;
#pragma unroll
        for (int part = 0; part < 2; part++) {
            unsigned of_a[2][4], of_b[2][4];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                load(of_a[i], stage + place(own_row + 16 * i + lane % 16, 2 * part + lane / 16));
                load(of_b[i], stage + A_BYTES
                                  + place(own_column + 16 * i + lane / 16 * 8 + lane % 8, 2 * part + lane / 8 % 2));
            }
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    multiply(sums[i][j], of_a[i], &of_b[j / 2][j % 2 * 2]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int *to = &c[(row + own_row + 16 * i + lane / 4) * n + column + own_column + 8 * j + lane % 4 * 2];
            *(int2 *)to = make_int2(sums[i][j][0], sums[i][j][1]);
            *(int2 *)(to + 8 * n) = make_int2(sums[i][j][2], sums[i][j][3]);
        }
}
