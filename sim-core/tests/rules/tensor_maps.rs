//! Tensor maps in im2col mode, and maps that kernels change: `tensormap.replace` of every field, the copy with a fence, and
//! prefetches. Columns of pixels are compared with the manual's words in `sim-core/src/tensor_map/tests.rs`.

use sim_core::tensor_map::{Im2col, TensorMap};

use crate::clusters::TIMED;
use crate::tensor_copies::{HOWS, LOADED, ran, words_map};

/// Images of three pixels of 20 words, two of them; the box of a filter of two pixels, padded by one on the left.
fn images() -> TensorMap {
    let columns = Im2col { lower: vec![-1], upper: vec![-1], channels: 4, pixels: 8 };
    TensorMap {
        sizes: vec![20, 3, 2],
        strides: vec![128, 384],
        box_sizes: Vec::new(),
        element_strides: vec![1; 3],
        im2col: Some(columns),
        ..words_map()
    }
}

/// Word of the tensor of a channel, pixel and image; 0 beyond it.
fn pixel(channel: i32, at: i32, image: i32) -> u32 {
    let inside = (0..20).contains(&channel) && (0..3).contains(&at) && (0..2).contains(&image);
    if inside { (1000 + image * 96 + at * 32 + channel) as u32 } else { 0 }
}

#[test]
fn columns_of_pixels_are_loaded_with_an_offset() {
    for offset in 0..3i32 {
        let body = format!(
            "mov.b16 %mask, {offset};\n@!%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], %bytes;\n\
             @!%p cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%tile], [%map, {{18, 0, 0}}], [%object], {{%mask}};\n{LOADED}"
        );
        // From pixel 0 of the first image on: 0, 1, then the whole box of the next image, and what lies beyond.
        let bases = [(0, 0), (1, 0), (-1, 1), (0, 1), (1, 1), (-1, 2), (0, 2), (1, 2)];
        let expected: Vec<u32> = bases
            .iter()
            .flat_map(|(at, image)| (18..22).map(move |channel| pixel(channel, at + offset, *image)))
            .collect();
        for how in HOWS {
            let words = ran(&images(), &body, 1, how).unwrap_or_else(|e| panic!("{}: {e}", how.policy));
            assert_eq!(words[..32], expected, "offset {offset}, {} {}", how.policy, how.functional);
        }
    }
}

#[test]
fn columns_of_pixels_are_stored_and_added_without_offsets() {
    for (copy, adds) in [
        ("cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group", false),
        ("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.im2col_no_offs.bulk_group", true),
    ] {
        let body = format!(
            "add.u32 %a, %t, 5000;\nst.shared.u32 [%at], %a;\nfence.proxy.async;\nbar.sync 0;\n\
             @!%p {copy} [%map, {{18, 0, 0}}], [%tile];\n@!%p cp.async.bulk.commit_group;\n@!%p cp.async.bulk.wait_group 0;\n"
        );
        let mut expected: Vec<u32> = (1000..1192).collect();
        let bases = [(0, 0), (1, 0), (-1, 1), (0, 1), (1, 1), (-1, 2), (0, 2), (1, 2)];
        for (i, (at, image)) in bases.into_iter().enumerate() {
            for channel in 18..22 {
                let old = pixel(channel, at, image);
                if old != 0 {
                    let value = 5000 + 4 * i as u32 + (channel as u32 - 18);
                    expected[old as usize - 1000] = if adds { old + value } else { value };
                }
            }
        }
        for how in HOWS {
            let words = ran(&images(), &body, 1, how).unwrap_or_else(|e| panic!("{copy}: {e}"));
            assert_eq!(words[4096..4096 + 192], expected, "{copy} {} {}", how.policy, how.functional);
        }
    }
}

#[test]
fn modes_and_offsets_must_be_those_of_the_map() {
    let load = |mode: &str, offsets: &str| {
        format!(
            "mov.b16 %mask, 300;\n@!%p cp.async.bulk.tensor.3d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes [%tile], [%map, {{0, 0, 0}}], [%object]{offsets};\n"
        )
    };
    let deep = TensorMap {
        sizes: vec![20, 3, 2, 1],
        strides: vec![128, 384, 768],
        element_strides: vec![1; 4],
        im2col: Some(Im2col { lower: vec![0, 0], upper: vec![0, 0], channels: 4, pixels: 4 }),
        ..images()
    };
    let of_four =
        load("im2col", ", {%mask, %mask}").replace(".3d.", ".4d.").replace("{0, 0, 0}", "{0, 0, 0, 0}");
    let tiled = TensorMap { im2col: None, box_sizes: vec![4, 2, 2], ..images() };
    let interleaved = TensorMap { interleave: 16, ..tiled.clone() };
    for (map, body, words) in [
        (
            &tiled,
            load("im2col", ", {%mask}"),
            "the tensor map is of tiled mode, the instruction of im2col mode",
        ),
        (&images(), load("tile", ""), "the tensor map is of im2col mode, the instruction of tiled mode"),
        (&deep, of_four, "an im2col offset of 4 dimensions is 0 to 255, not 300"),
        (&interleaved, load("tile", ""), "copies of interleaved tensors are not executed"),
    ] {
        for functional in [false, true] {
            let how = crate::clusters::How { functional, ..TIMED };
            let error = ran(map, &body, 1, how).map(|_| ()).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}

/// Thread 0 copies the map to shared memory, where `changes` change it, and the warp puts it into global memory; or it
/// does so in global memory. Then the box at these coordinates is loaded by it.
fn changed(map: &TensorMap, changes: &str, shared: bool, load: &str) -> Vec<u32> {
    let copied: String = (0..128)
        .step_by(8)
        .map(|at| {
            let space = if shared { "shared" } else { "global" };
            format!("ld.b64 %v, [%map+{at}];\n@!%p st.{space}.b64 [%copy+{at}], %v;\n")
        })
        .collect();
    let place = if shared { "add.u32 %copy, %tile, 2048;\n" } else { "add.u64 %copy, %out, 8192;\n" };
    let kind = if shared { ".reg .u32 %copy;\n" } else { ".reg .u64 %copy;\n" };
    let moved = if shared {
        ".reg .pred %whole;\nsetp.lt.u32 %whole, %t, 32;\n@!%whole bra MOVED;\n\
         tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%there64], [%copy], 128;\nMOVED:\n"
    } else {
        "fence.proxy.tensormap::generic.release.gpu;\n"
    };
    let body = format!(
        ".reg .u64 %v, %there64;\n{kind}add.u64 %there64, %out, 8192;\n{place}{copied}bar.sync 0;\n@%p bra CHANGED;\n{changes}CHANGED:\nbar.sync 0;\n\
         {moved}bar.sync 0;\nfence.proxy.tensormap::generic.acquire.gpu [%there64], 128;\nprefetch.tensormap [%there64];\nprefetch.tensormap [%map];\n\
         @!%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], 128;\n{load}{LOADED}"
    );
    let mut found: Option<Vec<u32>> = None;
    for how in HOWS {
        let words = ran(map, &body, 1, how).unwrap_or_else(|e| panic!("{}: {e}", how.policy))[..32].to_vec();
        assert_eq!(*found.get_or_insert_with(|| words.clone()), words, "{} {}", how.policy, how.functional);
    }
    found.expect("there are ways")
}

#[test]
fn every_field_of_a_map_is_replaced() {
    // A map that has nothing right but its mode, turned into that of `words_map` with an element stride of 3 and a
    // swizzle; the tensor begins a row later.
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
        let replace = |what: &str, ty: &str, operands: &str| {
            format!("tensormap.replace.tile.{what}{space}.b1024.{ty} [%copy], {operands};\n")
        };
        let changes = [
            "add.u64 %v, %out, 16512;\n".to_string(),
            replace("global_address", "b64", "%v"),
            replace("rank", "b32", "1"),
            replace("global_dim", "b32", "0, 20"),
            "mov.u32 %r, 5;\n".to_string(),
            replace("global_dim", "b32", "1, %r"),
            replace("global_stride", "b64", "0, 128"),
            replace("box_dim", "b32", "0, 8"),
            replace("box_dim", "b32", "1, 12"),
            replace("element_stride", "b32", "0, 1"),
            replace("element_stride", "b32", "1, 3"),
            // In the instruction's order 7 is f32.
            replace("elemtype", "b32", "7"),
            replace("interleave_layout", "b32", "0"),
            replace("swizzle_mode", "b32", "1"),
            replace("fill_mode", "b32", "1"),
        ]
        .concat();
        let load = "@!%p cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%tile], [%there64, {4, 1}], [%object];\n";
        let found = changed(&wrong, &changes, shared, load);
        for (i, word) in found.iter().enumerate() {
            // Lines of 128 bytes hold four rows; a swizzle of 32 bytes changes none in the first line.
            let (row, column) = (1 + 3 * (i as u32 / 8), 4 + i as u32 % 8);
            if row < 5 {
                assert_eq!(*word, 1000 + (row + 1) * 32 + column, "word {i}, {space}");
            } else {
                assert!(f32::from_bits(*word).is_nan(), "word {i}, {space}");
            }
        }
    }
}
