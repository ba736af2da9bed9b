//! Tensor maps in im2col mode. Columns of pixels are compared with the manual's words in `sim-core/src/tensor_map/tests.rs`.

use sim_core::tensor_map::{Im2col, TensorMap};

use crate::clusters::TIMED;
use crate::tensor_copies::{HOWS, LOADED, in_every_way, ran, words_map};

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
    for (map, body, words) in [
        (
            &tiled,
            load("im2col", ", {%mask}"),
            "the tensor map is of tiled mode, the instruction of im2col mode",
        ),
        (&images(), load("tile", ""), "the tensor map is of im2col mode, the instruction of tiled mode"),
        (&deep, of_four, "an im2col offset of 4 dimensions is 0 to 255, not 300"),
    ] {
        for functional in [false, true] {
            let how = crate::clusters::How { functional, ..TIMED };
            let error = ran(map, &body, 1, how).map(|_| ()).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}

/// Ten channels in slices of four words: two images of two rows of three pixels. The box has six channels.
fn slices() -> TensorMap {
    TensorMap {
        interleave: 16,
        sizes: vec![10, 3, 2, 2],
        strides: vec![16, 48, 288],
        box_sizes: vec![6, 2, 1, 2],
        element_strides: vec![1; 4],
        ..words_map()
    }
}

/// The word of that tensor with a channel, none beyond it.
fn word_of_slices([channel, w, h, image]: [usize; 4]) -> Option<usize> {
    let inside = channel < 10 && w < 3 && h < 2 && image < 2;
    inside.then_some(image * 72 + channel / 4 * 24 + h * 12 + w * 4 + channel % 4)
}

/// Words of the tensor for those of shared memory, of the box at (5, 1, 1, 0): in each image a slice of the box after another.
fn box_of_slices() -> Vec<Option<usize>> {
    let mut out = Vec::new();
    for image in 0..2 {
        for slice in 0..2 {
            for w in 1..3 {
                for lane in 0..4 {
                    let taken = slice * 4 + lane;
                    let word = word_of_slices([5 + taken, w, 1, image]);
                    out.push(word.filter(|_| taken < 6));
                }
            }
        }
    }
    out
}

/// In every way, the words of a copy that is loaded.
fn loaded(map: &TensorMap, copy: &str) -> Vec<u32> {
    let body = format!(
        "mov.b16 %mask, 1;\n@!%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%object], %bytes;\n@!%p {copy}\n{LOADED}"
    );
    in_every_way(map, &body)
}

#[test]
fn boxes_of_interleaved_tensors_are_loaded_stored_and_added() {
    let load = "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%tile], [%map, {5, 1, 1, 0}], [%object];";
    let found = loaded(&slices(), load);
    let expected: Vec<u32> =
        box_of_slices().iter().map(|word| word.map_or(0, |word| 1000 + word as u32)).collect();
    assert_eq!(found[..32], expected);
    assert_eq!(expected.iter().filter(|word| **word != 0).count(), 2 * 2 * 5, "five of six channels");
    for (copy, adds) in [
        ("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group", false),
        ("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group", true),
    ] {
        let body = format!(
            "add.u32 %a, %t, 5000;\nst.shared.u32 [%at], %a;\nfence.proxy.async;\nbar.sync 0;\n\
             @!%p cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%map, {{5, 1, 1, 0}}];\n\
             @!%p {copy} [%map, {{5, 1, 1, 0}}], [%tile];\n@!%p cp.async.bulk.commit_group;\n@!%p cp.async.bulk.wait_group 0;\n"
        );
        let mut expected: Vec<u32> = (1000..1144).collect();
        for (i, word) in box_of_slices().into_iter().enumerate().filter_map(|(i, word)| Some((i, word?))) {
            expected[word] = 5000 + i as u32 + if adds { expected[word] } else { 0 };
        }
        for how in HOWS {
            let words = ran(&slices(), &body, 1, how).unwrap_or_else(|e| panic!("{copy}: {e}"));
            assert_eq!(words[4096..4096 + 144], expected, "{copy} {} {}", how.policy, how.functional);
        }
    }
}

/// Slices of eight words of which chunks of 16 bytes change places in every second row of 128 bytes.
#[test]
fn boxes_of_thick_slices_are_swizzled() {
    let map = TensorMap {
        interleave: 32,
        swizzle: 32,
        sizes: vec![20, 4, 2],
        strides: vec![32, 384],
        box_sizes: vec![16, 4, 1],
        element_strides: vec![1; 3],
        ..words_map()
    };
    let load = "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%tile], [%map, {8, 0, 1}], [%object];";
    let found = loaded(&map, load);
    for (slice, w, channel) in
        (0..2usize).flat_map(|s| (0..4).flat_map(move |w| (0..8).map(move |c| (s, w, c))))
    {
        let place = (slice * 4 + w) * 8 + channel;
        let place = place ^ (place / 32 % 2 * 4);
        let expected =
            if 8 + slice * 8 + channel < 20 { 1000 + 96 + (1 + slice) * 32 + w * 8 + channel } else { 0 };
        assert_eq!(found[place], expected as u32, "{slice} {w} {channel}");
    }
}

/// A column has all its pixels in a slice before the next.
#[test]
fn columns_of_interleaved_tensors_are_loaded_and_stored() {
    let columns = Im2col { lower: vec![-1], upper: vec![-1], channels: 6, pixels: 4, along_w: None };
    let map = TensorMap {
        interleave: 16,
        sizes: vec![10, 3, 2],
        strides: vec![16, 144],
        box_sizes: Vec::new(),
        element_strides: vec![1; 3],
        im2col: Some(columns),
        ..words_map()
    };
    let word = |channel: i32, w: i32, image: i32| {
        let inside = (0..10).contains(&channel) && (0..3).contains(&w) && (0..2).contains(&image);
        inside.then(|| (image * 36 + channel / 4 * 12 + w * 4 + channel % 4) as usize)
    };
    // From pixel 1 of the first image on, with an offset of one.
    let pixels = [(1, 0), (-1, 1), (0, 1), (1, 1)];
    let places = |offset: i32| -> Vec<Option<usize>> {
        let one = |slice: i32, (w, image): (i32, i32)| {
            (0..4)
                .map(move |lane| slice * 4 + lane)
                .map(move |taken| if taken < 6 { word(2 + taken, w + offset, image) } else { None })
        };
        (0..2).flat_map(|slice| pixels.into_iter().flat_map(move |pixel| one(slice, pixel))).collect()
    };
    let load = "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%tile], [%map, {2, 1, 0}], [%object], {%mask};";
    let expected: Vec<u32> = places(1).iter().map(|word| word.map_or(0, |word| 1000 + word as u32)).collect();
    assert_eq!(loaded(&map, load)[..32], expected);
    let body = "add.u32 %a, %t, 5000;\nst.shared.u32 [%at], %a;\nfence.proxy.async;\nbar.sync 0;\n\
        @!%p cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [%map, {2, 1, 0}], [%tile];\n\
        @!%p cp.async.bulk.commit_group;\n@!%p cp.async.bulk.wait_group 0;\n";
    let mut expected: Vec<u32> = (1000..1072).collect();
    for (i, word) in places(0).into_iter().enumerate().filter_map(|(i, word)| Some((i, word?))) {
        expected[word] = 5000 + i as u32;
    }
    for how in HOWS {
        let words = ran(&map, body, 1, how).unwrap_or_else(|e| panic!("{}: {e}", how.policy));
        assert_eq!(words[4096..4096 + 72], expected, "{} {}", how.policy, how.functional);
    }
}
