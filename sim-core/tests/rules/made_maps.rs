//! Tensor maps that kernels make and change: `tensormap.replace` of every field, from a map or from zeros, the copy with a
//! fence, what is wrong with fields, and the access by which the unit of bulk copies reads a map in global memory.

use sim_core::error::SimError;
use sim_core::report::DeviceReport;
use sim_core::tensor_map::TensorMap;

use crate::clusters::{How, TIMED};
use crate::tensor_copies::{HOWS, LOADED, ran, ran_with_report, words_map};

/// The fields of `words_map`, in the order of the instruction's manual: what, type, operands.
const FIELDS: [(&str, &str, &str); 15] = [
    ("global_address", "b64", "%v"),
    ("rank", "b32", "1"),
    ("box_dim", "b32", "0, 8"),
    ("box_dim", "b32", "1, 12"),
    ("global_dim", "b32", "0, 20"),
    ("global_dim", "b32", "1, %five"),
    ("global_stride", "b64", "0, 128"),
    ("element_stride", "b32", "0, 1"),
    ("element_stride", "b32", "1, 3"),
    // In the instruction's order 7 is f32.
    ("elemtype", "b32", "7"),
    ("interleave_layout", "b32", "0"),
    ("swizzle_mode", "b32", "1"),
    ("fill_mode", "b32", "1"),
    // Of no dimension.
    ("box_dim", "b32", "4, 77"),
    ("global_stride", "b64", "4, 77"),
];

/// Replaces these fields of the map at `%copy`.
fn replaces(fields: &[(&str, &str, &str)], space: &str) -> String {
    let each = |(what, ty, operands): &(&str, &str, &str)| {
        format!("tensormap.replace.tile.{what}{space}.b1024.{ty} [%copy], {operands};\n")
    };
    fields.iter().map(each).collect()
}

/// Bytes of the map before it is changed.
#[derive(Clone, Copy, PartialEq)]
enum From {
    Parameter,
    Zeros,
}

/// Thread 0 makes a map at `%copy` of the parameter or of zeros, changes it there, in shared memory, from where its warp
/// copies it to global memory, or in global memory; from there (`%far`) thread 0 uses it after the fence.
fn making(from: From, changes: &str, shared: bool) -> String {
    let space = if shared { "shared" } else { "global" };
    let words = (0..128).step_by(8).map(|at| match from {
        From::Parameter => format!("ld.b64 %v, [%map+{at}];\nst.{space}.b64 [%copy+{at}], %v;\n"),
        From::Zeros => format!("st.{space}.b64 [%copy+{at}], 0;\n"),
    });
    let words: String = words.collect();
    let place = if shared {
        ".reg .u32 %copy;\nadd.u32 %copy, %tile, 2048;\n"
    } else {
        ".reg .u64 %copy;\nadd.u64 %copy, %out, 8192;\n"
    };
    let moved = if shared {
        "bar.warp.sync -1;\ntensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%far], [%copy], 128;\n"
    } else {
        "fence.proxy.tensormap::generic.release.gpu;\n"
    };
    // The tensor begins a row later than that of the parameter.
    format!(
        ".reg .u64 %v, %far;\n.reg .u32 %five;\n.reg .pred %other;\nadd.u64 %far, %out, 8192;\nmov.u32 %five, 5;\n{place}\
         setp.ge.u32 %other, %t, 32;\n@%other bra MADE;\n@%p bra CHANGED;\n{words}add.u64 %v, %out, 16512;\n{changes}\
         CHANGED:\n{moved}fence.proxy.tensormap::generic.acquire.gpu [%far], 128;\nMADE:\nbar.sync 0;\n"
    )
}

const LOAD: &str = "@!%p cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%tile], [%far, {4, 1}], [%object];\n";

/// Loads the box at 4, 1 of the map at `%far`.
fn loading(bytes: u32) -> String {
    format!("@!%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], {bytes};\n{LOAD}{LOADED}")
}

/// The words that every way of running leaves.
fn everywhere(map: &TensorMap, body: &str) -> Vec<u32> {
    let mut found: Option<Vec<u32>> = None;
    for how in HOWS {
        let words =
            ran(map, body, 1, how).unwrap_or_else(|e| panic!("{} {}: {e}", how.policy, how.functional));
        let words = words[..64].to_vec();
        assert_eq!(*found.get_or_insert_with(|| words.clone()), words, "{} {}", how.policy, how.functional);
    }
    found.expect("there are ways")
}

/// The box at 4, 1 of the map of `FIELDS`.
#[track_caller]
fn holds_the_box(found: &[u32], what: &str) {
    for (i, word) in found[..32].iter().enumerate() {
        // Lines of 128 bytes hold four rows; a swizzle of 32 bytes changes none in the first line.
        let (row, column) = (1 + 3 * (i as u32 / 8), 4 + i as u32 % 8);
        if row < 5 {
            assert_eq!(*word, 1000 + (row + 1) * 32 + column, "word {i}, {what}");
        } else {
            assert!(f32::from_bits(*word).is_nan(), "word {i}, {what}");
        }
    }
}

#[test]
fn every_field_of_a_map_is_replaced() {
    // A map that has nothing right but its mode.
    let wrong = TensorMap {
        sizes: vec![1, 1, 1],
        strides: vec![16, 16],
        box_sizes: vec![16, 1, 1],
        element_strides: vec![1; 3],
        data_type: 0,
        swizzle: 64,
        ..words_map()
    };
    for (shared, space) in [(true, ".shared::cta"), (false, ".global"), (false, "")] {
        for from in [From::Parameter, From::Zeros] {
            let body = making(from, &replaces(&FIELDS, space), shared) + &loading(128);
            let what = format!("{space} {}", from == From::Zeros);
            holds_the_box(&everywhere(&wrong, &body), &what);
        }
    }
}

/// Each field whose value no map may have, by its name.
#[test]
fn what_is_wrong_with_a_map_of_a_kernel_is_told_by_its_field() {
    let wrong: [(&str, &str, &str, &str); 15] = [
        ("global_address", "b64", "8", "global_address: the address 0x8 of the tensor is no multiple of 16"),
        ("global_address", "b64", "16", "not in any allocation"),
        ("rank", "b32", "2", "global_dim: a size of the tensor is 1 to 2147483648, not 0"),
        ("rank", "b32", "0", "the tensor has 1 dimensions, the instruction 2"),
        ("rank", "b32", "5", "rank: a tensor has 1 to 5 dimensions, not 6"),
        ("rank", "b32", "257", "rank: a tensor has 1 to 5 dimensions, not 258"),
        ("rank", "b32", "-1", "rank: a tensor has 1 to 5 dimensions, not 4294967296"),
        ("box_dim", "b32", "1, 0", "box_dim: a size of the box is 1 to 256, not 0"),
        ("box_dim", "b32", "0, 6", "box_dim: the innermost dimension of the box has 24 bytes"),
        ("global_dim", "b32", "0, 0", "global_dim: a size of the tensor is 1 to 2147483648, not 0"),
        ("global_stride", "b64", "0, 24", "global_stride: a stride of 24 bytes is no multiple of 16"),
        ("element_stride", "b32", "1, 9", "element_stride: a stride of elements is 1 to 8, not 9"),
        ("elemtype", "b32", "2", "fill_mode: elements that are no floating-point numbers cannot be NaN"),
        ("interleave_layout", "b32", "1", "global_dim: an interleaved tensor has 3 to 5 dimensions, not 2"),
        ("box_dim", "b32", "0, 12", "box_dim: the innermost dimension of the box has 48 bytes, more than"),
    ];
    for (what, ty, operands, words) in wrong {
        let fields: Vec<_> = FIELDS.into_iter().chain([(what, ty, operands)]).collect();
        let body = making(From::Zeros, &replaces(&fields, ".shared::cta"), true) + &loading(128);
        for how in &HOWS[..2] {
            let error = ran(&words_map(), &body, 1, *how).map(|_| ()).expect_err(words).to_string();
            assert!(error.contains(words), "{what} {operands} {}: {error}", how.functional);
        }
    }
    // What other bytes than those of fields hold.
    for (store, words) in [
        ("", "there is no tensor map at this address: all of its 128 bytes are 0"),
        ("st.shared.u8 [%copy+5], 1;\n", "swizzle_atomicity: only a swizzle of 128 bytes"),
        ("st.shared.u8 [%copy+5], 4;\n", "swizzle_atomicity: there is no swizzle atomicity 4"),
        ("st.shared.u8 [%copy+39], 1;\n", "there is no tensor map at this address: byte 39 is not 0"),
        ("st.shared.u8 [%copy+127], 9;\n", "there is no tensor map at this address: byte 127 is not 0"),
        ("st.shared.u8 [%copy+4], 13;\n", "elemtype: there is no type of elements 13"),
        ("st.shared.u8 [%copy+6], 4;\n", "swizzle_mode: there is no swizzle 4"),
        ("st.shared.u8 [%copy+7], 2;\n", "fill_mode: there is no fill mode 2"),
        ("st.shared.u8 [%copy+36], 3;\n", "interleave_layout: there is no interleave 3"),
        ("st.shared.u8 [%copy+37], 4;\n", "L2 promotion: there is no number of bytes for L2 4"),
        ("st.shared.u8 [%copy+38], 4;\n", "im2col: there is no mode 4"),
    ] {
        let fields = if store.is_empty() { String::new() } else { replaces(&FIELDS, ".shared::cta") };
        let body = making(From::Zeros, &(fields + store), true) + &loading(128);
        for how in &HOWS[..2] {
            let error = ran(&words_map(), &body, 1, *how).map(|_| ()).expect_err(words).to_string();
            assert!(error.contains(words) && error.contains("tensor map at"), "{}: {error}", how.functional);
        }
    }
}

/// A map is changed after a copy has used it, and used again: each copy takes what the map said when it was issued.
#[test]
fn a_map_that_is_changed_again_is_read_again() {
    let again = "fence.proxy.tensormap::generic.release.gpu;\nfence.proxy.tensormap::generic.acquire.gpu [%far], 128;\n";
    let mut body = making(From::Zeros, &replaces(&FIELDS, ".global"), false);
    body += "@%p bra DONE;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], 384;\n";
    for (round, column) in [4, 8, 12].into_iter().enumerate() {
        let to = 128 * round;
        body += &format!(
            "add.u32 %r, %tile, {to};\ncp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r], [%far, {{{column}, 0}}], [%object];\n\
             cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%far, {{{column}, 0}}];\n"
        );
        // The copy before has read its map.
        body += &format!("FULL{round}:\n");
        body += &format!(
            "ld.shared.volatile.u32 %r, [%tile+{to}];\nsetp.eq.u32 %q, %r, 0;\n@%q bra FULL{round};\n"
        );
        body += "add.u64 %v, %v, 128;\ntensormap.replace.tile.global_address.global.b1024.b64 [%far], %v;\n";
        body += again;
    }
    body += "DONE:\nWAITS:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [%object], 0;\n@!%q bra WAITS;\n\
        rem.u32 %b, %t, 24;\ndiv.u32 %c, %b, 8;\nmul.lo.u32 %c, %c, 128;\nrem.u32 %b, %b, 8;\nmad.lo.u32 %c, %b, 4, %c;\n\
        add.u32 %c, %c, %tile;\nld.shared.u32 %r, [%c];\n";
    let found = everywhere(&words_map(), &body);
    for (i, word) in found[..24].iter().enumerate() {
        // The first row of the box, a row further on each time; in odd lines its halves have changed places.
        let round = i as u32 / 8;
        let column = (i as u32 % 8) ^ (round % 2 * 4);
        assert_eq!(*word, 1000 + 32 * (1 + round) + 4 + 4 * round + column, "word {i}");
    }
}

/// Each block makes its own map, on an SM of its own; the blocks of a cluster use those of each other.
#[test]
fn maps_of_other_blocks_are_used_behind_fences() {
    let making = making(From::Zeros, &replaces(&FIELDS, ".shared::cta"), true)
        .replace(
            "add.u64 %far, %out, 8192;\n",
            "mad.wide.u32 %far, %rank, 128, %out;\nadd.u64 %far, %far, 8192;\n",
        )
        .replace(
            "add.u64 %v, %out, 16512;\n",
            "mad.wide.u32 %v, %rank, 128, %out;\nadd.u64 %v, %v, 16512;\n",
        );
    let body = format!(
        "{making}barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n\
         mad.wide.u32 %far, %next, 128, %out;\nadd.u64 %far, %far, 8192;\n\
         fence.proxy.tensormap::generic.acquire.cluster [%far], 128;\n{}",
        loading(128)
    );
    for how in HOWS {
        let words = ran(&words_map(), &body, 2, how).unwrap_or_else(|e| panic!("{}: {e}", how.policy));
        for rank in 0..2 {
            let first = 1000 + 32 * (2 + (1 - rank)) + 4;
            let own: Vec<u32> = (first..first + 8).collect();
            assert_eq!(words[64 * rank as usize..][..8], own, "{} {}", how.policy, how.functional);
        }
    }
}

/// Lanes of a warp use maps of their own, all at once.
#[test]
fn lanes_have_maps_of_their_own() {
    let body = format!(
        ".reg .u64 %far, %v;\nsetp.ge.u32 %p, %t, 8;\nmad.wide.u32 %far, %t, 128, %out;\nadd.u64 %far, %far, 8192;\n\
         mad.wide.u32 %v, %t, 128, %out;\nadd.u64 %v, %v, 16384;\n@%p bra MADE;\n{}{}\
         fence.proxy.tensormap::generic.release.cta;\nfence.proxy.tensormap::generic.acquire.cta [%far], 128;\nMADE:\n\
         @!%p shl.b32 %r, %t, 7;\n@!%p add.u32 %r, %r, %tile;\n\
         setp.eq.u32 %q, %t, 0;\n@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], 128;\n\
         @!%p cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r], [%far, {{3}}], [%object];\n\
         WAITS:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [%object], 0;\n@!%q bra WAITS;\n\
         @!%p ld.shared.u32 %r, [%r];\n",
        (0..128).step_by(8).map(|at| format!("st.global.b64 [%far+{at}], 0;\n")).collect::<String>(),
        replaces(
            &[
                ("global_address", "b64", "%v"),
                ("box_dim", "b32", "0, 4"),
                ("global_dim", "b32", "0, 20"),
                ("element_stride", "b32", "0, 1"),
                ("elemtype", "b32", "2"),
            ],
            ".global"
        )
        .replace("%copy", "%far")
    );
    let found = everywhere(&words_map(), &body);
    assert_eq!(found[..8], std::array::from_fn::<u32, 8, _>(|t| 1003 + 32 * t as u32));
}

/// A store whose map is in global memory counts in its group from the instruction on: its source is not overwritten
/// before it is read.
#[test]
fn a_group_waits_for_copies_whose_maps_have_not_arrived() {
    for (copy, adds) in [
        ("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group", 0),
        ("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group", 1),
    ] {
        let fields: Vec<_> = FIELDS
            .into_iter()
            .map(|(what, ty, operands)| match (what, operands) {
                ("elemtype", _) => (what, ty, "2"),
                ("fill_mode", _) => (what, ty, "0"),
                ("box_dim", "1, 12") => (what, ty, "1, 2"),
                ("element_stride", "1, 3") => (what, ty, "1, 1"),
                _ => (what, ty, operands),
            })
            .collect();
        let body = format!(
            "{}add.u32 %a, %t, 5000;\nst.shared.u32 [%at], %a;\nfence.proxy.async;\nbar.sync 0;\n@%p bra DONE;\n\
             {copy} [%far, {{4, 1}}], [%tile];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n\
             st.shared.u32 [%tile], 7;\nst.shared.u32 [%tile+32], 7;\ncp.async.bulk.wait_group 0;\nDONE:\nbar.sync 0;\n",
            making(From::Zeros, &replaces(&fields, ".global"), false)
        );
        for how in HOWS {
            let words = ran(&words_map(), &body, 1, how).unwrap_or_else(|e| panic!("{copy}: {e}"));
            for i in 0..16 {
                let at = 32 * (2 + i / 8) + 4 + i % 8;
                let expected = 5000 + i as u32 + adds * (1000 + at as u32);
                assert_eq!(words[4096 + at], expected, "{copy} {i} {} {}", how.policy, how.functional);
            }
        }
    }
}

/// Cycles of a run that loads a box, by a map among the parameters or in global memory, and what was counted.
fn cycles(far: bool, how: How) -> Result<DeviceReport, SimError> {
    let map = if far { "%far" } else { "%map" };
    let body = making(From::Parameter, "", false) + &loading(128).replace("%far", map);
    Ok(ran_with_report(&words_map(), &body, 1, how)?.1)
}

#[test]
fn a_map_in_global_memory_is_fetched_from_l2_first() {
    let run = |far| cycles(far, TIMED).expect("it runs");
    let (near, far) = (run(false), run(true));
    let more = far.cycles - near.cycles;
    // One more round trip to L2, which has the map.
    assert!((100..500).contains(&more), "{} and {}", near.cycles, far.cycles);
    assert_eq!(
        near.memory.tma,
        far.memory.tma.map(|tma| sim_core::report::TmaReport {
            busy_cycles: near.memory.tma.expect("there was a copy").busy_cycles,
            active_cycles: near.memory.tma.expect("there was a copy").active_cycles,
            ..tma
        })
    );
    for threads in [2, 4] {
        for epoch in [None, Some(1)] {
            let other = cycles(true, How { threads, epoch, ..TIMED }).expect("it runs");
            assert_eq!((other.cycles, other.memory.tma), (far.cycles, far.memory.tma), "{threads}");
        }
    }
}
