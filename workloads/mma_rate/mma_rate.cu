// How fast products of matrices follow one another: 16 warps, four for each sub-core, multiply matrices of ones into
// four sums each; and a chain of products, each of which waits for the last. cycles[i]: those of kind i.

#define MMA_FLOAT(name)                                                                                              \
    "mma.sync.aligned." name " {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};"

struct F16F32 {
    float d[4];
    __device__ void multiply()
    {
        asm volatile(MMA_FLOAT("m16n8k16.row.col.f32.f16.f16.f32")
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(0x3c003c00));
    }
    __device__ float result() { return d[0]; }
};

struct F16 {
    unsigned d[2];
    __device__ void multiply()
    {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %2, %2, %2}, {%2, %2}, {%0, %1};"
                     : "+r"(d[0]), "+r"(d[1]) : "r"(0x3c003c00));
    }
    __device__ float result()
    {
        float f;
        asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((unsigned short)d[0]));
        return f;
    }
};

struct Bf16 {
    float d[4];
    __device__ void multiply()
    {
        asm volatile(MMA_FLOAT("m16n8k16.row.col.f32.bf16.bf16.f32")
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(0x3f803f80));
    }
    __device__ float result() { return d[0]; }
};

struct Tf32 {
    float d[4];
    __device__ void multiply()
    {
        asm volatile(MMA_FLOAT("m16n8k8.row.col.f32.tf32.tf32.f32")
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(0x3f800000));
    }
    __device__ float result() { return d[0]; }
};

struct S8 {
    int d[4];
    __device__ void multiply()
    {
        asm volatile(MMA_FLOAT("m16n8k32.row.col.s32.s8.s8.s32")
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(0x01010101));
    }
    __device__ float result() { return d[0]; }
};

template <class Sums, int CHAINS> __device__ void run(unsigned long long *cycles, float *results, int kind, int rounds)
{
    Sums sums[CHAINS] = {};
    __syncthreads();
    unsigned long long start = clock64();
    for (int i = 0; i < rounds; i += 4) {
#pragma unroll
        for (int j = 0; j < 4 * CHAINS; j++)
            sums[j % CHAINS].multiply();
    }
    float result = 0;
#pragma unroll
    for (int j = 0; j < CHAINS; j++)
        result += sums[j].result();
    __syncthreads();
    if (threadIdx.x == 0)
        cycles[kind] = clock64() - start;
    results[kind * 512 + threadIdx.x] = result;
}

extern "C" __global__ void rate_f16_f32(unsigned long long *c, float *r, int rounds) { run<F16F32, 4>(c, r, 0, rounds); }
extern "C" __global__ void rate_f16(unsigned long long *c, float *r, int rounds) { run<F16, 4>(c, r, 1, rounds); }
extern "C" __global__ void rate_bf16(unsigned long long *c, float *r, int rounds) { run<Bf16, 4>(c, r, 2, rounds); }
extern "C" __global__ void rate_tf32(unsigned long long *c, float *r, int rounds) { run<Tf32, 4>(c, r, 3, rounds); }
extern "C" __global__ void rate_s8(unsigned long long *c, float *r, int rounds) { run<S8, 4>(c, r, 4, rounds); }
extern "C" __global__ void chain_f16_f32(unsigned long long *c, float *r, int rounds) { run<F16F32, 1>(c, r, 5, rounds); }
