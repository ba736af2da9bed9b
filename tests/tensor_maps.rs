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
