//! Tensor maps that a workload file declares, or a program by the typed interface.

#![allow(missing_docs, reason = "tests")]

mod common;

use common::{Folder, json, text, warpsim};
use sim_frontend::diagnostic::Source;
use warpsim::device::{Device, DeviceRequest, Kernel, TensorMap};

/// Loads the box of 8 by 4 words at (4, 1) by a map among the parameters and by one in global memory, and stores both.
const COPY: &str = ".version 8.3\n.target sm_90\n.address_size 64\n\
    .visible .entry k(.param .align 64 .b8 m[128], .param .u64 there, .param .u64 out)\n{\n\
    .reg .b32 t, v, w, a;\n.reg .b64 p, q, o, i;\n.reg .pred first, done;\n\
    .shared .align 128 .b8 room[256];\n.shared .align 8 .b64 object;\n\
    mov.b64 p, m;\ncvta.param.u64 p, p;\nld.param.u64 q, [there];\nld.param.u64 o, [out];\nmov.u32 t, %tid.x;\n\
    setp.eq.u32 first, t, 0;\n@!first bra WAITS;\n\
    mbarrier.init.shared::cta.b64 [object], 1;\nfence.proxy.async.shared::cta;\n\
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [object], 256;\n\
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [room], [p, {4, 1}], [object];\n\
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [room+128], [q, {4, 1}], [object];\n\
    WAITS:\nbar.sync 0;\n\
    AGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [object], 0;\n@!done bra AGAIN;\n\
    mul.lo.u32 a, t, 4;\nmov.u32 w, room;\nadd.u32 w, w, a;\nld.shared.u32 v, [w];\n\
    mul.wide.u32 i, t, 4;\nadd.u64 o, o, i;\nst.global.u32 [o], v;\nret;\n}\n";

/// 16 columns, 6 rows of 24 words; word `i` of the buffer is `i`, the tensor begins at the eighth.
fn file(maps: &str, args: &str, values: &str) -> String {
    format!(
        "schema: 1\nname: w\ndescription: d\nschedule: independent\nparams: {{rows: 6}}\n\
         variants:\n- {{name: v, file: k.ptx, compiler: hand, target: sm_90}}\n\
         buffers:\n  in: {{type: u32, length: 8 + 24 * rows, init: iota}}\n  out: {{type: u32, length: 64, init: zeros}}\n\
         tensor_maps:\n{maps}\
         launches:\n- {{entry: k, grid: [1], block: [64], args: [{args}]}}\n\
         expect:\n- {{buffer: out, values: {values}, tolerance: exact}}\n"
    )
}

const MAP: &str =
    "  map:\n    buffer: in\n    offset: 8\n    dims: [16, rows]\n    strides: [96]\n    box: [8, 4]\n";

/// Word `i` of the box at (4, 1).
fn word(i: u32) -> u32 {
    8 + (1 + i / 8) * 24 + 4 + i % 8
}

fn run(folder: &Folder, text_of: &str) -> (Option<i32>, String) {
    folder.write("k.ptx", COPY);
    folder.write("workload.yaml", text_of);
    let mut found = (None, String::new());
    for mode in [&["--chip", "h100"][..], &["--chip", "h100", "--functional"]] {
        let path = folder.0.display().to_string();
        let output = warpsim(&[&["run", &path], mode].concat());
        found = (output.status.code(), text(&output.stdout) + &text(&output.stderr));
        if found.0 != Some(0) {
            return found;
        }
    }
    found
}

#[test]
fn a_map_is_a_parameter_or_lies_in_global_memory() {
    let folder = Folder::new("tensormap");
    let expected: Vec<String> = (0..64).map(|i| word(i % 32).to_string()).collect();
    let values = format!("[{}]", expected.join(", "));
    let (code, said) = run(&folder, &file(MAP, "map, map, out", &values));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("pass"), "{said}");
    // A struct has the map at its alignment.
    let (code, said) = run(&folder, &file(MAP, "{struct: [map]}, map, out", &values));
    assert_eq!(code, Some(0), "{said}");
    // The result depends on the map.
    let (code, said) = run(&folder, &file(&MAP.replace("8\n", "4\n"), "map, map, out", &values));
    assert_eq!(code, Some(1), "{said}");
    for (args, words) in [
        ("map + 1, map, out", "it has no elements to begin at"),
        ("nap, map, out", "there is no buffer `nap`; available: in, out, map"),
        ("map, map, map, out", "too many"),
        ("{struct: [{u32: 1}, map]}, map, out", "has 192 bytes"),
    ] {
        let (code, said) = run(&folder, &file(MAP, args, &values));
        assert!(code == Some(2) && said.contains(words) && said.contains("workload.yaml:"), "{args}: {said}");
    }
}

#[test]
fn a_report_counts_copies_and_packets() {
    let report = json(&warpsim(&["run", "hgemm_tma", "--chip", "h100", "--json"]));
    let (tma, remote) = (&report["memory"]["tma"], &report["memory"]["remote"]);
    // Four blocks, four steps: half of the rows of A for both blocks of a cluster, and two boxes of B, 8 KiB each.
    assert_eq!((tma["copies"].as_u64(), tma["loaded_bytes"].as_u64()), (Some(48), Some(48 * 8192)));
    assert!(remote["packets"].as_u64() > remote["accesses"].as_u64(), "{remote}");
    let words = text(&warpsim(&["run", "hgemm_tma", "--chip", "h100"]).stdout);
    assert!(
        words.contains("bulk copies: 48 copies, 384 KiB loaded") && words.contains("clusters: "),
        "{words}"
    );
    let without = warpsim(&["run", "vecadd", "--json"]);
    assert!(json(&without)["memory"].get("tma").is_none());
    assert!(!text(&warpsim(&["run", "vecadd"]).stdout).contains("bulk copies"));
}

/// Each limit of `cuTensorMapEncodeTiled`, with the place of the key that exceeds it.
#[test]
fn a_wrong_map_is_told_with_its_line_and_column() {
    let folder = Folder::new("wrongmap");
    let line = |text_of: &str, key: &str| {
        let at = text_of.find(key).expect("the key is there");
        let line = text_of[..at].matches('\n').count() + 1;
        let column = at - text_of[..at].rfind('\n').expect("it is not the first") + key.len();
        format!("workload.yaml:{line}:{column}")
    };
    for (from, to, key, words) in [
        ("    offset: 8", "    offset: 2", "offset: ", "is no multiple of 16"),
        ("    offset: 8", "    offset: rows / 4", "offset: ", "1.5 is not an integer"),
        ("    buffer: in", "    buffer: on", "buffer: ", "names `on`, which is not a buffer"),
        ("    offset: 8", "    type: u4", "type: ", "no elements of type `u4`"),
        ("dims: [16, rows]", "dims: [16, 0]", "dims: ", "1 to 2147483648, not 0"),
        ("dims: [16, rows]", "dims: [16, rows, 1, 1, 1, 1]", "dims: ", "1 to 5 dimensions, not 6"),
        ("dims: [16, rows]", "dims: [16, rows + 1]", "dims: ", "needs 672 bytes, but buffer `in` has 608"),
        ("strides: [96]", "strides: [100]", "strides: ", "no multiple of 16 below 2^40"),
        ("strides: [96]", "strides: [1099511627776]", "strides: ", "below 2^40"),
        ("strides: [96]", "strides: [96, 96]", "strides: ", "one less than dimensions of strides, not 2"),
        ("box: [8, 4]", "box: [8, 257]", "box: ", "1 to 256, not 257"),
        ("box: [8, 4]", "box: [6, 4]", "box: ", "24 bytes, which is no multiple of 16"),
        ("box: [8, 4]", "box: [8]", "box: ", "one a dimension of sizes of the box, not 1"),
        ("box: [8, 4]", "box: [16, 4]\n    swizzle: 32", "box: ", "64 bytes, more than the swizzle's 32"),
        ("box: [8, 4]", "box: [8, 4]\n    swizzle: 33", "swizzle: ", "no swizzle of 33 bytes"),
        ("box: [8, 4]", "box: [8, 4]\n    element_strides: [1, 9]", "element_strides: ", "1 to 8, not 9"),
        ("box: [8, 4]", "box: [8, 4]\n    interleave: 8", "interleave: ", "no interleave of 8"),
        ("box: [8, 4]", "box: [8, 4]\n    l2_promotion: 32", "l2_promotion: ", "64, 128 or 256"),
        ("box: [8, 4]", "box: [8, 4]\n    fill: nan", "fill: ", "cannot be NaN"),
    ] {
        let changed = file(&MAP.replace(from, to), "map, map, out", "[0]");
        let (code, said) = run(&folder, &changed);
        let place = line(&changed, &format!("    {key}"));
        assert!(code == Some(2) && said.contains(words) && said.contains(&place), "{to} {place}: {said}");
    }
    for (from, to, words) in [
        ("    box: [8, 4]\n", "", "tensor map `map` needs `box`, or `im2col`"),
        ("    dims: [16, rows]\n", "", "missing key in `tensor_maps.map`: `dims`"),
        ("box: [8, 4]", "boxes: [8, 4]", "there is no key `tensor_maps.map.boxes`"),
        ("  map:", "  out:", "`out` is a buffer; `tensor_maps` needs a name of its own"),
    ] {
        let (code, said) = run(&folder, &file(&MAP.replace(from, to), "map, map, out", "[0]"));
        assert!(code == Some(2) && said.contains(words), "{to}: {said}");
    }
    // All that is wrong is told at once.
    let many = MAP.replace("offset: 8", "offset: 2").replace("[96]", "[100]").replace("[8, 4]", "[6, 257]");
    let (_, said) = run(&folder, &file(&many, "map, map, out", "[0]"));
    assert_eq!(said.matches("error[").count(), 4, "{said}");
}

#[test]
fn a_program_makes_maps_by_the_typed_interface() {
    let request = |chip: &str| DeviceRequest { chip: chip.into(), ..DeviceRequest::default() };
    let mut device = Device::new(&request("h100")).expect("a chip");
    let module = device.load(&Source::new("k.ptx", COPY)).expect("correct PTX");
    let words: Vec<u8> = (0..200u32).flat_map(u32::to_le_bytes).collect();
    let tensor = device.malloc("in", 800, 1).expect("it fits");
    device.write(tensor, &words).expect("allocated");
    let map = TensorMap::tiled("u32", tensor + 32, &[16, 6], &[96], &[8, 4]);
    let bytes = device.tensor_map(&map).expect("a map");
    let there = device.malloc("map", 128, 1).expect("it fits");
    device.write(there, &bytes).expect("allocated");
    let out = device.malloc("out", 256, 1).expect("it fits");
    let params = [&bytes[..], &there.to_le_bytes(), &out.to_le_bytes()].concat();
    device.launch(&Kernel::new(module, "k", [1; 3], [64, 1, 1], &params)).expect("a launch");
    device.synchronize(&|_, _, _| {}).expect("no fault");
    let mut found = vec![0; 256];
    device.read(out, &mut found).expect("allocated");
    let found: Vec<u32> = found.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    assert_eq!(found, (0..64).map(|i| word(i % 32)).collect::<Vec<_>>());
    let tma = device.report().expect("it ran").memory.tma.expect("there were copies");
    assert_eq!((tma.copies, tma.loaded_bytes, tma.stored_bytes, tma.between_bytes), (2, 256, 0, 0));
    assert!(tma.busy_cycles > 0 && tma.busy_cycles < tma.active_cycles, "{tma:?}");
    let wrong = TensorMap { address: tensor + 8, swizzle: 16, ..map.clone() };
    let said = device.tensor_map(&wrong).expect_err("two limits").to_string();
    assert!(said.contains("offset: the address") && said.contains("no swizzle of 16"), "{said}");
    let older = Device::new(&request("a100")).expect("a chip");
    assert!(older.tensor_map(&map).expect_err("8.0").to_string().contains("copies of tensors need 9.0"));
}

/// A block that copies a box of 64 words or less by a map, and stores what shared memory has then.
fn one_copy(target: &str, bytes: u32, copy: &str) -> String {
    format!(
        ".version 8.6\n.target {target}\n.address_size 64\n\
         .visible .entry k(.param .align 64 .b8 m[128], .param .u64 out)\n{{\n\
         .reg .b32 t, v, w, a;\n.reg .b64 p, o, i;\n.reg .b16 one, none;\n.reg .pred first, done;\n\
         .shared .align 1024 .b8 room[256];\n.shared .align 8 .b64 object;\n\
         mov.b64 p, m;\ncvta.param.u64 p, p;\nld.param.u64 o, [out];\nmov.u32 t, %tid.x;\nmov.b16 one, 1;\nmov.b16 none, 0;\n\
         setp.eq.u32 first, t, 0;\n@!first bra WAITS;\n\
         mbarrier.init.shared::cta.b64 [object], 1;\nfence.proxy.async.shared::cta;\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [object], {bytes};\n{copy}\n\
         WAITS:\nbar.sync 0;\n\
         AGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [object], 0;\n@!done bra AGAIN;\n\
         mul.lo.u32 a, t, 4;\nmov.u32 w, room;\nadd.u32 w, w, a;\nld.shared.u32 v, [w];\n\
         mul.wide.u32 i, t, 4;\nadd.u64 o, o, i;\nst.global.u32 [o], v;\nret;\n}}\n"
    )
}

/// A workload of it over 144 words, word `i` is `i`; the map's keys.
fn one_map(words: &[u32], keys: &str) -> String {
    let values: Vec<String> = words.iter().map(u32::to_string).collect();
    format!(
        "schema: 1\nname: w\ndescription: d\nschedule: independent\n\
         variants:\n- {{name: v, file: k.ptx, compiler: hand, target: sm_90}}\n\
         buffers:\n  in: {{type: u32, length: 144, init: iota}}\n  out: {{type: u32, length: {}, init: zeros}}\n\
         tensor_maps:\n  map:\n    buffer: in\n{keys}\
         launches:\n- {{entry: k, grid: [1], block: [{}], args: [map, out]}}\n\
         expect:\n- {{buffer: out, values: [{}], tolerance: exact}}\n",
        words.len(),
        words.len(),
        values.join(", ")
    )
}

/// What a run of a workload of that kernel says, timed or else functionally: the first that does not pass.
fn said(name: &str, chip: &str, ptx: &str, text_of: &str) -> (Option<i32>, String) {
    let folder = Folder::new(name);
    folder.write("k.ptx", ptx);
    folder.write("workload.yaml", text_of);
    let path = folder.0.display().to_string();
    let mut found = (None, String::new());
    for mode in [&["run", &path, "--chip", chip][..], &["run", &path, "--chip", chip, "--functional"]] {
        let output = warpsim(mode);
        found = (output.status.code(), text(&output.stdout) + &text(&output.stderr));
        if found.0 != Some(0) {
            break;
        }
    }
    found
}

const TILE: &str = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [room], [p, {0, 1}], [object];";

/// `swizzle_atom`: two rows of 128 bytes, of which the second has its chunks exchanged, and with a flip the halves of each
/// 16 bytes.
#[test]
fn chunks_of_a_swizzle_are_told_in_a_workload_file() {
    let keys = |rest: &str| format!("    dims: [32, 4]\n    box: [32, 2]\n{rest}");
    let ptx = one_copy("sm_90", 256, TILE);
    for (atom, chunk, flip) in [("16B", 4, 0), ("32B", 8, 0), ("32B_flip_8B", 8, 2), ("64B", 16, 0)] {
        let mut words = vec![0; 64];
        for i in 0..32u32 {
            words[i as usize] = 32 + i;
            words[32 + ((i ^ chunk) ^ flip) as usize] = 64 + i;
        }
        let keys = keys(&format!("    swizzle: 128\n    swizzle_atom: {atom}\n"));
        let (code, said) = said(&format!("atom-{atom}"), "h100", &ptx, &one_map(&words, &keys));
        assert_eq!(code, Some(0), "{atom}: {said}");
    }
    for (rest, wanted) in [
        ("    swizzle: 128\n    swizzle_atom: 8B\n", "16B"),
        ("    swizzle: 64\n    swizzle_atom: 32B\n", "only a swizzle of 128 bytes has other chunks"),
        (
            "    swizzle_atom: 64B\n",
            "only a swizzle of 128 bytes has other chunks than those of 16, not one of 0",
        ),
    ] {
        let (code, said) = said("atom-wrong", "h100", &ptx, &one_map(&[0; 64], &keys(rest)));
        assert!(
            code == Some(2) && said.contains(wanted) && said.contains("workload.yaml:"),
            "{rest}: {said}"
        );
    }
}

/// `wide`: a column of pixels of one row, and a halo behind it.
#[test]
fn pixels_along_w_are_told_in_a_workload_file() {
    let keys = |columns: &str, rest: &str| {
        format!(
            "    dims: [8, 5, 2]\n    im2col: {{lower: [-1], upper: [-1], channels: 8, {columns}}}\n{rest}"
        )
    };
    let column = "cp.async.bulk.tensor.3d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes [room], [p, {0, 2, 0}], [object], {one, none};";
    let ptx = one_copy("sm_100a", 160, column);
    let mut words = vec![0; 40];
    // Pixels 2 and 3 of the first image, -1 and 0 of the second, and one of the halo; chunks of the second row are exchanged.
    for (number, (w, image)) in [(2i32, 0), (3, 0), (-1, 1), (0, 1), (1, 1)].into_iter().enumerate() {
        for channel in 0..8 {
            let place = number * 8 + channel;
            let place = if place >= 32 { place ^ 4 } else { place };
            words[place] = if w < 0 { 0 } else { (image * 40 + w * 8 + channel as i32) as u32 };
        }
    }
    let good = keys("pixels: 4, wide: w", "    swizzle: 32\n");
    let (code, found) = said("wide", "b200", &ptx, &one_map(&words, &good));
    assert_eq!(code, Some(0), "{found}");
    // The instruction is of the other mode.
    let other = keys("pixels: 4, wide: w128", "    swizzle: 32\n");
    let (code, found) = said("wide-other", "b200", &ptx, &one_map(&words, &other));
    assert!(
        code == Some(3) && found.contains("the tensor map is of im2col::w::128 mode"),
        "{code:?} {found}"
    );
    for (columns, rest, wanted) in [
        ("pixels: 4, wide: h", "    swizzle: 32\n", "w128"),
        ("pixels: 4, wide: w", "", "copies along W need a swizzle"),
        (
            "pixels: 4, wide: w",
            "    swizzle: 128\n    swizzle_atom: 32B_flip_8B\n",
            "no swizzle that flips halves",
        ),
        (
            "pixels: 4, wide: w",
            "    swizzle: 32\n    interleave: 16\n",
            "along W of interleaved tensors do not exist",
        ),
        ("pixels: 1025, wide: w", "    swizzle: 32\n", "1 to 1024, not 1025"),
    ] {
        let (code, said) = said("wide-wrong", "b200", &ptx, &one_map(&[0; 40], &keys(columns, rest)));
        assert!(
            code == Some(2) && said.contains(wanted) && said.contains("workload.yaml:"),
            "{columns} {rest}: {said}"
        );
    }
}

/// `interleave`: six channels from the fifth on of two images, in slices of four; strides are those of slices.
#[test]
fn interleaved_tensors_are_told_in_a_workload_file() {
    let keys = |dims: &str, rest: &str| format!("    dims: {dims}\n    box: [6, 2, 1, 2]\n{rest}");
    let copy = "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [room], [p, {5, 1, 1, 0}], [object];";
    let ptx = one_copy("sm_90", 128, copy);
    let mut words = Vec::new();
    for (image, slice, w, lane) in (0..32).map(|i| (i / 16, i / 8 % 2, 1 + i / 4 % 2, i % 4)) {
        let channel = 5 + slice * 4 + lane;
        let inside = channel < 10 && slice * 4 + lane < 6;
        words.push(if inside { image * 72 + channel / 4 * 24 + 12 + w * 4 + channel % 4 } else { 0 });
    }
    for rest in ["    interleave: 16\n", "    interleave: 16\n    strides: [16, 48, 288]\n"] {
        let (code, found) = said("interleave", "h100", &ptx, &one_map(&words, &keys("[10, 3, 2, 2]", rest)));
        assert_eq!(code, Some(0), "{found}");
    }
    for (dims, rest, wanted) in [
        (
            "[10, 3, 2, 2]",
            "    interleave: 16\n    offset: 4\n",
            "the tensor needs 592 bytes, but buffer `in` has 576",
        ),
        ("[13, 3, 2, 2]", "    interleave: 16\n", "the tensor needs 768 bytes"),
        ("[10, 3, 2, 2]", "    interleave: 32\n", "needs a swizzle of 32 bytes, not 0"),
        (
            "[10, 3, 2, 2]",
            "    interleave: 32\n    swizzle: 32\n    strides: [16, 48, 288]\n",
            "no multiple of 32",
        ),
        ("[10, 3]", "    interleave: 16\n", "an interleaved tensor has 3 to 5 dimensions, not 2"),
    ] {
        let (code, said) = said("interleave-wrong", "h100", &ptx, &one_map(&[0; 32], &keys(dims, rest)));
        assert!(
            code == Some(2) && said.contains(wanted) && said.contains("workload.yaml:"),
            "{dims} {rest}: {said}"
        );
    }
}
