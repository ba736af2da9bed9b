//! Textures of several samples that a workload file declares.

#![allow(missing_docs, reason = "tests")]

mod common;

use common::{Folder, text, warpsim};

/// Each thread looks up the texel at (t % 4, t / 4 % 2) of a sample and layer.
const LOOKUP: &str = ".version 8.0\n.target sm_75\n.address_size 64\n\
    .visible .entry k(.param .u64 image, .param .u64 out)\n{\n\
    .reg .b32 t, x, y, s, l, r<4>;\n.reg .b64 h, o, i;\n\
    ld.param.u64 h, [image];\nld.param.u64 o, [out];\nmov.u32 t, %tid.x;\n\
    and.b32 x, t, 3;\nshr.u32 y, t, 2;\nand.b32 y, y, 1;\nshr.u32 s, t, 3;\nand.b32 s, s, 1;\nshr.u32 l, t, 4;\n\
    LOOKUP\nmul.wide.u32 i, t, 4;\nadd.u64 o, o, i;\nst.global.u32 [o], r0;\nret;\n}\n";

const FLAT: &str = "tex.2dms.v4.u32.s32 {r0, r1, r2, r3}, [h, {s, x, y, y}];";
const LAYERED: &str = "tex.a2dms.v4.u32.s32 {r0, r1, r2, r3}, [h, {s, l, x, y}];";

fn run(name: &str, lookup: &str, threads: u32, keys: &str) -> (Option<i32>, String) {
    let folder = Folder::new(name);
    folder.write("k.ptx", &LOOKUP.replace("LOOKUP", lookup));
    let values: Vec<String> = (0..threads).map(|i| i.to_string()).collect();
    folder.write(
        "workload.yaml",
        &format!(
            "schema: 1\nname: w\ndescription: d\nschedule: independent\nparams: {{samples: 2}}\n\
             variants:\n- {{name: v, file: k.ptx, compiler: hand, target: sm_75}}\n\
             buffers:\n  in: {{type: u32, length: {threads}, init: iota}}\n  out: {{type: u32, length: {threads}, init: zeros}}\n\
             textures:\n  image: {{buffer: in, width: 4, height: 2, {keys}}}\n\
             launches:\n- {{entry: k, grid: [1], block: [{threads}], args: [image, out]}}\n\
             expect:\n- {{buffer: out, values: [{}], tolerance: exact}}\n",
            values.join(", ")
        ),
    );
    let path = folder.0.display().to_string();
    let mut found = (None, String::new());
    for mode in [&["run", &path][..], &["run", &path, "--functional"]] {
        let output = warpsim(&[mode, &["--chip", "rtx2080ti"]].concat());
        found = (output.status.code(), text(&output.stdout) + &text(&output.stderr));
        if found.0 != Some(0) {
            break;
        }
    }
    found
}

/// The buffer has the samples of a layer one after another, each row by row: thread `t` finds texel `t`.
#[test]
fn textures_of_several_samples_lie_sample_by_sample() {
    for (lookup, threads, keys) in
        [(FLAT, 16, "samples: 2"), (FLAT, 16, "samples: samples"), (LAYERED, 48, "samples: 2, layers: 3")]
    {
        let (code, said) = run("samples", lookup, threads, keys);
        assert_eq!(code, Some(0), "{keys}: {said}");
    }
}

#[test]
fn a_wrong_number_of_samples_is_told_with_its_place() {
    for (keys, words) in [
        ("samples: 3", "a texel has 1, 2, 4 or 8 samples, not 3"),
        ("samples: 0", "a texel has 1, 2, 4 or 8 samples, not 0"),
        ("samples: samples + 14", "a texel has 1, 2, 4 or 8 samples, not 16"),
        ("samples: 2, levels: 2", "an array of two dimensions without mip levels and cubes"),
        ("samples: 2, storage: pitched", "an array of two dimensions without mip levels and cubes"),
        ("samples: 4", "`image`"),
        ("samples: many", "many"),
    ] {
        let (code, said) = run("samples-wrong", FLAT, 16, keys);
        assert!(code == Some(2) && said.contains(words) && said.contains("workload.yaml:"), "{keys}: {said}");
    }
    // Lookups of one sample and of several are told apart.
    let (code, said) = run("samples-wrong", FLAT, 8, "samples: 1");
    assert!(code == Some(3) && said.contains("has one sample"), "{code:?} {said}");
    let plain = FLAT.replace("2dms", "2d").replace("{s, x, y, y}", "{x, y}");
    let (code, said) = run("samples-wrong", &plain, 16, "samples: 2");
    assert!(code == Some(3) && said.contains("has 2 samples"), "{code:?} {said}");
}
