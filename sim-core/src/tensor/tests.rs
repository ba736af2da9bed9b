use proptest::prelude::*;
use sim_frontend::chip::{TensorArithmetic, tensor::TensorGroups};
use sim_frontend::form::Rounding;
use sim_frontend::isa::{self, Root};
use sim_frontend::matrix::{BlockScale, Element, Matrix, MmaOp, ScaleType};
use sim_memory::vocabulary::WARP_LANES;

use super::scratch::Lanes32;
use super::*;

/// The arithmetic of chips, by fractional bits and groups.
fn arithmetic(fraction_bits: u32, [f16, tf32, fp8]: [u32; 3]) -> TensorArithmetic {
    TensorArithmetic {
        fraction_bits,
        fp8_fraction_bits: 13,
        fp8_sum_bits: 13,
        fp8_by_halves: false,
        quads_by_fma: false,
        fp4_fraction_bits: fraction_bits + 10,
        groups: TensorGroups { f16, tf32, fp8 },
    }
}

fn chips() -> [TensorArithmetic; 5] {
    [
        arithmetic(23, [4, 1, 1]),
        arithmetic(24, [8, 4, 16]),
        arithmetic(25, [16, 8, 32]),
        arithmetic(10, [1, 2, 3]),
        TensorArithmetic { fp8_by_halves: true, quads_by_fma: true, ..arithmetic(25, [16, 8, 32]) },
    ]
}

fn op(text: &str) -> MmaOp {
    let words: Vec<&str> = text.split('.').collect();
    let entry = isa::entry("mma").expect("a row");
    isa::resolve(entry, &words, false).unwrap_or_else(|e| panic!("{text}: {e:?}"));
    let matrix = Matrix::of(Root::Mma, &words).expect("a product");
    MmaOp::new(matrix, 0, None)
}

fn results(
    op: &MmaOp,
    arithmetic: &TensorArithmetic,
    warp: bool,
    sources: &[Lanes32],
    set: InstructionSet,
) -> Vec<Lanes32> {
    let mut scratch = Scratch::new();
    let sources: Vec<&Lanes32> = sources.iter().collect();
    let registers = op.registers();
    let product =
        Product { op, arithmetic, rounding: None, warp, keeps_a: false, registers, sources: &sources };
    multiply(&mut scratch, set, &product);
    scratch.results.map(|row| row.0).to_vec()
}

/// A recorded row: elements of A and B, C as a single, D.
struct Recorded {
    a: Vec<u32>,
    b: Vec<u32>,
    c: u32,
    d: u32,
}

fn recorded(text: &str, digits: usize) -> Vec<Recorded> {
    let hex = |text: &str| u32::from_str_radix(text, 16).expect("hexadecimal");
    let list = |text: &str| {
        let digits = text.as_bytes().chunks(digits);
        digits.map(|part| hex(std::str::from_utf8(part).expect("ASCII"))).collect::<Vec<_>>()
    };
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let parts: Vec<&str> = line.split('\t').collect();
        Recorded { a: list(parts[0]), b: list(parts[1]), c: hex(parts[2]), d: hex(parts[3]) }
    })
    .collect()
}

/// Single to half, to the nearest, by the soft float that lanes use.
fn half(bits: u32) -> u32 {
    use sim_memory::soft_float::{F16, F32, Round};
    F16.convert(F32, bits.into(), Round::Nearest) as u32
}

/// A row of A and a column of B among zeros: each recorded row stands elsewhere.
#[test]
fn recorded_products_are_reproduced_bit_by_bit() {
    macro_rules! files {
        ($(($name:literal, $chip:expr, $shape:literal)),+ $(,)?) => {
            [$(($name, include_str!(concat!("../../tests/data/tensor/", $name, ".tsv")), $chip, $shape)),+]
        };
    }
    let [volta, ada, hopper, _, by_halves] = chips();
    let files = files![
        ("v100-f16-f16", volta, "m8n8k4.row.col.f16.f16.f16.f16"),
        ("v100-f16-f32", volta, "m8n8k4.row.col.f32.f16.f16.f32"),
        ("ada-f16-f16", ada, "m16n8k8.row.col.f16.f16.f16.f16"),
        ("ada-f16-f32", ada, "m16n8k8.row.col.f32.f16.f16.f32"),
        ("ada-bf16-f32", ada, "m16n8k8.row.col.f32.bf16.bf16.f32"),
        ("ada-tf32-f32", ada, "m16n8k4.row.col.f32.tf32.tf32.f32"),
        ("ada-e4m3-f16", ada, "m16n8k32.row.col.f16.e4m3.e4m3.f16"),
        ("ada-e4m3-f32", ada, "m16n8k32.row.col.f32.e4m3.e4m3.f32"),
        ("ada-e5m2-f16", ada, "m16n8k32.row.col.f16.e5m2.e5m2.f16"),
        ("ada-e5m2-f32", ada, "m16n8k32.row.col.f32.e5m2.e5m2.f32"),
        ("h200-f16-f16", hopper, "m16n8k16.row.col.f16.f16.f16.f16"),
        ("h200-f16-f32", hopper, "m16n8k16.row.col.f32.f16.f16.f32"),
        ("h200-bf16-f32", hopper, "m16n8k16.row.col.f32.bf16.bf16.f32"),
        ("h200-tf32-f32", hopper, "m16n8k4.row.col.f32.tf32.tf32.f32"),
        ("h200-e4m3-f32", by_halves, "m16n8k32.row.col.f32.e4m3.e4m3.f32"),
        ("h200-e5m2-f32", by_halves, "m16n8k32.row.col.f32.e5m2.e5m2.f32"),
        ("h100-mma-e4m3-f16", by_halves, "m16n8k32.row.col.f16.e4m3.e4m3.f16"),
        ("h100-mma-e4m3-f32", by_halves, "m16n8k32.row.col.f32.e4m3.e4m3.f32"),
        ("h100-mma-e5m2-f16", by_halves, "m16n8k32.row.col.f16.e5m2.e5m2.f16"),
        ("h100-mma-e5m2-f32", by_halves, "m16n8k32.row.col.f32.e5m2.e5m2.f32"),
    ];
    for (name, text, chip, shape) in files {
        let mut op = op(&format!("sync.aligned.{shape}"));
        let types = op.matrix.types;
        let bits = types[1].bits();
        let rows = recorded(text, bits / 4);
        assert_eq!(rows.len(), 200, "{name}");
        // These were recorded of products of warpgroups, and without C.
        let of_group = name.starts_with("h200-e");
        let quad = op.matrix.is_quad();
        op = MmaOp::new(op.matrix, 0, (quad && types[0] == Element::F32).then_some(0));
        let [_, ra, rb, rc, ..] = op.registers();
        for (i, row) in rows.iter().enumerate() {
            assert_eq!(row.a.len(), usize::from(op.matrix.shape.k), "{name}");
            let mut sources = vec![[0; 32]; ra + rb + rc];
            let c = if of_group { 0 } else { row.c };
            let c = if types[3] == Element::F16 { half(c) } else { c };
            let own = 32 / bits;
            let (m, n) = if quad { (i % 4, 0) } else { (i % 16, i % 8) };
            for (k, (a, b)) in row.a.iter().zip(&row.b).enumerate() {
                let (word, shift) = (k / own, k % own * bits);
                if quad {
                    sources[word][m] |= a << shift;
                    sources[ra + word][n] |= b << shift;
                } else {
                    sources[word / 4 * 2 + m / 8][m % 8 * 4 + word % 4] |= a << shift;
                    sources[ra + word / 4][n * 4 + word % 4] |= b << shift;
                }
            }
            // Lane and register of D and C.
            let (lane, register, shift) = match (quad, types[0]) {
                (true, Element::F16) => (m, 0, 0),
                (true, _) => (m & 1, m & 2, 0),
                (false, Element::F16) => (m % 8 * 4 + n / 2, m / 8, n % 2 * 16),
                (false, _) => (m % 8 * 4 + n / 2, m / 8 * 2 + n % 2, 0),
            };
            sources[ra + rb + register][lane] |= c << shift;
            for set in InstructionSet::available() {
                let d = results(&op, &chip, !of_group, &sources, set)[register][lane] >> shift;
                let d = if types[0] == Element::F16 { d & 0xffff } else { d };
                // Some files give halves as singles.
                let expected = if types[0] == Element::F16 && row.d > 0xffff { half(row.d) } else { row.d };
                assert_eq!(d, expected, "{name}, row {i}, {}", set.name());
            }
        }
    }
}

/// All shapes and types of the table.
fn shapes() -> Vec<&'static str> {
    vec![
        "m16n8k8.row.col.f16.f16.f16.f16",
        "m16n8k8.row.col.f32.f16.f16.f32",
        "m16n8k16.row.col.f16.f16.f16.f16",
        "m16n8k16.row.col.f32.f16.f16.f32",
        "m16n8k8.row.col.f32.bf16.bf16.f32",
        "m16n8k16.row.col.f32.bf16.bf16.f32",
        "m16n8k4.row.col.f32.tf32.tf32.f32",
        "m16n8k8.row.col.f32.tf32.tf32.f32",
        "m8n8k4.row.col.f64.f64.f64.f64",
        "m16n8k4.row.col.f64.f64.f64.f64",
        "m16n8k8.row.col.f64.f64.f64.f64",
        "m16n8k16.row.col.f64.f64.f64.f64",
        "m8n8k16.row.col.s32.s8.u8.s32",
        "m16n8k16.row.col.satfinite.s32.u8.s8.s32",
        "m16n8k32.row.col.s32.s8.s8.s32",
        "m16n8k32.row.col.satfinite.s32.u8.u8.s32",
        "m8n8k32.row.col.s32.s4.u4.s32",
        "m16n8k32.row.col.s32.u4.s4.s32",
        "m16n8k64.row.col.satfinite.s32.s4.s4.s32",
        "m8n8k128.row.col.s32.b1.b1.s32.xor.popc",
        "m16n8k128.row.col.s32.b1.b1.s32.and.popc",
        "m16n8k256.row.col.s32.b1.b1.s32.xor.popc",
        "m16n8k16.row.col.f16.e4m3.e5m2.f16",
        "m16n8k32.row.col.f32.e5m2.e4m3.f32",
        "m16n8k32.row.col.f32.e4m3.e4m3.f32",
        "m16n8k32.row.col.f16.e5m2.e5m2.f16",
        "sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
        "sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
        "sp.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        "sp.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        "sp.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32",
        "sp.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32",
        "sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32",
        "sp.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32",
        "sp.sync.aligned.m16n8k128.row.col.s32.u4.u4.s32",
        "sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e5m2.f32",
        "m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32",
        "m16n8k32.row.col.kind::f8f6f4.f32.e2m3.e5m2.f32",
        "m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e4m3.f32",
        "m16n8k32.row.col.kind::f8f6f4.f16.e2m1.e2m3.f16",
        "m16n8k32.row.col.kind::f8f6f4.f16.e3m2.e3m2.f16",
        "m16n8k16.row.col.kind::f8f6f4.f16.e4m3.e5m2.f16",
        "sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f32.e3m2.e2m3.f32",
        "sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f16.e2m1.e4m3.f16",
        "m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e5m2.f32.ue8m0",
        "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e2m1.e3m2.f32.ue8m0",
        "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
        "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
        "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
        "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0",
        "sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::mxf8f6f4.block_scale.f32.e2m3.e4m3.f32.ue8m0",
        "sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
        "sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
    ]
}

/// Words of random elements: any bits, ordinary numbers of similar size, or numbers with many zeros among them.
fn words(ty: Element, kind: u32, random: u32) -> u32 {
    let ordinary = match ty {
        // Exponents near that of one.
        Element::F16 => random & 0x8fff_8fff | 0x3000_3000,
        Element::Bf16 => random & 0x87ff_87ff | 0x3c00_3c00,
        Element::F32 | Element::Tf32 => random & 0x87ff_ffff | 0x3c00_0000,
        Element::E4m3 => random & 0x9f9f_9f9f | 0x2020_2020,
        Element::E5m2 => random & 0x8f8f_8f8f | 0x3030_3030,
        _ => random,
    };
    // Numbers at the bounds of types, of what is added in integers, and of what these hold.
    let bounds: &[u32] = match ty {
        Element::F16 => &[0x3fff, 0xbfff, 0x7bff, 0xfbff, 1, 0x8001, 0x3ff, 0x400, 0x3c00, 0x1400, 0],
        Element::Bf16 => {
            &[0x3fff, 0xbfff, 0x7f7f, 0x71ff, 0x717f, 1, 0x80, 0x2180, 0x2200, 0x3080, 0xb0ff, 0]
        }
        Element::F32 | Element::Tf32 => &[
            0x3fff_ffff,
            0xbfff_ffff,
            0x7f7f_ffff,
            0x71ff_ffff,
            0x717f_e000,
            1,
            0x0080_0000,
            0x2180_0000,
            0x2200_0000,
            0x4bff_ffff,
            0x477f_f000,
            0xc77f_efff,
            0x30ff_e000,
            0,
        ],
        Element::E4m3 => &[0x7e, 0xfe, 1, 0x81, 7, 8, 0x38, 0x3f, 0],
        Element::E5m2 => &[0x7b, 0xfb, 1, 0x81, 3, 4, 0x3c, 0x3f, 0],
        _ => &[],
    };
    let bound = |random: u32| {
        let own = bounds.get(random as usize % bounds.len().max(1)).copied().unwrap_or(random);
        let width = 32 / ty.packed().max(1) as u32;
        (0..ty.packed() as u32).fold(0, |word, p| word | own << (p * width))
    };
    match kind % 6 {
        0 => random,
        1 if random.is_multiple_of(3) => 0,
        3 if random.is_multiple_of(17) => random,
        4 if !bounds.is_empty() => bound(random >> 8),
        // The same everywhere, so that sums are as large as they can be.
        5 if !bounds.is_empty() => bound(kind / 6),
        _ => ordinary,
    }
}

/// One of the sources that say how a product is scaled: scales near one or of any size, some of them no numbers, and
/// which bytes and threads hold them.
fn scale_source(scale: BlockScale, place: usize, kind: u32, random: &mut impl FnMut() -> u32) -> Lanes32 {
    let own = random();
    let choices: &[u32] = match (place, scale.parts) {
        (2, _) => &[0, 1],
        (5, _) | (_, 1) => &[0, 1, 2, 3],
        (_, 2) => &[0, 2],
        _ => &[0],
    };
    if !place.is_multiple_of(3) {
        return [choices[own as usize % choices.len()]; WARP_LANES];
    }
    std::array::from_fn(|_| {
        let bits = random();
        let near = match scale.ty {
            ScaleType::Ue8m0 => 0x7878_7878 | bits & 0x0f0f_0f0f,
            ScaleType::Ue4m3 => 0x2020_2020 | bits & 0x9f9f_9f9f,
        };
        match kind / 4 % 4 {
            0 => bits,
            1 if bits.is_multiple_of(7) => bits & 0x0707_0707,
            _ => near,
        }
    })
}

/// Each element of D is that of the reference, with all instruction sets of the host.
fn expect_reference(
    name: &str,
    op: &MmaOp,
    arithmetic: &TensorArithmetic,
    rounding: Option<Rounding>,
    sources: &[Lanes32],
) {
    let types = op.matrix.types;
    let wide = if types[1] == Element::F64 { 2 } else { 1 };
    let [_, a, b, c, e, _] = op.registers();
    let (of_a, rest) = sources.split_at(a * wide);
    let (of_b, rest) = rest.split_at(b * wide);
    let (of_c, rest) = rest.split_at(c * wide);
    let (of_e, of_s) = rest.split_at(e);
    let expected = reference::product(op, arithmetic, rounding, [of_a, of_b, of_c, of_e, of_s]);
    for set in InstructionSet::available() {
        let mut scratch = Scratch::new();
        let sources: Vec<&Lanes32> = sources.iter().collect();
        let registers = op.registers();
        let mut product =
            Product { op, arithmetic, rounding, warp: true, keeps_a: false, registers, sources: &sources };
        multiply(&mut scratch, set, &product);
        let first = scratch.results;
        // With A of the product before.
        product.keeps_a =
            !matches!(types[1], Element::F64 | Element::E2m1Packed) && op.matrix.scale.is_none();
        multiply(&mut scratch, set, &product);
        let out = scratch.results;
        assert_eq!(first, out, "{name}");
        for (row, list) in expected.iter().enumerate() {
            for (column, &value) in list.iter().enumerate() {
                let lane = row % 8 * 4 + column / 2;
                let i = row / 8 * 2 + column % 2;
                let own = match types[0] {
                    Element::F16 => u64::from(out[i / 2].0[lane] >> (16 * (i % 2)) & 0xffff),
                    Element::F64 => u64::from(out[2 * i].0[lane]) | u64::from(out[2 * i + 1].0[lane]) << 32,
                    _ => out[i].0[lane].into(),
                };
                // Infinite or not a number, and zeros of either sign.
                assert_eq!(own, value, "{name} row {row} column {column} {arithmetic:?} {}", set.name());
            }
        }
    }
}

/// Products that follow one another with one A, ordinary ones behind others and the other way round.
#[test]
fn a_is_kept_for_other_columns() {
    let op = op("sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
    let a: Vec<Lanes32> =
        (0..4).map(|r| std::array::from_fn(|lane| 0x3c01_b802 + 97 * r + lane as u32)).collect();
    let columns = |b: u32| -> Vec<Lanes32> { vec![[b; 32]; 2] };
    // Ordinary, infinite, and zero elements.
    let kinds = [0x3a02_3c01, 0x7c00_3c01, 0, 0x3555_fc00, 0xb803_0001];
    for set in InstructionSet::available() {
        for arithmetic in &chips() {
            let mut scratch = Scratch::new();
            for (i, b) in kinds.iter().chain(&kinds).enumerate() {
                let sources = [a.clone(), columns(*b), vec![[0x3f80_0000; 32]; 4]].concat();
                let alone = results(&op, arithmetic, false, &sources, set);
                let sources: Vec<&Lanes32> = sources.iter().collect();
                let registers = op.registers();
                let (keeps_a, sources) = (i > 0, &sources[..]);
                let product =
                    Product { op: &op, arithmetic, rounding: None, warp: false, keeps_a, registers, sources };
                multiply(&mut scratch, set, &product);
                assert_eq!(scratch.results.map(|row| row.0).to_vec(), alone, "{b:#x} {}", set.name());
            }
        }
    }
}

/// Exponents beyond those that vectors take, and infinite halves.
#[test]
fn extreme_numbers_have_the_sums_of_the_reference() {
    let single = op("sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32");
    let half = op("sync.aligned.m16n8k16.row.col.f16.f16.f16.f16");
    for chip in &chips() {
        // Powers of two: small products and a smaller sum, and products that are infinite.
        for (a, b, c) in [(0x2b80_2b80, 0x2b80_2b80, 0x0d80_0001), (0x7180_7180, 0x7180_7180, 0x3f80_0000)] {
            let sources: Vec<Lanes32> = [[[a; 32]; 4].as_slice(), &[[b; 32]; 2], &[[c; 32]; 4]].concat();
            expect_reference("single", &single, chip, None, &sources);
        }
        for c in [0x7c00_7c00, 0xfc00_3c00] {
            let ones = 0x3c00_3c00;
            let sources: Vec<Lanes32> =
                [[[ones; 32]; 4].as_slice(), &[[ones; 32]; 2], &[[c; 32]; 2]].concat();
            expect_reference("half", &half, chip, None, &sources);
        }
    }
}

/// Subnormal elements have the least exponent of their type, however small they are.
#[test]
fn subnormal_elements_have_the_sums_of_the_reference() {
    let brain = op("sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32");
    let half = op("sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
    let pairs = [
        // Subnormal as single-precision numbers too, with products that are not, on either side; then subnormal sums.
        (&brain, 0x0010_0010, 0x7180_7180, 0),
        (&brain, 0x7180_7180, 0x0010_0010, 0),
        (&brain, 0, 0, 1),
        (&brain, 0x2000_2000, 0x2000_2000, 0x0040_0000),
        // 2^-24 by one, whose exponent is that of 2^-14, hides 2^-24 by 2^-20.
        (&half, 0x0001_0001, 0x3c00_0010, 0),
        (&half, 0x3c00_0010, 0x0001_0001, 0),
    ];
    for chip in &chips() {
        for (op, a, b, c) in pairs {
            let sources: Vec<Lanes32> = [[[a; 32]; 4].as_slice(), &[[b; 32]; 2], &[[c; 32]; 4]].concat();
            expect_reference("subnormal", op, chip, None, &sources);
        }
    }
}

/// Each element of a sparse A of tf32 is multiplied by the one of two that its metadata names.
#[test]
fn metadata_of_sparse_tf32_name_elements() {
    for text in [
        "sp.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        "sp.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32",
    ] {
        let sparse = op(text);
        let [_, a, b, c, ..] = sparse.registers();
        // Other integers in each place of B, so that no two choices have one sum.
        let columns = (0..b).map(|r| std::array::from_fn(|lane| ((32 * r + lane + 3) as f32).to_bits()));
        for metadata in [0x4444_4444, 0xeeee_eeee, 0x4e4e_e4e4, 0xe44e_4ee4] {
            let mut sources: Vec<Lanes32> = vec![[0x3f80_0000; 32]; a];
            sources.extend(columns.clone());
            sources.extend(vec![[0; 32]; c]);
            sources.push([metadata; 32]);
            for chip in &chips()[..4] {
                expect_reference(text, &sparse, chip, None, &sources);
            }
        }
    }
}

/// Sums that integers of 32 bits do not hold, or only just.
#[test]
fn the_largest_sums_are_those_of_the_reference() {
    let hopper = &chips()[2];
    let single = op("sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
    let half = op("sync.aligned.m16n8k16.row.col.f16.f16.f16.f16");
    for (a, b) in [(0x3fff_3fff, 0x3fff_3fff), (0xbfff_bfff, 0x3fff_3fff), (0xbfff_3fff, 0x3fff_3fff)] {
        for c in [0, 0x3f80_0000, 0x3fff_ffff, 0x3d60_0000, 0xbfff_ffff, 0xbd60_0000] {
            let sources: Vec<Lanes32> = [[[a; 32]; 4].as_slice(), &[[b; 32]; 2], &[[c; 32]; 4]].concat();
            expect_reference("single", &single, hopper, None, &sources);
        }
        // The last two make a sum that is rounded to 2^31 units.
        for c in [0, 0x3c00_3c00, 0x3fff_3fff, 0x2b00_2b00, 0xab00_ab00] {
            let sources: Vec<Lanes32> = [[[a; 32]; 4].as_slice(), &[[b; 32]; 2], &[[c; 32]; 2]].concat();
            expect_reference("half", &half, hopper, None, &sources);
        }
    }
}

/// A product of an infinity and zero has the exponent of zeros.
#[test]
fn infinities_times_zero_are_no_numbers() {
    let single = op("sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
    for [a, b] in [[0x7c00_7c00, 0], [0, 0x7c00_7c00]] {
        let sources: Vec<Lanes32> =
            [[[a; 32]; 4].as_slice(), &[[b; 32]; 2], &[[0x3f80_0000; 32]; 4]].concat();
        expect_reference("single", &single, &chips()[2], None, &sources);
    }
}

/// Groups of one element of a sparse A, where both of a chunk stand side by side.
#[test]
fn groups_of_a_sparse_matrix_may_be_single_elements() {
    let sparse = op("sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
    // The second product of a chunk is less than what is kept of the first one and C together, but not of both.
    let sources: Vec<Lanes32> = [
        [[0x1bff_3fff; 32]; 2].as_slice(),
        &[[0x3fff_3fff; 32]; 2],
        &[[0x3fff_ffff; 32]; 4],
        &[[0x4444_4444; 32]],
    ]
    .concat();
    for chip in &chips()[..4] {
        expect_reference("sparse", &sparse, chip, None, &sources);
    }
}

/// A sum that is infinite stays so whatever the scales of later products are.
#[test]
fn infinite_sums_of_scaled_products_stay() {
    let text = "sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e5m2.f32.ue8m0";
    let scaled = op(text);
    let [_, a, b, c, e, scales] = scaled.registers();
    assert_eq!((e, scales), (0, 6));
    let mut sources: Vec<Lanes32> = vec![[0x3838_3838; 32]; a];
    sources.extend(vec![[0x7c7c_7c7c; 32]; b]);
    sources.extend(vec![[0; 32]; c]);
    sources.extend(vec![[0; 32]; scales]);
    for chip in &chips()[..4] {
        expect_reference(text, &scaled, chip, None, &sources);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, ..ProptestConfig::default() })]

    #[test]
    fn products_are_those_of_the_reference(
        which: prop::sample::Index,
        chip in 0usize..4,
        kinds: [u32; 3],
        selector in 0u8..4,
        seed: u64,
        rounding in 0usize..4,
    ) {
        let shapes = shapes();
        let text = shapes[which.index(shapes.len())];
        let full = if text.starts_with("sp") { text.to_string() } else { format!("sync.aligned.{text}") };
        let mut op = op(&full);
        let arithmetic = chips()[chip];
        let types = op.matrix.types;
        let k = op.matrix.shape.k;
        let most = match types[1] {
            Element::F16 | Element::Bf16 if k == 16 => 4,
            Element::F16 => 4,
            Element::Bf16 => 2,
            Element::Tf32 => if k == 8 { 4 } else { 2 },
            Element::S4 | Element::U4 => if k == 64 { 2 } else { 1 },
            _ => if k == 32 { 2 } else { 1 },
        };
        op.selector = if op.matrix.sparse { selector % most } else { 0 };
        let wide = if types[1] == Element::F64 { 2 } else { 1 };
        let [_, a, b, c, e, s] = op.registers();
        let counts = [a * wide, b * wide, c * wide, e, s];
        let mut state = seed;
        let mut random = || {
            // The generator of Steele, Lea and Flood.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ z >> 31) as u32
        };
        let mut sources: Vec<Lanes32> = Vec::new();
        for (part, count) in counts.into_iter().enumerate() {
            for r in 0..count {
                let ty = [types[1], types[2], types[3], Element::S32, Element::S32][part];
                let kind = kinds.get(part).copied().unwrap_or(0);
                if let (4, Some(scale)) = (part, op.matrix.scale) {
                    sources.push(scale_source(scale, r, kinds[2], &mut random));
                    continue;
                }
                sources.push(std::array::from_fn(|_| match ty {
                    // High words decide about doubles.
                    Element::F64 if r % 2 == 1 => random() & 0x8fff_ffff | 0x3000_0000,
                    // Chunks of two: 0b0100 or 0b1110 each.
                    _ if part == 3 && types[1] == Element::Tf32 => {
                        let bits = random();
                        (0..8).fold(0, |word, i| word | (if bits >> i & 1 == 1 { 0xe } else { 4 }) << (4 * i))
                    }
                    _ => words(ty, kind, random()),
                }));
            }
        }
        let rounding = [None, Some(Rounding::Rz), Some(Rounding::Rm), Some(Rounding::Rp)][rounding];
        let rounding = rounding.filter(|_| types[1] == Element::F64);
        expect_reference(&full, &op, &arithmetic, rounding, &sources);
    }

    #[test]
    fn products_of_quarter_warps_are_those_of_the_reference(
        layouts in 0usize..4,
        types in 0usize..3,
        half in 0u8..2,
        kinds: [u32; 3],
        words_of: [[u32; 32]; 12],
    ) {
        let layout = ["row.row", "row.col", "col.row", "col.col"][layouts];
        let types = ["f16.f16.f16.f16", "f32.f16.f16.f16", "f32.f16.f16.f32"][types];
        let mut op = op(&format!("sync.aligned.m8n8k4.{layout}.{types}"));
        op = MmaOp::new(op.matrix, 0, (op.matrix.types[0] == Element::F32).then_some(half));
        let [_, a, b, c, ..] = op.registers();
        let mut sources = words_of[..a + b + c].to_vec();
        for (r, register) in sources.iter_mut().enumerate() {
            let part = usize::from(r >= a) + usize::from(r >= a + b);
            let ty = [Element::F16, Element::F16, op.matrix.types[3]][part];
            register.iter_mut().for_each(|word| *word = words(ty, kinds[part], *word));
        }
        for arithmetic in chips() {
            let expected = reference::quads(&op, &arithmetic, [&sources[..a], &sources[a..a + b], &sources[a + b..]]);
            for set in InstructionSet::available() {
                let own = results(&op, &arithmetic, true, &sources, set);
                for (lane, list) in expected.iter().enumerate() {
                    for (i, &value) in list.iter().enumerate() {
                        let bits = match op.matrix.types[0] {
                            Element::F16 => own[i / 2][lane] >> (16 * (i % 2)) & 0xffff,
                            _ => own[i][lane],
                        };
                        prop_assert_eq!(bits, value, "lane {} element {}", lane, i);
                    }
                }
            }
        }
    }
}
