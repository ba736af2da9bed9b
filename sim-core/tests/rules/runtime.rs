//! The device runtime: vprintf, __assertfail, malloc and free of threads.

use sim_core::context::parts::{Part, PartRefused};
use sim_core::device::Options;
use sim_core::error::SimError;
use sim_core::report::DeviceReport;
use sim_frontend::diagnostic::Source;

use crate::machine::{Run, chip, device, device_with, module};

const DECLARED: &str = ".extern .func (.param .b32 status) vprintf(.param .b64 format, .param .b64 values);\n\
    .extern .func __assertfail(.param .b64 message, .param .b64 file, .param .b32 line, .param .b64 function, .param .b64 size);\n\
    .extern .func (.param .b64 piece) malloc(.param .b64 size);\n.extern .func free(.param .b64 piece);\n\
    .global .align 1 .b8 text[32] = {37, 100, 32, 105, 115, 32, 37, 115, 44, 32, 37, 46, 50, 102, 10, 0};\n\
    .global .align 1 .b8 name[8] = {111, 100, 100, 0};\n";

/// `call f(a, …)` of 64-bit values, the result of `returns` bits in `to`.
fn call(function: &str, arguments: &[&str], returns: Option<(&str, u32)>) -> String {
    let mut text = "{\n".to_string();
    for (i, argument) in arguments.iter().enumerate() {
        let bits = if function == "__assertfail" && i == 2 { 32 } else { 64 };
        text += &format!(".param .b{bits} a{i};\nst.param.b{bits} [a{i}], {argument};\n");
    }
    let list: Vec<String> = (0..arguments.len()).map(|i| format!("a{i}")).collect();
    match returns {
        Some((to, bits)) => {
            text += &format!(
                ".param .b{bits} z;\ncall (z), {function}, ({});\nld.param.b{bits} {to}, [z];\n",
                list.join(", ")
            );
        }
        None => text += &format!("call {function}, ({});\n", list.join(", ")),
    }
    text + "}\n"
}

fn run(
    body: &str,
    policy: &str,
    threads: u32,
    functional: bool,
) -> (Vec<u32>, DeviceReport, Result<(), SimError>) {
    let device = device_with(chip(|_| {}), policy, |o| Options { schedule_dependent: true, ..o });
    let mut run = Run::new(device, &module(DECLARED, body), false, 256);
    run.launch(1, threads, functional).expect("it fits");
    let result = run.wait();
    (run.words(), run.report(), result)
}

const POLICIES: [&str; 3] = ["crs_stack", "convergence_barriers", "mimd"];

/// Every odd thread prints its index, a word and a half of its index.
fn print() -> String {
    format!(
        ".local .align 8 .b8 values[24];\n.reg .f64 %d;\nand.b32 %b, %t, 1;\nsetp.eq.u32 %p, %b, 0;\n@%p bra QUIET;\n\
         st.local.u32 [values], %t;\nmov.u64 %w, name;\ncvta.global.u64 %w, %w;\nst.local.u64 [values+8], %w;\n\
         cvt.rn.f64.u32 %d, %t;\nmul.rn.f64 %d, %d, 0d3FE0000000000000;\nst.local.f64 [values+16], %d;\n\
         mov.u64 %w, text;\ncvta.global.u64 %w, %w;\nmov.u64 %x, values;\ncvta.local.u64 %x, %x;\n{}QUIET:\n",
        call("vprintf", &["%w", "%x"], Some(("%r", 32)))
    )
}

#[test]
fn threads_print_through_the_host() {
    for policy in POLICIES {
        for functional in [false, true] {
            let (words, report, result) = run(&print(), policy, 64, functional);
            result.unwrap_or_else(|e| panic!("{policy}: {e}"));
            assert_eq!(words[..64], [0, 3].repeat(32), "vprintf counts its arguments");
            let mut lines: Vec<&str> = report.printed.lines().collect();
            lines.sort_by_key(|line| line.split(' ').next().and_then(|n| n.parse::<u32>().ok()));
            let expected: Vec<String> = (0..32).map(|i| format!("{} is odd, {}.50", 2 * i + 1, i)).collect();
            assert_eq!(lines, expected, "{policy} {functional}");
        }
    }
}

#[test]
fn each_launch_prints_its_own_lines() {
    let device = device_with(chip(|_| {}), "crs_stack", |o| Options { schedule_dependent: true, ..o });
    let mut run = Run::new(device, &module(DECLARED, &print()), false, 256);
    for (launches, functional) in [(1, false), (2, false), (3, true), (4, false)] {
        run.launch(1, 64, functional).expect("it fits");
        run.wait().expect("it runs");
        assert_eq!(run.report().printed.lines().count(), 32 * launches);
    }
}

#[test]
fn what_finds_no_room_is_counted() {
    // 40 bytes a record: 1 MiB has room for 26,214 of them.
    let body = format!(
        "mov.u32 %c, 0;\nAGAIN:\n{}add.u32 %c, %c, 1;\nsetp.lt.u32 %q, %c, 840;\n@%q bra AGAIN;\n",
        print()
    );
    let (_, report, result) = run(&body, "crs_stack", 64, true);
    result.expect("it runs");
    assert_eq!(report.printed.lines().count(), (1 << 20) / 40);
    assert_eq!(report.printfs_lost, 840 * 32 - (1 << 20) / 40);
}

#[test]
fn a_failed_assertion_says_what_and_where() {
    let body = format!(
        "setp.ne.u32 %p, %t, 37;\n@%p bra FINE;\nmov.u64 %w, name;\ncvta.global.u64 %w, %w;\n{}FINE:\n",
        call("__assertfail", &["%w", "%w", "12", "%w", "1"], None)
    );
    for policy in POLICIES {
        for functional in [false, true] {
            let error = run(&body, policy, 64, functional).2.expect_err("thread 37 stops").to_string();
            let words = "assertion `odd` failed: odd:12: odd, block [0, 0, 0], thread [37, 0, 0]";
            assert!(error.contains(words) && error.contains("lane 5"), "{error}");
        }
    }
}

/// Threads of several blocks fail, all at once or some cycles apart: the first warp stops the device while others write theirs
/// down, or have not begun. What is told is complete.
#[test]
fn assertions_that_fail_beside_each_other_are_told_whole() {
    let fails = call("__assertfail", &["%w", "%w", "12", "%w", "1"], None);
    let at_once = format!("mov.u64 %w, name;\ncvta.global.u64 %w, %w;\n{fails}");
    let apart = format!(
        "and.b32 %a, %t, 31;\nsetp.ne.u32 %p, %a, 0;\n@%p bra FINE;\nshr.u32 %n, %i, 5;\nLATER:\nsetp.eq.u32 %q, %n, 0;\n\
         @%q bra NOW;\nsub.u32 %n, %n, 1;\nbra LATER;\nNOW:\n{at_once}FINE:\n"
    );
    for (body, functional, least) in
        [(&at_once, false, 32), (&at_once, true, 32), (&apart, false, 1), (&apart, true, 1)]
    {
        let mut run = Run::new(device(chip(|_| ()), "crs_stack"), &module(DECLARED, body), false, 2048);
        run.launch(32, 64, functional).expect("a launch");
        let error = run.wait().expect_err("threads fail").to_string();
        assert!(error.contains("assertion `odd` failed: odd:12: odd, block ["), "{error}");
        let told = run.device.context(run.context).expect("there").failed().to_vec();
        assert!((least..=64).contains(&told.len()), "{functional}: {}", told.len());
        for assertion in told {
            assert_eq!((assertion.expression.as_str(), assertion.line), ("odd", 12), "{assertion:?}");
        }
    }
}

#[test]
fn threads_allocate_and_free() {
    // Ten times each thread takes a piece of its own size, fills and reads it, and frees it.
    let body = format!(
        ".reg .u64 %old;\n.reg .u32 %k, %s;\nmov.u64 %old, 0;\nmov.u32 %c, 0;\nAGAIN:\nadd.u32 %a, %t, 1;\nmul.wide.u32 %w, %a, 4;\n{}\
         and.b64 %old, %x, 15;\ncvt.u32.u64 %s, %old;\nadd.u32 %r, %r, %s;\n\
         mov.u32 %k, 0;\nmov.u64 %old, %x;\nFILL:\nst.u32 [%old], %t;\nadd.u64 %old, %old, 4;\nadd.u32 %k, %k, 1;\n\
         setp.le.u32 %p, %k, %t;\n@%p bra FILL;\n\
         mov.u32 %k, 0;\nmov.u64 %old, %x;\nREAD:\nld.u32 %s, [%old];\nadd.u32 %r, %r, %s;\nadd.u64 %old, %old, 4;\nadd.u32 %k, %k, 1;\n\
         setp.le.u32 %p, %k, %t;\n@%p bra READ;\n{}add.u32 %c, %c, 1;\nsetp.lt.u32 %p, %c, 10;\n@%p bra AGAIN;\n",
        call("malloc", &["%w"], Some(("%x", 64))),
        call("free", &["%x"], None)
    );
    for policy in POLICIES {
        for functional in [false, true] {
            let (words, _, result) = run(&body, policy, 64, functional);
            result.unwrap_or_else(|e| panic!("{policy}: {e}"));
            assert_eq!(
                words[..64],
                (0..64).map(|t| 10 * t * (t + 1)).collect::<Vec<u32>>(),
                "{policy} {functional}"
            );
        }
    }
}

#[test]
fn the_heap_has_an_end_and_pieces_come_back() {
    // A megabyte each time: the eighth does not fit beside the others, unless one is freed.
    let take = call("malloc", &["%w"], Some(("%x", 64)));
    let body = format!(
        "setp.ne.u32 %p, %t, 0;\n@%p bra DONE;\nmov.u32 %c, 0;\nmov.u64 %w, 1000000;\nAGAIN:\n{take}setp.ne.u64 %p, %x, 0;\n@%p add.u32 %r, %r, 1;\n\
         @%p mov.u64 %out, %x;\nadd.u32 %c, %c, 1;\nsetp.lt.u32 %p, %c, 12;\n@%p bra AGAIN;\n{}{take}\
         setp.eq.u64 %p, %x, %out;\n@%p add.u32 %r, %r, 100;\nDONE:\n",
        call("free", &["%out"], None)
    );
    let (words, _, result) = run(&body, "crs_stack", 32, false);
    result.expect("it runs");
    assert_eq!(words[0], 108, "eight megabytes; the ninth piece is the one that was freed");
    // Freed twice.
    let body = format!(
        "mov.u64 %w, 24;\n{take}{free}setp.ne.u32 %p, %t, 3;\n@%p bra DONE;\n{free}DONE:\n",
        free = call("free", &["%x"], None)
    );
    for functional in [false, true] {
        let error = run(&body, "crs_stack", 32, functional).2.expect_err("freed twice").to_string();
        assert!(error.contains("free: trap") && error.contains("lane 3"), "{error}");
    }
}

/// Twelve times a megabyte, as often as there is room; counts them.
fn fill_the_heap() -> String {
    format!(
        "setp.ne.u32 %p, %t, 0;\n@%p bra DONE;\nmov.u32 %c, 0;\nmov.u64 %w, 1000000;\nAGAIN:\n{}setp.ne.u64 %p, %x, 0;\n\
         @%p add.u32 %r, %r, 1;\nadd.u32 %c, %c, 1;\nsetp.lt.u32 %p, %c, 12;\n@%p bra AGAIN;\nDONE:\n",
        call("malloc", &["%w"], Some(("%x", 64)))
    )
}

#[test]
fn the_heap_has_the_size_that_is_set_until_it_is_used() {
    for (bytes, pieces) in [(0, 0), (100, 0), (2 << 20, 2), (3 << 20, 3), (64 << 20, 12)] {
        for loaded in [false, true] {
            let device =
                device_with(chip(|_| {}), "crs_stack", |o| Options { schedule_dependent: true, ..o });
            let mut run = Run::new(device, &module(DECLARED, &fill_the_heap()), false, 256);
            // The code may be made before.
            if loaded {
                let context = run.device.context(run.context).expect("there");
                context.attributes(0, "k").expect("it has an entry");
            }
            let context = run.device.context(run.context).expect("there");
            assert_eq!(context.set_part_bytes(Part::Heap, bytes), Ok(()));
            let whole = bytes.next_multiple_of(16);
            assert_eq!(context.part_bytes(Part::Heap), whole);
            assert_eq!(context.symbol(0, "__warpsim_heap").map(|heap| heap.bytes), Some(whole));
            let heaps = context.variables(0).filter(|(name, ..)| name.starts_with("__warpsim_heap"));
            let heaps: Vec<(&str, u64)> = heaps.map(|(name, _, bytes)| (name, bytes)).collect();
            let (used, free) = (("__warpsim_heap_used", 8), ("__warpsim_heap_free", 28 * 32 * 8));
            assert_eq!(heaps, [used, free, ("__warpsim_heap", whole)]);
            run.launch(1, 32, true).expect("it fits");
            let queued = run.device.context(run.context).expect("there").set_part_bytes(Part::Heap, 1 << 20);
            assert_eq!(queued, Err(PartRefused::Used), "a grid is queued");
            run.wait().expect("it runs");
            assert_eq!(run.words()[0], pieces, "{bytes} {loaded}");
            let after = run.device.context(run.context).expect("there").set_part_bytes(Part::Heap, 1 << 20);
            assert_eq!(after, if pieces > 0 { Err(PartRefused::Used) } else { Ok(()) });
        }
    }
    let mut run =
        Run::new(device(chip(|_| {}), "crs_stack"), &module(DECLARED, &fill_the_heap()), false, 256);
    let context = run.device.context(run.context).expect("there");
    for part in [Part::Heap, Part::Output] {
        assert_eq!(context.set_part_bytes(part, 1 << 50), Err(PartRefused::Memory));
        assert_eq!(context.set_part_bytes(part, u64::MAX), Err(PartRefused::Memory));
    }
    let refused = context.set_part_bytes(Part::Heap, 2 << 30);
    assert_eq!(refused, Err(PartRefused::Memory), "the chip has less");
    assert_eq!(context.set_part_bytes(Part::Heap, 1 << 38), Err(PartRefused::Memory), "units have 32 bits");
    assert_eq!(context.part_bytes(Part::Heap), 8 << 20, "what is refused changes nothing");
    run.launch(1, 32, false).expect("it fits");
    run.wait().expect("it runs");
    assert_eq!(run.words()[0], 8);
}

#[test]
fn the_buffer_of_printf_has_the_size_that_is_set() {
    // 40 bytes a record.
    for (bytes, printed) in [(0, 0), (400, 10), (4000, 32)] {
        let device = device_with(chip(|_| {}), "crs_stack", |o| Options { schedule_dependent: true, ..o });
        let mut run = Run::new(device, &module(DECLARED, &print()), false, 256);
        let context = run.device.context(run.context).expect("there");
        assert_eq!(context.set_part_bytes(Part::Output, bytes), Ok(()));
        run.launch(1, 64, true).expect("it fits");
        run.wait().expect("it runs");
        let report = run.report();
        assert_eq!((report.printed.lines().count(), report.printfs_lost), (printed, 32 - printed as u64));
        // What was printed is with the host: the buffer may change.
        let context = run.device.context(run.context).expect("there");
        assert_eq!(context.set_part_bytes(Part::Output, 1 << 20), Ok(()));
        run.launch(1, 64, false).expect("it fits");
        run.wait().expect("it runs");
        assert_eq!(run.report().printed.lines().count(), printed + 32);
    }
}

#[test]
fn modules_share_the_heap_and_print_in_order() {
    let take = format!(
        "setp.ne.u32 %p, %t, 1;\n@%p bra DONE;\nmov.u64 %w, 40;\n{}st.global.u64 [%out+8], %x;\nDONE:\n",
        call("malloc", &["%w"], Some(("%x", 64)))
    );
    let give = format!(
        "setp.ne.u32 %p, %t, 1;\n@%p bra DONE;\nld.global.u64 %x, [%out+8];\n{}DONE:\n",
        call("free", &["%x"], None)
    );
    // Thread 1 of the block prints; words 2 and 3 keep the piece.
    let apart = |body: &str| {
        let body = format!("{body}setp.ne.u32 %p, %t, 1;\n@%p bra QUIET;\n{}", print());
        module(DECLARED, &body)
    };
    for functional in [false, true] {
        let device = device_with(chip(|_| {}), "crs_stack", |o| Options { schedule_dependent: true, ..o });
        let mut run = Run::new(device, &apart(&take), false, 256);
        let text =
            apart(&give).replace("{37, 100, 32,", "{37, 120, 32,").replace("111, 100, 100", "99, 120, 120");
        let other = run.device.load(run.context, &Source::new("u.ptx", &text), false).expect("it is right");
        for module in [0, other, 0, other] {
            run.launch_from(module, 2, functional);
        }
        run.wait().expect("pieces of one module are freed in the other");
        let lines = ["1 is odd, 0.50\n", "1 is cxx, 0.50\n"].concat().repeat(2);
        assert_eq!(run.report().printed, lines, "{functional}");
        // A module that comes later finds the heap as it is.
        run.launch_from(0, 2, functional);
        run.wait().expect("it runs");
        let piece = run.words()[2..4].to_vec();
        run.device.load(run.context, &Source::new("v.ptx", &text), false).expect("it is right");
        run.launch_from(0, 2, functional);
        run.wait().expect("it runs");
        assert_ne!(run.words()[2..4], piece, "nobody has freed it");
    }
}

/// What a module leaves that does not fit the memory is nobody's.
#[test]
fn a_module_that_is_refused_brings_nothing() {
    let device = device_with(chip(|_| {}), "crs_stack", |o| Options { schedule_dependent: true, ..o });
    let mut run = Run::new(device, &module("", ""), false, 256);
    let context = run.device.context(run.context).expect("there");
    let junk = context.malloc("junk", 16 << 20).expect("it fits");
    context.write(junk, &vec![0xff; 16 << 20]);
    context.free(junk, 1).expect("it is there");
    let free = context.free_bytes();
    context.set_part_bytes(Part::Heap, free - 4096).expect("no module is there");
    let source = Source::new("t.ptx", &module(DECLARED, &fill_the_heap()));
    let refused = run.device.load(run.context, &source, false).expect_err("other variables take more");
    assert!(refused.to_string().contains("does not fit the chip's memory"), "{refused}");
    let context = run.device.context(run.context).expect("there");
    context.set_part_bytes(Part::Heap, 4 << 20).expect("no module has brought it");
    let module = run.device.load(run.context, &source, false).expect("it is right");
    run.launch_from(module, 32, false);
    run.wait().expect("it runs");
    assert_eq!(run.words()[0], 4);
}

/// L2 has lines of a buffer that was freed; the variables of a module lie there now.
#[test]
fn a_module_that_is_loaded_later_has_its_initial_values() {
    let stores = "mov.u32 %a, 77;\nst.global.u32 [%out+128], %a;\nmov.u32 %r, 77;\n";
    let mut run = Run::new(device(chip(|_| {}), "crs_stack"), &module("", stores), false, 256);
    run.launch(1, 32, false).expect("it fits");
    run.wait().expect("it runs");
    let stale = run.out;
    let context = run.device.context(run.context).expect("there");
    context.free(stale, 1).expect("it is there");
    let loads = "ld.global.u32 %r, [own];\nld.global.u32 %a, [own+128];\nadd.u32 %r, %r, %a;\n";
    let source = Source::new("u.ptx", &module(".global .u32 own[64] = {5};\n", loads));
    let place = |name: &str| (name == "own").then_some(stale);
    let module = run.device.load_at(run.context, &source, false, &place).expect("it is right");
    let context = run.device.context(run.context).expect("there");
    run.out = context.malloc("out", 1024).expect("fits");
    run.launch_from(module, 32, false);
    run.wait().expect("it runs");
    assert_eq!(run.words()[0], 5);
}
