//! Copies of boxes of tensors: tiled mode, swizzles, what lies beyond the tensor, reductions, several blocks at once. The
//! property tests of `sim-core/src/tensor_map.rs` compare boxes with the manual's words element by element.

use sim_core::context::Launch;
use sim_core::device::Options;
use sim_core::error::SimError;
use sim_core::report::DeviceReport;
use sim_core::tensor_map::TensorMap;

use crate::clusters::{How, MEET, RANKS, TIMED, clustered};
use crate::machine::{Run, device_with, module};

pub const HOWS: [How; 4] = [
    TIMED,
    How { functional: true, ..TIMED },
    How { policy: "mimd", ..TIMED },
    How { policy: "convergence_barriers", threads: 3, ..TIMED },
];

/// Offset of the tensor in `out`, in bytes.
const TENSOR: u64 = 16 << 10;

/// Two dimensions of words: 20 by 6, rows of 32 words.
pub fn words_map() -> TensorMap {
    TensorMap {
        data_type: 2,
        address: 0,
        sizes: vec![20, 6],
        strides: vec![128],
        box_sizes: vec![8, 4],
        element_strides: vec![1, 1],
        ..TensorMap::default()
    }
}

/// `%map`: the map, a parameter of the kernel; `%object`: an mbarrier object of one arrival; `%tile`: shared memory for the
/// box, `%p`: not thread 0. The tensor's word `i` is `i + 1000`.
pub fn ran(map: &TensorMap, body: &str, blocks: u32, how: How) -> Result<Vec<u32>, SimError> {
    Ok(ran_with_report(map, body, blocks, how)?.0)
}

/// The same with the report.
pub fn ran_with_report(
    map: &TensorMap,
    body: &str,
    blocks: u32,
    how: How,
) -> Result<(Vec<u32>, DeviceReport), SimError> {
    let text = format!(
        "{RANKS}.reg .u64 %map;\n.reg .u32 %object, %tile, %bytes, %x0, %y0;\n.reg .b16 %mask;\nmov.u64 %map, m;\ncvta.param.u64 %map, %map;\n\
         mov.u32 %tile, room;\nadd.u32 %object, %tile, 3072;\nmov.u32 %bytes, {};\nsetp.ne.u32 %p, %t, 0;\n@%p bra READY;\n\
         mbarrier.init.shared::cta.b64 [%object], 1;\nfence.mbarrier_init.release.cluster;\nREADY:\n{MEET}{body}",
        map.box_bytes()
    );
    let text = module("", &text)
        .replace(".version 3.0\n.target sm_20", ".version 9.3\n.target sm_100a")
        .replace("(.param .u64 p)", "(.param .u64 p, .param .align 64 .b8 m[128])")
        .replace(".shared .align 8 .b8 room", ".shared .align 1024 .b8 room");
    let device = device_with(clustered(|_| {}), how.policy, |o| Options {
        allow_newer_isa: true,
        threads: how.threads,
        epoch: how.epoch,
        ..o
    });
    let mut run = Run::new(device, &text, false, 8192);
    let tensor = run.out + TENSOR;
    let initial: Vec<u8> = (1000..2024u32).flat_map(u32::to_le_bytes).collect();
    run.device.context(run.context).expect("it exists").write(tensor, &initial);
    let mut params = vec![0; 192];
    params[..8].copy_from_slice(&run.out.to_le_bytes());
    params[64..].copy_from_slice(&TensorMap { address: tensor, ..map.clone() }.encode());
    let launch = Launch {
        module: 0,
        entry: "k".into(),
        grid: [blocks, 1, 1],
        block: [64, 1, 1],
        dynamic_shared: 0,
        stream: 0,
        params,
        functional: how.functional,
        cluster: Some([blocks, 1, 1]),
        non_portable_cluster: false,
    };
    run.device.launch(run.context, &launch)?;
    run.wait()?;
    Ok((run.words(), run.report()))
}

pub const LOADED: &str = "WAITS:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [%object], 0;\n@!%q bra WAITS;\n\
    ld.shared.u32 %r, [%at];\n";

/// Words of the box that is loaded at these coordinates.
fn loaded(map: &TensorMap, rank: usize, coordinates: &str) -> Vec<u32> {
    let body = format!(
        "@!%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], %bytes;\n\
         @!%p cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%tile], [%map, {{{coordinates}}}], [%object];\n{LOADED}"
    );
    in_every_way(map, &body)
}

/// The first words of what a body leaves, which are the same in every way.
pub fn in_every_way(map: &TensorMap, body: &str) -> Vec<u32> {
    let mut found: Option<Vec<u32>> = None;
    for how in HOWS {
        let words = ran(map, body, 1, how).unwrap_or_else(|e| panic!("{}: {e}", how.policy))[..64].to_vec();
        assert_eq!(*found.get_or_insert_with(|| words.clone()), words, "{} {}", how.policy, how.functional);
    }
    found.expect("there are ways")
}

#[test]
fn a_box_of_words_is_loaded_and_what_lies_beyond_is_zero() {
    for (x, y) in [(4i32, 1i32), (-3, -2), (17, 4), (40, 0)] {
        let expected = (0..32).map(|i| {
            let (column, row) = (x + i % 8, y + i / 8);
            let inside = (0..20).contains(&column) && (0..6).contains(&row);
            if inside { (1000 + row * 32 + column) as u32 } else { 0 }
        });
        assert_eq!(
            loaded(&words_map(), 2, &format!("{x}, {y}"))[..32],
            expected.collect::<Vec<_>>(),
            "{x} {y}"
        );
    }
}

#[test]
fn a_box_is_swizzled_has_strides_of_elements_and_nans_beyond() {
    // Rows of 128 bytes: chunk c of row r lies at c ^ r % 8.
    let map = TensorMap { box_sizes: vec![32, 2], swizzle: 128, sizes: vec![32, 6], ..words_map() };
    let found = loaded(&map, 2, "0, 1");
    for i in 0..64u32 {
        let (row, chunk, word) = (i / 32, i % 32 / 4, i % 4);
        assert_eq!(found[i as usize], 1000 + (row + 1) * 32 + (chunk ^ row) * 4 + word, "word {i}");
    }
    // Every third row; columns have no stride, whatever the map says.
    let map = TensorMap { box_sizes: vec![8, 6], element_strides: vec![2, 3], ..words_map() };
    let found = loaded(&map, 2, "2, 0");
    let expected = (0..16u32).map(|i| 1000 + i / 8 * 3 * 32 + 2 + i % 8);
    assert_eq!(found[..16], expected.collect::<Vec<_>>());
    let map = TensorMap { data_type: 7, nan: true, sizes: vec![10, 6], ..words_map() };
    let found = loaded(&map, 2, "6, 0");
    assert_eq!(found[..4], [1006, 1007, 1008, 1009]);
    assert!(found[4..8].iter().all(|word| f32::from_bits(*word).is_nan()), "{found:?}");
    // Three dimensions of halves.
    let map = TensorMap {
        data_type: 6,
        sizes: vec![16, 2, 3],
        strides: vec![32, 64],
        box_sizes: vec![8, 2, 2],
        element_strides: vec![1; 3],
        ..words_map()
    };
    let found = loaded(&map, 3, "8, 1, 2");
    // Row 1 of plane 2 from its ninth half on; the second row and plane are beyond.
    assert_eq!(found[..4], [1044, 1045, 1046, 1047]);
    assert_eq!(found[4..16], [0; 12]);
}

#[test]
fn a_box_is_stored_and_added_as_far_as_it_lies_in_the_tensor() {
    for (copy, value) in [
        ("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group", (|_, new| new) as fn(u32, u32) -> u32),
        ("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group", |old, new| old + new),
        ("cp.reduce.async.bulk.tensor.2d.global.shared::cta.min.bulk_group", |old: u32, new| old.min(new)),
    ] {
        let body = format!(
            "add.u32 %a, %t, 1010;\nst.shared.u32 [%at], %a;\nfence.proxy.async;\nbar.sync 0;\n\
             @!%p {copy} [%map, {{-2, 3}}], [%tile];\n@!%p cp.async.bulk.commit_group;\n@!%p cp.async.bulk.wait_group 0;\n"
        );
        let mut expected: Vec<u32> = (1000..1192).collect();
        for i in 0..32u32 {
            let (column, row) = (i as i32 % 8 - 2, i / 8 + 3);
            if column >= 0 && row < 6 {
                let word = &mut expected[(row * 32) as usize + column as usize];
                *word = value(*word, i + 1010);
            }
        }
        for how in HOWS {
            let words = ran(&words_map(), &body, 1, how).unwrap_or_else(|e| panic!("{copy}: {e}"));
            assert_eq!(words[4096..4096 + 192], expected, "{copy} {} {}", how.policy, how.functional);
        }
    }
}

#[test]
fn a_box_goes_to_several_blocks_with_what_lies_beyond() {
    let body = format!(
        "@!%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], %bytes;\n@%p bra WAITS;\nsetp.ne.u32 %q, %rank, 1;\n@%q bra WAITS;\n\
         mov.b16 %mask, 5;\nmov.u32 %y0, 4;\n\
         cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%tile], [%map, {{0, %y0}}], [%object], %mask;\n\
         mov.b16 %mask, 2;\ncp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%tile], [%map, {{0, 0}}], [%object], %mask;\n{LOADED}{MEET}"
    );
    for how in HOWS {
        let words = ran(&words_map(), &body, 3, how).unwrap_or_else(|e| panic!("{}: {e}", how.policy));
        for (rank, first) in [4u32, 0, 4].into_iter().enumerate() {
            for i in 0..32u32 {
                let row = first + i / 8;
                let expected = if row < 6 { 1000 + row * 32 + i % 8 } else { 0 };
                assert_eq!(words[rank * 64 + i as usize], expected, "block {rank}, word {i}, {}", how.policy);
            }
        }
    }
}

#[test]
fn wrong_maps_and_places_are_faults() {
    let load = |rank: u32, tile: &str, map: &str, coordinates: &str| {
        format!(
            "@!%p cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes [{tile}], [{map}, {{{coordinates}}}], [%object];\n"
        )
    };
    let fails = |map: &TensorMap, body: &str, message: &str| {
        for functional in [false, true] {
            let how = How { functional, ..TIMED };
            let error = ran(map, body, 1, how).map(|_| ()).expect_err(message).to_string();
            assert!(error.contains(message), "{error}");
        }
    };
    let good = words_map();
    fails(&good, &load(3, "%tile", "%map", "0, 0, 0"), "the tensor has 2 dimensions, the instruction 3");
    fails(&good, &load(2, "%tile+64", "%map", "0, 0"), "no multiple of 128");
    fails(
        &good,
        &load(2, "%tile+4032", "%map", "0, 0").replace("4032", "3968").replace("%tile+3968", "%tile+4096"),
        "is outside",
    );
    fails(&good, &load(2, "%tile", "%out", "0, 0"), "there is no tensor map");
    fails(
        &good,
        &("add.u64 %map, %map, 32;\n".to_string() + &load(2, "%tile", "%map", "0, 0")),
        "no multiple of 64",
    );
    fails(
        &TensorMap { box_sizes: vec![6, 4], ..good.clone() },
        &load(2, "%tile", "%map", "0, 0"),
        "24 bytes",
    );
    fails(
        &TensorMap { strides: vec![1 << 30], ..good.clone() },
        &load(2, "%tile", "%map", "0, 0"),
        "is not in any allocation",
    );
    let add =
        "@!%p cp.reduce.async.bulk.tensor.2d.global.shared::cta.inc.bulk_group [%map, {0, 0}], [%tile];\n";
    fails(&TensorMap { data_type: 7, ..good }, add, "elements of type .f32 have no reduction");
}
