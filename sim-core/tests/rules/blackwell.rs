//! What only architectures from sm_100 on have: products with scales, matrices of bytes, conversions with random bits.

use std::sync::Arc;

use sim_core::device::Options;
use sim_frontend::chip::{ChipSpec, TensorType};
use sim_frontend::diagnostic::Source;
use sim_frontend::load::Module;
use sim_frontend::program::ControlFlow;

use crate::machine::{Run, device_with};

const WAYS: [(&str, bool); 3] = [("crs_stack", false), ("convergence_barriers", false), ("mimd", true)];

fn chip() -> Arc<ChipSpec> {
    let text = include_str!("../../../configs/chips/a100.yaml");
    let mut chip = ChipSpec::load(&Source::new("a100.yaml", text)).expect("the shipped chip is right");
    chip.limits.num_processors = 1;
    chip.compute_capability = "12.0".into();
    if let Some(tensor) = &mut chip.tensor {
        tensor.rates.extend([(TensorType::Fp8, 512), (TensorType::Fp4, 1024)]);
    }
    Arc::new(chip)
}

/// A module whose kernel finds its thread in `%t`, the lane's own word of `out` in `%own`, and `room` in shared memory.
fn text(body: &str, target: &str, version: &str) -> String {
    format!(
        ".version {version}\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
         .reg .b32 %t, %i<40>, %a<20>, %b<20>, %c<20>, %e, %s<4>;\n.reg .f32 %f<20>;\n.reg .b64 %out, %own, %w<20>;\n\
         .reg .b16 %h<20>;\n.reg .b8 %n<9>;\n.reg .pred %p, %q;\n.shared .align 128 .b8 room[8192];\n\
         ld.param.u64 %out, [p];\nmov.u32 %t, %tid.x;\nmul.wide.u32 %own, %t, 4;\nadd.u64 %own, %own, %out;\n\
         {body}\nexit;\n}}\n"
    )
}

fn run(body: &str, target: &str, words: usize, policy: &str, functional: bool) -> Result<Vec<u32>, String> {
    let device = device_with(chip(), policy, |options| Options {
        allow_newer_isa: true,
        schedule_dependent: true,
        ..options
    });
    let mut run = Run::new(device, &text(body, target, "9.2"), false, words);
    run.launch(1, 32, functional).map_err(|e| e.to_string())?;
    run.wait().map_err(|e| e.to_string())?;
    Ok(run.words())
}

fn every_way(body: &str, target: &str, words: usize) -> Vec<u32> {
    let mut all = WAYS.map(|(policy, functional)| {
        run(body, target, words, policy, functional).unwrap_or_else(|e| panic!("{policy}: {e}\n{body}"))
    });
    assert_eq!(all[0], all[1], "{body}");
    assert_eq!(all[0], all[2], "{body}");
    std::mem::take(&mut all[0])
}

fn build(line: &str, target: &str, version: &str) -> Result<(), String> {
    let text = text(line, target, version);
    // A form that no row has refuses the kernel, not the module.
    Module::build(&Source::new("kernel.ptx", &text), false)
        .and_then(|module| module.program("k", &|_| Some(256), ControlFlow::Injected, 1024).map(|_| ()))
        .map_err(|errors| errors.iter().map(|error| error.render()).collect())
}

const SUMS: &str = "{%f0,%f1,%f2,%f3}, {%a0,%a0,%a0,%a0}, {%b0,%b0}, {%f4,%f4,%f4,%f4}";
const SPARSE_SUMS: &str = "{%f0,%f1,%f2,%f3}, {%a0,%a0,%a0,%a0}, {%b0,%b0,%b0,%b0}, {%f4,%f4,%f4,%f4}";

/// Elements are one, and C is zero: each element of D says which scales were taken. A thread's scales are a power of two of its
/// own in each byte.
#[test]
fn products_take_the_scales_of_the_bytes_and_threads_that_are_named() {
    let kinds = [
        ("m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0", 0x3838_3838u32, 1, 32.0),
        ("m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0", 0x2222_2222, 2, 32.0),
        (
            "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0",
            0x2222_2222,
            4,
            16.0,
        ),
    ];
    for (kind, one, parts, terms) in kinds {
        for (byte, thread_a, thread_b) in [(0, 0, 0), (0, 1, 3), (2, 1, 2), (3, 0, 1)] {
            if byte % parts != 0 || byte + parts > 4 {
                continue;
            }
            // Of A byte b of thread t is 2^(t % 4 + b), of B 2^(2 * t % 8 - b); the selectors of A are registers.
            let body = format!(
                "mov.b32 %a0, {one:#x};\nmov.b32 %b0, %a0;\nmov.f32 %f4, 0f00000000;\nand.b32 %i0, %t, 3;\nadd.u32 %i0, %i0, 127;\n\
                 mad.lo.u32 %s0, %i0, 0x01010101, 0x03020100;\nand.b32 %i1, %t, 3;\nshl.b32 %i1, %i1, 1;\nadd.u32 %i1, %i1, 127;\n\
                 mul.lo.u32 %s1, %i1, 0x01010101;\nsub.u32 %s1, %s1, 0x03020100;\nmov.u16 %h0, {byte};\nmov.u16 %h1, {thread_a};\n\
                 mma.sync.aligned.{kind} {SUMS}, %s0, {{%h0, %h1}}, {{%s1}}, {{{byte}, {thread_b}}};\n\
                 st.global.f32 [%own], %f0;\nst.global.f32 [%own+128], %f3;\n"
            );
            let out = every_way(&body, "sm_120a", 64);
            // Row g has the scale of the first of two threads, row g + 8 that of the second.
            for (half, words) in out.chunks(32).enumerate() {
                let of_a = 2 * thread_a + half as i32;
                let expected: f32 = (byte..byte + parts)
                    .map(|b| terms * 2f32.powi(of_a + b) * 2f32.powi(2 * thread_b - b))
                    .sum();
                for (lane, word) in words.iter().enumerate() {
                    assert_eq!(f32::from_bits(*word), expected, "{kind} byte {byte} lane {lane} half {half}");
                }
            }
        }
    }
}

/// Scales of rows and columns: the row of A is that of the thread's group, the column of B too.
#[test]
fn each_row_and_column_has_its_scale() {
    // ue4m3: 1.0 to 1.875 in A by group, 1 or 2 in B by group.
    let body = format!(
        "mov.b32 %a0, 0x22222222;\nmov.b32 %b0, %a0;\nmov.f32 %f4, 0f3F800000;\nshr.u32 %i0, %t, 2;\nadd.u32 %i1, %i0, 0x38;\n\
         mul.lo.u32 %s0, %i1, 0x01010101;\nand.b32 %i2, %i0, 1;\nshl.b32 %i2, %i2, 3;\nadd.u32 %i2, %i2, 0x38;\nmul.lo.u32 %s1, %i2, 0x01010101;\n\
         mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 {SUMS}, %s0, {{0, 0}}, %s1, {{0, 0}};\n\
         st.global.f32 [%own], %f0;\nst.global.f32 [%own+128], %f1;\n"
    );
    let out = every_way(&body, "sm_120a", 64);
    for lane in 0..32 {
        let row = 1.0 + (lane / 4) as f32 / 8.0;
        // Columns 2 * t and 2 * t + 1.
        assert_eq!(f32::from_bits(out[lane]), 64.0 * row + 1.0, "lane {lane}");
        assert_eq!(f32::from_bits(out[32 + lane]), 128.0 * row + 1.0, "lane {lane}");
    }
}

#[test]
fn selectors_of_scales_that_differ_or_are_beyond_are_a_fault() {
    let product = |set: &str| {
        format!(
            "mov.b32 %a0, 0;\nmov.b32 %b0, 0;\nmov.f32 %f4, 0f00000000;\nmov.b32 %s0, 0x7f7f7f7f;\n{set}\n\
             mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 {SUMS}, %s0, {{%h0, 0}}, %s0, {{0, %h1}};\n"
        )
    };
    for (set, told) in [
        ("mov.u16 %h0, 1;\nmov.u16 %h1, 0;", "byte-id-a is 1; it must be 0 or 2"),
        ("mov.u16 %h0, 0;\nmov.u16 %h1, 4;", "thread-id-b is 4; it must be 0 or 1 or 2 or 3"),
        ("mov.u16 %h0, 0;\ncvt.u16.u32 %h1, %t;", "thread-id-b differs from that of the other threads"),
    ] {
        for (policy, functional) in WAYS {
            let error = run(&product(set), "sm_120a", 32, policy, functional).expect_err(set);
            assert!(error.contains(told), "{error}");
        }
    }
}

/// What ptxas 13.5 says of them.
#[test]
fn forms_with_scales_are_those_of_the_assembler() {
    let dense = |form: &str, tail: &str| format!("mma.sync.aligned.{form} {SUMS}, {tail};");
    let sparse =
        |form: &str, sp: &str, tail: &str| format!("mma.{sp}.sync.aligned.{form} {SPARSE_SUMS}, {tail};");
    let mx8 = "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e2m1.f32.ue8m0";
    let mx4 = "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0";
    let nv4 = "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3";
    let nv4_powers = nv4.replace("ue4m3", "ue8m0");
    let sp8 = "m16n8k64.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e2m1.f32.ue8m0";
    let sp4 = "m16n8k128.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0";
    let ordered = "sp::ordered_metadata";
    let plain = "%s0, {0, 0}, %s1, {0, 0}";
    for (line, target, version) in [
        (dense(mx8, plain), "sm_120a", "8.7"),
        (dense(mx8, plain), "sm_120f", "8.8"),
        (dense(mx8, plain), "sm_121a", "9.0"),
        (dense(mx8, "%s0, {3, 1}, %s1, {3, 3}"), "sm_120a", "8.7"),
        (dense(mx8, "{%s0}, {%h0, %h1}, {%s1}, {%h2, %h3}"), "sm_120a", "8.7"),
        (dense(mx8, "%f9, {0, 0}, %s1, {0, 0}"), "sm_120a", "8.7"),
        (dense(mx4, "%s0, {2, 1}, %s1, {2, 3}"), "sm_120a", "8.7"),
        (dense(nv4, "%s0, {0, 1}, %s1, {0, 3}"), "sm_120a", "8.7"),
        (dense(&nv4_powers, plain), "sm_120a", "9.1"),
        (sparse(sp8, ordered, &format!("%e, 0, {plain}")), "sm_120a", "8.7"),
        (sparse(sp8, ordered, &format!("{{%e}}, 0, {plain}")), "sm_120a", "8.7"),
        (sparse(sp4, ordered, &format!("%e, 0, {plain}")), "sm_120a", "8.7"),
    ] {
        build(&line, target, version).unwrap_or_else(|e| panic!("{line} {target} {version}: {e}"));
    }
    let wrong = |form: &str, from: &str, to: &str| form.replace(from, to);
    for (line, target, version, told) in [
        (dense(mx8, plain), "sm_100a", "9.0", "requires .target sm_120"),
        (dense(mx8, plain), "sm_120", "9.0", "requires .target sm_120a"),
        (dense(mx8, plain), "sm_120a", "8.6", "requires PTX ISA 8.7 or later"),
        (dense(&nv4_powers, plain), "sm_120a", "9.0", "requires PTX ISA 9.1 or later"),
        (dense(&wrong(mx8, "1X", "2X"), plain), "sm_120a", "9.0", "not allowed"),
        (dense(&wrong(mx8, "ue8m0", "ue4m3"), plain), "sm_120a", "9.0", "not allowed"),
        (dense(&wrong(mx8, "k32", "k16"), plain), "sm_120a", "9.0", "not allowed"),
        (dense(&wrong(nv4, "4X", "2X"), plain), "sm_120a", "9.1", "not allowed"),
        (dense(&wrong(nv4, ".scale_vec::4X", ""), plain), "sm_120a", "9.1", "incomplete"),
        (dense(mx8, "%s0, {4, 0}, %s1, {0, 0}"), "sm_120a", "9.0", "byte-id-a must be 0 or 1 or 2 or 3"),
        (dense(mx8, "%s0, {0, 2}, %s1, {0, 0}"), "sm_120a", "9.0", "thread-id-a must be 0 or 1"),
        (dense(mx8, "%s0, {0, 0}, %s1, {0, 4}"), "sm_120a", "9.0", "thread-id-b must be 0 or 1 or 2 or 3"),
        (dense(mx8, "%s0, {-1, 0}, %s1, {0, 0}"), "sm_120a", "9.0", "byte-id-a must be"),
        (dense(mx4, "%s0, {1, 0}, %s1, {0, 0}"), "sm_120a", "9.0", "byte-id-a must be 0 or 2"),
        (dense(nv4, "%s0, {0, 0}, %s1, {2, 0}"), "sm_120a", "9.0", "byte-id-b must be 0"),
        (dense(mx8, "%s0, {%i0, 0}, %s1, {0, 0}"), "sm_120a", "9.0", ".u16"),
        (dense(mx8, "10, {0, 0}, %s1, {0, 0}"), "sm_120a", "9.0", "must be a 32-bit register"),
        (dense(mx8, "%s0, {0}, %s1, {0, 0}"), "sm_120a", "9.0", "1 elements"),
        (dense(mx8, "%s0, 0, %s1, 0"), "sm_120a", "9.0", "expected a vector"),
        (dense(mx8, "%s0, %s1"), "sm_120a", "9.0", "takes 8 operands"),
        (sparse(sp8, ordered, &format!("%e, 1, {plain}")), "sm_120a", "9.0", "sparsity selector"),
        (sparse(sp8, "sp", &format!("%e, 0, {plain}")), "sm_120a", "9.0", "not allowed"),
        (sparse(sp4, ordered, &format!("%e, 1, {plain}")), "sm_120a", "9.0", "sparsity selector"),
    ] {
        let error = build(&line, target, version).expect_err(&format!("{line} {target} {version}"));
        assert!(error.contains(told), "{line}: {error}");
    }
    let products = "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32";
    let early = build(&format!("{products} {SUMS};"), "sm_120a", "8.6").expect_err("too early");
    assert!(early.contains("requires PTX ISA 8.7 or later"), "{early}");
}

/// Rows of 16 bytes in shared memory, byte c of row r being `16 * r + c`, modulo 256, each lane's own address in `%i0`.
const ROWS: &str = "mov.u32 %i9, room;\nshl.b32 %i0, %t, 4;\nadd.u32 %i0, %i0, %i9;\nshl.b32 %i1, %t, 4;\nand.b32 %i1, %i1, 255;\n\
    mad.lo.u32 %i2, %i1, 0x01010101, 0x03020100;\nst.shared.b32 [%i0], %i2;\nadd.u32 %i2, %i2, 0x04040404;\nst.shared.b32 [%i0+4], %i2;\n\
    add.u32 %i2, %i2, 0x04040404;\nst.shared.b32 [%i0+8], %i2;\nadd.u32 %i2, %i2, 0x04040404;\nst.shared.b32 [%i0+12], %i2;\nbar.warp.sync -1;\n";

fn list(count: usize) -> String {
    (0..count).map(|i| format!("%a{i}")).collect::<Vec<_>>().join(",")
}

fn stored(count: usize) -> String {
    (0..count).map(|i| format!("st.global.b32 [%own+{}], %a{i};\n", 128 * i)).collect()
}

/// Element c of row r as memory has it, of so many bits.
fn element(row: usize, column: usize, width: usize) -> u32 {
    let bit = |at: usize| ((16 * row + at / 8) as u32 % 256) >> (at % 8) & 1;
    (0..width).fold(0, |out, i| out | bit(width * column + i) << i)
}

/// Sixteen rows are read by columns: thread `4 * g + t` has, of columns g and g + 8, rows `4 * t` to `4 * t + 3`.
#[test]
fn matrices_of_bytes_are_loaded_by_columns() {
    for (word, width) in [("b8", 8), ("b8x16.b6x16_p32", 6), ("b8x16.b4x16_p64", 4)] {
        for count in [1, 2] {
            let body = format!(
                "{ROWS}ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.{word} {{{}}}, [%i0];\n{}",
                list(2 * count),
                stored(2 * count)
            );
            let out = every_way(&body, "sm_100a", 64 * count);
            for (i, word) in out.into_iter().enumerate() {
                let (register, g, t) = (i / 32, i % 32 / 4, i % 4);
                let row = 16 * (register / 2) + 4 * t + 2 * (register % 2);
                let bytes = [(row, g), (row + 1, g), (row, g + 8), (row + 1, g + 8)];
                let expected = bytes.iter().rev().fold(0, |out, (r, c)| out << 8 | element(*r, *c, width));
                assert_eq!(word, expected, "{width} bits, x{count}, register {register}, g {g}, t {t}");
            }
        }
    }
}

#[test]
fn rows_of_six_and_four_bits_become_bytes() {
    for (word, width) in [("b6x16_p32", 6), ("b4x16_p64", 4)] {
        for count in [1, 2, 4] {
            let body = format!(
                "{ROWS}cvt.u64.u32 %w0, %i0;\ncvta.shared.u64 %w0, %w0;\nldmatrix.sync.aligned.m8n16.x{count}.b8x16.{word} {{{}}}, [%w0];\n{}",
                list(count),
                stored(count)
            );
            let out = every_way(&body, "sm_120a", 32 * count);
            for (i, word) in out.into_iter().enumerate() {
                let (row, first) = (8 * (i / 32) + i % 32 / 4, 4 * (i % 4));
                let expected = (0..4).rev().fold(0, |out, c| out << 8 | element(row, first + c, width));
                assert_eq!(word, expected, "{width} bits, x{count}, word {i}");
            }
        }
    }
}

/// Eight rows of sixteen bytes: rows `2 * t` and `2 * t + 1` have bytes of thread `4 * g + t` in columns g and g + 8.
#[test]
fn matrices_of_bytes_are_stored_by_columns() {
    for count in [1, 2, 4] {
        // Byte b of register m of lane l is l + 32 * b, and m is added.
        let set: String = (0..4)
            .map(|m| format!("mad.lo.u32 %a{m}, %t, 0x01010101, {:#x};\n", 0x6040_2000u32 + m * 0x0101_0101))
            .collect();
        let body = format!(
            "mov.u32 %i9, room;\nshl.b32 %i0, %t, 4;\nadd.u32 %i0, %i0, %i9;\n{set}\
             stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%i0], {{{}}};\nbar.warp.sync -1;\n\
             ld.shared.v4.b32 {{%b0,%b1,%b2,%b3}}, [%i0];\nshl.b32 %i1, %t, 4;\ncvt.u64.u32 %w0, %i1;\nadd.u64 %w0, %w0, %out;\n\
             st.global.v4.b32 [%w0], {{%b0,%b1,%b2,%b3}};\n",
            list(count)
        );
        let out = every_way(&body, "sm_100a", 128);
        for row in 0..8 * count {
            for column in 0..16 {
                let lane = 4 * (column % 8) + row % 8 / 2;
                let byte = row % 2 + 2 * (column / 8);
                let expected = lane + 32 * byte + row / 8;
                let found = out[4 * row + column / 4] >> (8 * (column % 4)) & 0xff;
                assert_eq!(found as usize, expected & 0xff, "x{count} row {row} column {column}");
            }
        }
    }
}

/// What ptxas 13.5 says of them, and of conversions.
#[test]
fn matrices_of_bytes_and_conversions_are_those_of_the_assembler() {
    for (line, target, version) in [
        ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%a0,%a1}, [%w0];", "sm_100a", "8.6"),
        ("ldmatrix.sync.aligned.m16n16.x1.trans.b8 {%a0,%a1}, [%w0];", "sm_103f", "8.8"),
        ("ldmatrix.sync.aligned.m8n16.x4.b8x16.b4x16_p64 {%a0,%a1,%a2,%a3}, [%w0];", "sm_120a", "8.7"),
        ("stmatrix.sync.aligned.m16n8.x2.trans.shared::cta.b8 [%w0], {%a0,%a1};", "sm_110a", "9.0"),
        ("cvt.rs.relu.satfinite.bf16x2.f32 %a0, %f0, %f1, %a1;", "sm_100a", "8.7"),
        ("cvt.rs.satfinite.e4m3x4.f32 %a0, {%f0,%f1,%f2,0f3F800000}, %a1;", "sm_103a", "8.7"),
        ("cvt.rs.satfinite.relu.e2m1x4.f32 %h0, {%f0,%f1,%f2,%f3}, %a1;", "sm_100a", "8.7"),
        ("cvt.rn.satfinite.e4m3x2.bf16x2 %h0, %a0;", "sm_100f", "9.1"),
        ("cvt.rn.satfinite.relu.e2m1x2.f16x2 %n0, %a0;", "sm_120a", "9.1"),
        ("cvt.rn.satfinite.scaled::n2::ue8m0.s2f6x2.f32 %h0, %f0, %f1, %h1;", "sm_121a", "9.1"),
        ("cvt.rn.scaled::n2::ue8m0.bf16x2.e2m1x2 %a0, %n0, %h1;", "sm_120f", "9.2"),
        ("cvt.rn.f16x2.f32 %w0, %f0, %f1;", "sm_100", "8.6"),
    ] {
        build(line, target, version).unwrap_or_else(|e| panic!("{line} {target} {version}: {e}"));
    }
    for (line, target, version, told) in [
        ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%a0}, [%w0];", "sm_100a", "9.0", "requires 2"),
        ("ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%a0,%a1}, [%w0];", "sm_100a", "9.0", "expected one of"),
        ("ldmatrix.sync.aligned.m16n16.x4.trans.b8 {%a0,%a1}, [%w0];", "sm_100a", "9.0", "not allowed"),
        ("ldmatrix.sync.aligned.m8n16.x1.b8 {%a0}, [%w0];", "sm_100a", "9.0", "not allowed"),
        (
            "ldmatrix.sync.aligned.m8n16.x1.trans.b8x16.b4x16_p64 {%a0}, [%w0];",
            "sm_100a",
            "9.0",
            "not allowed",
        ),
        ("ldmatrix.sync.aligned.m16n16.x1.trans.b8x16 {%a0,%a1}, [%w0];", "sm_100a", "9.0", "incomplete"),
        (
            "ldmatrix.sync.aligned.m16n16.x1.trans.b8 {%a0,%a1}, [%w0];",
            "sm_100",
            "9.0",
            "requires .target sm_100a",
        ),
        ("ldmatrix.sync.aligned.m16n16.x1.trans.b8 {%a0,%a1}, [%w0];", "sm_100a", "8.5", "PTX ISA"),
        ("stmatrix.sync.aligned.m16n8.x1.shared.b8 [%w0], {%a0};", "sm_100a", "9.0", "expected one of"),
        ("stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%w0], {%a0};", "sm_90a", "9.0", "requires .target"),
        ("cvt.rs.f16x2.f32 %a0, %f0, %f1, %a1;", "sm_100f", "9.0", "suffix `a`"),
        ("cvt.rs.f16x2.f32 %a0, %f0, %f1, %a1;", "sm_120a", "9.0", "below sm_110"),
        ("cvt.rs.f16x2.f32 %a0, %f0, %f1, %a1;", "sm_100a", "8.6", "PTX ISA 8.7"),
        ("cvt.rs.f16x2.f32 %a0, %f0, %f1, 7;", "sm_100a", "9.0", "must be a register"),
        ("cvt.rs.f16x2.f32 %a0, %f0, %f1;", "sm_100a", "9.0", "takes 4 operands"),
        ("cvt.rs.f16x2.f32 %a0, %f0, %f1, %w1;", "sm_100a", "9.0", "must be .b32"),
        ("cvt.rs.e4m3x4.f32 %a0, {%f0,%f1,%f2,%f3}, %a1;", "sm_100a", "9.0", "is incomplete"),
        ("cvt.rs.satfinite.e4m3x4.f32 %a0, {%f0,%f1,%f2}, %a1;", "sm_100a", "9.0", "requires 4"),
        ("cvt.rs.satfinite.e2m1x4.f32 %a0, {%f0,%f1,%f2,%f3}, %a1;", "sm_100a", "9.0", "must be .b16"),
        ("cvt.rn.satfinite.e4m3x2.bf16x2 %h0, %a0;", "sm_100a", "9.0", "PTX ISA 9.1"),
        ("cvt.rn.bf16x2.e4m3x2 %a0, %h0;", "sm_100a", "9.1", "PTX ISA 9.2"),
        ("cvt.rn.satfinite.s2f6x2.f32 %h0, %f0, %f1;", "sm_120f", "9.1", "suffix `a`"),
        ("cvt.rn.s2f6x2.f32 %h0, %f0, %f1;", "sm_100a", "9.2", "is incomplete"),
        ("cvt.rn.scaled::n2::ue8m0.bf16x2.e2m1x2 %a0, %n0, 5;", "sm_100a", "9.2", "must be a register"),
        ("cvt.rn.scaled::n2::ue8m0.bf16x2.e2m1x2 %a0, %n0, %a1;", "sm_100a", "9.2", "must be .b16"),
        ("cvt.rn.satfinite.e2m3x2.f32 %a0, %f0, %f1;", "sm_100a", "9.2", "must be .b16"),
        ("cvt.rn.bf16x2.f32 %w0, %f0, %f1;", "sm_100a", "9.2", "must be .bf16x2"),
    ] {
        let error = build(line, target, version).expect_err(line);
        assert!(error.contains(told), "{line}: {error}");
    }
}

/// By hand: 1 + 2^-11 lies half between two halves, 1.25 of `.e2m1` half between 1 and 1.5; random bits decide.
#[test]
fn random_bits_decide_where_conversions_round_to() {
    let body = "mov.b32 %f0, 0x3f801000;\nmov.b32 %f1, 0xbf801000;\nmov.b32 %a1, 0x10000fff;\ncvt.rs.f16x2.f32 %a0, %f0, %f1, %a1;\n\
        st.global.b32 [%own], %a0;\nmov.f32 %f2, 0f3FA00000;\nmov.f32 %f3, 0fBFA00000;\nmov.b32 %a1, 0x80007f01;\n\
        cvt.rs.satfinite.e2m1x4.f32 %h0, {%f2,%f2,%f3,%f3}, %a1;\ncvt.u32.u16 %a2, %h0;\nst.global.b32 [%own+128], %a2;\n\
        mov.f32 %f5, 0f3F9C0000;\nmov.b32 %a1, 0x40000002;\ncvt.rs.satfinite.e4m3x4.f32 %a3, {%f5,%f5,%f5,%f5}, %a1;\nst.global.b32 [%own+256], %a3;\n\
        mov.u16 %h1, 0x8180;\ncvt.rn.satfinite.scaled::n2::ue8m0.s2f6x2.f32 %h2, %f2, %f3, %h1;\ncvt.u32.u16 %a2, %h2;\nst.global.b32 [%own+384], %a2;\n\
        cvt.rn.scaled::n2::ue8m0.bf16x2.s2f6x2 %a4, %h2, %h1;\nst.global.b32 [%own+512], %a4;\n";
    let mut chip = (*chip()).clone();
    chip.compute_capability = "10.0".into();
    for (policy, functional) in WAYS {
        let device = device_with(Arc::new(chip.clone()), policy, |options| Options {
            allow_newer_isa: true,
            schedule_dependent: true,
            ..options
        });
        let mut run = Run::new(device, &text(body, "sm_100a", "9.2"), false, 160);
        run.launch(1, 32, functional).unwrap_or_else(|e| panic!("{e}"));
        run.wait().unwrap_or_else(|e| panic!("{e}"));
        let words = run.words();
        // a: 0x1000 of 13 bits carries; b: 0x0fff does not.
        assert_eq!(words[0], 0x3c01_bc00, "{policy}");
        // Bytes 3 and 1 are 0x807f for a and b: b carries, and a, for which they are in reverse order (0xfe01). Bytes 2 and 0
        // are 0x0001 for e and f: f does not, e does (0x8000).
        assert_eq!(words[32], 0x33ba, "{policy}");
        // 1.21875 lies three quarters above 1.125: 0x4000 carries, 0x0002 does not.
        assert_eq!(words[64], 0x393a_3a39, "{policy}");
        // 1.25 / 4 and -1.25 / 2 in 64ths are 20 and -40.
        assert_eq!(words[96], 0x14d8, "{policy}");
        assert_eq!(words[128], 0x3fa0_bfa0, "{policy}");
    }
}

/// Each thread clears as many bytes of its row as it says: those with a false guard none.
#[test]
fn bulk_stores_clear_shared_memory() {
    for (space, address) in
        [(".shared::cta", "%i0"), ("", "%w1"), (".weak.shared::cta", "%i0"), (".weak", "%w1")]
    {
        for (size, bytes) in [("%w2", None), ("16", Some(16)), ("%i5", None), ("0", Some(0))] {
            let body = format!(
                "{ROWS}cvt.u64.u32 %w1, %i0;\ncvta.shared.u64 %w1, %w1;\nand.b32 %i5, %t, 3;\nmin.u32 %i5, %i5, 2;\nshl.b32 %i5, %i5, 3;\ncvt.u64.u32 %w2, %i5;\n\
                 setp.ne.u32 %p, %t, 5;\n@%p st.bulk{space} [{address}], {size}, 0;\nbar.warp.sync -1;\n\
                 ld.shared.v4.b32 {{%b0,%b1,%b2,%b3}}, [%i0];\nshl.b32 %i1, %t, 4;\ncvt.u64.u32 %w0, %i1;\nadd.u64 %w0, %w0, %out;\n\
                 st.global.v4.b32 [%w0], {{%b0,%b1,%b2,%b3}};\n"
            );
            let out = every_way(&body, "sm_120", 128);
            for lane in 0..32 {
                let cleared = if lane == 5 { 0 } else { bytes.unwrap_or(8 * (lane % 4).min(2)) };
                for column in 0..16 {
                    let found = out[4 * lane + column / 4] >> (8 * (column % 4)) & 0xff;
                    let expected = if column < cleared { 0 } else { element(lane, column, 8) };
                    assert_eq!(found, expected, "{space} {size} lane {lane} byte {column}");
                }
            }
        }
    }
    for (line, told) in [
        ("mov.u64 %w2, 12;\nst.bulk.shared::cta [%i0], %w2, 0;", "trap"),
        ("st.bulk [%out], 8, 0;", "shared"),
        ("add.u32 %i0, %i0, 4;\nst.bulk.shared::cta [%i0], 8, 0;", "align"),
        ("mov.u64 %w2, 16384;\nst.bulk.shared::cta [%i0], %w2, 0;", "shared"),
        ("mov.u64 %w2, 4294967304;\nst.bulk.shared::cta [%i0], %w2, 0;", "shared"),
    ] {
        for (policy, functional) in WAYS {
            let error = run(&format!("{ROWS}{line}\n"), "sm_120", 32, policy, functional).expect_err(line);
            assert!(error.contains(told), "{line}: {error}");
        }
    }
    for line in ["st.bulk.weak [%w0], 64, 0;", "st.bulk [room], 64, 0;", "st.bulk [%w0+8], %w1, 0;"] {
        build(line, "sm_100", "8.6").unwrap_or_else(|e| panic!("{line}: {e}"));
    }
    for (line, target, version, told) in [
        ("st.bulk [%w0], %w1, 1;", "sm_100", "8.6", "must be the constant 0"),
        ("st.bulk [%w0], 60, 0;", "sm_100", "8.6", "multiple of 8"),
        ("st.bulk.shared [%w0], %w1, 0;", "sm_100", "8.6", "not allowed"),
        ("st.bulk.global [%w0], %w1, 0;", "sm_100", "8.6", "not allowed"),
        ("st.bulk [%w0], %h1, 0;", "sm_100", "8.6", "must be .b32"),
        ("st.bulk [%w0], %w1, 0;", "sm_90", "8.6", "requires .target sm_100"),
        ("st.bulk [%w0], %w1, 0;", "sm_100", "8.5", "PTX ISA"),
    ] {
        let error = build(line, target, version).expect_err(line);
        assert!(error.contains(told), "{line}: {error}");
    }
}
