//! Instructions on matrices on whole programs, timed and functional, under policies of each sort: fragments through
//! memory, layouts and strides, who must take part, and what an access to shared memory costs.

use std::sync::Arc;

use sim_core::device::{Device, Options};
use sim_core::error::SimError;
use sim_frontend::chip::{ChipSpec, TensorType};
use sim_frontend::diagnostic::Source;
use sim_frontend::load::Module;
use sim_frontend::program::ControlFlow;

use crate::machine::{Run, device_with};

/// The shipped A100 with one SM, of compute capability 9.0, with fp8 too. `tiles`: `wmma` loads by `ldmatrix`.
fn chip(tiles: bool) -> Arc<ChipSpec> {
    let text = include_str!("../../../configs/chips/a100.yaml");
    let mut chip = ChipSpec::load(&Source::new("a100.yaml", text)).expect("the shipped chip is right");
    chip.limits.num_processors = 1;
    chip.compute_capability = "9.0".into();
    chip.assembler.load_matrix = tiles;
    if let Some(tensor) = &mut chip.tensor {
        tensor.rates.insert(TensorType::Fp8, 512);
    }
    Arc::new(chip)
}

fn device(policy: &str, tiles: bool) -> Device {
    device_with(chip(tiles), policy, |options| Options { schedule_dependent: true, ..options })
}

/// A module whose kernel finds its thread in `%t`, the lane's own word of `out` in `%own`, the first in `%out`.
fn module(body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
         .reg .b32 %t, %i<40>, %a<20>, %b<20>, %c<20>, %d<20>, %e;\n.reg .b64 %out, %own, %w<20>;\n\
         .reg .f64 %x<40>;\n.reg .pred %p, %q;\n.shared .align 128 .b8 room[8192];\n\
         ld.param.u64 %out, [p];\nmov.u32 %t, %tid.x;\nmul.wide.u32 %own, %t, 4;\nadd.u64 %own, %own, %out;\n\
         {body}\nexit;\n}}\n"
    )
}

/// `out` after `body` ran on `threads` threads with these words in it.
fn run(
    body: &str,
    before: &[u32],
    threads: u32,
    policy: &str,
    functional: bool,
) -> Result<Vec<u32>, SimError> {
    run_on(device(policy, true), body, before, threads, functional)
}

fn run_on(
    device: Device,
    body: &str,
    before: &[u32],
    threads: u32,
    functional: bool,
) -> Result<Vec<u32>, SimError> {
    let mut run = Run::new(device, &module(body), false, before.len());
    let bytes: Vec<u8> = before.iter().flat_map(|word| word.to_le_bytes()).collect();
    run.device.context(run.context).expect("it exists").write(run.out, &bytes);
    run.launch(1, threads, functional)?;
    run.wait()?;
    Ok(run.words())
}

fn every_way(body: &str, before: &[u32]) -> Vec<u32> {
    let ways = [("crs_stack", false), ("convergence_barriers", false), ("mimd", true)];
    let mut all = ways.map(|(policy, functional)| {
        run(body, before, 32, policy, functional).unwrap_or_else(|e| panic!("{policy}: {e}\n{body}"))
    });
    assert_eq!(all[0], all[1], "{body}");
    assert_eq!(all[0], all[2], "{body}");
    std::mem::take(&mut all[0])
}

/// Elements of a matrix in memory, as numbers.
#[derive(Clone)]
struct Stored {
    ty: &'static str,
    /// Row by row, or column by column.
    rows_first: bool,
    stride: usize,
    /// By row, then column.
    values: Vec<Vec<i64>>,
}

fn bits(ty: &str) -> usize {
    match ty {
        "f64" => 64,
        "f32" | "tf32" | "s32" => 32,
        "f16" | "bf16" => 16,
        "s8" | "u8" => 8,
        "s4" | "u4" => 4,
        _ => 1,
    }
}

/// Small whole numbers in a type.
fn encode(ty: &str, value: i64) -> u64 {
    let single = (value as f32).to_bits();
    match ty {
        "f64" => (value as f64).to_bits(),
        "f32" | "tf32" => single.into(),
        "bf16" => (single >> 16).into(),
        "f16" if value == 0 => 0,
        "f16" => u64::from(single >> 16 & 0x8000 | ((single & 0x7fff_ffff) - (112 << 23)) >> 13),
        _ => value as u64 & (u64::MAX >> (64 - bits(ty))),
    }
}

impl Stored {
    fn words(&self) -> Vec<u32> {
        let width = bits(self.ty);
        let (rows, columns) = (self.values.len(), self.values[0].len());
        let lines = if self.rows_first { rows } else { columns };
        let mut words = vec![0u32; (lines * self.stride * width).div_ceil(32)];
        for (row, list) in self.values.iter().enumerate() {
            for (column, &value) in list.iter().enumerate() {
                let (line, place) = if self.rows_first { (row, column) } else { (column, row) };
                let at = (line * self.stride + place) * width;
                let bits = encode(self.ty, value);
                words[at / 32] |= (bits << (at % 32)) as u32;
                if width == 64 {
                    words[at / 32 + 1] = (bits >> 32) as u32;
                }
            }
        }
        words
    }

    fn layout(&self) -> &'static str {
        if self.rows_first { "row" } else { "col" }
    }
}

/// Whole numbers that differ: of single bits 0 and 1.
fn numbers(ty: &str, rows: usize, columns: usize, seed: usize) -> Vec<Vec<i64>> {
    let number = |i: usize, j: usize| {
        let n = ((i * 7 + j * 13 + i * j * 3 + seed) % 11) as i64;
        match ty {
            "b1" => n % 2,
            "u8" | "u4" => n,
            "s4" => n - 5,
            _ => n - 4,
        }
    };
    (0..rows).map(|i| (0..columns).map(|j| number(i, j)).collect()).collect()
}

fn registers(prefix: &str, count: usize) -> String {
    let list: Vec<String> = (0..count).map(|i| format!("%{prefix}{i}")).collect();
    format!("{{{}}}", list.join(","))
}

/// One product by `wmma` from and to memory.
fn wmma(shape: [usize; 3], types: [&'static str; 4], layouts: [bool; 4], extra: &str, space: &str) {
    let [m, n, k] = shape;
    let [d, a, b, c] = types;
    // Strides that are multiples of 16 bytes, some above the least.
    let stride =
        |ty: &str, least: usize| least.next_multiple_of(128 / bits(ty).min(128)).max(128 / bits(ty)) * 2;
    let matrix = |ty, rows: usize, columns: usize, rows_first: bool, seed| Stored {
        ty,
        rows_first,
        stride: stride(ty, if rows_first { columns } else { rows }),
        values: numbers(ty, rows, columns, seed),
    };
    let of_a = matrix(a, m, k, layouts[0], 1);
    let of_b = matrix(b, k, n, layouts[1], 5);
    let of_c = matrix(c, m, n, layouts[2], 9);
    let logic = extra.contains("popc");
    let value = |i: usize, j: usize| -> i64 {
        let terms = (0..k).map(|l| {
            let (x, y) = (of_a.values[i][l], of_b.values[l][j]);
            if extra.contains("xor") { i64::from(x != y) } else { x * y }
        });
        of_c.values[i][j] + terms.sum::<i64>()
    };
    let sums = (0..m).map(|i| (0..n).map(|j| value(i, j)).collect()).collect();
    let of_d = Stored { values: sums, ..matrix(d, m, n, layouts[3], 0) };
    let parts = [of_a.words(), of_b.words(), of_c.words(), of_d.words()];
    let starts: Vec<usize> = parts
        .iter()
        .scan(0, |at, part| Some(std::mem::replace(at, *at + part.len().next_multiple_of(32))))
        .collect();
    let total = starts[3] + parts[3].len();
    let mut before = vec![0; total];
    for (part, start) in parts[..3].iter().zip(&starts) {
        before[*start..*start + part.len()].copy_from_slice(part);
    }
    let count = |ty: &str, elements: usize, half: usize| {
        let own = elements / 32 / (bits(ty).clamp(32, 64) / bits(ty)).max(1);
        if ty == "f16" { half } else { own.max(1) }
    };
    let list = |ty: &str, prefix: &'static str, first: usize, count: usize| match ty {
        "f64" => (first..first + count).map(|i| format!("%x{i}")).collect::<Vec<_>>().join(","),
        _ => registers(prefix, count).replace(['{', '}'], ""),
    };
    let fragments = [
        format!("{{{}}}", list(a, "a", 0, count(a, m * k, 8))),
        format!("{{{}}}", list(b, "b", 10, count(b, k * n, 8))),
        format!("{{{}}}", list(c, "c", 20, count(c, m * n, m * n / 64))),
        format!("{{{}}}", list(d, "d", 30, count(d, m * n, m * n / 64))),
    ];
    let word = format!("m{m}n{n}k{k}");
    let suffix = if space == "shared" { ".shared" } else { space };
    // Everything is copied to shared memory where that is asked for.
    let copy = if space == "shared" {
        let mut text = String::new();
        for at in (0..total).step_by(32) {
            text += &format!(
                "ld.global.b32 %e, [%own+{}];\nshl.b32 %i0, %t, 2;\nmov.u32 %i1, room;\nadd.u32 %i0, %i0, %i1;\nst.shared.b32 [%i0+{}], %e;\n",
                4 * at,
                4 * at
            );
        }
        text + "bar.warp.sync -1;\nmov.u32 %i2, room;\ncvt.u64.u32 %w0, %i2;\n"
    } else {
        "mov.u64 %w0, %out;\n".into()
    };
    // The stride of A in a register, the others as constants.
    let body = format!(
        "{copy}mov.u32 %i3, {};\n\
         wmma.load.a.sync.aligned.{}.{word}{suffix}.{a} {}, [%w0+{}], %i3;\n\
         wmma.load.b.sync.aligned.{}.{word}{suffix}.{b} {}, [%w0+{}], {};\n\
         wmma.load.c.sync.aligned.{}.{word}{suffix}.{c} {}, [%w0+{}], {};\n\
         wmma.mma{}.sync.aligned.{}.{}.{word}.{} {}, {}, {}, {};\n\
         mov.u32 %i4, {};\nwmma.store.d.sync.aligned.{}.{word}.global.{d} [%out+{}], {}, %i4;\n",
        of_a.stride,
        of_a.layout(),
        fragments[0],
        4 * starts[0],
        of_b.layout(),
        fragments[1],
        4 * starts[1],
        of_b.stride,
        of_c.layout(),
        fragments[2],
        4 * starts[2],
        of_c.stride,
        if logic { extra } else { "" },
        of_a.layout(),
        of_b.layout(),
        if a == "f16" {
            format!("{d}.{c}")
        } else {
            format!("{d}.{a}.{b}.{c}{}", if logic { "" } else { extra })
        },
        fragments[3],
        fragments[0],
        fragments[1],
        fragments[2],
        of_d.stride,
        of_d.layout(),
        4 * starts[3],
        fragments[3],
    );
    for (policy, tiles, functional) in [
        ("convergence_barriers", true, false),
        ("crs_stack", true, true),
        ("convergence_barriers", false, true),
    ] {
        let out = run_on(device(policy, tiles), &body, &before, 32, functional);
        let out = out.unwrap_or_else(|e| panic!("{policy}: {e}\n{body}"));
        assert_eq!(out[starts[3]..], parts[3][..], "{policy}, {tiles}\n{body}");
    }
}

/// All shapes, types and layouts, with strides above the least, from global, shared and generic addresses.
#[test]
fn products_by_wmma_have_all_shapes_types_and_layouts() {
    let big = [[16, 16, 16], [8, 32, 16], [32, 8, 16]];
    let spaces = [".global", "shared", ""];
    for (i, shape) in big.into_iter().enumerate() {
        for layouts in 0..16 {
            let layout = [0, 1, 2, 3].map(|bit| layouts >> bit & 1 == 0);
            let space = spaces[(layouts + i) % 3];
            let kinds: [[&'static str; 4]; 5] = [
                ["f32", "f16", "f16", "f32"],
                ["f16", "f16", "f16", "f16"],
                ["f32", "bf16", "bf16", "f32"],
                ["s32", "s8", "s8", "s32"],
                ["s32", "u8", "u8", "s32"],
            ];
            // Every layout with some type, every type with four layouts.
            for kind in [layouts % 5, (layouts + 2) % 5] {
                wmma(shape, kinds[kind], layout, "", space);
                if space != "shared" && layouts % 4 == layouts / 4 {
                    wmma(shape, kinds[kind], layout, "", "shared");
                }
            }
        }
        wmma(shape, ["f32", "f16", "f16", "f16"], [true; 4], "", ".global");
        wmma(shape, ["f16", "f16", "f16", "f32"], [false; 4], "", ".global");
        wmma(shape, ["s32", "s8", "s8", "s32"], [true; 4], ".satfinite", ".global");
    }
    for layouts in 0..4 {
        let layout = [layouts & 1 == 0, layouts & 2 == 0, layouts & 1 == 1, layouts & 2 == 2];
        wmma([16, 16, 8], ["f32", "tf32", "tf32", "f32"], layout, "", spaces[layouts % 3]);
        wmma([8, 8, 4], ["f64"; 4], layout, "", spaces[layouts % 3]);
        let fixed = [true, false, layout[2], layout[3]];
        wmma([8, 8, 32], ["s32", "s4", "s4", "s32"], fixed, "", spaces[layouts % 3]);
        wmma([8, 8, 32], ["s32", "u4", "u4", "s32"], fixed, ".satfinite", ".global");
        wmma(
            [8, 8, 128],
            ["s32", "b1", "b1", "s32"],
            fixed,
            [".xor.popc", ".and.popc"][layouts % 2],
            ".global",
        );
    }
}

/// The address and the stride may lie in registers of the fragment that is loaded: both are read before.
#[test]
fn a_fragment_may_be_loaded_over_its_own_address() {
    // 16 rows of 32 words, each its own number; tiles of 16 by 16 halves.
    let before: Vec<u32> = (0..512 + 8 * 32).map(|i| if i < 512 { i } else { 0 }).collect();
    let copy = "mov.u32 %i9, room;\nshl.b32 %i0, %t, 2;\nadd.u32 %i0, %i0, %i9;\n".to_string()
        + &(0..16)
            .map(|row| {
                format!("ld.global.b32 %e, [%own+{}];\nst.shared.b32 [%i0+{}], %e;\n", 128 * row, 128 * row)
            })
            .collect::<String>();
    let stores: String =
        (0..8).map(|i| format!("st.global.b32 [%own+{}], %a{i};\n", 2048 + 128 * i)).collect();
    for layout in ["row", "col"] {
        let load = |stride: &str, base: &str| {
            format!(
                "wmma.load.a.sync.aligned.{layout}.m16n16k16.shared.f16 {}, [{base}], {stride};\n",
                registers("a", 8)
            )
        };
        let plain = format!("{copy}bar.warp.sync -1;\n{}{stores}", load("64", "room"));
        let expected = every_way(&plain, &before);
        for (stride, base) in [(0, 1), (1, 0), (7, 3), (2, 2)] {
            let (set, of_stride) = match stride == base {
                true => (String::new(), "64".to_string()),
                false => (format!("mov.u32 %a{stride}, 64;\n"), format!("%a{stride}")),
            };
            let body = format!(
                "{copy}bar.warp.sync -1;\n{set}mov.u32 %a{base}, room;\n{}{stores}",
                load(&of_stride, &format!("%a{base}"))
            );
            for tiles in [true, false] {
                let out = run_on(device("convergence_barriers", tiles), &body, &before, 32, false);
                let out = out.unwrap_or_else(|e| panic!("{e}\n{body}"));
                assert_eq!(out[512..], expected[512..], "{layout}, {tiles}\n{body}");
            }
        }
    }
}

/// Lane `l` finds the words it expects of matrices whose halves are numbered.
#[test]
fn matrices_are_loaded_and_stored_by_rows() {
    for (count, trans) in [(1, false), (2, false), (4, false), (1, true), (2, true), (4, true)] {
        let dot = if trans { ".trans" } else { "" };
        // Row r of matrix i lies at 16 * (8 * i + r): its halves are 8 * (8 * i + r) and on.
        let body = format!(
            "mov.u32 %i9, room;\nshl.b32 %i0, %t, 4;\nadd.u32 %i0, %i0, %i9;\nshl.b32 %i1, %t, 3;\n\
             mad.lo.u32 %i2, %i1, 65537, 65536;\nst.shared.b32 [%i0], %i2;\nadd.u32 %i2, %i2, 0x00020002;\n\
             st.shared.b32 [%i0+4], %i2;\nadd.u32 %i2, %i2, 0x00020002;\nst.shared.b32 [%i0+8], %i2;\n\
             add.u32 %i2, %i2, 0x00020002;\nst.shared.b32 [%i0+12], %i2;\nbar.warp.sync -1;\n\
             ldmatrix.sync.aligned.m8n8.x{count}{dot}.shared.b16 {}, [%i0];\n\
             cvt.u64.u32 %w0, %i0;\ncvta.shared.u64 %w1, %w0;\n\
             stmatrix.sync.aligned.m8n8.x{count}{dot}.b16 [%w1+4096], {};\nbar.warp.sync -1;\n{}",
            registers("a", count),
            registers("a", count),
            (0..count)
                .map(|i| format!("st.global.b32 [%own+{}], %a{i};\n", 128 * i))
                .chain((0..4).map(|i| format!(
                    "shl.b32 %i3, %t, 2;\nadd.u32 %i3, %i3, %i9;\nld.shared.b32 %e, [%i3+{}];\nst.global.b32 [%own+{}], %e;\n",
                    4096 + 128 * i, 512 + 128 * i
                )))
                .collect::<String>(),
        );
        let out = every_way(&body, &[0; 256]);
        for matrix in 0..count {
            for lane in 0..32 {
                let (row, column) = (lane / 4, 2 * (lane % 4));
                let half = |row: usize, column: usize| (8 * (8 * matrix + row) + column) as u32;
                let expected = match trans {
                    false => half(row, column) | half(row, column + 1) << 16,
                    true => half(column, row) | half(column + 1, row) << 16,
                };
                assert_eq!(out[32 * matrix + lane], expected, "x{count}{dot} matrix {matrix} lane {lane}");
            }
        }
        // What was stored is what was loaded.
        for word in 0..32 * count {
            let first = 2 * word as u32;
            assert_eq!(out[128 + word], first | (first + 1) << 16, "x{count}{dot} word {word}");
        }
    }
}

#[test]
fn a_matrix_is_transposed_in_registers() {
    let body = "mul.lo.u32 %a0, %t, 0x00020002;\nadd.u32 %a0, %a0, 65536;\n\
                movmatrix.sync.aligned.m8n8.trans.b16 %a0, %a0;\nst.global.b32 [%own], %a0;\n";
    let out = every_way(body, &[0; 32]);
    for (lane, word) in out.into_iter().enumerate() {
        let (row, column) = (lane / 4, 2 * (lane % 4));
        let half = |row: usize, column: usize| (8 * row + column) as u32;
        assert_eq!(word, half(column, row) | half(column + 1, row) << 16, "lane {lane}");
    }
}

/// D may be a register of A or B, in the products too that take several operations.
#[test]
fn sources_may_be_destinations() {
    let fill = "mov.b32 %a0, 0x3c003c00;\nmov.b32 %a1, %a0;\nmov.b32 %b0, %a0;\nmov.b32 %b1, %a0;\n";
    let zeros: String = (0..8).map(|i| format!("mov.b32 %c{i}, 0;\n")).collect();
    // All elements are 4: also those computed after the registers of A were written.
    let body = format!(
        "{fill}{zeros}mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {{%a0,%a1,%b0,%b1,%c0,%c1,%c2,%c3}}, {{%a0,%a1}}, \
         {{%b0,%b1}}, {{%c0,%c1,%c2,%c3,%c4,%c5,%c6,%c7}};\nst.global.b32 [%own], %a0;\nst.global.b32 [%own+128], %b1;\n\
         st.global.b32 [%own+256], %c3;\n"
    );
    assert_eq!(every_way(&body, &[0; 96]), [4f32.to_bits(); 96]);
    // A constant and a sink.
    let body = format!(
        "{fill}mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {{%d0, _, %d1, _}}, {{%a0, %a1}}, {{%b0}}, \
         {{0f3F800000, 0f00000000, %d5, %d5}};\nst.global.b32 [%own], %d0;\n"
    )
    .replace("mma.sync", "mov.b32 %d5, 0;\nmma.sync");
    assert_eq!(every_way(&body, &[0; 32]), [9f32.to_bits(); 32]);
}

/// A sparse product picks those elements of B that the metadata names.
#[test]
fn sparse_products_take_the_elements_that_the_metadata_names() {
    // A is of ones at places 1 and 3 of each four, B has its row as value.
    let body = "mov.b32 %a0, 0x3c003c00;\nmov.b32 %a1, %a0;\nmov.b32 %e, 0xdddddddd;\n\
                and.b32 %i0, %t, 3;\nshl.b32 %i0, %i0, 1;\ncvt.rn.f32.u32 %c0, %i0;\nadd.u32 %i1, %i0, 1;\n\
                cvt.rn.f32.u32 %c1, %i1;\ncvt.rn.f16x2.f32 %b0, %c1, %c0;\nadd.u32 %i1, %i0, 8;\ncvt.rn.f32.u32 %c0, %i1;\n\
                add.u32 %i1, %i0, 9;\ncvt.rn.f32.u32 %c1, %i1;\ncvt.rn.f16x2.f32 %b1, %c1, %c0;\nmov.b32 %c5, 0;\n\
                mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%d0,%d1,%d2,%d3}, {%a0,%a1}, {%b0,%b1}, \
                {%c5,%c5,%c5,%c5}, %e, 1;\nst.global.b32 [%own], %d0;\nst.global.b32 [%own+128], %d3;\n";
    let sum: u32 = [1, 3, 5, 7, 9, 11, 13, 15].iter().sum();
    assert_eq!(every_way(body, &[0; 64]), [(sum as f32).to_bits(); 64]);
}

/// All threads of the warp must execute the instruction: a fault with its place otherwise.
#[test]
fn all_threads_of_the_warp_take_part() {
    let product =
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%d0,%d1,%d2,%d3}, {%t,%t}, {%t}, {%t,%t,%t,%t};\n";
    let cases = [
        (format!("setp.lt.u32 %p, %t, 16;\n@%p {product}"), 32, "the guard is false for threads 0xffff0000"),
        (
            format!("setp.lt.u32 %p, %t, 16;\n@%p exit;\n{product}"),
            32,
            "threads 0x0000ffff do not execute it",
        ),
        (product.to_string(), 16, "threads 0xffff0000 do not execute it"),
    ];
    for (body, threads, reason) in &cases {
        for (policy, functional) in [("convergence_barriers", false), ("mimd", true), ("crs_stack", false)] {
            let error = run(body, &[0; 32], *threads, policy, functional).expect_err("a fault");
            let said = error.to_string();
            // Where each thread runs by itself, only the others tell that one stays away.
            let whole = policy == "crs_stack" && said.contains("not active here")
                || policy == "mimd" && said.contains("threads 0xffff0000 do not execute it");
            assert!(said.contains(reason) || whole, "{policy}: {said}");
            assert!(said.contains("(t.ptx:"), "{said}");
        }
    }
    // Under independent scheduling both sides of a branch meet at one instruction.
    let apart = format!(
        "setp.lt.u32 %p, %t, 16;\nmov.u32 %i0, 1;\n@%p bra NEAR;\nmov.u32 %i0, 2;\nNEAR:\n{product}st.global.b32 [%own], %i0;\n"
    );
    let out = run(&apart, &[0; 32], 32, "mimd", false).expect("they meet");
    assert_eq!((out[0], out[31]), (1, 2));
}

#[test]
fn rows_of_matrices_are_aligned_and_lie_in_shared_memory() {
    let load = "ldmatrix.sync.aligned.m8n8.x1.b16 {%a0}, [%w0];\n";
    let cases = [
        (
            format!(
                "mov.u32 %i0, room;\nadd.u32 %i0, %i0, 8;\ncvt.u64.u32 %w0, %i0;\ncvta.shared.u64 %w0, %w0;\n{load}"
            ),
            "aligned to 16",
        ),
        (format!("mov.u64 %w0, %out;\n{load}"), "not in the shared memory window"),
        (
            "mov.u32 %i0, 8192;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%a0}, [%i0];\n".into(),
            "outside the 8192 bytes",
        ),
        (
            "mov.u32 %i0, 8200;\nstmatrix.sync.aligned.m8n8.x1.shared.b16 [%i0], {%t};\n".into(),
            "aligned to 16",
        ),
    ];
    for (body, reason) in cases {
        for functional in [false, true] {
            let error = run(&body, &[0; 32], 32, "crs_stack", functional).expect_err("a fault");
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
    // Addresses of threads that give none do not count.
    let few = "setp.lt.u32 %p, %t, 8;\nmov.u32 %i0, room;\nselp.u32 %i0, %i0, 3, %p;\n\
               ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%a0}, [%i0];\nst.global.b32 [%own], %a0;\n";
    assert_eq!(every_way(few, &[7; 32]), [0; 32]);
}

/// Eight rows of 16 bytes take one turn where they lie in different banks, and eight where they share them: turns beyond one a matrix
/// are conflicts, which take two cycles each.
#[test]
fn rows_in_the_same_banks_come_one_after_another() {
    let cycles = |stride: u32, count: usize| {
        let body = format!(
            "mov.u32 %i1, room;\nand.b32 %i2, %t, 7;\nmad.lo.u32 %i0, %i2, {stride}, %i1;\n\
             mov.u32 %i3, %clock;\nldmatrix.sync.aligned.m8n8.x{count}.shared.b16 {}, [%i0];\n\
             xor.b32 %e, %a0, %a0;\nadd.u32 %e, %e, 0;\nmov.u32 %i4, %clock;\nsub.u32 %i4, %i4, %i3;\nadd.u32 %i4, %i4, %e;\n\
             st.global.b32 [%own], %i4;\n",
            registers("a", count)
        );
        run(&body, &[0; 32], 32, "crs_stack", false).expect("it runs")[0]
    };
    let free = cycles(16, 1);
    assert_eq!(cycles(32, 1) - free, 2, "two rows in each bank");
    assert_eq!(cycles(128, 1) - free, 14, "all rows in the same banks");
    assert_eq!(cycles(16, 4) - free, 3, "four matrices, a turn each");
    assert_eq!(cycles(128, 4) - free, 3 + 28 * 2, "four matrices, eight turns each");
}

/// The unit takes the next product after its interval; a product that reads the last one's D waits for its latency.
#[test]
fn products_take_the_time_that_the_chip_says() {
    let clock = |products: &str| {
        let body = format!(
            "mov.b32 %a0, 0;\nmov.b32 %a1, 0;\nmov.b32 %a2, 0;\nmov.b32 %a3, 0;\n{}mov.u32 %i3, %clock;\n{products}\
             mov.u32 %i4, %clock;\nsub.u32 %i4, %i4, %i3;\nst.global.b32 [%own], %i4;\n\
             {}",
            (0..16).map(|i| format!("mov.b32 %d{i}, 0;\n")).collect::<String>(),
            // Results that are read have registers of their own.
            (0..16).map(|i| format!("st.global.b32 [%own+128], %d{i};\n")).collect::<String>()
        );
        run(&body, &[0; 64], 32, "crs_stack", false).expect("it runs")[0]
    };
    let product = |first: usize| {
        let d: Vec<String> = (first..first + 4).map(|i| format!("%d{i}")).collect();
        let d = d.join(",");
        format!(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{d}}}, {{%a0,%a1,%a2,%a3}}, {{%a0,%a1}}, {{{d}}};\n"
        )
    };
    let one = clock(&product(0));
    // 2048 multiply-adds at 256 a cycle; the A100's latency is 26.
    let apart = clock(&(product(0) + &product(4)));
    assert_eq!(apart - one, 8);
    assert_eq!(clock(&(product(0) + &product(0))) - one, 26);
    // Where C is not D, all of its registers count too, though an operation has no room for as many.
    let other = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%d8,%d9,%d10,%d11}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%d0,%d1,%d2,%d3};\n";
    assert_eq!(clock(&(product(0) + other)) - one, 26);
}

/// A subnormal element has the exponent of the least normal one: `2^-4 * 2^-1` is aligned as if it were of `2^-2`, so that
/// 13 fractional bits below it still hold `2^-15`, and not what is half as much.
#[test]
fn subnormal_elements_of_six_bits_have_the_least_exponent() {
    for (c, d) in [(0x3800_0000u32, 0x3d00_2000u32), (0x3780_0000, 0x3d00_0000)] {
        let body = format!(
            "setp.eq.u32 %p, %t, 0;\nselp.b32 %a0, 1, 0, %p;\nselp.b32 %b0, 4, 0, %p;\nmov.b32 %a1, 0;\nmov.b32 %c0, {c:#x};\n\
             mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32 {{%d0,%d1,%d2,%d3}}, {{%a0,%a1,%a1,%a1}}, {{%b0,%a1}}, {{%c0,%c0,%c0,%c0}};\n\
             st.global.b32 [%own], %d0;\n"
        );
        let mut chip = (*chip(true)).clone();
        chip.compute_capability = "12.0".into();
        let device =
            device_with(Arc::new(chip), "crs_stack", |options| Options { allow_newer_isa: true, ..options });
        let mut run = Run::new(device, &blackwell(&body, "sm_120a"), false, 32);
        run.launch(1, 32, false).unwrap_or_else(|e| panic!("{e}"));
        run.wait().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(run.words()[0], d, "{c:#x}");
    }
}

/// A kernel for products of `.kind::f8f6f4`.
fn blackwell(body: &str, target: &str) -> String {
    module(body).replace(".version 8.6\n.target sm_90", &format!(".version 9.0\n.target {target}"))
}

/// Elements of six and four bits, each in a byte. A is of 1.5; columns of B alternate between two powers of two; row `g`
/// of C is of `g`.
#[test]
fn products_of_six_and_four_bits_have_an_element_in_each_byte() {
    // 1.5, and one in units of the exponent, by type: bits, first bit of the exponent, bias.
    let types = [("e3m2", 0x0e, 2, 3), ("e2m3", 0x0c, 3, 1), ("e2m1", 0x0c, 3, 1), ("e4m3", 0x3c, 3, 7)];
    for (of_a, bits, ..) in types {
        for (of_b, _, first, bias) in types {
            // Powers of two that the type of B has.
            let least = 2 - i32::min(bias, 3);
            let body = format!(
                "shr.u32 %i0, %t, 2;\ncvt.rn.f32.u32 %c0, %i0;\nand.b32 %i1, %i0, 1;\nadd.u32 %i1, %i1, {};\nshl.b32 %i1, %i1, {first};\n\
                 mul.lo.u32 %b0, %i1, 0x01010101;\nmov.b32 %b1, %b0;\nmov.b32 %a0, {:#x};\nmov.b32 %a1, %a0;\nmov.b32 %a2, %a0;\nmov.b32 %a3, %a0;\n\
                 mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.{of_a}.{of_b}.f32 {{%d0,%d1,%d2,%d3}}, {{%a0,%a1,%a2,%a3}}, {{%b0,%b1}}, {{%c0,%c0,%c0,%c0}};\n\
                 cvt.rn.f16x2.f32 %c1, %c0, %c0;\n\
                 mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f16.{of_a}.{of_b}.f16 {{%d4,%d5}}, {{%a0,%a1,%a2,%a3}}, {{%b0,%b1}}, {{%c1,%c1}};\n\
                 st.global.b32 [%own], %d0;\nst.global.b32 [%own+128], %d3;\nst.global.b32 [%own+256], %d5;\n",
                bias + least,
                bits * 0x0101_0101u32,
            );
            let mut found = Vec::new();
            for (policy, functional) in
                [("crs_stack", false), ("convergence_barriers", false), ("mimd", true)]
            {
                let mut chip = (*chip(true)).clone();
                chip.compute_capability = "12.0".into();
                if let Some(tensor) = &mut chip.tensor {
                    tensor.rates.insert(TensorType::Fp8F16, 512);
                }
                let device = device_with(Arc::new(chip), policy, |options| Options {
                    allow_newer_isa: true,
                    schedule_dependent: true,
                    ..options
                });
                let mut run = Run::new(device, &blackwell(&body, "sm_120a"), false, 128);
                run.launch(1, 32, functional).unwrap_or_else(|e| panic!("{e}\n{body}"));
                run.wait().unwrap_or_else(|e| panic!("{e}\n{body}"));
                found.push(run.words());
            }
            let element = |g: usize, column: usize| 48.0 * 2f32.powi(column as i32 % 2 + least) + g as f32;
            let half = |value: f32| encode("f16", value as i64) as u32;
            for words in found {
                for t in 0..32 {
                    let (g, column) = (t / 4, 2 * (t % 4));
                    let name = format!("{of_a} {of_b} thread {t}");
                    assert_eq!(f32::from_bits(words[t]), element(g, column), "{name}");
                    assert_eq!(f32::from_bits(words[32 + t]), element(g, column + 1), "{name}");
                    let pair = half(element(g, column)) | half(element(g, column + 1)) << 16;
                    assert_eq!(words[64 + t], pair, "{name}");
                }
            }
        }
    }
}

/// What ptxas 13.5 says of them.
#[test]
fn forms_of_six_and_four_bits_are_those_of_the_assembler() {
    let single = "{%d0,%d1,%d2,%d3}";
    let of = |kind: &str, types: &str| {
        format!("mma.{kind}.{types} {single}, {{%a0,%a1,%a2,%a3}}, {{%b0,%b1}}, {single};")
    };
    let sparse = |kind: &str, types: &str, selector: u32| {
        format!(
            "mma.{kind}.{types} {single}, {{%a0,%a1,%a2,%a3}}, {{%b0,%b1,%b2,%b3}}, {single}, %e, {selector};"
        )
    };
    let build = |line: &str, target: &str| {
        let text = blackwell(line, target);
        // A form that no row has refuses the kernel, not the module.
        Module::build(&Source::new("product.ptx", &text), false)
            .and_then(|module| module.program("k", &|_| Some(256), ControlFlow::Injected, 1024).map(|_| ()))
    };
    let dense = "sync.aligned.m16n8k32.row.col.kind::f8f6f4";
    let sp = "sp::ordered_metadata.sync.aligned";
    for (line, target) in [
        (of(dense, "f32.e3m2.e2m1.f32"), "sm_120a"),
        (of(dense, "f32.e3m2.e2m1.f32"), "sm_120f"),
        (of(dense, "f32.e4m3.e5m2.f32"), "sm_121a"),
        (of("sync.aligned.kind::f8f6f4.m16n8k32.row.col", "f32.e2m3.e2m1.f32"), "sm_120a"),
        (sparse(&format!("{sp}.m16n8k64.row.col.kind::f8f6f4"), "f32.e3m2.e2m1.f32", 0), "sm_120a"),
        (sparse(&format!("{sp}.kind::f8f6f4.m16n8k64.row.col"), "f32.e3m2.e2m1.f32", 0), "sm_120a"),
    ] {
        build(&line, target).unwrap_or_else(|errors| panic!("{line} {target}: {}", errors[0].render()));
    }
    for (line, target) in [
        (of(dense, "f32.e3m2.e2m1.f32"), "sm_100a"),
        (of(dense, "f32.e3m2.e2m1.f32"), "sm_89"),
        (of(dense, "f32.e3m2.e2m1.f32"), "sm_120"),
        (of("sync.aligned.m16n8k32.row.col", "f32.e3m2.e2m1.f32"), "sm_120a"),
        (of(dense, "f16.e3m2.e2m1.f32"), "sm_120a"),
        (of("sync.aligned.m16n8k16.row.col.kind::f8f6f4", "f32.e3m2.e5m2.f32"), "sm_120a"),
        (sparse("sp.sync.aligned.m16n8k64.row.col.kind::f8f6f4", "f32.e3m2.e2m1.f32", 0), "sm_120a"),
        (sparse(&format!("{sp}.m16n8k32.row.col.kind::f8f6f4"), "f32.e3m2.e2m1.f32", 0), "sm_120a"),
        (sparse(&format!("{sp}.m16n8k64.row.col.kind::f8f6f4"), "f32.e3m2.e2m1.f32", 1), "sm_120a"),
    ] {
        let errors = build(&line, target).expect_err(&format!("{line} {target}"));
        assert!(errors.iter().all(|error| !error.render().is_empty()));
    }
}
