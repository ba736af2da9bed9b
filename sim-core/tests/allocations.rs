//! No allocation in the steady state: a kernel that goes round its loop twice as often allocates
//! no more. The loop holds all that kernels do there: arithmetic, a divergent branch, shared and
//! global accesses, atomics, a barrier.

#[path = "rules/machine.rs"]
#[allow(dead_code, reason = "shared with the tests of the rules")]
mod machine;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use machine::{Run, chip, device, module};

struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator as it came.
#[allow(unsafe_code, reason = "an allocator that counts")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(policy: &str, rounds: u32, functional: bool) -> u64 {
    let body = format!(
        "mov.u32 %n, {rounds};\n\
         mov.u64 %x, room;\nmul.wide.u32 %w, %t, 4;\nadd.u64 %x, %x, %w;\n\
         again:\n\
         add.u32 %r, %r, %t;\nst.shared.u32 [%x], %r;\nbar.sync 0;\nld.shared.u32 %a, [%x];\n\
         and.b32 %b, %t, 3;\nsetp.eq.u32 %p, %b, 1;\n@%p bra odd;\n\
         xor.b32 %r, %r, %a;\nbra.uni meet;\nodd:\nadd.u32 %r, %r, 7;\nmeet:\n\
         ld.global.u32 %a, [%own];\nadd.u32 %a, %a, 1;\nst.global.u32 [%own], %a;\n\
         red.global.add.u32 [%out], 1;\natom.shared.add.u32 %c, [room], 1;\n\
         sub.u32 %n, %n, 1;\nsetp.ne.u32 %q, %n, 0;\n@%q bra again;\n"
    );
    let text = module("", &body);
    let mut run = Run::new(device(chip(|_| {}), policy), &text, false, 30 * 256);
    run.launch(30, 256, functional).expect("launches");
    let before = COUNT.load(Ordering::Relaxed);
    run.wait().expect("runs");
    COUNT.load(Ordering::Relaxed) - before
}

#[test]
fn a_longer_loop_allocates_no_more() {
    for (policy, functional) in [("crs_stack", false), ("crs_stack", true)] {
        let (short, long) = (allocations(policy, 40, functional), allocations(policy, 80, functional));
        // 40 more rounds are 9,600 rounds of warps, with a dozen operations each that could
        // allocate; a queue that is longer than ever before may still double its room.
        assert!(long <= short + 40, "{policy}, functional: {functional}: {short}, then {long}");
    }
}
