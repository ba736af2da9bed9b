#!/usr/bin/env python3
"""Writes a CUDA program to standard output that measures instructions by chains of dependent ones (latency), by independent
ones (rate), and pairs of them, and the mechanisms of mechanisms.cuh: one line of JSON for each.

    python3 instructions.py >microbenchmarks.cu
    nvcc -arch=sm_90a -O1 -o microbenchmarks microbenchmarks.cu && ./microbenchmarks >microbenchmarks.jsonl
"""

import pathlib

ops32 = {
    "add.s32": "add.s32 %0, %0, %1;",
    "sub.s32": "sub.s32 %0, %1, %0;",
    "mul.lo.s32": "mul.lo.s32 %0, %0, %1;",
    "mad.lo.s32": "mad.lo.s32 %0, %0, %1, %2;",
    "mul.hi.u32": "mul.hi.u32 %0, %0, %1;",
    "and.b32": "and.b32 %0, %0, %1;",
    "xor.b32": "xor.b32 %0, %0, %1;",
    "lop3": "lop3.b32 %0, %0, %1, %2, 0x96;",
    "shl.b32": "shl.b32 %0, %0, %1;",
    "shr.s32": "shr.s32 %0, %0, %1;",
    "shf.l": "shf.l.wrap.b32 %0, %0, %2, %1;",
    "prmt": "prmt.b32 %0, %0, %1, %2;",
    "bfe.u32": "bfe.u32 %0, %0, %1, %2;",
    "min.s32": "min.s32 %0, %0, %1;",
    "max.u32": "max.u32 %0, %0, %1;",
    "popc": "popc.b32 %0, %0;",
    "clz": "clz.b32 %0, %0;",
    "brev": "brev.b32 %0, %0;",
    "bfind": "bfind.u32 %0, %0;",
    "dp4a": "dp4a.s32.s32 %0, %0, %1, %2;",
    "vabsdiff4": "vabsdiff4.u32.u32.u32 %0, %0, %1, %2;",
    "sad": "sad.s32 %0, %0, %1, %2;",
    "setp+selp": "{.reg .pred p; setp.gt.s32 p, %0, %1; selp.b32 %0, %2, %1, p;}",
    "selp": "{.reg .pred p; setp.gt.s32 p, %1, %2; selp.b32 %0, %0, %1, p;}",
    "slct": "slct.s32.s32 %0, %1, %2, %0;",
    "add.f32": "add.f32 %0, %0, %1;",
    "mul.f32": "mul.f32 %0, %0, %1;",
    "fma.f32": "fma.rn.f32 %0, %0, %1, %2;",
    "min.f32": "min.f32 %0, %0, %1;",
    "fset": "set.gt.f32.f32 %0, %0, %1;",
    "neg": "neg.f32 %0, %0;",
    "hadd2": "add.f16x2 %0, %0, %1;",
    "hfma2": "fma.rn.f16x2 %0, %0, %1, %2;",
    "hmul2": "mul.f16x2 %0, %0, %1;",
    "hfma2.bf16": "fma.rn.bf16x2 %0, %0, %1, %2;",
    "hmin2": "min.f16x2 %0, %0, %1;",
    "rcp.ftz": "rcp.approx.ftz.f32 %0, %0;",
    "rsqrt.ftz": "rsqrt.approx.ftz.f32 %0, %0;",
    "sqrt.ftz": "sqrt.approx.ftz.f32 %0, %0;",
    "sin": "sin.approx.f32 %0, %0;",
    "ex2.ftz": "ex2.approx.ftz.f32 %0, %0;",
    "lg2.ftz": "lg2.approx.ftz.f32 %0, %0;",
    "tanh": "tanh.approx.f32 %0, %0;",
    "tanh.f16x2": "tanh.approx.f16x2 %0, %0;",
    "ex2.f16x2": "ex2.approx.f16x2 %0, %0;",
    "rcp.rn": "rcp.rn.f32 %0, %0;",
    "sqrt.rn": "sqrt.rn.f32 %0, %0;",
    "div.rn": "div.rn.f32 %0, %0, %1;",
    "div.full": "div.full.f32 %0, %0, %1;",
    "div.approx": "div.approx.f32 %0, %0, %1;",
    "div.s32": "div.s32 %0, %0, %1;",
    "div.u32": "div.u32 %0, %0, %1;",
    "rem.u32": "rem.u32 %0, %0, %1;",
    "cvt.f32.s32": "cvt.rn.f32.s32 %0, %0;",
    "cvt.s32.f32": "cvt.rzi.s32.f32 %0, %0;",
    "cvt.rni.f32": "cvt.rni.f32.f32 %0, %0;",
    "cvt.s8": "cvt.s32.s8 %0, %0;",
    "cvt.f16.f32+back": "{.reg .b16 h; cvt.rn.f16.f32 h, %0; cvt.f32.f16 %0, h;}",
    "cvt.f16x2": "cvt.rn.f16x2.f32 %0, %0, %1;",
    "cvt.bf16x2": "cvt.rn.bf16x2.f32 %0, %0, %1;",
    "cvt.tf32": "cvt.rna.tf32.f32 %0, %0;",
    "cvt.e4m3x2": "{.reg .b16 h; cvt.rn.satfinite.e4m3x2.f32 h, %0, %1; cvt.u32.u16 %0, h;}",
    "cvt.f16x2.e4m3x2": "{.reg .b16 h; cvt.u16.u32 h, %0; cvt.rn.f16x2.e4m3x2 %0, h;}",
    "cvt.f64+back": "{.reg .f64 d; cvt.f64.f32 d, %0; cvt.rn.f32.f64 %0, d;}",
    "cvt.f64.s32+back": "{.reg .f64 d; cvt.rn.f64.s32 d, %0; cvt.rzi.s32.f64 %0, d;}",
    "shfl.bfly": "shfl.sync.bfly.b32 %0, %0, 1, 31, -1;",
    "shfl.idx": "shfl.sync.idx.b32 %0, %0, %1, 31, -1;",
    "vote.ballot": "{.reg .pred p; setp.ne.s32 p, %0, %1; vote.sync.ballot.b32 %0, p, -1;}",
    "vote.any+sel": "{.reg .pred p, q; setp.ne.s32 p, %0, %1; vote.sync.any.pred q, p, -1; selp.b32 %0, %1, %2, q;}",
    "match.any": "match.any.sync.b32 %0, %0, -1;",
    "match.all": "match.all.sync.b32 %0, %0, -1;",
    "redux.add": "redux.sync.add.s32 %0, %0, -1;",
    "redux.min": "redux.sync.min.s32 %0, %0, -1;",
    "activemask": "{.reg .b32 t; activemask.b32 t; xor.b32 %0, %0, t;}",
    "elect": "{.reg .pred p; .reg .b32 t; elect.sync t|p, -1; selp.b32 %0, %0, %1, p;}",
    "lds": "ld.shared.b32 %0, [%0];",
    "lds.volatile": "ld.volatile.shared.b32 %0, [%0];",
    "atoms.add": "atom.shared.add.u32 %0, [%0], 0;",
    "atoms.cas": "atom.shared.cas.b32 %0, [%0], %1, %2;",
    "atoms.exch": "{.reg .b32 t; atom.shared.exch.b32 t, [%0], %0; mov.b32 %0, t;}",
    "atoms.max": "atom.shared.max.s32 %0, [%0], 0;",
    "atoms.fadd": "{.reg .f32 f; mov.b32 f, 0; .reg .b32 r; atom.shared.add.f32 f, [%0], f; mov.b32 r, f; mov.b32 %0, r;}",
    "sts+lds": "{st.shared.b32 [%0], %0; ld.shared.b32 %0, [%0];}",
    "ld.shared::cluster": "ld.shared::cluster.b32 %0, [%0];",
    "isspacep": "{.reg .pred p; .reg .b64 a; cvt.u64.u32 a, %0; isspacep.shared p, a; selp.b32 %0, %0, %1, p;}",
    "mov.lane": "{.reg .b32 t; mov.u32 t, %laneid; xor.b32 %0, %0, t;}".replace("%laneid", "%%laneid"),
    "mov.clock": "{.reg .b32 t; mov.u32 t, %%clock; xor.b32 %0, %0, t;}",
    "mov.smid": "{.reg .b32 t; mov.u32 t, %%smid; xor.b32 %0, %0, t;}",
    "mov.globaltimer": "{.reg .b32 t; mov.u32 t, %%globaltimer_lo; xor.b32 %0, %0, t;}",
}
ops64 = {
    "add.s64": "add.s64 %0, %0, %1;",
    "mul.lo.s64": "mul.lo.s64 %0, %0, %1;",
    "mul.hi.u64": "mul.hi.u64 %0, %0, %1;",
    "shl.b64": "{.reg .b32 t; cvt.u32.u64 t, %1; shl.b64 %0, %0, t;}",
    "shr.u64": "{.reg .b32 t; cvt.u32.u64 t, %1; shr.u64 %0, %0, t;}",
    "and.b64": "and.b64 %0, %0, %1;",
    "min.s64": "min.s64 %0, %0, %1;",
    "div.s64": "div.s64 %0, %0, %1;",
    "div.u64": "div.u64 %0, %0, %1;",
    "popc.b64": "{.reg .b32 t; popc.b64 t, %0; cvt.u64.u32 %0, t;}",
    "mad.wide": "{.reg .b32 t; cvt.u32.u64 t, %0; mad.wide.u32 %0, t, 3, %1;}",
    "mul.wide": "{.reg .b32 t; cvt.u32.u64 t, %0; mul.wide.u32 %0, t, 3;}",
    "add.f64": "add.f64 %0, %0, %1;",
    "mul.f64": "mul.f64 %0, %0, %1;",
    "fma.f64": "fma.rn.f64 %0, %0, %1, %2;",
    "min.f64": "min.f64 %0, %0, %1;",
    "rcp.f64": "rcp.rn.f64 %0, %0;",
    "sqrt.f64": "sqrt.rn.f64 %0, %0;",
    "div.f64": "div.rn.f64 %0, %0, %1;",
    "rcp.approx.f64": "rcp.approx.ftz.f64 %0, %0;",
    "rsqrt.approx.f64": "rsqrt.approx.ftz.f64 %0, %0;",
    "setp.f64+selp": "{.reg .pred p; setp.gt.f64 p, %0, %1; selp.b64 %0, %2, %1, p;}",
    "cvt.f64.s64": "cvt.rn.f64.s64 %0, %0;",
    "cvt.s64.f64": "cvt.rzi.s64.f64 %0, %0;",
}
pairs = [
    "add.s32",
    "mad.lo.s32",
    "lop3",
    "shf.l",
    "prmt",
    "min.s32",
    "setp+selp",
    "popc",
    "add.f32",
    "fma.f32",
    "hfma2",
    "rcp.ftz",
    "cvt.s32.f32",
    "shfl.bfly",
    "lds",
    "mul.hi.u32",
    "dp4a",
    "bfe.u32",
    "fset",
    "vote.ballot",
]
o = []
o.append("""#include <cstdio>
#include <cstring>
#include <vector>
typedef unsigned long long u64; typedef unsigned u32;
#define CK(x) do { cudaError_t e=(x); if(e) { printf("{\\"error\\":\\"%s line %d: %s\\"}\\n", #x, __LINE__, cudaGetErrorString(e)); } } while(0)
#define R4(...) __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__
#define R16(...) R4(__VA_ARGS__) R4(__VA_ARGS__) R4(__VA_ARGS__) R4(__VA_ARGS__)
static __device__ __forceinline__ u64 now() { u64 t; asm volatile("mov.u64 %0, %%clock64;":"=l"(t)::"memory"); return t; }
extern __shared__ u32 shared[];
""")
table = []


def esc(s):
    return s


def kern(name, body_ops, ty, c, idn):
    # latency: one warp
    one = " ".join(f'asm volatile("{esc(b)}" : "+{c}"(x) : "{c}"(y), "{c}"(z) : "memory");' for b in body_ops)
    o.append(f"""__global__ void lat{idn}(u64*cycles, {ty}*out, const {ty}*zero, {ty} x0, {ty} y0, {ty} z0) {{
 {ty} x=x0+zero[threadIdx.x], y=y0+zero[threadIdx.x+32], z=z0+zero[threadIdx.x+64]; for(int i=threadIdx.x;i<1024;i+=blockDim.x) shared[i]=0; __syncthreads();
 for (int r=0;r<2;r++) {{ u64 a=now(); R16({one}) u64 b=now(); R16({one}) R16({one}) R16({one}) u64 c=now(); if(threadIdx.x==0) cycles[r]=(c-b)-(b-a); }}
 out[threadIdx.x]=x; }}""")


def thr(name, b, ty, c, idn):
    ch = " ".join(f'asm volatile("{esc(b)}" : "+{c}"(x[{i}]) : "{c}"(y), "{c}"(z));' for i in range(8))
    o.append(
        f"""__global__ void __launch_bounds__(1024) thr{idn}(u64*cycles, {ty}*out, const {ty}*zero, {ty} x0, {ty} y0, {ty} z0) {{
 {ty} x[8], y=y0+zero[threadIdx.x], z=z0+zero[threadIdx.x+1]; for(int i=threadIdx.x;i<1024;i+=blockDim.x) shared[i]=0; for(int i=0;i<8;i++) x[i]=x0+zero[threadIdx.x+i];
 __syncthreads(); u64 s=now(); __syncthreads();
 #pragma unroll 1
 for (int r=0;r<8;r++) {{ R4({ch}) }}
 u64 e=now(); __syncthreads(); u64 f=now(); if(threadIdx.x==0) {{ cycles[0]=f-s; cycles[1]=e-s; }}
 {ty} q=0; for(int i=0;i<8;i++) q+=x[i]; out[threadIdx.x]=q; }}"""
    )


idn = 0
calls = []
for n, b in ops32.items():
    kern(n, [b], "u32", "r", idn)
    thr(n, b, "u32", "r", idn)
    calls.append(("op", n, "u32", idn))
    idn += 1
for n, b in ops64.items():
    kern(n, [b], "u64", "l", idn)
    thr(n, b, "u64", "l", idn)
    calls.append(("op", n, "u64", idn))
    idn += 1
for i, a in enumerate(pairs):
    for b in pairs[i:]:
        if a == b or {a, b} == {"rcp.ftz", "lds"}:
            continue
        kern(a, [ops32[a], ops32[b]], "u32", "r", idn)
        calls.append(("pair", a + " " + b, "u32", idn))
        idn += 1
o.append((pathlib.Path(__file__).parent / "mechanisms.cuh").read_text())
o.append(
    "int main(){ u64*cy; void*out; CK(cudaMalloc(&cy,1<<20)); CK(cudaMalloc(&out,1<<20)); void*zero; CK(cudaMalloc(&zero,1<<20)); CK(cudaMemset(zero,0,1<<20)); u64 h[8];"
)
for kind, n, ty, i in calls:
    f64 = "f64" in n
    isf = (
        "f32" in n
        or n in ("fset", "neg")
        or ".ftz" in n
        or n in ("sin", "tanh", "rcp.rn", "sqrt.rn", "div.rn", "div.full", "div.approx")
    )
    if kind == "pair" or "lds" in n or "atoms" in n or "mapa" in n:
        x, y, z = "0", "0", "0"
    elif f64:
        x, y, z = "0x3ff8000000000000ull", "0x3ff0000000000001ull", "0x3ff0000000000001ull"
    elif "f16" in n or n.startswith("h"):
        x, y, z = "0x3c003c00", "0x3c003c00", "0x3c003c00"
    elif isf:
        x, y, z = "0x3fc00000", "0x3f800001", "0x3f800001"
    else:
        x, y, z = "12345", "7", "3"
    o.append(
        f'lat{i}<<<1,32,4096>>>(cy,({ty}*)out,(const {ty}*)zero,{x},{y},{z}); CK(cudaDeviceSynchronize()); CK(cudaMemcpy(h,cy,64,cudaMemcpyDeviceToHost)); printf("{{\\"{kind}\\":\\"{n}\\",\\"latency32\\":%llu}}\\n",h[1]);'
    )
    if kind == "op":
        o.append(
            f'for(int t=128;t<=1024;t*=8){{thr{i}<<<1,t,4096>>>(cy,({ty}*)out,(const {ty}*)zero,{x},{y},{z}); CK(cudaDeviceSynchronize()); CK(cudaMemcpy(h,cy,64,cudaMemcpyDeviceToHost)); printf("{{\\"throughput\\":\\"{n}\\",\\"threads\\":%d,\\"cycles\\":%llu,\\"warp_ops\\":%d}}\\n",t,h[0],t/32*8*8*4);}}'
        )
o.append("extra(cy,out); }")
print("\n".join(o))
