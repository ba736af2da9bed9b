// Kernels that show what the chip does besides instructions: caches, memory, atomics, barriers, dispatch. Part of what
// instructions.py makes; a line of JSON for each figure.
#define SB ((u32)__cvta_generic_to_shared(shared))
__constant__ u32 cdata[16384];
__global__ void const_chase(u64 *cycles, u64 *out, u32 words, u32 steps) { // ring in constant memory, 64-byte stride
    u32 at = 0;
    for (u32 i = 0; i < words / 16; i++)
        at = cdata[at];
    u64 a = now();
    for (u32 i = 0; i < steps; i++) {
        at = cdata[at];
    }
    u64 b = now();
    cycles[0] = b - a;
    out[0] = at;
}
// d addresses in a warp, words apart
__global__ void const_divergent(u64 *cycles, u32 *out, u32 d, u32 words) {
    u32 at = threadIdx.x % d * words;
    for (int i = 0; i < 4; i++)
        at = cdata[8192 + at] + at;
    u64 a = now();
    for (int i = 0; i < 64; i++)
        at = cdata[8192 + at] + at;
    u64 b = now();
    if (threadIdx.x == 0)
        cycles[0] = b - a;
    out[threadIdx.x] = at;
}
__global__ void init_ring(u32 *room, u64 n, u64 stride_words, u64 factor, u64 offset) { // n power of two
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (u64)blockDim.x) {
        u64 next = (i * factor + offset) & (n - 1);
        *(u64 *)(room + i * stride_words) = (u64)(room + next * stride_words);
    }
}
// Dependent loads through L1, or past it
template <bool CG> __global__ void chase(u64 *cycles, u64 *out, u64 *start, u64 warm, u64 steps) {
    u64 *p = start, a = 0;
    for (u64 i = 0; i < warm + steps; i++) {
        if (i == warm)
            a = now();
        if (CG)
            asm volatile("ld.global.cg.u64 %0,[%0];" : "+l"(p)::"memory");
        else
            asm volatile("ld.global.ca.u64 %0,[%0];" : "+l"(p)::"memory");
    }
    cycles[0] = now() - a;
    out[0] = (u64)p;
}
__global__ void block_times(u64 *out) {
    u64 g, c;
    u32 sm;
    asm volatile("mov.u64 %0,%%globaltimer;" : "=l"(g));
    c = now();
    asm volatile("mov.u32 %0,%%smid;" : "=r"(sm));
    if (threadIdx.x == 0) {
        out[3 * blockIdx.x] = g;
        out[3 * blockIdx.x + 1] = c;
        out[3 * blockIdx.x + 2] = sm;
    }
}
__global__ void empty_k() {}
__global__ void bar_cost(u64 *cycles) {
    for (int i = 0; i < 8; i++)
        __syncthreads();
    u64 a = now();
    for (int i = 0; i < 64; i++)
        asm volatile("bar.sync 0;" ::: "memory");
    u64 b = now();
    if (threadIdx.x == 0)
        cycles[0] = b - a;
}
__global__ void cluster_bar(u64 *cycles) {
    u64 a = now();
    for (int i = 0; i < 64; i++)
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    u64 b = now();
    if (threadIdx.x == 0 && blockIdx.x == 0)
        cycles[0] = b - a;
}
#define FENCE(name, text)                                                                                              \
    __global__ void fence_##name(u64 *cycles, u32 *room, u32 store) {                                                  \
        u32 *p = room + threadIdx.x * 32;                                                                              \
        u64 a = now();                                                                                                 \
        for (int i = 0; i < 64; i++) {                                                                                 \
            if (store)                                                                                                 \
                asm volatile("st.global.u32 [%0],%1;" ::"l"(p), "r"(i) : "memory");                                    \
            asm volatile(text::: "memory");                                                                            \
        }                                                                                                              \
        u64 b = now();                                                                                                 \
        if (threadIdx.x == 0)                                                                                          \
            cycles[0] = b - a;                                                                                         \
    }
FENCE(cta, "fence.acq_rel.cta;")
FENCE(gpu, "fence.acq_rel.gpu;") FENCE(sys, "fence.acq_rel.sys;") FENCE(sc, "fence.sc.gpu;")
    FENCE(proxy, "fence.proxy.async;") FENCE(cluster, "fence.acq_rel.cluster;") __global__
    void st_ld(u64 *cycles, u32 *room) {
    u32 v = 0;
    for (int i = 0; i < 4; i++) {
        asm volatile("st.global.u32 [%0],%1;" ::"l"(room + v), "r"(0) : "memory");
        asm volatile("ld.global.cg.u32 %0,[%1];" : "=r"(v) : "l"(room + v) : "memory");
    }
    u64 a = now();
    for (int i = 0; i < 64; i++) {
        asm volatile("st.global.u32 [%0],%1;" ::"l"(room + v), "r"(0) : "memory");
        asm volatile("ld.global.cg.u32 %0,[%1];" : "=r"(v) : "l"(room + v) : "memory");
    }
    u64 b = now();
    cycles[0] = b - a;
    cycles[1] = v;
}
// shared memory patterns: width words of each lane at stride words
template <int W> __global__ void lds_pattern(u64 *cycles, u32 *out, u32 stride, u32 same) {
    u32 base = 0;
    for (u32 i = threadIdx.x; i < 8192; i += blockDim.x)
        shared[i] = 0;
    __syncthreads();
    u32 lane = threadIdx.x & 31;
    u32 at = SB + 4 * ((lane / same) * stride % 8192);
    u64 a = 0, b;
    u32 v = 0, s = 0;
    __syncthreads();
    for (int r = 0; r < 2; r++) {
        a = now();
#pragma unroll 1
        for (int i = 0; i < 16; i++) {
            R4(
                if (W == 1) asm volatile("ld.volatile.shared.u32 %0,[%1];" : "=r"(v) : "r"(at)); if (W == 2) {
                    u32 w;
                    asm volatile("ld.volatile.shared.v2.u32 {%0,%1},[%2];" : "=r"(v), "=r"(w) : "r"(at));
                    s += w;
                } if (W == 4) {
                    u32 w, x, y;
                    asm volatile("ld.volatile.shared.v4.u32 {%0,%1,%2,%3},[%4];"
                                 : "=r"(v), "=r"(w), "=r"(x), "=r"(y)
                                 : "r"(at));
                    s += w + x + y;
                } s += v;)
        }
        __syncthreads();
        b = now();
    }
    if (threadIdx.x == 0)
        cycles[0] = b - a;
    out[threadIdx.x] = s + base;
}
// loads of W words a lane from a region of global memory, through L1 or past it
template <int W, int CG>
__global__ void __launch_bounds__(1024)
    ldg_rate(u64 *cycles, u32 *out, u32 *room, u32 region_words, u32 rounds, u32 lane_stride) {
    u32 s = 0;
    u64 a = 0, b = 0;
    u32 per = blockDim.x * lane_stride;
    for (int r = 0; r < 2; r++) {
        __syncthreads();
        a = now();
        u32 off = 0;
#pragma unroll 4
        for (u32 i = 0; i < rounds; i++) {
            u32 *p = room + off + threadIdx.x * lane_stride + blockIdx.x * region_words;
            u32 v = 0, w = 0, x = 0, y = 0;
            if (W == 1 && CG)
                asm volatile("ld.global.cg.u32 %0,[%1];" : "=r"(v) : "l"(p));
            if (W == 1 && !CG)
                asm volatile("ld.global.ca.u32 %0,[%1];" : "=r"(v) : "l"(p));
            if (W == 2 && CG)
                asm volatile("ld.global.cg.v2.u32 {%0,%1},[%2];" : "=r"(v), "=r"(w) : "l"(p));
            if (W == 2 && !CG)
                asm volatile("ld.global.ca.v2.u32 {%0,%1},[%2];" : "=r"(v), "=r"(w) : "l"(p));
            if (W == 4 && CG)
                asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3},[%4];" : "=r"(v), "=r"(w), "=r"(x), "=r"(y) : "l"(p));
            if (W == 4 && !CG)
                asm volatile("ld.global.ca.v4.u32 {%0,%1,%2,%3},[%4];" : "=r"(v), "=r"(w), "=r"(x), "=r"(y) : "l"(p));
            s += v + w + x + y;
            off += per;
            if (off >= region_words)
                off = 0;
        }
        __syncthreads();
        b = now();
    }
    if (threadIdx.x == 0)
        cycles[blockIdx.x] = b - a;
    out[threadIdx.x] = s;
}
template <int W>
__global__ void __launch_bounds__(1024) stg_rate(u64 *cycles, u32 *room, u32 region_words, u32 rounds) {
    u64 a = 0, b = 0;
    u32 per = blockDim.x * W;
    for (int r = 0; r < 2; r++) {
        __syncthreads();
        a = now();
        u32 off = 0;
#pragma unroll 4
        for (u32 i = 0; i < rounds; i++) {
            u32 *p = room + off + threadIdx.x * W + blockIdx.x * region_words;
            if (W == 1)
                asm volatile("st.global.u32 [%0],%1;" ::"l"(p), "r"(i));
            if (W == 4)
                asm volatile("st.global.v4.u32 [%0],{%1,%1,%1,%1};" ::"l"(p), "r"(i));
            off += per;
            if (off >= region_words)
                off = 0;
        }
        __threadfence();
        __syncthreads();
        b = now();
    }
    if (threadIdx.x == 0)
        cycles[blockIdx.x] = b - a;
}
// atomics on global memory
#define ATOM(name, text, ty, c)                                                                                        \
    __global__ void atom_##name(u64 *cycles, ty *room, u32 same, u32 stride, u32 rounds) {                             \
        u32 t = blockIdx.x * blockDim.x + threadIdx.x;                                                                 \
        ty *p = room + (u64)(t / same) * stride;                                                                       \
        ty one = 1;                                                                                                    \
        u64 a = now();                                                                                                 \
        for (u32 i = 0; i < rounds; i++)                                                                               \
            asm volatile(text::"l"(p), c(one) : "memory");                                                             \
        __threadfence();                                                                                               \
        u64 b = now();                                                                                                 \
        if (threadIdx.x == 0)                                                                                          \
            cycles[blockIdx.x] = b - a;                                                                                \
    }
ATOM(red_u32, "red.global.add.u32 [%0],%1;", u32, "r")
ATOM(red_u64, "red.global.add.u64 [%0],%1;", u64,
     "l") ATOM(red_f32, "red.global.add.f32 [%0],%1;", float,
               "f") ATOM(red_f64, "red.global.add.f64 [%0],%1;", double,
                         "d") ATOM(red_max, "red.global.max.s32 [%0],%1;", u32,
                                   "r") ATOM(red_f16x2, "red.global.add.noftz.f16x2 [%0],%1;", u32, "r")
    ATOM(atom_u32,
         "{.reg .u32 t; atom.global.add.u32 t,[%0],%1; {.reg .u32 q; mov.u32 q,shared; st.volatile.shared.u32 [q],t;}}",
         u32, "r") ATOM(atom_u64,
                        "{.reg .u64 t; atom.global.add.u64 t,[%0],%1; {.reg .u32 q; mov.u32 q,shared; "
                        "st.volatile.shared.u64 [q],t;}}",
                        u64, "l") ATOM(cas_u32,
                                       "{.reg .u32 t; atom.global.cas.b32 t,[%0],%1,%1; {.reg .u32 q; mov.u32 "
                                       "q,shared; st.volatile.shared.u32 [q],t;}}",
                                       u32, "r") ATOM(exch_u32,
                                                      "{.reg .u32 t; atom.global.exch.b32 t,[%0],%1; {.reg .u32 q; "
                                                      "mov.u32 q,shared; st.volatile.shared.u32 [q],t;}}",
                                                      u32, "r") __global__ void atom_chase(u64 *cycles, u32 *room) {
    u32 v = 0;
    for (int i = 0; i < 4; i++)
        v = atomicAdd(room + v, 0u);
    u64 a = now();
    for (int i = 0; i < 64; i++)
        asm volatile("{.reg .u64 t; mad.wide.u32 t,%0,4,%1; atom.global.add.u32 %0,[t],0;}"
                     : "+r"(v)
                     : "l"(room)
                     : "memory");
    u64 b = now();
    cycles[0] = b - a;
    cycles[1] = v;
}
// atomics on shared memory, d lanes to one address
__global__ void atoms_same(u64 *cycles, u32 same) {
    shared[threadIdx.x] = 0;
    __syncthreads();
    u32 at = SB + 4 * ((threadIdx.x & 31) / same);
    u64 a = now();
    for (int i = 0; i < 64; i++)
        asm volatile("red.shared.add.u32 [%0],1;" ::"r"(at) : "memory");
    asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t,[%0]; {.reg .u32 q; mov.u32 q,shared; add.u32 q,q,4000; "
                 "st.volatile.shared.u32 [q],t;}}" ::"r"(at)
                 : "memory");
    u64 b = now();
    if (threadIdx.x == 0)
        cycles[0] = b - a;
}
// straight-line code: N fused multiply-adds in four chains, run three times
template <int N> __global__ void code(u64 *cycles, float *out, float y) {
    float a = 1, b = 2, c = 3, d = 4;
    for (int r = 0; r < 3; r++) {
        u64 s = now();
#pragma unroll
        for (int i = 0; i < N / 4; i++) {
            asm volatile(
                "fma.rn.f32 %0,%0,%4,%4; fma.rn.f32 %1,%1,%4,%4; fma.rn.f32 %2,%2,%4,%4; fma.rn.f32 %3,%3,%4,%4;"
                : "+f"(a), "+f"(b), "+f"(c), "+f"(d)
                : "f"(y));
        }
        u64 e = now();
        if (threadIdx.x == 0)
            cycles[blockIdx.x * 3 + r] = e - s;
    }
    out[threadIdx.x] = a + b + c + d;
}
__global__ void branch_loop(u64 *cycles, u32 *out, u32 n) {
    u32 x = threadIdx.x;
    u64 a = now();
#pragma unroll 1
    for (u32 i = 0; i < n; i++)
        asm volatile("xor.b32 %0,%0,%1;" : "+r"(x) : "r"(i));
    u64 b = now();
    if (threadIdx.x == 0)
        cycles[0] = b - a;
    out[threadIdx.x] = x;
}
__global__ void branch_divergent2(u64 *cycles, u32 *out, u32 n, u32 mask) {
    u32 x = SB;
    shared[threadIdx.x] = SB;
    u64 a = now();
#pragma unroll 1
    for (u32 i = 0; i < n; i++) {
        if ((threadIdx.x & mask) == 0) {
            asm volatile("ld.volatile.shared.u32 %0,[%0];" : "+r"(x)::"memory");
            x ^= 4;
            x ^= 4;
        } else {
            asm volatile("ld.volatile.shared.u32 %0,[%0];" : "+r"(x)::"memory");
            x ^= 8;
            x ^= 8;
        }
    }
    u64 b = now();
    if (threadIdx.x == 0)
        cycles[0] = b - a;
    out[threadIdx.x] = x;
}
__global__ void mbar(u64 *cycles) {
    u32 b = SB;
    asm volatile("mbarrier.init.shared.b64 [%0],1; fence.mbarrier_init.release.cluster;" ::"r"(b) : "memory");
    u64 s = now();
    for (int i = 0; i < 64; i++)
        asm volatile("{.reg .b64 t; .reg .pred p; mbarrier.arrive.shared.b64 t,[%0]; W: "
                     "mbarrier.try_wait.parity.shared.b64 p,[%0],%1; @!p bra W;}" ::"r"(b),
                     "r"(i & 1)
                     : "memory");
    u64 e = now();
    cycles[0] = e - s;
}
__global__ void cpasync(u64 *cycles, u32 *room) {
    u32 t = threadIdx.x;
    u64 s = 0, e = 0;
    for (int r = 0; r < 3; r++) {
        s = now();
        asm volatile(
            "cp.async.ca.shared.global [%0],[%1],4; cp.async.commit_group; cp.async.wait_group 0;" ::"r"(SB + t * 4),
            "l"(room + t)
            : "memory");
        e = now();
        cycles[r] = e - s;
    }
    for (int r = 0; r < 3; r++) {
        s = now();
        asm volatile(
            "cp.async.cg.shared.global [%0],[%1],16; cp.async.commit_group; cp.async.wait_group 0;" ::"r"(SB + t * 16),
            "l"(room + t * 4)
            : "memory");
        e = now();
        cycles[3 + r] = e - s;
    }
}
template <int X, int T> __global__ void ldsm(u64 *cycles, u32 *out) {
    u32 at = SB + (threadIdx.x % 32) * 16, a, b, c, d, s = 0;
    __syncthreads();
    u64 x = now();
#pragma unroll 1
    for (int i = 0; i < 16; i++) {
        R4(
            if (X == 4 && !T) asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];" : "=r"(a),
                                           "=r"(b), "=r"(c), "=r"(d) : "r"(at));
            if (X == 4 &&
                T) asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];" : "=r"(a), "=r"(b),
                                "=r"(c), "=r"(d) : "r"(at));
            if (X == 1) {
                asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0},[%1];" : "=r"(a) : "r"(at));
                b = c = d = 0;
            } if (X == -4) {
                asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0],{%1,%1,%1,%1};" ::"r"(at), "r"(s)
                             : "memory");
                a = b = c = d = 0;
            } s += a + b + c + d;)
    }
    __syncthreads();
    u64 y = now();
    if (threadIdx.x == 0)
        cycles[0] = y - x;
    out[threadIdx.x] = s;
}
static u64 hh[65536];
#define GET(n)                                                                                                         \
    do {                                                                                                               \
        CK(cudaDeviceSynchronize());                                                                                   \
        CK(cudaMemcpy(hh, cy, 8 * (n), cudaMemcpyDeviceToHost));                                                       \
    } while (0)
static double worst(int n) {
    u64 w = 0;
    for (int i = 0; i < n; i++)
        if (hh[i] > w)
            w = hh[i];
    return (double)w;
}
template <int N> void code_run(u64 *cy, float *out, int blocks, int threads) {
    code<N><<<blocks, threads>>>(cy, out, 1.f);
    GET(3 * blocks);
    u64 w[3] = {0, 0, 0};
    for (int b = 0; b < blocks; b++)
        for (int r = 0; r < 3; r++)
            if (hh[3 * b + r] > w[r])
                w[r] = hh[3 * b + r];
    printf("{\"code\":%d,\"blocks\":%d,\"threads\":%d,\"cycles\":[%llu,%llu,%llu]}\n", N * 16, blocks, threads, w[0],
           w[1], w[2]);
}
void extra(u64 *cy, void *o) {
    u32 *out = (u32 *)o;
    cudaDeviceProp prop;
    CK(cudaGetDeviceProperties(&prop, 0));
    printf("{\"device\":\"%s\",\"sms\":%d,\"l2\":%d}\n", prop.name, prop.multiProcessorCount, prop.l2CacheSize);
    int S = prop.multiProcessorCount;
    {
        static u32 h[16384];
        for (u32 words = 64; words <= 16384; words *= 2)
            for (int odd = 0; odd < 2; odd++) {
                u32 n = words;
                if (odd)
                    n = words + words / 2;
                if (n > 16384)
                    continue;
                for (u32 i = 0; i < 16384; i++)
                    h[i] = 0;
                for (u32 i = 0; i < n; i += 16)
                    h[i] = (i + 16) % n;
                CK(cudaMemcpyToSymbol(cdata, h, 65536));
                const_chase<<<1, 1>>>(cy, (u64 *)out, n * 4, 512);
                GET(1);
                printf("{\"const_chase\":%d,\"cycles\":%.2f}\n", n * 4, hh[0] / 512.);
            }
        memset(h, 0, sizeof h);
        CK(cudaMemcpyToSymbol(cdata, h, 65536));
        for (u32 d = 1; d <= 32; d *= 2) {
            const_divergent<<<1, 32>>>(cy, out, d, 64);
            GET(1);
            double a = hh[0] / 64.;
            const_divergent<<<1, 32>>>(cy, out, d, 1);
            GET(1);
            printf("{\"const_divergent\":%d,\"cycles\":%.2f,\"near\":%.2f}\n", d, a, hh[0] / 64.);
        }
    }
    u32 *room;
    size_t big = (size_t)16 << 30;
    CK(cudaMalloc(&room, big));
    for (u64 bytes = 4096; bytes <= ((u64)1 << 28); bytes *= 2) {
        u64 n = bytes / 128;
        init_ring<<<256, 256>>>(room, n, 32, 1, 1);
        chase<false><<<1, 1>>>(cy, (u64 *)out, (u64 *)room, n < 70000 ? n : 70000, 4096);
        GET(1);
        double a = hh[0] / 4096.;
        init_ring<<<256, 256>>>(room, n, 32, 1664525, 1013904223);
        chase<true><<<1, 1>>>(cy, (u64 *)out, (u64 *)room, n < 70000 ? n : 70000, 4096);
        GET(1);
        printf("{\"chase\":%llu,\"ca_linear\":%.1f,\"cg_random\":%.1f}\n", bytes, a, hh[0] / 4096.);
    }
    for (u64 k = 176; k <= 288; k += 8) {
        u64 n = k * 8; /* non power of two: linear */
        u32 *p = room;
        static u64 ring[4096];
        for (u64 i = 0; i < n; i++)
            ring[i] = 0;
        for (u64 i = 0; i < n; i++) {
            u64 next = (u64)(p + ((i + 1) % n) * 32);
            CK(cudaMemcpy(p + i * 32, &next, 8, cudaMemcpyHostToDevice));
        }
        chase<false><<<1, 1>>>(cy, (u64 *)out, (u64 *)room, n, n);
        GET(1);
        printf("{\"l1_size\":%llu,\"cycles\":%.1f}\n", n * 128, hh[0] / (double)n);
    }
    for (u64 stride = 1 << 16; stride <= ((u64)1 << 24); stride *= 4)
        for (u64 n = 8; n * stride <= big && n <= 65536; n *= 2) {
            init_ring<<<256, 256>>>(room, n, stride / 4 + 32, 1, 1);
            if (n * (stride + 128) > big)
                break;
            chase<true><<<1, 1>>>(cy, (u64 *)out, (u64 *)room, 2 * n > 20000 ? 20000 : 2 * n, 1024);
            GET(1);
            printf("{\"tlb_stride\":%llu,\"n\":%llu,\"cycles\":%.1f}\n", stride, n, hh[0] / 1024.);
        }
    for (int blocks : {1, 132, 264, 1056, 4224, 16896})
        for (int threads : {32, 256, 1024}) {
            if (blocks > 4224 && threads > 32)
                continue;
            u64 *d;
            CK(cudaMalloc(&d, 24 * blocks));
            block_times<<<blocks, threads>>>(d);
            CK(cudaDeviceSynchronize());
            block_times<<<blocks, threads>>>(d);
            CK(cudaDeviceSynchronize());
            std::vector<u64> t(3 * blocks);
            CK(cudaMemcpy(t.data(), d, 24 * blocks, cudaMemcpyDeviceToHost));
            u64 lo = ~0ull, hi = 0;
            for (int b = 0; b < blocks; b++) {
                if (t[3 * b] < lo)
                    lo = t[3 * b];
                if (t[3 * b] > hi)
                    hi = t[3 * b];
            }
            printf("{\"block_times\":%d,\"threads\":%d,\"first_to_last_ns\":%llu", blocks, threads, hi - lo);
            if (blocks <= 264) {
                printf(",\"sm\":[");
                for (int b = 0; b < blocks; b++)
                    printf("%s%llu", b ? "," : "", t[3 * b + 2]);
                printf("]");
                printf(",\"ns\":[");
                for (int b = 0; b < blocks; b++)
                    printf("%s%llu", b ? "," : "", t[3 * b] - lo);
                printf("]");
            }
            printf("}\n");
            CK(cudaFree(d));
        }
    for (int blocks : {1, 132, 1320, 13200, 132000})
        for (int threads : {32, 256, 1024}) {
            empty_k<<<blocks, threads>>>();
            cudaEvent_t a, b;
            cudaEventCreate(&a);
            cudaEventCreate(&b);
            cudaEventRecord(a);
            for (int i = 0; i < 10; i++)
                empty_k<<<blocks, threads>>>();
            cudaEventRecord(b);
            CK(cudaDeviceSynchronize());
            float ms;
            cudaEventElapsedTime(&ms, a, b);
            printf("{\"empty\":%d,\"threads\":%d,\"us\":%.3f}\n", blocks, threads, ms * 100);
        }
    for (int t = 32; t <= 1024; t *= 2) {
        bar_cost<<<1, t>>>(cy);
        GET(1);
        printf("{\"bar\":%d,\"cycles\":%.2f}\n", t, hh[0] / 64.);
    }
    for (int c = 1; c <= 8; c *= 2)
        for (int t : {32, 256}) {
            cudaLaunchConfig_t cfg = {};
            cfg.gridDim = c;
            cfg.blockDim = t;
            cudaLaunchAttribute at;
            at.id = cudaLaunchAttributeClusterDimension;
            at.val.clusterDim.x = c;
            at.val.clusterDim.y = at.val.clusterDim.z = 1;
            cfg.attrs = &at;
            cfg.numAttrs = 1;
            CK(cudaLaunchKernelEx(&cfg, cluster_bar, cy));
            GET(1);
            printf("{\"cluster_bar\":%d,\"threads\":%d,\"cycles\":%.2f}\n", c, t, hh[0] / 64.);
        }
#define FRUN(n)                                                                                                        \
    for (int st = 0; st < 2; st++)                                                                                     \
        for (int t : {32, 1024}) {                                                                                     \
            fence_##n<<<1, t>>>(cy, room, st);                                                                         \
            GET(1);                                                                                                    \
            printf("{\"fence\":\"" #n "\",\"store\":%d,\"threads\":%d,\"cycles\":%.2f}\n", st, t, hh[0] / 64.);        \
        }
    FRUN(cta) FRUN(cluster) FRUN(gpu) FRUN(sys) FRUN(sc) FRUN(proxy) CK(cudaMemset(room, 0, 64 << 20));
    st_ld<<<1, 1>>>(cy, room);
    GET(1);
    printf("{\"st_ld\":%.2f}\n", hh[0] / 64.);
    atom_chase<<<1, 1>>>(cy, room);
    GET(1);
    printf("{\"atom_chase\":%.2f}\n", hh[0] / 64.);
    for (u32 same : {1, 2, 4, 8, 16, 32}) {
        atoms_same<<<1, 32, 16384>>>(cy, same);
        GET(1);
        double a = hh[0] / 64.;
        atoms_same<<<1, 1024, 16384>>>(cy, same);
        GET(1);
        printf("{\"atoms_same\":%u,\"one_warp\":%.2f,\"32_warps\":%.2f}\n", same, a, hh[0] / 64.);
    }
    for (u32 stride : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 8u, 12u, 16u, 20u, 32u, 36u})
        for (u32 same : {1u, 2u, 4u, 8u, 16u, 32u}) {
            double r[3] = {-1, -1, -1};
            lds_pattern<1><<<1, 1024, 32768>>>(cy, out, stride, same);
            GET(1);
            r[0] = hh[0] / 64. / 32;
            if (stride % 2 == 0) {
                lds_pattern<2><<<1, 1024, 32768>>>(cy, out, stride, same);
                GET(1);
                r[1] = hh[0] / 64. / 32;
            }
            if (stride % 4 == 0) {
                lds_pattern<4><<<1, 1024, 32768>>>(cy, out, stride, same);
                GET(1);
                r[2] = hh[0] / 64. / 32;
            }
            printf("{\"lds\":%u,\"same\":%u,\"per_warp\":[%.3f,%.3f,%.3f]}\n", stride, same, r[0], r[1], r[2]);
        }
    for (int blocks : {1, 2, 4, 8, 16, 33, 66, 132}) {
        int T = 1024;
        u32 rounds = 128;
#define RATE(label, W, CG, reg)                                                                                        \
    {                                                                                                                  \
        ldg_rate<W, CG><<<blocks, T>>>(cy, out, room, reg, rounds, W);                                                 \
        GET(blocks);                                                                                                   \
        printf("{\"ldg\":\"" label "\",\"blocks\":%d,\"region\":%u,\"bytes_per_cycle_sm\":%.2f}\n", blocks,            \
               (u32)(reg) * 4, 4. * W * T * rounds / worst(blocks));                                                   \
    }
        RATE("ca32 hit", 1, 0, 4096)
        RATE("ca64 hit", 2, 0, 4096) RATE("ca128 hit", 4, 0, 4096) RATE("cg32", 1, 1, 32768) RATE("cg64", 2, 1, 32768)
            RATE("cg128", 4, 1, 32768) RATE("ca128 miss", 4, 0, 131072)
                stg_rate<1><<<blocks, T>>>(cy, room, 32768, rounds);
        GET(blocks);
        printf("{\"stg\":32,\"blocks\":%d,\"bytes_per_cycle_sm\":%.2f}\n", blocks, 4. * T * rounds / worst(blocks));
        stg_rate<4><<<blocks, T>>>(cy, room, 32768, rounds);
        GET(blocks);
        printf("{\"stg\":128,\"blocks\":%d,\"bytes_per_cycle_sm\":%.2f}\n", blocks, 16. * T * rounds / worst(blocks));
    }
    for (u32 ls : {1u, 2u, 4u, 8u, 16u, 32u}) {
        ldg_rate<1, 0><<<1, 1024>>>(cy, out, room, 32768, 128, ls);
        GET(1);
        double a = 128 * 1024 * 4. / worst(1);
        ldg_rate<1, 1><<<1, 1024>>>(cy, out, room, 32768 * 4, 128, ls);
        GET(1);
        printf("{\"ldg_lane_stride\":%u,\"ca\":%.2f,\"cg\":%.2f}\n", ls * 4, a, 128 * 1024 * 4. / worst(1));
    }
#define ARUN(n, ty)                                                                                                    \
    for (int blocks : {1, 132})                                                                                        \
        for (u32 same : {1u, 32u, 1u << 30})                                                                           \
            for (u32 stride : {1u, 8u})                                                                                \
                for (int t : {32, 1024}) {                                                                             \
                    if (same > 1 && stride > 1 && same > 32)                                                           \
                        continue;                                                                                      \
                    atom_##n<<<blocks, t, 64>>>(cy, (ty *)room, same, stride, 16);                                     \
                    GET(blocks);                                                                                       \
                    printf("{\"atomic\":\"" #n                                                                         \
                           "\",\"blocks\":%d,\"threads\":%d,\"same\":%u,\"stride\":%u,\"ops_per_cycle\":%.4f}\n",      \
                           blocks, t, same, stride, 16. * blocks * t / worst(blocks));                                 \
                }
    ARUN(red_u32, u32)
    ARUN(red_u64, u64) ARUN(red_f32, float) ARUN(red_f64, double) ARUN(red_max, u32) ARUN(red_f16x2, u32)
        ARUN(atom_u32, u32) ARUN(atom_u64, u64) ARUN(cas_u32, u32)
            ARUN(exch_u32, u32) for (int blocks : {1, 132}) for (int threads : {32, 128}) {
        code_run<64>(cy, (float *)out, blocks, threads);
        code_run<128>(cy, (float *)out, blocks, threads);
        code_run<256>(cy, (float *)out, blocks, threads);
        code_run<512>(cy, (float *)out, blocks, threads);
        code_run<1024>(cy, (float *)out, blocks, threads);
        code_run<1536>(cy, (float *)out, blocks, threads);
        code_run<2048>(cy, (float *)out, blocks, threads);
        code_run<4096>(cy, (float *)out, blocks, threads);
        code_run<6144>(cy, (float *)out, blocks, threads);
        code_run<7168>(cy, (float *)out, blocks, threads);
        code_run<8192>(cy, (float *)out, blocks, threads);
        code_run<12288>(cy, (float *)out, blocks, threads);
        code_run<16384>(cy, (float *)out, blocks, threads);
    }
    branch_loop<<<1, 32>>>(cy, out, 256);
    GET(1);
    printf("{\"branch_loop\":%.2f}\n", hh[0] / 256.);
    for (u32 m : {0u, 1u, 31u}) {
        branch_divergent2<<<1, 32, 4096>>>(cy, out, 256, m);
        GET(1);
        printf("{\"branch_divergent\":%u,\"cycles\":%.2f}\n", m, hh[0] / 256.);
    }
    mbar<<<1, 1, 64>>>(cy);
    GET(1);
    printf("{\"mbarrier\":%.2f}\n", hh[0] / 64.);
    cpasync<<<1, 32, 4096>>>(cy, room);
    GET(6);
    printf("{\"cp_async\":[%llu,%llu,%llu,%llu,%llu,%llu]}\n", hh[0], hh[1], hh[2], hh[3], hh[4], hh[5]);
    for (int t : {32, 128, 1024}) {
        ldsm<4, 0><<<1, t, 4096>>>(cy, out);
        GET(1);
        double a = hh[0];
        ldsm<4, 1><<<1, t, 4096>>>(cy, out);
        GET(1);
        double b = hh[0];
        ldsm<1, 0><<<1, t, 4096>>>(cy, out);
        GET(1);
        double c = hh[0];
        ldsm<-4, 0><<<1, t, 4096>>>(cy, out);
        GET(1);
        printf("{\"ldmatrix\":%d,\"x4\":%.2f,\"x4t\":%.2f,\"x1\":%.2f,\"stmatrix\":%.2f}\n", t, a / 64 / (t / 32),
               b / 64 / (t / 32), c / 64 / (t / 32), hh[0] / 64. / (t / 32));
    }
}
