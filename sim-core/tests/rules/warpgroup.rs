//! `wgmma` and `setmaxnreg` on whole programs, timed and functional, under policies of each sort: types, layouts in
//! shared memory, signs, sums, groups of products, who must take part, and what it costs.

use std::fmt::Write as _;
use std::sync::Arc;

use sim_core::device::{Device, Options};
use sim_core::error::SimError;
use sim_core::monitor::Check;
use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::Source;

use crate::machine::{Run, device_with};

/// The shipped GH200 with one SM.
fn chip() -> Arc<ChipSpec> {
    let text = include_str!("../../../configs/chips/gh200.yaml");
    let mut chip = ChipSpec::load(&Source::new("gh200.yaml", text)).expect("the shipped chip is right");
    chip.limits.num_processors = 1;
    Arc::new(chip)
}

fn device(policy: &str) -> Device {
    device_with(chip(), policy, |options| Options { schedule_dependent: true, ..options })
}

/// A module whose kernel finds its thread in `%t`, and whose shared memory `room` holds the first words of `out`.
fn module(bounds: &str, body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {bounds}\n{{\n\
         .reg .b32 %t, %i, %n, %x<8>, %a<4>, %d<128>, %s;\n.reg .b64 %out, %own, %w, %da, %db, %c<4>;\n\
         .reg .pred %p, %q;\n.shared .align 1024 .b8 room[40960];\n\
         ld.param.u64 %out, [p];\nmov.u32 %t, %tid.x;\nmov.u32 %n, %ntid.x;\nmov.u32 %s, room;\nmov.u32 %i, %t;\n\
         FILL:\nmul.wide.u32 %w, %i, 4;\nadd.u64 %w, %w, %out;\nld.global.u32 %x0, [%w];\nshl.b32 %x1, %i, 2;\n\
         add.u32 %x1, %x1, %s;\nst.shared.u32 [%x1], %x0;\nadd.u32 %i, %i, %n;\nsetp.lt.u32 %p, %i, {ROOM};\n\
         @%p bra FILL;\nbar.sync 0;\n{body}\nexit;\n}}\n"
    )
}

/// Words of shared memory.
const ROOM: usize = 10240;
/// Words of a thread behind them: four of A, one of metadata, then C and D.
const OWN: usize = 5 + 128;

/// `out` after `body` ran on `threads` threads with these words in it.
fn run(
    text: &str,
    before: &[u32],
    threads: u32,
    policy: &str,
    functional: bool,
) -> Result<Vec<u32>, SimError> {
    run_on(device(policy), text, before, threads, functional)
}

fn run_on(
    device: Device,
    text: &str,
    before: &[u32],
    threads: u32,
    functional: bool,
) -> Result<Vec<u32>, SimError> {
    let mut run = Run::new(device, text, false, before.len());
    let bytes: Vec<u8> = before.iter().flat_map(|word| word.to_le_bytes()).collect();
    run.device.context(run.context).expect("it exists").write(run.out, &bytes);
    run.launch(1, threads, functional)?;
    run.wait()?;
    Ok(run.words())
}

const WAYS: [(&str, bool); 3] = [("crs_stack", false), ("convergence_barriers", false), ("mimd", true)];

fn every_way(text: &str, before: &[u32], threads: u32) -> Vec<u32> {
    let mut all = WAYS.map(|(policy, functional)| {
        run(text, before, threads, policy, functional).unwrap_or_else(|e| panic!("{policy}: {e}\n{text}"))
    });
    assert_eq!(all[0], all[1], "{text}");
    assert_eq!(all[0], all[2], "{text}");
    std::mem::take(&mut all[0])
}

fn bits(ty: &str) -> usize {
    match ty {
        "f32" | "tf32" | "s32" => 32,
        "f16" | "bf16" => 16,
        "b1" => 1,
        _ => 8,
    }
}

/// A small whole number in a type.
fn encode(ty: &str, value: i64) -> u32 {
    let single = (value as f32).to_bits();
    let sign = |bit: u32| u32::from(value < 0) << bit;
    let magnitude = single & 0x7fff_ffff;
    match ty {
        "f32" | "tf32" => single,
        "bf16" => single >> 16,
        "f16" | "e4m3" | "e5m2" if value == 0 => 0,
        "f16" => sign(15) | (magnitude - (112 << 23)) >> 13,
        // Exponents of four bits with three of fraction, of five with two.
        "e4m3" => sign(7) | (magnitude - (120 << 23)) >> 20,
        "e5m2" => sign(7) | (magnitude - (112 << 23)) >> 21,
        _ => value as u32 & (u32::MAX >> (32 - bits(ty))),
    }
}

/// How a matrix lies in shared memory: swizzle mode of its descriptor, and whether by columns as to K.
#[derive(Clone, Copy, Debug)]
struct Layout {
    mode: u64,
    across: bool,
}

impl Layout {
    /// Leading and stride offset of a matrix of so many rows or columns, and of bytes along K.
    fn offsets(self, mn: usize, k_bytes: usize) -> [usize; 2] {
        let wide = self.wide();
        match (self.across, self.mode) {
            // Core matrices along K, then along M and N.
            (false, 0) => [128, 8 * k_bytes],
            (false, _) => [16, 8 * wide],
            (true, 0) => [16 * mn, 128],
            (true, _) => [wide * (k_bytes / 2), 8 * wide],
        }
    }

    /// Bytes within which pieces change places.
    fn wide(self) -> usize {
        [16, 128, 64, 32][self.mode as usize]
    }

    /// The byte of element (`mn`, `k`), of so many bits, from the beginning.
    fn place(self, (mn, k): (usize, usize), bits: usize, [leading, stride]: [usize; 2]) -> usize {
        let wide = self.wide();
        let at = if self.across {
            let (piece, inside) = (mn / 8, mn % 8 * 2);
            let [along, across] = if self.mode == 0 { [leading, stride] } else { [stride, leading] };
            piece * 16 % wide + piece * 16 / wide * across + k % 8 * wide + k / 8 * along + inside
        } else {
            let byte = k * bits / 8;
            byte % wide + byte / wide * leading + mn % 8 * wide + mn / 8 * stride
        };
        at ^ (at >> 7 & (wide / 16 - 1)) << 4
    }
}

/// One product.
#[derive(Clone, Debug)]
struct Case {
    n: usize,
    k: usize,
    types: [&'static str; 3],
    /// Layout of A, where it is in shared memory.
    a: Option<Layout>,
    b: Layout,
    scales: [i64; 2],
    adds: bool,
    sparse: bool,
    saturate: bool,
    selector: usize,
}

fn case(n: usize, k: usize, types: [&'static str; 3]) -> Case {
    let plain = Layout { mode: 1, across: false };
    Case {
        n,
        k,
        types,
        a: Some(plain),
        b: plain,
        scales: [1, 1],
        adds: true,
        sparse: false,
        saturate: false,
        selector: 0,
    }
}

/// A small number that differs by place.
fn value(ty: &str, seed: usize) -> i64 {
    let mixed = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    match ty {
        "b1" => (mixed % 2) as i64,
        "u8" => (mixed % 7) as i64,
        _ => (mixed % 7) as i64 - 3,
    }
}

impl Case {
    fn stored(&self) -> usize {
        self.k / if self.sparse { 2 } else { 1 }
    }

    fn text(&self) -> String {
        let [d, a, b] = self.types;
        let float = !matches!(a, "s8" | "u8" | "b1");
        let half = matches!(a, "f16" | "bf16");
        let registers = self.registers();
        let list =
            |name: &str, n: usize| (0..n).map(|i| format!("%{name}{i}")).collect::<Vec<_>>().join(", ");
        let descriptor = |layout: Layout, rows: usize, k: usize, at: usize, ty: &str| {
            let [leading, stride] = layout.offsets(rows, k * bits(ty) / 8);
            (at as u64 >> 4) | (leading as u64 >> 4) << 16 | (stride as u64 >> 4) << 32 | layout.mode << 62
        };
        let of_a = self.a.map_or(0, |layout| descriptor(layout, 64, self.stored(), 0, a));
        let of_b = descriptor(self.b, self.n, self.k, 8192, b);
        let mut body = format!(
            "mad.lo.u32 %i, %t, {OWN}, {ROOM};\nmul.wide.u32 %own, %i, 4;\nadd.u64 %own, %own, %out;\n\
             cvt.u64.u32 %w, %s;\nshr.u64 %w, %w, 4;\nadd.u64 %da, %w, {of_a};\nadd.u64 %db, %w, {of_b};\n"
        );
        for i in 0..4 {
            let _ = writeln!(body, "ld.global.u32 %a{i}, [%own+{}];", 4 * i);
        }
        body += "ld.global.u32 %x7, [%own+16];\n";
        for i in 0..registers {
            let _ = writeln!(body, "ld.global.u32 %d{i}, [%own+{}];", 4 * (5 + i));
        }
        let op = if a == "b1" { ".and.popc" } else { "" };
        let sparse = if self.sparse { ".sp" } else { "" };
        let saturate = if self.saturate { ".satfinite" } else { "" };
        let a_operand = if self.a.is_some() { "%da".into() } else { format!("{{{}}}", list("a", 4)) };
        let mut operands = format!("{{{}}}, {a_operand}, %db", list("d", registers));
        if self.sparse {
            let _ = write!(operands, ", %x7, {}", self.selector);
        }
        operands += ", %p";
        if float {
            let _ = write!(operands, ", {}, {}", self.scales[0], self.scales[1]);
        }
        if half {
            if let Some(layout) = self.a {
                let _ = write!(operands, ", {}", u8::from(layout.across));
            }
            let _ = write!(operands, ", {}", u8::from(self.b.across));
        }
        let _ = writeln!(
            body,
            "setp.eq.u32 %p, {}, 1;\nwgmma.fence.sync.aligned;\n\
             wgmma.mma_async{sparse}.sync.aligned.m64n{}k{}{saturate}.{d}.{a}.{b}{op} {operands};\n\
             wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;",
            u8::from(self.adds),
            self.n,
            self.k
        );
        for i in 0..registers {
            let _ = writeln!(body, "st.global.u32 [%own+{}], %d{i};", 4 * (5 + i));
        }
        module("", &body)
    }

    fn registers(&self) -> usize {
        self.n / if self.types[0] == "f16" { 4 } else { 2 }
    }

    /// Memory before, and D as it must be after, row by row.
    fn prepare(&self) -> (Vec<u32>, Vec<Vec<i64>>) {
        let [d, of_a, of_b] = self.types;
        let mut words = vec![0u32; ROOM + 128 * OWN];
        let mut put = |at: usize, bits: usize, shift: usize, value: u32| {
            words[at / 4] |= value << (at % 4 * 8 + shift);
            assert!(shift + bits <= 32);
        };
        let width = bits(of_a);
        let stored = self.stored();
        let a = |row: usize, k: usize| value(of_a, row * 1000 + k);
        let b = |column: usize, k: usize| value(of_b, 77_777 + column * 1000 + k);
        let c = |row: usize, column: usize| value("s32", 555_555 + row * 300 + column);
        for row in 0..64 {
            for k in 0..stored {
                let bits_of = encode(of_a, a(row, k));
                match self.a {
                    Some(layout) => {
                        let at = layout.place((row, k), width, layout.offsets(64, stored * width / 8));
                        put(at, width, if width == 1 { k % 8 } else { 0 }, bits_of);
                    }
                    None => {
                        // Thread 4 * g + t has of each eight rows the words t of row g.
                        let (word, inside) = (k * width / 32, k * width % 32);
                        let thread = row / 16 * 32 + row % 8 * 4 + word % 4;
                        let register = row % 16 / 8 + word / 4 * 2;
                        put(4 * (ROOM + thread * OWN + register), width, inside, bits_of);
                    }
                }
            }
        }
        for column in 0..self.n {
            for k in 0..self.k {
                let at = 8192 + self.b.place((column, k), width, self.b.offsets(self.n, self.k * width / 8));
                put(at, width, if width == 1 { k % 8 } else { 0 }, encode(of_b, b(column, k)));
            }
        }
        // Where stored elements stand among all: the first and third of four, or the other of two.
        let mut places = vec![vec![0; stored]; 64];
        for (row, places) in places.iter_mut().enumerate() {
            for (k, place) in places.iter_mut().enumerate() {
                *place = match (self.sparse, of_a) {
                    (false, _) => k,
                    (_, "tf32") => 2 * k + (row + k) % 2,
                    _ => k / 2 * 4 + k % 2 * 2 + (row + k / 2) % 2,
                };
            }
        }
        if self.sparse {
            // Four bits for two elements of four, or for one of two.
            let given = if of_a == "tf32" { 1 } else { 2 };
            for row in 0..64 {
                for chunk in 0..stored / given {
                    let nibble = (0..given).fold(0u32, |nibble, i| {
                        let place = places[row][given * chunk + i] % 4;
                        nibble
                            | if of_a == "tf32" {
                                if place % 2 == 1 { 0b1110 } else { 0b0100 }
                            } else {
                                (place as u32) << (2 * i)
                            }
                    });
                    // Halves and words: two threads of four hold sixteen bits of each row; bytes: all four hold 32.
                    let (thread, shift) = if width >= 16 {
                        (2 * self.selector + chunk / 4, row % 16 / 8 * 16 + chunk % 4 * 4)
                    } else {
                        (chunk / 8 * 2 + row % 16 / 8, chunk % 8 * 4)
                    };
                    let thread = row / 16 * 32 + row % 8 * 4 + thread;
                    put(4 * (ROOM + thread * OWN + 4), 4, shift, nibble);
                }
            }
        }
        let mut expected = vec![vec![0; self.n]; 64];
        for row in 0..64 {
            for column in 0..self.n {
                let (at, shift) = place_of_d(d, row, column);
                put(4 * (ROOM + at.0 * OWN + 5 + at.1), bits(d), shift, encode(d, c(row, column)));
                let products = (0..stored).map(|k| a(row, k) * b(column, places[row][k]));
                let sum = self.scales[0] * self.scales[1] * products.sum::<i64>();
                expected[row][column] = sum + if self.adds { c(row, column) } else { 0 };
            }
        }
        (words, expected)
    }

    fn check(&self) {
        let (words, expected) = self.prepare();
        let after = every_way(&self.text(), &words, 128);
        for (row, list) in expected.iter().enumerate() {
            for (column, value) in list.iter().enumerate() {
                let ((thread, register), shift) = place_of_d(self.types[0], row, column);
                let word = after[ROOM + thread * OWN + 5 + register] >> shift;
                let found = if self.types[0] == "f16" { word & 0xffff } else { word };
                assert_eq!(found, encode(self.types[0], *value), "{self:?}: row {row}, column {column}");
            }
        }
    }
}

/// Thread, register and first bit of an element of D.
fn place_of_d(ty: &str, row: usize, column: usize) -> ((usize, usize), usize) {
    let thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
    let (tile, low) = (column / 8, row % 16 / 8);
    match ty {
        "f16" => ((thread, 2 * tile + low), column % 2 * 16),
        _ => ((thread, 4 * tile + 2 * low + column % 2), 0),
    }
}

#[test]
fn products_of_all_types() {
    let kinds = [
        (16, ["f32", "f16", "f16"]),
        (16, ["f16", "f16", "f16"]),
        (16, ["f32", "bf16", "bf16"]),
        (8, ["f32", "tf32", "tf32"]),
        (32, ["f32", "e4m3", "e4m3"]),
        (32, ["f32", "e5m2", "e4m3"]),
        (32, ["f16", "e4m3", "e5m2"]),
        (32, ["s32", "s8", "s8"]),
        (32, ["s32", "u8", "s8"]),
        (32, ["s32", "s8", "u8"]),
        (256, ["s32", "b1", "b1"]),
    ];
    for (k, types) in kinds {
        case(16, k, types).check();
        Case { a: None, ..case(8, k, types) }.check();
    }
}

#[test]
fn products_of_many_columns() {
    for n in [24, 64, 120, 256] {
        case(n, 16, ["f32", "f16", "f16"]).check();
    }
    Case { a: None, ..case(256, 16, ["f16", "f16", "f16"]) }.check();
    case(192, 32, ["s32", "s8", "s8"]).check();
}

#[test]
fn every_layout_of_shared_memory() {
    for mode in 0..4 {
        for across in [false, true] {
            let layout = Layout { mode, across };
            let other = Layout { mode: 3 - mode, across: !across };
            // A across K has as many rows as one swizzle holds, or several.
            Case { a: Some(layout), b: layout, ..case(64, 16, ["f32", "f16", "f16"]) }.check();
            Case { a: Some(layout), b: other, ..case(40, 16, ["f32", "bf16", "bf16"]) }.check();
        }
        let layout = Layout { mode, across: false };
        Case { a: Some(layout), b: layout, ..case(24, 8, ["f32", "tf32", "tf32"]) }.check();
        Case { a: Some(layout), b: layout, ..case(48, 32, ["s32", "s8", "s8"]) }.check();
    }
}

#[test]
fn signs_and_sums() {
    for types in
        [["f32", "f16", "f16"], ["f32", "bf16", "bf16"], ["f32", "tf32", "tf32"], ["f32", "e4m3", "e5m2"]]
    {
        let k = 256 / bits(types[1]);
        for scales in [[-1, 1], [1, -1], [-1, -1]] {
            Case { scales, ..case(8, k, types) }.check();
            Case { scales, a: None, adds: false, ..case(8, k, types) }.check();
        }
    }
    Case { adds: false, ..case(16, 32, ["s32", "s8", "s8"]) }.check();
    Case { saturate: true, ..case(16, 32, ["s32", "s8", "s8"]) }.check();
}

#[test]
fn sparse_products() {
    for (k, types) in [
        (32, ["f32", "f16", "f16"]),
        (32, ["f16", "f16", "f16"]),
        (32, ["f32", "bf16", "bf16"]),
        (16, ["f32", "tf32", "tf32"]),
        (64, ["f32", "e4m3", "e5m2"]),
        (64, ["f16", "e5m2", "e5m2"]),
        (64, ["s32", "s8", "u8"]),
    ] {
        for selector in 0..if bits(types[1]) >= 16 { 2 } else { 1 } {
            Case { sparse: true, selector, ..case(16, k, types) }.check();
            Case { sparse: true, selector, a: None, ..case(32, k, types) }.check();
        }
    }
}

#[test]
fn saturation_clamps_the_sum() {
    let case = Case { saturate: true, ..case(8, 32, ["s32", "s8", "s8"]) };
    let (mut words, expected) = case.prepare();
    let most = i64::from(i32::MAX);
    let ((thread, register), _) = place_of_d("s32", 5, 3);
    let found = (0..64).flat_map(|row| (0..8).map(move |column| (row, column)));
    let c = |row: usize, column: usize| value("s32", 555_555 + row * 300 + column);
    for (row, column) in found {
        let ((thread, register), _) = place_of_d("s32", row, column);
        words[ROOM + thread * OWN + 5 + register] = i32::MAX as u32;
    }
    let after = every_way(&case.text(), &words, 128);
    let mut clamped = 0;
    for row in 0..64 {
        for column in 0..8 {
            let ((thread, register), _) = place_of_d("s32", row, column);
            let sum = expected[row][column] - c(row, column) + most;
            clamped += u32::from(sum > most);
            assert_eq!(after[ROOM + thread * OWN + 5 + register] as i32, sum.min(most) as i32);
        }
    }
    assert!(clamped > 100 && after[ROOM + thread * OWN + 5 + register] != 0);
}

/// A constant 0 adds no sums.
#[test]
fn a_constant_0_adds_no_sums() {
    let case = Case { adds: false, ..case(16, 16, ["f32", "f16", "f16"]) };
    let (words, expected) = case.prepare();
    let text = case.text().replace(", %p, 1", ", 0, 1");
    assert_ne!(text, case.text());
    let after = every_way(&text, &words, 128);
    for (row, column) in (0..64).flat_map(|row| (0..16).map(move |column| (row, column))) {
        let ((thread, register), _) = place_of_d("f32", row, column);
        assert_eq!(after[ROOM + thread * OWN + 5 + register], encode("f32", expected[row][column]));
    }
}

/// Two warpgroups of a block multiply by themselves.
#[test]
fn warpgroups_have_rows_of_their_own() {
    let case = case(16, 16, ["f32", "f16", "f16"]);
    let (mut words, expected) = case.prepare();
    let own: Vec<u32> = words[ROOM..].to_vec();
    words.extend(own);
    let after = every_way(&case.text(), &words, 256);
    for row in 0..64 {
        let ((thread, register), _) = place_of_d("f32", row, 7);
        for group in 0..2 {
            let at = ROOM + (128 * group + thread) * OWN + 5 + register;
            assert_eq!(after[at], encode("f32", expected[row][7]));
        }
    }
}

/// Registers of A that are those of D: all of A is read before D is written.
#[test]
fn d_may_be_where_a_was() {
    let case = Case { a: None, adds: false, ..case(8, 16, ["f32", "f16", "f16"]) };
    let (words, expected) = case.prepare();
    let text = case.text().replace("{%a0, %a1, %a2, %a3}", "{%d0, %d1, %d2, %d3}").replace(
        "wgmma.fence",
        "mov.b32 %d0, %a0;\nmov.b32 %d1, %a1;\nmov.b32 %d2, %a2;\nmov.b32 %d3, %a3;\nwgmma.fence",
    );
    assert_ne!(text, case.text());
    let after = every_way(&text, &words, 128);
    for (row, column) in (0..64).flat_map(|row| (0..8).map(move |column| (row, column))) {
        let ((thread, register), _) = place_of_d("f32", row, column);
        assert_eq!(after[ROOM + thread * OWN + 5 + register], encode("f32", expected[row][column]));
    }
}

/// A program is stopped with these words, however it runs.
fn refused(text: &str, threads: u32, words: &str) {
    let before = vec![0; ROOM + 256 * OWN];
    for (policy, functional) in WAYS {
        let error = run(text, &before, threads, policy, functional)
            .err()
            .unwrap_or_else(|| panic!("{words}"))
            .to_string();
        assert!(error.contains(words), "{policy}: {words}: {error}");
    }
}

#[test]
fn misuse_is_reported() {
    let good = case(8, 16, ["f32", "f16", "f16"]).text();
    assert!(run(&good, &vec![0; ROOM + 128 * OWN], 128, "crs_stack", false).is_ok());
    refused(&good, 96, "warp 0 is not in a warpgroup");
    refused(&good, 224, "warp 4 is not in a warpgroup");
    refused(&good.replace("wgmma.fence.sync.aligned;", ""), 128, "no wgmma.fence has been executed");
    let late = "wgmma.fence.sync.aligned;\nsetp.lt.u32 %p, %t, 7;";
    refused(&good.replace("wgmma.fence.sync.aligned;", late), 128, "scale-d differs");
    let apart = "wgmma.fence.sync.aligned;\nmul.wide.u32 %w, %t, 1;\nadd.u64 %db, %db, %w;";
    refused(&good.replace("wgmma.fence.sync.aligned;", apart), 128, "the descriptor of B differs");
    let far = "wgmma.fence.sync.aligned;\nadd.u64 %db, %db, 8000;";
    refused(&good.replace("wgmma.fence.sync.aligned;", far), 128, "outside the 40960 bytes");
    let far = "wgmma.fence.sync.aligned;\nadd.u64 %da, %da, 3000;";
    refused(&good.replace("wgmma.fence.sync.aligned;", far), 128, "the descriptor of A");
    let guarded = good.replace(
        "wgmma.fence.sync.aligned;",
        "and.b32 %x1, %t, 31;\nsetp.lt.u32 %q, %x1, 5;\n@%q wgmma.fence.sync.aligned;",
    );
    // Threads by themselves wait for the others.
    let found = run(&guarded, &vec![0; ROOM + 128 * OWN], 128, "crs_stack", false).expect_err("it is wrong");
    assert!(found.to_string().contains("requires all threads of the warp"), "{found}");
    // Without checks it goes on.
    let unchecked = good.replace("wgmma.fence.sync.aligned;", "");
    let free = device_with(chip(), "crs_stack", |options| Options { check: Check::Off, ..options });
    assert!(run_on(free, &unchecked, &vec![0; ROOM + 128 * OWN], 128, false).is_ok());
}

#[test]
fn a_chip_without_warpgroups_refuses_them() {
    let mut spec = (*chip()).clone();
    if let Some(tensor) = &mut spec.tensor {
        tensor.wgmma = None;
    }
    let device = device_with(Arc::new(spec), "crs_stack", |options| options);
    let text = case(8, 16, ["f32", "f16", "f16"]).text();
    let error = run_on(device, &text, &vec![0; ROOM + 128 * OWN], 128, false).expect_err("it has none");
    assert!(
        error.to_string().contains("no tensor cores for products of .f16 and .f16 by a warpgroup"),
        "{error}"
    );
}

/// Cycles from before the first of `rounds` products to after the wait for them, of the first warp.
fn cycles(n: usize, shared_a: bool, rounds: usize, between: &str) -> u64 {
    let case = Case {
        a: shared_a.then_some(Layout { mode: 1, across: false }),
        ..case(n, 16, ["f32", "f16", "f16"])
    };
    let text = case.text();
    let product = text.lines().find(|line| line.contains("mma_async")).expect("a product").to_string();
    let many = format!("{product}\n{between}\n").repeat(rounds);
    let text = text.replace(&format!("{product}\n"), &format!("bar.sync 1;\nmov.u64 %c0, %clock64;\n{many}")).replace(
        "wgmma.wait_group.sync.aligned 0;",
        "wgmma.wait_group.sync.aligned 0;\nmov.u64 %c1, %clock64;\nsub.u64 %c1, %c1, %c0;\ncvt.u32.u64 %d0, %c1;",
    );
    let before = vec![0; ROOM + 128 * OWN];
    run(&text, &before, 128, "crs_stack", false).unwrap_or_else(|e| panic!("{e}"))[ROOM + 5].into()
}

/// Each product takes what its columns take: the tensor cores, shared memory, or the way through both.
#[test]
fn products_take_their_time() {
    for (n, shared, registers) in
        [(256, 128, 128), (128, 64, 64), (64, 32, 32), (32, 24, 16), (16, 20, 13), (8, 18, 13)]
    {
        for (shared_a, wanted) in [(true, shared), (false, registers)] {
            let (few, many) = (cycles(n, shared_a, 8, ""), cycles(n, shared_a, 40, ""));
            assert_eq!(many - few, 32 * wanted, "n = {n}, A in shared memory: {shared_a}");
        }
    }
}

/// Other accesses to shared memory take turns that products then lack.
#[test]
fn accesses_to_shared_memory_hold_up_products_that_need_it() {
    let store = "st.shared.u32 [%s], %x2;";
    let (few, many) = (cycles(8, true, 8, store), cycles(8, true, 40, store));
    // Eighteen for A and B, and one for each warp; the first warp runs ahead of the stores of others.
    assert!((32 * (18 + 1)..=32 * (18 + 4)).contains(&(many - few)), "{}", many - few);
    // The tensor cores are what products of many columns wait for.
    let (few, many) = (cycles(128, true, 8, store), cycles(128, true, 40, store));
    assert_eq!(many - few, 32 * 64);
}

/// The warp goes on while its products are worked out, and waits for them only where it says so.
#[test]
fn products_go_on_beside_other_instructions() {
    let alone = cycles(256, true, 4, "");
    let beside = cycles(256, true, 4, &"mad.lo.u32 %x1, %x1, %x1, 3;\n".repeat(8));
    assert!(alone >= 512 && beside < alone + 16, "{alone} and {beside}");
    // A wait after each costs them all.
    let apart = cycles(256, true, 4, "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;");
    assert!(apart > alone + 6, "{apart}");
    // One that may be under way is not waited for.
    let text = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;";
    assert!(cycles(256, true, 4, text) < apart);
}

/// A kernel whose warpgroups change their registers, in the order that `first` and `second` say.
fn registers(first: &str, second: &str) -> String {
    let body = format!(
        "setp.ge.u32 %p, %t, 128;\n@%p bra SECOND;\n{first}\nbra.uni DONE;\nSECOND:\n{second}\nDONE:\nmul.wide.u32 \
         %own, %t, 4;\nadd.u64 %own, %own, %out;\nst.global.u32 [%own], %t;"
    );
    module(".maxnreg 128", &body)
}

#[test]
fn registers_move_between_warpgroups() {
    // The second warpgroup waits until the first has given its registers back.
    let spin = "mov.u32 %x1, 0;\nSPIN:\nadd.u32 %x1, %x1, 1;\nsetp.lt.u32 %p, %x1, 100;\n@%p bra SPIN;";
    let text = registers(
        &format!("{spin}\nsetmaxnreg.dec.sync.aligned.u32 24;"),
        "setmaxnreg.inc.sync.aligned.u32 232;",
    );
    let after = every_way(&text, &vec![0; ROOM + 128 * OWN], 256);
    assert!((0..256).all(|t| after[t] == t as u32));
    // So many are given out at the end as there were at the start.
    let text = registers(
        "setmaxnreg.dec.sync.aligned.u32 24;\nbar.sync 1;\nsetmaxnreg.inc.sync.aligned.u32 128;",
        "setmaxnreg.inc.sync.aligned.u32 232;\nsetmaxnreg.dec.sync.aligned.u32 128;\nbar.sync 1;",
    );
    every_way(&text, &vec![0; ROOM + 128 * OWN], 256);
}

#[test]
fn registers_that_nobody_gives_back_are_a_deadlock() {
    let text = registers("setmaxnreg.dec.sync.aligned.u32 32;", "setmaxnreg.inc.sync.aligned.u32 232;");
    refused(&text, 256, "waits for registers: 232 for each thread of a warp that has 128");
}

#[test]
fn registers_go_up_by_inc_and_down_by_dec() {
    let down = registers("setmaxnreg.dec.sync.aligned.u32 136;", "");
    refused(&down, 256, "setmaxnreg.dec asks for 136 registers a thread, more than the 128");
    let up = registers("setmaxnreg.inc.sync.aligned.u32 64;", "");
    refused(&up, 256, "setmaxnreg.inc asks for 64 registers a thread, less than the 128");
    // Without a count at entry it does nothing.
    let text = registers("setmaxnreg.inc.sync.aligned.u32 256;", "").replace(".maxnreg 128", "");
    every_way(&text, &vec![0; ROOM + 128 * OWN], 256);
}
