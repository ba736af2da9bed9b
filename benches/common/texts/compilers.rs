//! PTX as compilers write it: Triton, nvcc for CUB, nvcc for CUTLASS.

use std::fmt::Write;

use super::{family, header};

/// Two kernels of `n` tiles each, as Triton writes them: thousands of virtual registers, straight-line code
/// in pieces of inline assembly, a label at every line of the source, guarded vector accesses, reductions by
/// shuffles, and a loop over accumulators.
pub fn triton(n: usize) -> String {
    let mut out = header("sm_80");
    out.push_str(".extern .shared .align 16 .b8 global_smem[];\n");
    for kernel in 0..2 {
        let mut body = String::new();
        let (mut r, mut f, mut rd, mut p, mut rs, mut label) = (20, 64, 10, 4, 0, 0);
        let mut line = |body: &mut String, line: usize| {
            put!(body, "$L__tmp{label}:\n\t.loc\t1 {line} 28");
            label += 1;
        };
        put!(body, "\tld.param.u64 \t%rd1, [softmax_kernel_{kernel}_param_0];");
        put!(body, "\tld.param.u64 \t%rd2, [softmax_kernel_{kernel}_param_1];");
        put!(body, "\tld.param.u32 \t%r1, [softmax_kernel_{kernel}_param_2];");
        put!(body, "\t// begin inline asm\n\tmov.u32 %r2, %ctaid.x;\n\t// end inline asm");
        put!(body, "\tmov.u32 \t%r3, %tid.x;\n\tand.b32  \t%r4, %r3, 31;\n\tshl.b32 \t%r5, %r3, 2;");
        put!(body, "\tmad.lo.s32 \t%r6, %r2, %r1, %r5;\n\tsetp.lt.s32 \t%p1, %r5, %r1;");
        put!(body, "\tmov.u32 \t%r7, global_smem;\n\tadd.s32 \t%r8, %r7, %r5;\n\tmov.u32 \t%r9, 0;");
        for i in 1..=64 {
            put!(body, "\tmov.f32 \t%f{i}, 0f00000000;");
        }
        for tile in 0..n {
            line(&mut body, tile + 10);
            let (r0, f0, d0) = (r, f, rd);
            put!(body, "\tadd.s32 \t%r{}, %r6, {};", r0 + 1, tile * 128);
            put!(body, "\tmul.wide.s32 \t%rd{}, %r{}, 4;", d0 + 1, r0 + 1);
            put!(body, "\tadd.s64 \t%rd{}, %rd1, %rd{};", d0 + 2, d0 + 1);
            put!(body, "\tadd.s64 \t%rd{}, %rd2, %rd{};", d0 + 3, d0 + 1);
            put!(body, "\tsetp.lt.s32 \t%p{}, %r{}, %r1;", p + 1, r0 + 1);
            put!(body, "\t// begin inline asm");
            for i in 2..6 {
                put!(body, "\tmov.u32 %r{}, 0x0;", r0 + i);
            }
            put!(
                body,
                "\t@%p{} ld.global.v4.b32 {{ %r{}, %r{}, %r{}, %r{} }}, [ %rd{} + 0 ];\n\t// end inline asm",
                p + 1,
                r0 + 2,
                r0 + 3,
                r0 + 4,
                r0 + 5,
                d0 + 2
            );
            line(&mut body, tile + 11);
            for i in 0..4 {
                put!(body, "\tmov.b32 \t%f{}, %r{};", f0 + i + 1, r0 + i + 2);
                put!(body, "\tmul.f32 \t%f{}, %f{}, 0f3FB8AA3B;", f0 + i + 5, f0 + i + 1);
                put!(body, "\tex2.approx.f32 \t%f{}, %f{};", f0 + i + 9, f0 + i + 5);
            }
            put!(body, "\tadd.f32 \t%f{}, %f{}, %f{};", f0 + 13, f0 + 9, f0 + 10);
            put!(body, "\tadd.f32 \t%f{}, %f{}, %f{};", f0 + 14, f0 + 11, f0 + 12);
            put!(body, "\tadd.f32 \t%f{}, %f{}, %f{};", f0 + 15, f0 + 13, f0 + 14);
            put!(body, "\tmov.b32 \t%r{}, %f{};", r0 + 6, f0 + 15);
            for (i, distance) in [16, 8, 4, 2, 1].into_iter().enumerate() {
                put!(body, "\tshfl.sync.bfly.b32\t%r{}, %r{}, {distance}, 31, -1;", r0 + 7 + i, r0 + 6 + i);
            }
            line(&mut body, tile + 12);
            put!(body, "\tmov.b32 \t%f{}, %r{};", f0 + 16, r0 + 11);
            for i in 0..4 {
                let accumulator = (tile * 4 + i) % 64 + 1;
                put!(body, "\tdiv.full.f32 \t%f{}, %f{}, %f{};", f0 + 17 + i, f0 + 9 + i, f0 + 16);
                put!(
                    body,
                    "\tfma.rn.f32 \t%f{accumulator}, %f{}, %f{}, %f{accumulator};",
                    f0 + 17 + i,
                    f0 + 1 + i
                );
            }
            put!(body, "\tcvt.rn.f16.f32 \t%rs{}, %f{};", rs + 1, f0 + 17);
            put!(body, "\tcvt.rn.f16.f32 \t%rs{}, %f{};", rs + 2, f0 + 18);
            put!(body, "\tmov.b32 \t%r{}, {{%rs{}, %rs{}}};", r0 + 12, rs + 1, rs + 2);
            put!(body, "\tst.shared.u32 \t[%r8+{}], %r{};", (tile % 16) * 512, r0 + 12);
            put!(body, "\tbar.sync \t0;");
            put!(body, "\tld.shared.u32 \t%r{}, [%r8+{}];", r0 + 13, (tile % 16) * 512);
            put!(
                body,
                "\t// begin inline asm\n\t@%p{} st.global.v4.b32 [ %rd{} + 0 ], {{ %r{}, %r{}, %r{}, %r{} }};\n\t// end inline asm",
                p + 1,
                d0 + 3,
                r0 + 12,
                r0 + 13,
                r0 + 2,
                r0 + 3
            );
            (r, f, rd, p, rs) = (r + 13, f + 20, rd + 3, p + 1, rs + 2);
        }
        put!(body, "$L__BB{kernel}_1:");
        for i in 1..=64 {
            put!(body, "\tfma.rn.f32 \t%f{i}, %f{i}, %f{}, %f{};", f.min(65), f.min(70));
        }
        put!(
            body,
            "\tadd.s32 \t%r9, %r9, 1;\n\tsetp.lt.s32 \t%p2, %r9, %r1;\n\t@%p2 bra \t$L__BB{kernel}_1;"
        );
        for i in 1..=64 {
            put!(body, "\t@%p1 st.global.b32 [ %rd2 + {} ], %f{i};", i * 4);
        }
        put!(out, "\t// .globl\tsoftmax_kernel_{kernel}");
        put!(out, ".visible .entry softmax_kernel_{kernel}(");
        put!(
            out,
            "\t.param .u64 softmax_kernel_{kernel}_param_0,\n\t.param .u64 softmax_kernel_{kernel}_param_1,"
        );
        put!(out, "\t.param .u32 softmax_kernel_{kernel}_param_2\n)\n.maxntid 128, 1, 1\n{{");
        family(&mut out, "pred", "p", p);
        family(&mut out, "b16", "rs", rs);
        family(&mut out, "b32", "r", r);
        family(&mut out, "f32", "f", f);
        family(&mut out, "b64", "rd", rd);
        out.push_str(&body);
        out.push_str("\tret;\n\n}\n");
    }
    out
}

/// The mangled name of an agent's kernel.
fn mangled(kind: &str, i: usize) -> String {
    format!(
        "_ZN3cub17CUB_200200_860_NS{}{kind}INS0_18DeviceReducePolicyI{}iN4cuda3std3__44plusIvEEE9Policy600EPiS8_iS5_{i}iiEEvT0_T1_T2_",
        kind.len(),
        ["i", "j", "f", "d", "x"][i % 5]
    )
}

/// `n` kernels as CUB has them: mangled names, shared storage of their own, grid-stride loops, reductions
/// and scans by shuffles, branches on the tile that is not whole, calls of functions of the module.
pub fn cub(n: usize) -> String {
    let mut out = header("sm_70");
    let functions = n.div_ceil(4);
    for i in 0..n {
        put!(out, ".global .align 1 .b8 {}[1];", mangled("42thrust_detail_placeholder", i));
    }
    for i in 0..functions {
        let name = mangled("combine", i);
        put!(
            out,
            ".func (.param .b32 func_retval0) {name}(\n\t.param .b32 {name}_param_0,\n\t.param .b32 {name}_param_1\n)\n{{"
        );
        put!(out, "\t.reg .pred \t%p<2>;\n\t.reg .b32 \t%r<5>;\n");
        put!(out, "\tld.param.u32 \t%r1, [{name}_param_0];\n\tld.param.u32 \t%r2, [{name}_param_1];");
        put!(out, "\tsetp.lt.s32 \t%p1, %r1, %r2;\n\t@%p1 bra \t$L__BB{i}_2;\n\tbra.uni \t$L__BB{i}_1;\n");
        put!(
            out,
            "$L__BB{i}_1:\n\tadd.s32 \t%r2, %r2, %r1;\n\n$L__BB{i}_2:\n\tshl.b32 \t%r3, %r2, {};",
            i % 31
        );
        put!(out, "\tst.param.b32 \t[func_retval0+0], %r3;\n\tret;\n\n}}");
    }
    for i in 0..n {
        let name = mangled("18DeviceReduceKernel", i);
        let callee = mangled("combine", i % functions);
        let block = |k: usize| format!("$L__BB{}_{k}", functions + i);
        put!(out, "\t// .globl\t{name}\n.visible .entry {name}(");
        put!(
            out,
            "\t.param .u64 {name}_param_0,\n\t.param .u64 {name}_param_1,\n\t.param .u32 {name}_param_2\n)"
        );
        put!(out, ".maxntid 256, 1, 1\n{{");
        family(&mut out, "pred", "p", 40);
        family(&mut out, "b32", "r", 160);
        family(&mut out, "b64", "rd", 50);
        put!(
            out,
            "\t// demoted variable\n\t.shared .align 16 .b8 _ZZ{}E12temp_storage[{}];",
            &name[2..],
            1056 + 16 * (i % 7)
        );
        put!(out, "\t.shared .align 4 .b8 _ZZ{}E4last[4];\n", &name[2..]);
        put!(out, "\tld.param.u64 \t%rd1, [{name}_param_0];\n\tld.param.u64 \t%rd2, [{name}_param_1];");
        put!(
            out,
            "\tld.param.u32 \t%r1, [{name}_param_2];\n\tcvta.to.global.u64 \t%rd3, %rd1;\n\tcvta.to.global.u64 \t%rd4, %rd2;"
        );
        put!(
            out,
            "\tmov.u32 \t%r2, %ctaid.x;\n\tmov.u32 \t%r3, %tid.x;\n\tshl.b32 \t%r4, %r2, 12;\n\tadd.s32 \t%r5, %r4, 4096;"
        );
        put!(out, "\tsetp.gt.s32 \t%p1, %r5, %r1;\n\t@%p1 bra \t{};\n\tbra.uni \t{};\n", block(2), block(1));
        put!(
            out,
            "{}:\n\tadd.s32 \t%r6, %r4, %r3;\n\tmul.wide.s32 \t%rd5, %r6, 4;\n\tadd.s64 \t%rd6, %rd3, %rd5;",
            block(1)
        );
        for k in 0..16 {
            put!(out, "\tld.global.u32 \t%r{}, [%rd6+{}];", 10 + k, k * 1024);
        }
        for k in 0..15 {
            put!(out, "\tadd.s32 \t%r{}, %r{}, %r{};", 26 + k, 11 + k, if k == 0 { 10 } else { 25 + k });
        }
        put!(out, "\tmov.u32 \t%r50, %r40;\n\tbra.uni \t{};\n", block(4));
        put!(
            out,
            "{}:\n\tmov.u32 \t%r50, 0;\n\tadd.s32 \t%r7, %r4, %r3;\n\tsetp.ge.s32 \t%p2, %r7, %r1;\n\t@%p2 bra \t{};\n",
            block(2),
            block(4)
        );
        put!(
            out,
            "{}:\n\tmul.wide.s32 \t%rd7, %r7, 4;\n\tadd.s64 \t%rd8, %rd3, %rd7;\n\tld.global.u32 \t%r8, [%rd8];",
            block(3)
        );
        put!(
            out,
            "\tadd.s32 \t%r50, %r8, %r50;\n\tadd.s32 \t%r7, %r7, 256;\n\tsetp.lt.s32 \t%p3, %r7, %r1;\n\t@%p3 bra \t{};\n",
            block(3)
        );
        put!(out, "{}:\n\tmov.u32 \t%r51, %laneid;", block(4));
        let mut value = 50;
        for (k, distance) in [1, 2, 4, 8, 16].into_iter().enumerate() {
            put!(out, "\tshfl.sync.down.b32 \t%r{}|%p{}, %r{value}, {distance}, 31, -1;", 60 + k, 5 + k);
            put!(out, "\tadd.s32 \t%r{}, %r{}, %r{value};", 70 + k, 60 + k);
            put!(out, "\tselp.b32 \t%r{}, %r{}, %r{value}, %p{};", 80 + k, 70 + k, 5 + k);
            value = 80 + k;
        }
        put!(out, "\tsetp.ne.s32 \t%p11, %r51, 0;\n\t@%p11 bra \t{};\n", block(5));
        put!(
            out,
            "\tshr.u32 \t%r90, %r3, 5;\n\tshl.b32 \t%r91, %r90, 2;\n\tmov.u32 \t%r92, _ZZ{}E12temp_storage;",
            &name[2..]
        );
        put!(out, "\tadd.s32 \t%r93, %r92, %r91;\n\tst.shared.u32 \t[%r93+8], %r{value};\n");
        put!(
            out,
            "{}:\n\tbar.sync \t0;\n\tsetp.ne.s32 \t%p12, %r3, 0;\n\t@%p12 bra \t{};\n",
            block(5),
            block(6)
        );
        put!(out, "\tmov.u32 \t%r94, %r{value};");
        for k in 0..7 {
            put!(out, "\tld.shared.u32 \t%r{}, [_ZZ{}E12temp_storage+{}];", 100 + k, &name[2..], 12 + 4 * k);
            put!(
                out,
                "\t{{ // callseq {}, 0\n\t.reg .b32 temp_param_reg;\n\t.param .b32 param0;\n\tst.param.b32 \t[param0+0], %r{};",
                i * 7 + k,
                94 + k.min(1) * (15 + k)
            );
            put!(
                out,
                "\t.param .b32 param1;\n\tst.param.b32 \t[param1+0], %r{};\n\t.param .b32 retval0;",
                100 + k
            );
            put!(out, "\tcall.uni (retval0),\n\t{callee},\n\t(\n\tparam0,\n\tparam1\n\t);");
            put!(out, "\tld.param.b32 \t%r{}, [retval0+0];\n\t}} // callseq {}", 110 + k, i * 7 + k);
        }
        put!(
            out,
            "\tmul.wide.u32 \t%rd9, %r2, 4;\n\tadd.s64 \t%rd10, %rd4, %rd9;\n\tst.global.u32 \t[%rd10], %r116;\n"
        );
        put!(out, "{}:\n\tret;\n\n}}", block(6));
    }
    out
}

/// A kernel as CUTLASS makes it: a tile of 16 × 16 accumulators a thread, a main loop with `n` steps unrolled,
/// predicated global loads, shared memory by deep addressing, and an epilogue by rows.
pub fn cutlass(n: usize) -> String {
    const NAME: &str = "_ZN7cutlass6KernelINS_4gemm6kernel4GemmINS1_11threadblock12MmaPipelinedINS1_9GemmShapeILi128ELi128ELi8EEENS_9transform11threadblock22PredicatedTileIteratorEEEEEEvNT_6ParamsE";
    let mut out = header("sm_70");
    let mut body = String::new();
    let (mut f, mut r, mut rd, mut p) = (300, 30, 20, 10);
    put!(body, "\tmov.b64 \t%rd1, {NAME}_param_0;\n\tld.param.u64 \t%rd2, [{NAME}_param_0+16];");
    put!(
        body,
        "\tld.param.u64 \t%rd3, [{NAME}_param_0+24];\n\tld.param.u64 \t%rd4, [{NAME}_param_0+32];\n\tld.param.u32 \t%r1, [{NAME}_param_0];"
    );
    put!(
        body,
        "\tcvta.to.global.u64 \t%rd5, %rd2;\n\tcvta.to.global.u64 \t%rd6, %rd3;\n\tcvta.to.global.u64 \t%rd7, %rd4;"
    );
    put!(
        body,
        "\tmov.u32 \t%r2, %ctaid.x;\n\tmov.u32 \t%r3, %tid.x;\n\tshr.s32 \t%r4, %r3, 31;\n\tshr.u32 \t%r5, %r4, 27;"
    );
    put!(
        body,
        "\tadd.s32 \t%r6, %r3, %r5;\n\tand.b32  \t%r7, %r6, -32;\n\tsub.s32 \t%r8, %r3, %r7;\n\tshl.b32 \t%r9, %r8, 4;"
    );
    put!(
        body,
        "\tmov.u32 \t%r10, _ZN7cutlass17SharedStorageBaseE;\n\tadd.s32 \t%r11, %r10, %r9;\n\tadd.s32 \t%r12, %r11, 8192;\n\tmov.u32 \t%r13, 0;"
    );
    put!(
        body,
        "\tmad.lo.s32 \t%r14, %r2, 128, %r8;\n\tmul.wide.s32 \t%rd8, %r14, 4;\n\tadd.s64 \t%rd9, %rd5, %rd8;\n\tadd.s64 \t%rd10, %rd6, %rd8;"
    );
    for i in 0..256 {
        put!(body, "\tmov.f32 \t%f{}, 0f00000000;", i + 1);
    }
    put!(body, "\n$L__BB0_1:");
    for step in 0..n {
        put!(
            body,
            "\tadd.s32 \t%r{}, %r13, {};\n\tsetp.lt.s32 \t%p{}, %r{}, %r1;",
            r + 1,
            step * 8,
            p + 1,
            r + 1
        );
        put!(
            body,
            "\tmul.wide.s32 \t%rd{}, %r{}, 4;\n\tadd.s64 \t%rd{}, %rd9, %rd{};\n\tadd.s64 \t%rd{}, %rd10, %rd{};",
            rd + 1,
            r + 1,
            rd + 2,
            rd + 1,
            rd + 3,
            rd + 1
        );
        for k in 1..=4 {
            put!(body, "\tmov.f32 \t%f{}, 0f00000000;", f + k);
        }
        put!(
            body,
            "\t@%p{} ld.global.v4.f32 \t{{%f{}, %f{}, %f{}, %f{}}}, [%rd{}];",
            p + 1,
            f + 1,
            f + 2,
            f + 3,
            f + 4,
            rd + 2
        );
        put!(
            body,
            "\tst.shared.v4.f32 \t[%r11+{}], {{%f{}, %f{}, %f{}, %f{}}};",
            step % 8 * 512,
            f + 1,
            f + 2,
            f + 3,
            f + 4
        );
        for k in 0..4 {
            put!(
                body,
                "\tld.shared.v4.f32 \t{{%f{}, %f{}, %f{}, %f{}}}, [%r11+{}];",
                f + 5 + 4 * k,
                f + 6 + 4 * k,
                f + 7 + 4 * k,
                f + 8 + 4 * k,
                step % 8 * 512 + k * 64
            );
        }
        for k in 0..4 {
            put!(
                body,
                "\tld.shared.v4.f32 \t{{%f{}, %f{}, %f{}, %f{}}}, [%r12+{}];",
                f + 21 + 4 * k,
                f + 22 + 4 * k,
                f + 23 + 4 * k,
                f + 24 + 4 * k,
                step % 8 * 512 + k * 64
            );
        }
        for i in 0..16 {
            for j in 0..16 {
                let accumulator = i * 16 + j + 1;
                put!(
                    body,
                    "\tfma.rn.f32 \t%f{accumulator}, %f{}, %f{}, %f{accumulator};",
                    f + 5 + i,
                    f + 21 + j
                );
            }
        }
        (f, r, rd, p) = (f + 36, r + 1, rd + 3, p + 1);
    }
    put!(
        body,
        "\tbar.sync \t0;\n\tadd.s32 \t%r13, %r13, {};\n\tsetp.lt.s32 \t%p1, %r13, %r1;\n\t@%p1 bra \t$L__BB0_1;\n",
        n * 8
    );
    for i in 0..16 {
        put!(
            body,
            "\tadd.s32 \t%r{}, %r14, {};\n\tsetp.ge.s32 \t%p{}, %r{}, %r1;\n\t@%p{} bra \t$L__BB0_{};\n",
            r + 1,
            i * 8,
            p + 1,
            r + 1,
            p + 1,
            i + 2
        );
        put!(
            body,
            "\tmul.wide.s32 \t%rd{}, %r{}, 4;\n\tadd.s64 \t%rd{}, %rd7, %rd{};",
            rd + 1,
            r + 1,
            rd + 2,
            rd + 1
        );
        for j in 0..16 {
            put!(body, "\tst.global.f32 \t[%rd{}+{}], %f{};", rd + 2, j * 4, i * 16 + j + 1);
        }
        put!(body, "\n$L__BB0_{}:", i + 2);
        (r, rd, p) = (r + 1, rd + 2, p + 1);
    }
    put!(out, ".shared .align 16 .b8 _ZN7cutlass17SharedStorageBaseE[16384];\n");
    put!(
        out,
        "\t// .globl\t{NAME}\n.visible .entry {NAME}(\n\t.param .align 8 .b8 {NAME}_param_0[40]\n)\n.maxntid 256, 1, 1\n{{"
    );
    family(&mut out, "pred", "p", p);
    family(&mut out, "f32", "f", f);
    family(&mut out, "b32", "r", r);
    family(&mut out, "b64", "rd", rd);
    out.push_str(&body);
    out.push_str("\tret;\n\n}\n");
    out
}
