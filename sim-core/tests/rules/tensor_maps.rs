//! Tensor maps in im2col mode. Columns of pixels are compared with the manual's words in `sim-core/src/tensor_map/tests.rs`.

use sim_core::tensor_map::{Im2col, TensorMap};

use crate::clusters::TIMED;
use crate::tensor_copies::{HOWS, LOADED, ran, words_map};

/// Images of three pixels of 20 words, two of them; the box of a filter of two pixels, padded by one on the left.
fn images() -> TensorMap {
    let columns = Im2col { lower: vec![-1], upper: vec![-1], channels: 4, pixels: 8, along_w: None };
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
        im2col: Some(Im2col { lower: vec![0, 0], upper: vec![0, 0], channels: 4, pixels: 4, along_w: None }),
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
