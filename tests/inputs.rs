//! Workload files and arguments of the command line: exact integers, what is refused and how, forms of
//! arguments.

#![allow(missing_docs, reason = "tests")]

mod common;

use common::{Folder, json, text, warpsim};

/// Stores its second and third argument.
const STORE: &str = ".version 7.0\n.target sm_70\n.address_size 64\n\
    .visible .entry k(.param .u64 p, .param .u64 v, .param .s64 w)\n{\n\
    .reg .b64 a, b, c;\n\
    ld.param.u64 a, [p];\nld.param.u64 b, [v];\nld.param.s64 c, [w];\n\
    st.global.u64 [a], b;\nst.global.u64 [a+8], c;\nret;\n}\n";

/// `out[i] = in[i] + 1` for the 32 threads of a block.
const STEP: &str = ".version 7.0\n.target sm_20\n.address_size 64\n\
    .visible .entry step(.param .u64 in, .param .u64 out)\n{\n\
    .reg .b32 i, v;\n.reg .b64 a, b, o;\n\
    ld.param.u64 a, [in];\nld.param.u64 b, [out];\n\
    mov.u32 i, %tid.x;\nmul.wide.u32 o, i, 4;\nadd.u64 a, a, o;\nadd.u64 b, b, o;\n\
    ld.global.u32 v, [a];\nadd.u32 v, v, 1;\nst.global.u32 [b], v;\nret;\n}\n";

/// `*s.p = s.a + s.b` of a struct {u32 a; u32* p; u8 b;}.
const STRUCT: &str = ".version 7.0\n.target sm_20\n.address_size 64\n\
    .visible .entry k(.param .align 8 .b8 s[24])\n{\n\
    .reg .b32 x, y;\n.reg .b64 p;\n\
    ld.param.u32 x, [s];\nld.param.u64 p, [s+8];\nld.param.u8 y, [s+16];\n\
    add.u32 x, x, y;\nst.global.u32 [p], x;\nret;\n}\n";

fn workload(folder: &Folder, ptx: &str, target: &str, rest: &str) -> String {
    folder.write("k.ptx", ptx);
    let head = "schema: 1\nname: w\ndescription: d\nschedule: independent\n";
    let variant = format!("variants:\n- {{name: v, file: k.ptx, compiler: hand, target: {target}}}\n");
    folder.write("workload.yaml", &format!("{head}{variant}{rest}"));
    folder.0.display().to_string()
}

/// Exit status, standard output and standard error.
fn run(folder: &Folder, ptx: &str, target: &str, rest: &str) -> (Option<i32>, String, String) {
    let path = workload(folder, ptx, target, rest);
    let chip = if target == "sm_70" { "v100" } else { "gtx480" };
    let output = warpsim(&["run", &path, "--chip", chip]);
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn integers_of_64_bits_reach_the_kernel_and_the_comparison() {
    let folder = Folder::new("u64arg");
    let rest = |args: &str, values: &str| {
        format!(
            "params: {{big: 16045690984503098046}}\nbuffers:\n  out: {{type: u64, length: 2, init: zeros}}\n  \
             b: {{type: u64, length: 2, init: {{values: [9007199254740993, 0xdeadbeefcafebabe]}}}}\n  \
             c: {{type: s64, length: 1, init: zeros}}\nlaunches:\n\
             - {{fill: {{buffer: c, value: -0x7fff_ffff_ffff_ffff}}}}\n\
             - {{entry: k, grid: [1], block: [1], args: [out, {args}]}}\nexpect:\n\
             - {{buffer: out, values: {values}, tolerance: exact}}\n\
             - {{buffer: b, values: [9007199254740993, 16045690984503098046], tolerance: exact}}\n\
             - {{buffer: c, values: [-9223372036854775807], tolerance: exact}}\n"
        )
    };
    let good = rest("{u64: big + 1}, {s64: 9007199254740993}", "[16045690984503098047, 9007199254740993]");
    let (code, out, errors) = run(&folder, STORE, "sm_70", &good);
    assert_eq!(code, Some(0), "{out}{errors}");
    // Values that round to the same f64 are not the same.
    let rounded = rest("{u64: big}, {s64: 9007199254740993}", "[16045690984503097344, 9007199254740992]");
    let (code, out, _) = run(&folder, STORE, "sm_70", &rounded);
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("out[0] is 16045690984503098046; expected 16045690984503097344"), "{out}");
    for (args, words) in [
        ("{u64: 18446744073709551616}, {s64: 1}", "argument 2 of k"),
        ("{u64: -1}, {s64: 1}", "-1 is out of range 0..=18446744073709551615"),
        ("{u64: 1}, {s64: big}", "argument 3 of k"),
        ("{u64: 1.5}, {s64: 1}", "1.5 is not an integer"),
    ] {
        let (code, _, errors) = run(&folder, STORE, "sm_70", &rest(args, "[0]"));
        assert_eq!(code, Some(2), "{args}: {errors}");
        assert!(errors.contains(words) && errors.contains("workload.yaml:14:"), "{args}: {errors}");
    }
}

#[test]
fn arguments_of_the_command_line_are_exact() {
    let folder = Folder::new("argexact");
    let (ptx, dump) = (folder.write("k.ptx", STORE), folder.join("o.bin"));
    let of = |v: &str, w: &str| {
        let dumped = format!("arg0={dump}");
        let args = [
            "run",
            &ptx,
            "--chip",
            "v100",
            "--entry",
            "k",
            "--grid",
            "1",
            "--block",
            "1",
            "--arg",
            "buffer:u64:2",
            "--arg",
            v,
            "--arg",
            w,
            "--dump",
            &dumped,
        ];
        let output = warpsim(&args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let bytes = std::fs::read(&dump).expect("dumped");
        [0, 8].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight")))
    };
    assert_eq!(
        of("u64:16045690984503098046", "s64:-9007199254740993"),
        [16_045_690_984_503_098_046, -9_007_199_254_740_993i64 as u64]
    );
    assert_eq!(of("u64:0xdead_beef_cafe_babe", "b64:-0x1"), [0xdead_beef_cafe_babe, u64::MAX]);
    assert_eq!(of("u64:9007199254740993.0", "s64:-9007199254740993.0")[0], 9_007_199_254_740_993);
}

#[test]
fn arguments_must_be_what_the_parameters_are() {
    let folder = Folder::new("argkinds");
    let ptx = folder.write("k.ptx", STORE);
    let complaint = |arguments: &[&str]| {
        let mut args = vec!["run", &ptx, "--chip", "v100", "--entry", "k", "--grid", "1", "--block", "1"];
        arguments.iter().for_each(|argument| args.extend(["--arg", argument]));
        let output = warpsim(&args);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stdout));
        text(&output.stderr)
    };
    let buffer = "buffer:u64:2";
    for (arguments, words) in [
        (&[buffer, "u64:1"][..], &["takes 3 arguments", "there is none for `w`"][..]),
        (&[buffer, "u64:1", "s64:1", "s64:1"], &["not 4: 1 too many"]),
        (
            &[buffer, "f32:1", "s64:1"],
            &["the argument is .f32, but parameter `v` is .u64", "write --arg u64:…"],
        ),
        (
            &[buffer, "f64:1", "s64:1"],
            &["the argument is .f64, but parameter `v` is .u64", "--arg buffer:TYPE:LENGTH for a pointer"],
        ),
        (&[buffer, "u32:1", "s64:1"], &["the argument is .u32, but parameter `v` is .u64"]),
        (&[buffer, "bytes:00", "s64:1"], &["the argument has 1 bytes, but parameter `v` is .u64"]),
        (&["buffer:u64:2:rand", "u64:1", "s64:1"], &["`rand` is not zeros, iota, random or @FILE"]),
        (&[buffer, "arg7", "s64:1"], &["there is no earlier buffer `arg7`"]),
        (&[buffer, "arg0+3", "s64:1"], &["is out of range: the buffer has 2 elements"]),
    ] {
        let text = complaint(arguments);
        words.iter().for_each(|word| assert!(text.contains(word), "{arguments:?}: {text}"));
    }
    let float =
        STEP.replace(".param .u64 out", ".param .f32 out").replace("ld.param.u64 b", "ld.param.b32 i");
    let float = folder.write("f.ptx", &float);
    let args = ["run", &float, "--entry", "step", "--grid", "1", "--block", "1", "--arg", "buffer:u32:1"];
    let output = warpsim(&[&args[..], &["--arg", "buffer:u32:1"]].concat());
    assert!(
        text(&output.stderr).contains("the argument is buffer `arg1`, but parameter `out` is .f32"),
        "{output:?}"
    );
}

#[test]
fn buffers_of_the_command_line_are_random_or_files() {
    let folder = Folder::new("argforms");
    let (ptx, dump) = (folder.write("k.ptx", STEP), folder.join("o.bin"));
    let of = |buffer: &str, extra: &[&str]| {
        let dumped = format!("arg1={dump}");
        let mut args =
            vec!["run", &ptx, "--entry", "step", "--grid", "1", "--block", "32", "--dump", &dumped];
        args.extend(["--arg", buffer, "--arg", "buffer:u32:32"]);
        args.extend(extra);
        let output = warpsim(&args);
        if !output.status.success() {
            return Err(text(&output.stderr));
        }
        let bytes = std::fs::read(&dump).expect("dumped");
        Ok(bytes.chunks(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect::<Vec<_>>())
    };
    let random = of("buffer:u32:32:random:10:20", &[]).expect("runs");
    assert!(random.iter().all(|v| (11..=21).contains(v)) && random.iter().any(|v| *v != random[0]));
    assert_eq!(of("buffer:u32:32:random:10:20", &[]), Ok(random.clone()));
    assert_ne!(of("buffer:u32:32:random:10:20", &["--seed", "1"]), Ok(random));
    let whole = of("buffer:u32:32:random", &[]).expect("runs");
    assert!(whole.iter().any(|v| *v > u32::MAX / 2));
    // As numpy.save writes it.
    let mut header = "{'descr': '<u4', 'fortran_order': False, 'shape': (4, 8), }".to_string();
    header.push_str(&" ".repeat(117 - header.len()));
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(header.as_bytes());
    bytes.push(b'\n');
    (0..32u32).for_each(|i| bytes.extend((i * 3).to_le_bytes()));
    let file = folder.join("a.npy");
    std::fs::write(&file, &bytes).expect("written");
    assert_eq!(of(&format!("buffer:u32:32:@{file}"), &[]), Ok((0..32).map(|i| i * 3 + 1).collect()));
    let wrong = of(&format!("buffer:f32:32:@{file}"), &[]).expect_err("another type");
    assert!(wrong.contains("`<u4`") && wrong.contains("dtype `<f4`"), "{wrong}");
    let short = of(&format!("buffer:u32:33:@{file}"), &[]).expect_err("another length");
    assert!(short.contains("make the buffer 32 elements long"), "{short}");
    // What is not seen by a pointer in the middle stays.
    let output = warpsim(&[
        "run",
        &ptx,
        "--entry",
        "step",
        "--grid",
        "1",
        "--block",
        "8",
        "--arg",
        "buffer:u32:32:iota",
        "--arg",
        "arg0+16",
        "--dump",
        &format!("arg0={dump}"),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let bytes = std::fs::read(&dump).expect("dumped");
    let values: Vec<u8> = bytes.chunks(4).map(|b| b[0]).collect();
    assert_eq!((values[15], &values[16..24], values[24]), (15, &[1, 2, 3, 4, 5, 6, 7, 8][..], 24));
}

#[test]
fn structs_are_laid_out_as_in_c() {
    let folder = Folder::new("structs");
    let rest = |fields: &str| {
        format!(
            "buffers:\n  out: {{type: u32, length: 4, init: zeros}}\nlaunches:\n\
             - {{entry: k, grid: [1], block: [1], args: [{{struct: [{fields}]}}]}}\nexpect:\n\
             - {{buffer: out, values: [0, 42], tolerance: exact}}\n"
        )
    };
    let (code, out, errors) = run(&folder, STRUCT, "sm_20", &rest("{u32: 40}, out + 1, {u8: 2}"));
    assert_eq!(code, Some(0), "{out}{errors}");
    let (code, _, errors) = run(&folder, STRUCT, "sm_20", &rest("{u32: 40}, {u8: 2}, {u8: [2, 3]}"));
    assert_eq!(code, Some(2));
    let wanted = "the struct (u32 at 0, u8 at 4, u8 at 5) has 8 bytes, but parameter `s` has 24 bytes";
    assert!(errors.contains(wanted), "{errors}");
}

#[test]
fn loops_swap_buffers() {
    let folder = Folder::new("swap");
    let rest = |passes: u32, length: u32| {
        let (last, other) = (passes, passes - 1);
        format!(
            "buffers:\n  a: {{type: u32, length: 32, init: zeros}}\n  b: {{type: u32, length: {length}, init: zeros}}\n\
             launches:\n- loop:\n    max_iterations: {passes}\n    swap: [[a, b]]\n    launches:\n    \
             - {{entry: step, grid: [1], block: [32], args: [a, b]}}\n\
             expect:\n- {{buffer: a, values: [{last}, {last}], tolerance: exact}}\n\
             - {{buffer: b, values: [{other}], tolerance: exact}}\n"
        )
    };
    for passes in [1, 4, 5] {
        let (code, out, errors) = run(&folder, STEP, "sm_20", &rest(passes, 32));
        assert_eq!(code, Some(0), "{passes}: {out}{errors}");
    }
    let (code, _, errors) = run(&folder, STEP, "sm_20", &rest(2, 64));
    assert!(code == Some(2) && errors.contains("must have the same length"), "{errors}");
    assert!(errors.contains("workload.yaml:"), "{errors}");
}

#[test]
fn files_are_whole_and_nothing_need_be_expected() {
    let folder = Folder::new("short");
    let rest = |init: &str, expect: &str| {
        format!(
            "buffers:\n  a: {{type: u32, length: 32, init: {init}}}\n  b: {{type: u32, length: 32, init: zeros}}\n\
             launches:\n- {{entry: step, grid: [1], block: [32], args: [a, b]}}\n{expect}"
        )
    };
    std::fs::write(folder.join("x.bin"), [0; 40]).expect("written");
    let (code, _, errors) = run(&folder, STEP, "sm_20", &rest("{file: x.bin}", ""));
    assert_eq!(code, Some(2));
    for words in ["workload.yaml:8:", "has 40 bytes, `a` has 128", "make the buffer 10 elements long"] {
        assert!(errors.contains(words), "{errors}");
    }
    let (code, out, _) = run(&folder, STEP, "sm_20", &rest("iota", ""));
    assert_eq!(code, Some(0));
    assert!(out.contains("unchecked"), "{out}");
    let expect = "expect:\n- {buffer: b, file: x.bin, tolerance: exact}\n";
    let (code, _, errors) = run(&folder, STEP, "sm_20", &rest("iota", expect));
    assert!(code == Some(2) && errors.contains("workload.yaml:13:"), "{errors}");
}

#[test]
fn what_sees_the_schedule_says_what_to_declare() {
    let folder = Folder::new("activemask");
    let ptx =
        STEP.replace("mov.u32 i, %tid.x;", "activemask.b32 v;\nmov.u32 i, %tid.x;").replace("sm_20", "sm_70");
    let rest = "buffers:\n  a: {type: u32, length: 32, init: zeros}\nlaunches:\n\
                - {entry: step, grid: [1], block: [32], args: [a, a]}\n";
    let (code, _, errors) = run(&folder, &ptx, "sm_70", rest);
    assert_eq!(code, Some(3), "{errors}");
    for words in ["`schedule: dependent` with a `reason`", "crs_stack"] {
        assert!(errors.contains(words), "{errors}");
    }
}

/// The heap of `malloc` and the buffer of `printf` alone have a size that a workload says, and it must fit.
#[test]
fn sizes_of_variables_are_those_of_the_program() {
    let folder = Folder::new("sizes");
    let printing = format!(
        "{}.visible .entry k(.param .u64 p)\n{{\n.reg .b64 a;\n{{ .param .b64 f; .param .b64 v; .param .b32 r;\n\
         st.param.b64 [f], a;\nst.param.b64 [v], a;\ncall (r), vprintf, (f, v); }}\nret;\n}}\n",
        ".version 7.0\n.target sm_70\n.address_size 64\n.global .u32 own;\n\
         .extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);\n"
    );
    for (name, bytes, words) in [
        ("own", "8", "`own`: `bytes` is for `__warpsim_heap` and `__warpsim_output`"),
        ("__warpsim_output", "1152921504606846976", "1152921504606846976 bytes do not fit the memory"),
    ] {
        let rest = format!(
            "buffers:\n  a: {{type: u32, length: 2, init: zeros}}\nvariables:\n  {name}: {{bytes: {bytes}}}\nlaunches:\n\
             - {{entry: k, grid: [1], block: [1], args: [a]}}\n"
        );
        let (code, _, errors) = run(&folder, &printing, "sm_70", &rest);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(words) && errors.contains("workload.yaml:10:"), "{name}: {errors}");
    }
}

#[test]
fn parameters_keep_all_their_digits_in_the_report() {
    let folder = Folder::new("params");
    let rest = "params: {n: 3}\nbuffers:\n  a: {type: u64, length: 2, init: zeros}\nlaunches:\n\
                - {entry: k, grid: [1], block: [1], args: [a, {u64: n}, {s64: 0}]}\n";
    let path = workload(&folder, STORE, "sm_70", rest);
    let output = warpsim(&["run", &path, "--chip", "v100", "--json", "--set", "n=18446744073709551615"]);
    assert_eq!(json(&output)["params"]["n"].as_u64(), Some(u64::MAX));
}

/// `.reg .v4 .f32 v<3>` and `.param .u32 x<3>` declare as many vectors and variables.
#[test]
fn families_of_vectors_and_of_variables_of_the_frame() {
    let folder = Folder::new("families");
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .func (.param .u32 r) add(.param .u32 a, .param .u32 b)\n{\n.reg .u32 t<2>;\n\
        ld.param.u32 t0, [a];\nld.param.u32 t1, [b];\nadd.u32 t0, t0, t1;\nst.param.u32 [r], t0;\nret;\n}\n\
        .visible .entry k(.param .u64 p)\n{\n\
        .reg .v4 .u32 v<3>;\n.reg .v2 .u32 w<2>, z;\n.reg .u64 a;\n.reg .u32 f, g;\n.local .align 8 .u32 l<3>;\n\
        ld.param.u64 a, [p];\nld.global.v4.u32 {v2.x, v2.y, v2.z, v2.w}, [a];\nmov.v4.u32 v0, v2;\n\
        add.u32 f, v0.y, v2.w;\nmov.v2.u32 w1, {f, f};\nmov.v2.u32 z, w1;\n\
        st.local.u32 [l0], 1;\nst.local.u32 [l2], 30;\nst.local.u32 [l1], 200;\n\
        {\n.param .u32 x<3>;\nld.local.u32 g, [l2];\nst.param.u32 [x0], g;\nst.param.u32 [x1], z.y;\n\
        call (x2), add, (x0, x1);\nld.param.u32 g, [x2];\n}\n\
        st.global.u32 [a], g;\nld.local.u32 g, [l1];\nst.global.u32 [a+4], g;\nret;\n}\n";
    let (path, dump) = (folder.write("k.ptx", ptx), folder.join("o.bin"));
    for flow in ["crs_stack", "pdom_stack"] {
        let dumped = format!("arg0={dump}");
        let args = ["run", &path, "--entry", "k", "--grid", "1", "--block", "1", "--policy", flow];
        let output = warpsim(&[&args[..], &["--arg", "buffer:u32:4:iota", "--dump", &dumped]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let bytes = std::fs::read(&dump).expect("dumped");
        // 30 + (1 + 3), and what lies between the two others.
        assert_eq!((bytes[0], bytes[4]), (34, 200), "{flow}");
    }
    let refused = |from: &str, to: &str| {
        let path = folder.write("bad.ptx", &ptx.replace(from, to));
        let output =
            warpsim(&["run", &path, "--entry", "k", "--grid", "1", "--block", "1", "--arg", "buffer:u32:4"]);
        assert_eq!(output.status.code(), Some(2), "{to}");
        text(&output.stderr)
    };
    // No member; twice; where ptxas takes none either; spaces whose families are not made here.
    assert!(refused("g, [x2];", "g, [x3];").contains("`x<3>` declares `x0` to `x2`"));
    assert!(refused(".reg .u64 a;", ".reg .u64 a;\n.reg .v2 .u32 v<2>;").contains("declared twice"));
    assert!(refused(".param .u64 p", ".param .u64 p<2>").contains("bad.ptx:13:"), "in a list of parameters");
    assert!(
        refused(".local .align 8", ".shared .align 8")
            .contains("parameterized names are not supported in this state space")
    );
}

/// What another module would define has no address.
#[test]
fn variables_that_are_only_declared_are_said_where_they_are_used() {
    let folder = Folder::new("extern");
    let ptx = |declared: &str| {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n{declared}\
             .visible .entry k(.param .u64 p)\n{{\n.reg .u64 a1;\n.reg .u32 f;\nld.global.u32 f, [a];\n\
             ld.param.u64 a1, [p];\nst.global.u32 [a1], f;\nret;\n}}\n.visible .entry other() {{ ret; }}\n"
        );
        folder.write("k.ptx", &text)
    };
    let run = |ptx: &str, entry: &str, arg: &[&str]| {
        let args = ["run", ptx, "--entry", entry, "--grid", "1", "--block", "1"];
        let output = warpsim(&[&args[..], arg].concat());
        (output.status.code(), text(&output.stderr))
    };
    let buffer = ["--arg", "buffer:u32:4"];
    for declared in [".extern .global .u32 a[];\n", ".extern .global .u32 a;\n"] {
        let path = ptx(declared);
        let (code, said) = run(&path, "k", &buffer);
        assert_eq!(code, Some(2), "{said}");
        for words in [
            "k.ptx:4:",
            "`k` refers to `a`, which this module declares but does not define",
            "without `.extern`",
        ] {
            assert!(said.contains(words), "{said}");
        }
        // Who does not name it runs.
        assert_eq!(run(&path, "other", &[]).0, Some(0));
    }
    // Declared and defined, in either order.
    for declared in [
        ".extern .global .u32 a;\n.visible .global .u32 a = 5;\n",
        ".visible .global .u32 a = 5;\n.extern .global .u32 a;\n",
    ] {
        let (code, said) = run(&ptx(declared), "k", &buffer);
        assert_eq!(code, Some(0), "{said}");
    }
}
