//! Bulk copies as sm_100 has them: four rows, pixels along W, objects of the other block of a pair, masks of bytes, bytes
//! beyond a buffer; swizzles of other chunks. Each against loops and tables written here.

use sim_core::error::SimError;
use sim_core::tensor_map::{AlongW, Atom, Im2col, TensorMap};

use crate::clusters::{How, MEET, TIMED, clustered, launched};
use crate::machine::module;
use crate::tensor_copies::{HOWS, ran, words_map};

/// The word of `out` with the tensor's first.
const TENSOR: usize = 4096;

/// All threads of the first block of a cluster write 768 words of their shared memory to `out`; those of others to the 768
/// words behind.
const DUMP: &str = ".reg .u64 %to;\nmul.lo.u32 %a, %rank, 768;\nadd.u32 %a, %a, %t;\nmul.wide.u32 %to, %a, 4;\nadd.u64 %to, %to, %out;\nmov.u32 %c, 0;\n\
    NEXT:\nld.shared.u32 %b, [%at];\nst.global.u32 [%to], %b;\nadd.u32 %at, %at, 256;\nadd.u64 %to, %to, 256;\nadd.u32 %c, %c, 1;\nsetp.lt.u32 %q, %c, 12;\n@%q bra NEXT;\nexit;\n";

const WAITED: &str =
    "WAITS:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [%object], 0;\n@!%q bra WAITS;\n";

/// The words of a copy of so many bytes into `%tile`, and all others of `out`, the same in every way.
fn copied(map: &TensorMap, bytes: usize, copy: &str) -> Vec<u32> {
    let body = format!(
        "@!%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], {bytes};\n@!%p {copy}\n{WAITED}{DUMP}"
    );
    everywhere(map, &body, 1)
}

fn everywhere(map: &TensorMap, body: &str, blocks: u32) -> Vec<u32> {
    let mut found: Option<Vec<u32>> = None;
    for how in HOWS {
        let words = ran(map, body, blocks, how).unwrap_or_else(|e| panic!("{}: {e}\n{body}", how.policy));
        assert_eq!(*found.get_or_insert_with(|| words.clone()), words, "{} {}", how.policy, how.functional);
    }
    found.expect("there are ways")
}

fn fault(map: &TensorMap, body: &str, blocks: u32) -> String {
    let faults = [TIMED, How { functional: true, ..TIMED }].map(|how| match ran(map, body, blocks, how) {
        Err(SimError::Stopped(fault)) => fault.message.clone(),
        other => panic!("{body}: {:?}", other.map(|_| ())),
    });
    assert_eq!(faults[0], faults[1]);
    faults[0].clone()
}

/// The word of the tensor of `words_map` at a column and row; 0 beyond.
fn word(x: i32, y: i32) -> u32 {
    if (0..20).contains(&x) && (0..6).contains(&y) { (1000 + 32 * y + x) as u32 } else { 0 }
}

/// A row of eight words: `words_map` for copies of four rows.
fn row_map() -> TensorMap {
    TensorMap { box_sizes: vec![8, 1], ..words_map() }
}

const GATHER: &str = "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%tile], [%map, {COLUMNS}], [%object];";

#[test]
fn four_rows_are_gathered_each_from_its_place() {
    for (x, rows) in [(4, [3, -1, 5, 0]), (-2, [2, 2, 7, 1]), (16, [0, 1, 2, 3])] {
        let places = format!("{x}, {}, {}, {}, {}", rows[0], rows[1], rows[2], rows[3]);
        let found = copied(&row_map(), 128, &GATHER.replace("COLUMNS", &places));
        let expected: Vec<u32> = (0..32).map(|i| word(x + i % 8, rows[i as usize / 8])).collect();
        assert_eq!(found[..32], expected, "{places}");
        // With a swizzle of 32 bytes the chunks of every second row of 128 bytes change places: there is one row.
        let map = TensorMap { swizzle: 32, ..row_map() };
        assert_eq!(copied(&map, 128, &GATHER.replace("COLUMNS", &places))[..32], expected);
    }
    // Two rows of shared memory: the second is permuted.
    let map = TensorMap { swizzle: 64, box_sizes: vec![16, 1], ..words_map() };
    let found = copied(&map, 256, &GATHER.replace("COLUMNS", "0, 5, 4, 3, 2"));
    for i in 0..64u32 {
        let (row, chunk) = (i / 32, i / 4 % 8);
        let chunk = chunk ^ (row % 4);
        let from = (row * 32 + chunk * 4 + i % 4) as i32;
        assert_eq!(found[i as usize], word(from % 16, 5 - from / 16), "word {i}");
    }
}

#[test]
fn four_rows_are_scattered_and_what_lies_beyond_is_left() {
    let body = "mad.lo.u32 %b, %t, 3, 7;\nst.shared.u32 [%at], %b;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n@%p bra OVER;\n\
        cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%map, {16, 4, 0, 9, 2}], [%tile];\n\
        cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nOVER:\nexit;\n";
    let found = everywhere(&row_map(), body, 1);
    for i in 0..1024 {
        let (x, y) = (i % 32, i / 32);
        let row = [4, 0, 9, 2].iter().position(|row| *row == y && y < 6);
        let expected = match row {
            Some(row) if (16..20).contains(&x) => 3 * (row * 8 + x - 16) + 7,
            _ => 1000 + i,
        };
        assert_eq!(found[TENSOR + i], expected as u32, "{x} {y}");
    }
}

#[test]
fn what_a_copy_of_four_rows_needs_is_checked() {
    let load = format!("@!%p {}\nexit;", GATHER.replace("COLUMNS", "0, 0, 1, 2, 3"));
    assert!(fault(&words_map(), &load, 1).contains("the box of a copy of four rows has one row, not 4"));
    let map = TensorMap {
        sizes: vec![20, 2, 3],
        strides: vec![128, 256],
        box_sizes: vec![8, 1, 1],
        element_strides: vec![1; 3],
        ..words_map()
    };
    assert!(fault(&map, &load, 1).contains("the tensor has 3 dimensions, the instruction 2"));
    let flipped = TensorMap { swizzle: 128, atom: Atom::B32Flip8, ..row_map() };
    let store = "@!%p cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%map, {0, 0, 1, 2, 3}], [%tile];\nexit;";
    assert!(fault(&flipped, store, 1).contains("flips halves of 16 bytes is one of loads"));
}

#[test]
fn prefetches_of_four_rows_and_along_w_change_nothing() {
    let prefetch =
        "@!%p cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [%map, {4, 3, -1, 5, 0}];\nexit;";
    let found = everywhere(&row_map(), prefetch, 1);
    assert!(found[TENSOR..TENSOR + 1024].iter().zip(1000..).all(|(found, word)| *found == word));
    let map = pixels_map(AlongW::By32, [0, 0], 1);
    let prefetch = "mov.b16 %mask, 2;\n@!%p cp.async.bulk.prefetch.tensor.3d.L2.global.im2col::w::128 [%map, {0, 0, 0}], {%mask, %mask};\nexit;";
    assert!(
        everywhere(&map, prefetch, 1)[TENSOR..]
            .iter()
            .zip(1000..)
            .take(1024)
            .all(|(found, word)| *found == word)
    );
    assert!(fault(&words_map(), prefetch, 1).contains("dimensions"));
}

/// Four channels of words, 9 pixels along W, 20 images; images lie 40 words apart.
fn pixels_map(along_w: AlongW, [lower, upper]: [i32; 2], step: u32) -> TensorMap {
    let columns =
        Im2col { lower: vec![lower], upper: vec![upper], channels: 4, pixels: 24, along_w: Some(along_w) };
    TensorMap {
        data_type: 2,
        sizes: vec![4, 9, 20],
        strides: vec![16, 160],
        element_strides: vec![1, step, 1],
        swizzle: 32,
        im2col: Some(columns),
        ..TensorMap::default()
    }
}

/// The words of pixels as the manual has them: along W from the coordinate on, then the next image's bounding box; a halo
/// is what comes next, and comes again.
fn pixels(map: &TensorMap, [w, image]: [i32; 2], [halo, offset]: [i32; 2]) -> Vec<u32> {
    let columns = map.im2col.as_ref().expect("of pixels");
    let (lower, last) = (columns.lower[0] + offset, map.sizes[1] as i32 - 1 + columns.upper[0] + offset);
    let mut all = Vec::new();
    let (mut x, mut n) = (w + offset, image);
    while all.len() < 1000 {
        while x <= last {
            all.push((x, n));
            x += map.element_strides[1] as i32;
        }
        (x, n) = (lower, n + 1);
    }
    let (groups, each) = if columns.along_w == Some(AlongW::By32) { (4, 32) } else { (1, 24) };
    let mut words = Vec::new();
    for group in 0..groups {
        for (x, n) in &all[group * each..(group + 1) * each + halo as usize] {
            let inside = (0..9).contains(x) && (0..20).contains(n);
            words.extend(
                (0..4).map(|channel| if inside { (1000 + 40 * n + 4 * x + channel) as u32 } else { 0 }),
            );
        }
    }
    // Chunks of 16 bytes change places in every second row of 128.
    let chunk = |i: usize| ((i / 4) ^ (i / 32 % 2)) * 4 + i % 4;
    (0..words.len()).map(|i| words.get(chunk(i)).copied().unwrap_or(0)).collect()
}

#[test]
fn pixels_along_w_are_followed_by_their_halo() {
    for (along_w, mode) in [(AlongW::Column, "im2col::w"), (AlongW::By32, "im2col::w::128")] {
        for (corners, step, [w, image], [halo, offset]) in [
            ([0, 0], 1, [3, 7], [2, 0]),
            ([-1, 0], 2, [-1, 2], [2, 0]),
            ([-1, 0], 2, [-1, 2], [0, 1]),
            ([-1, -1], 3, [2, 15], [4, 2]),
        ] {
            let map = pixels_map(along_w, corners, step);
            let expected = pixels(&map, [w, image], [halo, offset]);
            let copy = format!(
                "cp.async.bulk.tensor.3d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes [%tile], [%map, {{0, {w}, {image}}}], [%object], {{{halo}, {offset}}};"
            );
            let found = copied(&map, 4 * expected.len(), &copy);
            // A last chunk that lacks its neighbour lies behind the others.
            let whole = expected.len() / 64 * 64;
            assert_eq!(found[..whole], expected[..whole], "{mode} {corners:?} {w} {halo} {offset}");
        }
    }
}

#[test]
fn halos_offsets_and_modes_along_w_have_limits() {
    let load = |mode: &str, info: &str| {
        format!(
            "@!%p cp.async.bulk.tensor.3d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes [%tile], [%map, {{0, 0, 0}}], [%object], {{{info}}};\nexit;"
        )
    };
    let map = pixels_map(AlongW::Column, [0, 0], 1);
    assert!(fault(&map, &load("im2col::w", "512, 0"), 1).contains("the halo is 0 to 511"));
    assert!(fault(&map, &load("im2col::w", "0, 32"), 1).contains("the offset 0 to 31"));
    assert!(
        fault(&map, &load("im2col::w::128", "0, 0"), 1)
            .contains("of im2col::w mode, the instruction of im2col::w::128 mode")
    );
    let by_32 = pixels_map(AlongW::By32, [0, 0], 1);
    assert!(fault(&by_32, &load("im2col::w::128", "32, 0"), 1).contains("the halo is 0 to 31"));
    assert!(
        fault(&TensorMap { swizzle: 0, ..map.clone() }, &load("im2col::w", "0, 0"), 1)
            .contains("need a swizzle")
    );
    assert!(
        fault(&map, &load("im2col", "0"), 1).contains("of im2col::w mode, the instruction of im2col mode")
    );
}

#[test]
fn swizzles_of_other_chunks_are_those_of_the_manuals_tables() {
    // The manual's tables: by row of 128 bytes, the 16-byte chunks that lie at each place.
    let b32: [[u32; 8]; 4] = [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [2, 3, 0, 1, 6, 7, 4, 5],
        [4, 5, 6, 7, 0, 1, 2, 3],
        [6, 7, 4, 5, 2, 3, 0, 1],
    ];
    let b64: [[u32; 8]; 4] = [b32[0], b32[2], b32[0], b32[2]];
    for (atom, table, flips) in
        [(Atom::B32, b32, false), (Atom::B32Flip8, b32, true), (Atom::B64, b64, false)]
    {
        let map =
            TensorMap { sizes: vec![32, 16], box_sizes: vec![32, 8], swizzle: 128, atom, ..words_map() };
        let copy = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%tile], [%map, {0, 3}], [%object];";
        let found = copied(&map, 1024, copy);
        for i in 0..256u32 {
            let (row, chunk, within) = (i / 32, i % 32 / 4, i % 4);
            let within = if flips && row % 2 == 1 { within ^ 2 } else { within };
            let from = (row + 3) * 32 + table[row as usize % 4][chunk as usize] * 4 + within;
            assert_eq!(found[i as usize], 1000 + from, "{atom:?} word {i}");
        }
        if atom == Atom::B32Flip8 {
            continue;
        }
        // A store takes them back.
        let body = format!(
            "@!%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], 1024;\n@!%p {copy}\n{WAITED}@%p bra OVER;\n\
             cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%map, {{0, 8}}], [%tile];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nOVER:\nexit;\n"
        );
        let found = everywhere(&map, &body, 1);
        assert!((0..256).all(|i| found[TENSOR + 256 + i] == 1096 + i as u32), "{atom:?}");
    }
}

#[test]
fn kernels_choose_the_chunks_of_a_swizzle() {
    // The map is a copy in shared memory that is changed and then put where a copy of `out` was.
    let map = TensorMap { sizes: vec![32, 16], box_sizes: vec![32, 8], ..words_map() };
    let body = format!(
        ".reg .u64 %place;\n.reg .u64 %v<4>;\nadd.u64 %place, %out, 12288;\nmov.u32 %c, 0;\n@%p bra MADE;\nCOPY:\nld.param.v2.u64 {{%v0, %v1}}, [m];\n\
         mov.u32 %b, room;\nadd.u32 %b, %b, 2048;\n{}\
         tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%b], 3;\ntensormap.replace.tile.swizzle_atomicity.shared::cta.b1024.b32 [%b], 3;\nMADE:\nbar.warp.sync -1;\n\
         mov.u32 %b, room;\nadd.u32 %b, %b, 2048;\nsetp.lt.u32 %q, %t, 32;\n\
         @%q tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%place], [%b], 128;\nbar.sync 0;\n\
         fence.proxy.tensormap::generic.acquire.gpu [%place], 128;\n@!%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], 1024;\n\
         @!%p cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%tile], [%place, {{0, 0}}], [%object];\n{WAITED}{DUMP}",
        (0..128)
            .step_by(16)
            .map(|at| format!(
                "ld.param.v2.u64 {{%v0, %v1}}, [m+{at}];\nst.shared.v2.u64 [%b+{at}], {{%v0, %v1}};\n"
            ))
            .collect::<String>()
    );
    let found = everywhere(&map, &body, 1);
    for i in 0..256u32 {
        let (row, word) = (i / 32, i % 32);
        assert_eq!(found[i as usize], 1000 + row * 32 + (word ^ ((row % 2) * 16)), "word {i}");
    }
}

#[test]
fn one_block_of_a_pair_counts_for_both() {
    // The second block loads, and the first one's object counts; or one load goes to both.
    let map = TensorMap { box_sizes: vec![8, 4], ..words_map() };
    let one = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [%tile], [%map, {4, 1}], [%there];";
    let both = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2 [%tile], [%map, {4, 1}], [%there], 3;";
    let expected: Vec<u32> = (0..32).map(|i| word(4 + i % 8, 1 + i / 8)).collect();
    for (copy, bytes, first) in [(one, 128, false), (both, 256, true)] {
        let body = format!(
            "mapa.shared::cluster.u32 %there, %object, 0;\nsetp.ne.u32 %q, %rank, 0;\n@%q bra LOADS;\n\
             @!%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], {bytes};\n{WAITED}bra COUNTED;\n\
             LOADS:\n@!%p {copy}\nCOUNTED:\n{MEET}{DUMP}"
        );
        let found = everywhere(&map, &body, 2);
        assert_eq!(found[768..800], expected, "{copy}");
        assert_eq!(found[..32] == expected, first, "{copy}");
        // Without a pair the object must lie where the bytes go.
        let alone = body.replace(".cta_group::2", ".cta_group::1");
        if !first {
            assert!(fault(&map, &alone, 2).contains("the mbarrier object in that of block 0"));
        }
        // Three blocks have one that is in no pair.
        let odd = body.replace("%tile], [%map, {4, 1}], [%there], 3", "%tile], [%map, {4, 1}], [%there], 4");
        if first {
            let odd = odd.replace("%there, %object, 0", "%there, %object, 1");
            assert!(fault(&map, &odd, 3).contains("has no pair"));
        }
    }
}

#[test]
fn bytes_that_are_sent_on_are_counted_by_the_other_block_of_the_pair() {
    // The first block loads for both: what goes to the second one comes back as a count.
    let map = TensorMap { box_sizes: vec![8, 4], ..words_map() };
    let body = format!(
        "setp.ne.u32 %q, %rank, 0;\n@%q bra COUNTED;\n@!%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], 256;\n\
         @!%p cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2 [%tile], [%map, {{4, 1}}], [%object], 3;\n\
         {WAITED}COUNTED:\n{MEET}{DUMP}"
    );
    let found = everywhere(&map, &body, 2);
    let expected: Vec<u32> = (0..32).map(|i| word(4 + i % 8, 1 + i / 8)).collect();
    assert_eq!([&found[..32], &found[768..800]], [&expected[..]; 2]);
}

fn plain(body: &str, words: usize) -> Result<Vec<u32>, String> {
    let text = module("", body)
        .replace(".version 3.0\n.target sm_20", ".version 9.3\n.target sm_100a")
        .replace(".shared .align 8 .b8 room", ".shared .align 128 .b8 room");
    let mut all = [TIMED, How { functional: true, ..TIMED }, How { policy: "mimd", ..TIMED }].map(|how| {
        let ran = launched(clustered(|_| {}), &text, [[1; 3], [1; 3]], 64, how);
        ran.map(|(all, _)| all[..words].to_vec()).map_err(|error| error.to_string())
    });
    if all.iter().all(Result::is_ok) {
        assert_eq!(all[0], all[1]);
        assert_eq!(all[0], all[2]);
    }
    assert_eq!(all[0].is_ok(), all[1].is_ok(), "{all:?}");
    std::mem::replace(&mut all[0], Ok(Vec::new()))
}

#[test]
fn a_mask_says_which_of_each_sixteen_bytes_are_stored() {
    for root in ["cp.async.bulk", "multimem.cp.async.bulk"] {
        for mask in [0xffffu32, 0x0ff0, 0x8001, 0x00ff, 0x3333, 0xf000, 0x0000, 0x1234] {
            let body = format!(
                ".reg .u32 %at, %mask;\n.reg .b16 %m;\nmov.u32 %at, room;\nshl.b32 %a, %t, 2;\nadd.u32 %at, %at, %a;\nmad.lo.u32 %b, %t, 0x01020304, 0x11223344;\n\
                 st.shared.u32 [%at], %b;\nmov.u32 %b, 0xeeeeeeee;\nst.global.u32 [%own], %b;\nfence.proxy.async;\nbar.sync 0;\nsetp.ne.u32 %p, %t, 0;\n\
                 mov.u32 %mask, {mask};\ncvt.u16.u32 %m, %mask;\nmov.u32 %a, room;\n\
                 @!%p {root}.global.shared::cta.bulk_group.cp_mask [%out], [%a], 192, %m;\n\
                 @!%p cp.async.bulk.commit_group;\n@!%p cp.async.bulk.wait_group 0;\nexit;\n"
            );
            let found = plain(&body, 64).expect(&body);
            let bytes: Vec<u8> = found.iter().flat_map(|word| word.to_le_bytes()).collect();
            for (at, byte) in bytes.iter().enumerate() {
                let word = (at as u32 / 4).wrapping_mul(0x0102_0304).wrapping_add(0x1122_3344);
                let stored = at < 192 && mask >> (at % 16) & 1 == 1;
                let expected = if stored { word.to_le_bytes()[at % 4] } else { 0xee };
                assert_eq!(*byte, expected, "{root} {mask:#x} byte {at}");
            }
        }
    }
}

#[test]
fn bytes_beyond_a_buffer_are_ignored_where_the_copy_says_so() {
    // `out` has 2048 words. A copy of its last 32 bytes and 16 more.
    let body = |at: i32, left: u32, right: u32, order: &str| {
        let (order, ty) =
            if order.is_empty() { ("", "") } else { (order, if order == ".weak" { "" } else { ".b128" }) };
        format!(
            ".reg .u32 %at, %object, %bytes;\n.reg .u64 %from;\nmov.u32 %object, room;\nadd.u32 %object, %object, 1024;\nsetp.ne.u32 %p, %t, 0;\n@%p bra READY;\n\
             mbarrier.init.shared::cta.b64 [%object], 1;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], 32;\nREADY:\nbar.sync 0;\n\
             add.u64 %from, %out, {at};\nmov.u32 %a, room;\nmov.u32 %b, {left};\n\
             @!%p cp.async.bulk{order}.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob{ty} [%a], [%from], 32, %b, {right}, [%object];\n{WAITED}\
             mov.u32 %at, room;\nshl.b32 %a, %t, 2;\nadd.u32 %at, %at, %a;\nld.shared.u32 %r, [%at];\n"
        )
    };
    assert!(plain(&body(0, 15, 15, ""), 8).is_ok());
    assert!(plain(&body(8160, 0, 0, ".weak"), 8).is_ok());
    assert!(plain(&body(8160, 3, 9, ".relaxed.gpu"), 8).is_ok());
    let beyond = plain(&body(8176, 0, 15, ""), 8).expect_err("16 bytes are beyond");
    assert!(beyond.contains("allocation"), "{beyond}");
    let wrong = plain(&body(0, 16, 0, ""), 8).expect_err("too many");
    assert!(wrong.contains("0 to 15 bytes at each end, not 16 and 0"), "{wrong}");
}
