//! Operands wider than 64 bits: `.b128` registers and atomics, accesses of 256 bits, vector atomics, `multimem`.
//! Timed and functional; what must come out is computed here, word by word.

use sim_core::device::Options;
use sim_core::error::SimError;
use sim_frontend::diagnostic::Source;
use sim_frontend::load::Module;
use sim_frontend::program::ControlFlow;

use crate::machine::{Run, chip, device_with, module};

const POLICIES: [&str; 4] = ["crs_stack", "convergence_barriers", "multi_path", "mimd"];

fn run(body: &str, policy: &str, functional: bool) -> Result<Vec<u32>, SimError> {
    let device = device_with(chip(|_| {}), policy, |o| Options { allow_newer_isa: true, ..o });
    let head = ".version 9.0\n.target sm_100a";
    let text = module("", body).replace(".version 3.0\n.target sm_20", head);
    let mut run = Run::new(device, &text, false, 2048);
    run.launch(2, 64, functional)?;
    run.wait()?;
    Ok(run.words())
}

/// Words of `out` after two blocks of two warps ran `body`; all modes and policies agree.
#[track_caller]
fn words(body: &str) -> Vec<u32> {
    let first = run(body, POLICIES[0], false).unwrap_or_else(|e| panic!("{body}: {e}"));
    for policy in POLICIES {
        for functional in [false, true] {
            let other = run(body, policy, functional).unwrap_or_else(|e| panic!("{policy}: {body}: {e}"));
            assert_eq!(first, other, "{policy}, functional: {functional}: {body}");
        }
    }
    first
}

/// A faulty program: both modes say `words`.
#[track_caller]
fn fault(body: &str, words: &str) {
    for functional in [false, true] {
        let error = run(body, "crs_stack", functional).expect_err(body).to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// `%at` is the thread's own 64 bytes behind the results.
const OWN: &str =
    ".reg .u64 %at;\nmul.wide.u32 %at, %i, 32;\nadd.u64 %at, %at, %out;\nadd.u64 %at, %at, 512;\n";

#[test]
fn registers_of_128_bits_are_packed_moved_and_unpacked() {
    let body = ".reg .b128 %q<3>, alone;\n.reg .b64 %l<4>;\n.reg .b32 %x<4>;\n\
        cvt.u64.u32 %l0, %i;\nadd.u64 %l1, %l0, 1000;\nmov.b128 %q1, {%l0, %l1};\nmov.b128 alone, %q1;\n\
        mov.b128 {%x0, %x1, %x2, %x3}, alone;\nmov.b128 %q2, {%x2, %x1, %x0, %x3};\n\
        mov.b128 {%l2, _}, %q2;\nmov.b128 {_, %l3}, %q2;\ncvt.u32.u64 %a, %l2;\ncvt.u32.u64 %b, %l3;\n\
        mad.lo.u32 %r, %a, 65536, %b;\n\
        mov.b128 %q0, -1;\nmov.b128 {%l0, %l1}, %q0;\nadd.u64 %l1, %l1, 1;\ncvt.u32.u64 %b, %l1;\nadd.u32 %r, %r, %b;\n";
    let expected: Vec<u32> = (0..128).map(|i| (i + 1000) * 65536 + i).collect();
    assert_eq!(words(body)[..128], expected);
}

#[test]
fn values_of_128_bits_pass_through_every_space() {
    let set = ".reg .b128 %z, %p2, %p3;\n.reg .b64 %l<4>;\ncvt.u64.u32 %l0, %i;\nadd.u64 %l1, %l0, 77;\nmov.b128 %z, {%l0, %l1};\n";
    let get = "mov.b128 {%l2, %l3}, %p2;\nsub.u64 %l3, %l3, %l2;\nmul.lo.u64 %l3, %l3, 1000;\nadd.u64 %l3, %l3, %l2;\ncvt.u32.u64 %r, %l3;\n";
    let expected: Vec<u32> = (0..128).map(|i| 77_000 + i).collect();
    for through in [
        "st.global.b128 [%at], %z;\nld.global.b128 %p2, [%at];\n",
        "st.b128 [%at+16], %z;\nld.b128 %p2, [%at+16];\n",
        "st.release.gpu.global.b128 [%at], %z;\nld.acquire.gpu.global.L1::no_allocate.b128 %p2, [%at];\n",
        "mul.lo.u32 %a, %t, 16;\nmov.u32 %b, room;\nadd.u32 %a, %a, %b;\nst.shared.b128 [%a], %z;\nld.shared.b128 %p2, [%a];\n",
        ".local .align 16 .b8 lo[32];\nst.local.b128 [lo+16], %z;\nld.local.b128 %p2, [lo+16];\n",
        "st.global.b128 [%at], 0;\natom.global.exch.b128 %p3, [%at], %z;\natom.global.exch.b128 %p2, [%at], %p3;\n",
        "atom.exch.b128 _, [%at], %z;\natom.cas.b128 %p2, [%at], %p2, %p2;\n",
        "st.global.b128 [%at], %z;\natom.global.cas.b128 %p3, [%at], %z, 5;\natom.global.cas.b128 _, [%at], 5, %p3;\nld.global.b128 %p2, [%at];\n",
    ] {
        let body = format!("{OWN}{set}mov.b128 %p2, %z;\nadd.u64 %l0, %l0, 0;\n{through}{get}");
        assert_eq!(words(&body)[..128], expected, "{through}");
    }
}

#[test]
fn every_thread_wins_a_compare_and_swap_of_128_bits_once() {
    // Each half counts on its own; a torn value would lose one.
    for (space, start, finish) in [
        ("global", "add.u64 %at, %out, 512;\n", "ld.global.v4.u32 {%a, %b, %c, %n}, [%at];\n"),
        (
            "shared",
            "mov.u64 %at, room;\nst.shared.b128 [%at], 0;\nbar.sync 0;\n",
            "ld.shared.v4.u32 {%a, %b, %c, %n}, [%at];\n",
        ),
    ] {
        let body = format!(
            ".reg .u64 %at, %l<4>;\n.reg .b128 %old, %new, %was;\n{start}ld.{space}.b128 %old, [%at];\n\
             AGAIN:\nmov.b128 {{%l0, %l1}}, %old;\nadd.u64 %l0, %l0, 1;\nadd.u64 %l1, %l1, 3;\nmov.b128 %new, {{%l0, %l1}};\n\
             atom.{space}.cas.b128 %was, [%at], %old, %new;\nmov.b128 {{%l2, %l3}}, %was;\nsub.u64 %l0, %l0, 1;\n\
             setp.eq.u64 %p, %l0, %l2;\nmov.b128 %old, %was;\n@!%p bra AGAIN;\nbar.sync 0;\nmembar.gl;\n{finish}\
             mad.lo.u32 %r, %c, 1000, %a;\n"
        );
        for functional in [false, true] {
            let found = run(&body, "convergence_barriers", functional).expect("it ends");
            if space == "global" {
                assert_eq!(found[128..132], [128, 0, 384, 0], "functional: {functional}");
            } else {
                assert_eq!(found[..128], [192_064; 128], "functional: {functional}");
            }
        }
    }
}

#[test]
fn accesses_of_256_bits() {
    let fill = ".reg .b32 %x<8>;\n.reg .b64 %l<4>;\nadd.u32 %x0, %i, 10;\nadd.u32 %x1, %i, 20;\nadd.u32 %x2, %i, 30;\nadd.u32 %x3, %i, 40;\n\
        add.u32 %x4, %i, 50;\nadd.u32 %x5, %i, 60;\nadd.u32 %x6, %i, 70;\nadd.u32 %x7, %i, 80;\n";
    let store = "st.global.v8.b32 [%at], {%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7};\n";
    let found = words(&format!("{OWN}{fill}{store}"));
    for i in 0..128u32 {
        let expected: Vec<u32> = (1..9).map(|k| i + 10 * k).collect();
        assert_eq!(found[128 + 8 * i as usize..][..8], expected);
    }
    // The address register is one of the results, in either half; some results are dropped.
    for (load, expected) in [
        (
            "ld.global.v4.b64 {%at, %l1, %l2, %l3}, [%at];\ncvt.u32.u64 %a, %at;\ncvt.u32.u64 %b, %l3;\n",
            (10, 70),
        ),
        (
            "ld.global.v4.b64 {%l0, %l1, %l2, %at}, [%at];\ncvt.u32.u64 %a, %l0;\ncvt.u32.u64 %b, %at;\n",
            (10, 70),
        ),
        ("ld.v4.u64 {_, %at, %l2, _}, [%at];\ncvt.u32.u64 %a, %at;\ncvt.u32.u64 %b, %l2;\n", (30, 50)),
        (
            "ld.acquire.gpu.global.L2::evict_last.v4.s64 {%l0, %l1, %l2, %l3}, [%at];\nshr.u64 %l0, %l0, 32;\ncvt.u32.u64 %a, %l0;\ncvt.u32.u64 %b, %l1;\n",
            (20, 30),
        ),
        ("ld.global.nc.L1::no_allocate.v8.b32 {_, %a, _, _, _, _, _, %b}, [%at];\n", (20, 80)),
        (
            "createpolicy.fractional.L2::evict_first.b64 %l0;\nld.global.L2::cache_hint.v8.u32 {_, _, %a, _, _, %b, _, _}, [%at], %l0;\n",
            (30, 60),
        ),
    ] {
        let body = format!("{OWN}{fill}{store}{load}mad.lo.u32 %r, %a, 65536, %b;\n");
        let expected: Vec<u32> = (0..128).map(|i| (expected.0 + i) * 65536 + expected.1 + i).collect();
        assert_eq!(words(&body)[..128], expected, "{load}");
    }
    let stores = format!(
        "{OWN}{fill}mov.b64 %l0, {{%x0, %x1}};\nmov.b64 %l1, {{%x2, %x3}};\nst.release.gpu.v4.b64 [%at], {{%l1, %l0, 7, %l1}};\n"
    );
    assert_eq!(words(&stores)[128..136], [30, 40, 10, 20, 7, 0, 30, 40]);
}

#[test]
fn wide_accesses_are_aligned_to_all_their_bytes() {
    let v8 = "ld.global.v8.b32 {%r, %a, _, _, _, _, _, _}, [%out+16];\n";
    fault(v8, "must be aligned to 32");
    fault("st.global.v4.b64 [%out+16], {%out, %out, %out, %out};\n", "must be aligned to 32");
    fault(".reg .b128 %z;\nld.global.b128 %z, [%out+8];\n", "must be aligned to 16");
    fault("red.global.add.v4.f32 [%out+8], {%f, %f, %f, %f};\n", "must be aligned to 16");
    fault(".reg .b128 %z;\natom.global.exch.b128 %z, [%out+8], 0;\n", "must be aligned to 16");
    // The second half lies behind the buffer.
    fault("add.u64 %w, %out, 8176;\nld.global.v4.b64 {%x, %w, %x, %x}, [%w];\n", "aligned");
    fault("ld.global.v4.b64 {%x, %w, %x, %x}, [%out+8192];\n", "not in any allocation");
}

#[test]
fn vector_atomics_work_on_their_elements() {
    let values = ".reg .f32 %v<4>, %o<4>;\nmov.f32 %v0, 0f3F800000;\nmov.f32 %v1, 0f40000000;\nmov.f32 %v2, 0f40400000;\nmov.f32 %v3, 0f40800000;\n";
    let sum = |n: u32| (n as f32).to_bits();
    let found = words(&format!("{values}red.global.add.v4.f32 [%out+512], {{%v0, %v1, %v2, %v3}};\n"));
    assert_eq!(found[128..132], [sum(128), sum(256), sum(384), sum(512)]);
    // Old values of the thread's own words; results are among the operands.
    let body = format!(
        "{OWN}{values}atom.global.add.v4.f32 {{%v3, %v2, %v1, %v0}}, [%at], {{%v0, %v1, %v2, %v3}};\n\
         atom.add.relaxed.gpu.v2.f32 {{%v1, _}}, [%at+8], {{%v0, %v1}};\ncvt.rzi.u32.f32 %r, %v1;\n"
    );
    let found = words(&body);
    assert_eq!(found[..128], [3; 128]);
    assert_eq!(found[128..132], [sum(1), sum(2), sum(3), sum(4)]);
    // Halves: the least and the greatest of thread indices, and a NaN that loses.
    let halves = ".reg .b16 %h<8>;\ncvt.rn.f16.u32 %h0, %i;\nneg.f16 %h1, %h0;\nmov.b16 %h2, 0x7fff;\nmov.b16 %h3, 0x3c00;\n";
    let found = words(&format!(
        "{halves}red.global.max.noftz.v8.f16 [%out+512], {{%h0, %h1, %h2, %h3, %h0, %h1, %h2, %h3}};\n\
         red.global.min.noftz.v4.f16 [%out+528], {{%h0, %h1, %h2, %h3}};\n"
    ));
    // 127 is 0x57f0, -127 is 0xd7f0; memory begins with zeros, and -0 is below +0.
    assert_eq!(found[128..132], [0x0000_57f0, 0x3c00_0000, 0x0000_57f0, 0x3c00_0000]);
    assert_eq!(found[132..134], [0xd7f0_0000, 0x0000_0000]);
    let pairs =
        ".reg .b32 %v;\nmov.b32 %v, 0x3f803f80;\nred.global.add.noftz.v2.bf16x2 [%out+512], {%v, %v};\n";
    assert_eq!(words(pairs)[128..130], [0x4300_4300; 2], "128 in bfloat16");
}

#[test]
fn multicast_addresses_of_one_device_are_ordinary_memory() {
    let body = format!(
        "{OWN}.reg .f32 %v<4>;\n.reg .b16 %h<8>;\n.reg .b32 %m<2>;\ncvt.rn.f32.u32 %f, %i;\n\
         multimem.st.global.v4.f32 [%at], {{%f, %f, %f, %f}};\nmultimem.red.global.add.f32 [%at+4], 0f3F800000;\n\
         multimem.st.release.sys.global.b32 [%at+16], 0x0000ffff;\nmultimem.red.relaxed.gpu.global.and.b32 [%at+16], 0x00010180;\n\
         multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {{%v0, %v1, %v2, %v3}}, [%at];\n\
         multimem.ld_reduce.global.or.b32 %a, [%at+16];\nmultimem.ld_reduce.global.min.v8.f16 {{%h0, %h1, %h2, %h3, %h4, %h5, %h6, %h7}}, [%at];\n\
         multimem.ld_reduce.global.add.acc::f16.v2.e4m3x4 {{%m0, %m1}}, [%at+16];\n\
         add.f32 %f, %v0, %v1;\ncvt.rzi.u32.f32 %r, %f;\nmad.lo.u32 %r, %a, 1000, %r;\nmad.lo.u32 %r, %m0, 10000000, %r;\ncvt.u32.u16 %a, %h1;\n\
         shr.u32 %a, %a, 7;\nmad.lo.u32 %r, %a, 65536, %r;\n"
    );
    let expected: Vec<u32> = (0..128u32)
        .map(|i| {
            let upper = (i as f32).to_bits() >> 16 >> 7;
            (2 * i + 1)
                .wrapping_add(0x180 * 1000)
                .wrapping_add(0x180u32.wrapping_mul(10_000_000))
                .wrapping_add(upper * 65536)
        })
        .collect();
    assert_eq!(words(&body)[..128], expected);
}

#[test]
fn extrema_of_three_magnitudes() {
    let body = "cvt.rn.f32.u32 %f, %i;\nneg.f32 %f, %f;\nmov.f32 %g, 0f42800000;\nmax.abs.f32 %g, %f, %g, 0fC2C80000;\ncvt.rzi.u32.f32 %a, %g;\n\
                mov.f32 %g, 0f42800000;\nmin.NaN.abs.f32 %g, 0fC2C80000, %f, %g;\ncvt.rzi.u32.f32 %b, %g;\nmad.lo.u32 %r, %a, 1000, %b;\n";
    let expected: Vec<u32> = (0..128).map(|i| 1000 * i.max(100) + i.min(64)).collect();
    assert_eq!(words(body)[..128], expected);
}

#[test]
fn halves_are_operands_of_single_precision() {
    let body = ".reg .b16 %h, %k;\ncvt.rn.f16.u32 %h, %i;\nmov.b16 %k, 0x4200;\nmov.f32 %f, 0f41200000;\n\
                fma.rn.f32.f16 %g, %h, %k, %f;\nsub.f32.f16 %g, %h, %g;\nadd.rz.f32.f16 %g, %k, %g;\nneg.f32 %g, %g;\ncvt.rzi.u32.f32 %r, %g;\n";
    let expected: Vec<u32> = (0..128).map(|i| 2 * i + 7).collect();
    assert_eq!(words(body)[..128], expected);
}

/// As CUDA's headers convert `__nv_bfloat16` to characters: a register of 8 bits, packed with zero.
#[test]
fn bytes_are_packed_unpacked_and_converted_from_bf16() {
    let body = ".reg .b8 %k<4>;\n.reg .b16 %h, %m, %g16;\n.reg .b32 %v;\ncvt.rn.f32.u32 %f, %i;\nneg.f32 %g, %f;\ncvt.rn.bf16.f32 %h, %f;\ncvt.rn.bf16.f32 %m, %g;\n\
                cvt.rzi.u8.bf16 %k0, %h;\ncvt.rzi.s8.bf16 %k1, %m;\nmov.b16 %h, {%k0, 0};\nmov.b16 %m, {0, %k1};\nor.b16 %h, %h, %m;\n\
                mov.b16 {%k2, %k3}, %h;\nmov.b32 %v, {%k0, %k1, %k3, %k2};\nmov.b32 {_, %k1, %k2, _}, %v;\ncvt.rn.bf16.s8 %g16, %k2;\n\
                cvt.rzi.s16.bf16 %m, %g16;\ncvt.u32.u16 %r, %m;\nxor.b32 %r, %r, %v;\n";
    let expected = (0..128u32).map(|i| {
        let (up, down) = (i, (i as u8).wrapping_neg() as u32);
        (up | down << 8 | down << 16 | up << 24) ^ (i as i16).wrapping_neg() as u16 as u32
    });
    assert_eq!(words(body)[..128], expected.collect::<Vec<u32>>());
}

#[test]
fn asynchronous_stores_to_global_memory_are_released() {
    let body = format!(
        "{OWN}add.u32 %a, %i, 5;\nst.async.release.gpu.global.b32 [%at], %a;\nred.async.release.gpu.global.add.u32 [%at], 7;\n\
         st.async.mmio.release.sys.global.b64 [%at+8], %out;\nred.async.mmio.release.sys.global.and.b32 [%at+8], 0;\n\
         ld.global.u32 %r, [%at];\nld.global.u32 %b, [%at+8];\nadd.u32 %r, %r, %b;\n"
    );
    assert_eq!(words(&body)[..128], (12..140).collect::<Vec<u32>>());
}

#[test]
fn narrow_formats_go_there_and_back() {
    let body = ".reg .b8 %e;\n.reg .b16 %h, %k;\nand.b32 %a, %i, 3;\ncvt.rn.f32.u32 %f, %a;\nneg.f32 %g, %f;\n\
                cvt.rn.satfinite.e2m1x2.f32 %e, %f, %g;\n.reg .b32 %v, %x2;\ncvt.rn.f16x2.e2m1x2 %v, %e;\n\
                cvt.rn.satfinite.relu.e3m2x2.f32 %h, %g, %f;\ncvt.rn.f16x2.e3m2x2 %x2, %h;\n\
                mov.b32 {%k, %h}, %v;\ncvt.rzi.u32.f16 %b, %h;\nmov.b32 {%k, %h}, %x2;\ncvt.rzi.u32.f16 %c, %k;\ncvt.rzi.u32.f16 %n2, %h;\n\
                mad.lo.u32 %r, %b, 100, %c;\nmad.lo.u32 %r, %n2, 10000, %r;\n\
                cvt.rp.satfinite.ue8m0x2.f32 %h, 0f40400000, 0f3F800000;\ncvt.u32.u16 %a, %h;\nmad.lo.u32 %r, %a, 65536, %r;\n"
        .replace("%n2", "%d2")
        .replace(".reg .b32 %v", ".reg .u32 %d2;\n.reg .b32 %v");
    // 3 becomes 4 = 2^2, 1 is 2^0.
    let expected: Vec<u32> = (0..128).map(|i| (i % 4) * 101 + (129 << 8 | 127) * 65536).collect();
    assert_eq!(words(&body)[..128], expected);
}

/// As ptxas has them: 256 bits from sm_100 on, `.nc` with `.global` and without `.weak`, no hints on shared memory of clusters.
#[test]
fn wide_loads_are_refused_where_the_assembler_refuses_them() {
    let build = |line: &str, target: u32| {
        let text = format!(
            ".version 8.8\n.target sm_{target}\n.address_size 64\n.visible .entry k()\n{{\n.reg .b64 %l<9>;\n.reg .b32 %r<9>;\n\
             .reg .b128 %q;\n{line}\nret;\n}}\n"
        );
        Module::build(&Source::new("wide.ptx", &text), false)
            .and_then(|module| module.program("k", &|_| Some(256), ControlFlow::Injected, 1024).map(|_| ()))
    };
    let eight = "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%l8];";
    let four = "{%l0, %l1, %l2, %l3}, [%l8];";
    for (line, target) in [
        (format!("ld.global.v8.b32 {eight}"), 100),
        (format!("ld.global.v4.b64 {four}"), 100),
        (format!("ld.global.nc.v8.b32 {eight}"), 100),
        (format!("ld.global.nc.L1::evict_last.v4.b64 {four}"), 100),
        ("ld.global.nc.b128 %q, [%l8];".into(), 70),
        ("ld.global.nc.L1::evict_last.b128 %q, [%l8];".into(), 70),
        ("ld.weak.global.L1::evict_last.b128 %q, [%l8];".into(), 70),
    ] {
        build(&line, target).unwrap_or_else(|errors| panic!("{line}: {}", errors[0].render()));
    }
    for (line, target) in [
        (format!("ld.global.v8.b32 {eight}"), 90),
        (format!("ld.global.v4.b64 {four}"), 90),
        (format!("ld.weak.global.nc.v8.b32 {eight}"), 100),
        (format!("ld.nc.v8.b32 {eight}"), 100),
        (format!("ld.global.cv.nc.v8.b32 {eight}"), 100),
        ("ld.weak.global.nc.b128 %q, [%l8];".into(), 70),
        ("ld.nc.L1::evict_last.b128 %q, [%l8];".into(), 70),
        ("ld.relaxed.gpu.shared::cluster.L1::evict_last.b128 %q, [%l8];".into(), 90),
        ("st.relaxed.gpu.shared::cluster.L1::evict_last.b128 [%l8], %q;".into(), 90),
    ] {
        let errors = build(&line, target).expect_err(&line);
        assert!(errors.iter().all(|error| !error.render().is_empty()));
    }
}
