use proptest::prelude::*;

use super::*;
use crate::chip::AssemblerSpec;
use crate::lower::assembled::{assembled, rows_are_alone, translated};
use crate::lower::linear_scan::intervals;

/// Registers of a thread of a kernel that loads words, keeps and stores them.
fn registers(kept: u32, full_registers: u32) -> u32 {
    let each = |one: &dyn Fn(u32) -> String| (0..kept).map(one).collect::<String>();
    let text = format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n.reg .b64 %a, %o;\n.reg .f32 %x, %y, %d;\n\
         .reg .b32 %k<40>;\n.reg .b32 %t;\nld.param.u64 %a, [p];\nmov.u32 %t, %tid.x;\nmul.wide.u32 %o, %t, 4;\nadd.s64 %a, %a, %o;\n\
         {}ld.volatile.global.f32 %x, [%a];\nld.volatile.global.f32 %y, [%a+1024];\nadd.f32 %d, %x, %y;\n\
         st.volatile.global.f32 [%a+8192], %d;\n{}ret;\n}}\n",
        each(&|i| format!("ld.volatile.global.b32 %k{i}, [%a+{}];\n", 4096 + 4 * i)),
        each(&|i| format!("st.volatile.global.b32 [%a+{}], %k{i};\n", 9216 + 4 * i)),
    );
    let passes = AssemblerSpec { full_registers, reserved_registers: 3, ..AssemblerSpec::ALL };
    assembled(&text, passes).registers_per_thread
}

/// As ptxas 12.9 has them for sm_80 and sm_90, sm_86, and sm_75: words that are read beside the pair of an address take every other
/// register, as long as an SM is full of warps with them.
#[test]
fn words_beside_pairs_lie_in_odd_registers() {
    for (full, golden) in [(32, [8, 24, 32]), (40, [8, 24, 40]), (64, [8, 24, 40])] {
        assert_eq!([0, 8, 16].map(|kept| registers(kept, full)), golden, "{full}");
    }
    // Beyond, they take what there is.
    assert_eq!(registers(33, 32), 33 + 2 + 2 + 3);
}

/// As ptxas 12.9 has them for sm_80: the register of an address is written again ten instructions behind the load that reads it. A chain of
/// products between two loads and the store of the last (of nine there are 12 registers there, 11 here, where the address of the store is
/// computed first).
#[test]
fn registers_of_addresses_are_kept_for_ten_instructions() {
    let chain = |products: u32| {
        let body: String =
            (4..4 + products).map(|i| format!("mul.lo.u32 %r{}, %r{i}, %r{i};\n", i + 1)).collect();
        let last = 4 + products;
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u64 q, .param .u64 o)\n{{\n\
             .reg .b32 %r<40>;\n.reg .b64 %a<20>;\nld.param.u64 %a1, [p];\nld.param.u64 %a2, [q];\nld.param.u64 %a3, [o];\n\
             mov.u32 %r1, %tid.x;\nmul.wide.u32 %a4, %r1, 4;\nadd.u64 %a5, %a1, %a4;\nld.global.u32 %r2, [%a5];\nadd.u64 %a6, %a2, %a4;\n\
             ld.global.u32 %r3, [%a6];\nadd.u32 %r4, %r2, %r3;\n{body}xor.b32 %r{}, %r{last}, %r4;\nadd.u64 %a7, %a3, %a4;\n\
             st.global.u32 [%a7], %r{};\nret;\n}}\n",
            last + 1,
            last + 1
        );
        let passes = AssemblerSpec { reserved_registers: 3, ..AssemblerSpec::ALL };
        assembled(&text, passes).registers_per_thread
    };
    assert_eq!([2, 6, 7, 10, 12].map(chain), [12, 12, 12, 11, 11]);
}

/// The registers of a kernel for sm_80 with this body behind its thread's number `%r1` and the address `%rd1`.
fn registers_of(body: &str) -> u32 {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n.reg .b32 %r<40>;\n.reg .b64 %rd<20>;\n\
         .reg .f32 %f<20>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n{body}ret;\n}}\n"
    );
    let passes = AssemblerSpec { reserved_registers: 3, schedule: false, ..AssemblerSpec::ALL };
    assembled(&text, passes).registers_per_thread
}

/// As ptxas 12.9 has them: the workload `alu_chain` has 18 registers for sm_80, of which R13 is the low word of such a sum.
#[test]
fn a_sum_that_only_sums_read_has_two_words() {
    let clocks = "mov.u64 %rd2, %clock64;\nmov.u64 %rd3, %clock64;\nmov.u64 %rd4, %clock64;\nsub.s64 %rd5, %rd3, %rd2;\n";
    let kept =
        "st.global.u64 [%rd1+8], %rd2;\nst.global.u64 [%rd1+16], %rd3;\nst.global.u64 [%rd1+24], %rd4;\n";
    let split =
        registers_of(&format!("{clocks}sub.s64 %rd6, %rd5, %rd4;\nst.global.u64 [%rd1], %rd6;\n{kept}"));
    // What is stored is a pair.
    let whole = registers_of(&format!("{clocks}st.global.u64 [%rd1], %rd5;\n{kept}"));
    assert_eq!([split, whole], [16, 14]);
}

/// As ptxas 12.9 has them for sm_80: `mma_rate` fills four registers with the same constant, and names them for A and for B.
#[test]
fn words_of_a_fragment_lie_in_registers_of_their_own() {
    let product = |a: [&str; 4], b: [&str; 2]| {
        let moves: String = (2..6).map(|i| format!("mov.b32 %r{i}, 0x3c00;\n")).collect();
        let loads: String = (10..14).map(|i| format!("ld.global.u32 %r{i}, [%rd1+{}];\n", 4 * i)).collect();
        registers_of(&format!(
            "{moves}{loads}mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f1, %f2, %f3, %f4}}, {{{}}}, {{{}}}, {{%f1, %f2, %f3, %f4}};\n\
             st.global.v4.f32 [%rd1], {{%f1, %f2, %f3, %f4}};\n",
            a.join(", "),
            b.join(", ")
        ))
    };
    let distinct = product(["%r10", "%r11", "%r12", "%r13"], ["%r10", "%r11"]);
    assert_eq!(product(["%r10"; 4], ["%r10"; 2]), distinct);
    assert_eq!(product(["%r2"; 4], ["%r2"; 2]), distinct);
    assert!(product(["%r10"; 4], ["%r11"; 2]) > distinct);
}

/// As ptxas 12.9 has them for sm_80: in a chain of loads each second one finds the register of its address.
#[test]
fn what_one_load_still_holds_is_not_loaded_by_the_next() {
    let chain = |loads: u32| {
        let body: String = (1..=loads).map(|i| format!("ld.global.u64 %rd{}, [%rd{i}];\n", i + 1)).collect();
        registers_of(&format!("{body}st.global.u32 [%rd{}], %r1;\n", loads + 1))
    };
    assert_eq!([1, 2, 3, 4, 5].map(chain), [8, 10, 10, 12, 12]);
}

/// Registers that are counted for the program of a division do not push those of functions that are called.
#[test]
fn functions_lie_behind_what_their_callers_hold() {
    let registers = |call: &str| {
        let text = format!(
            ".version 8.0\n.target sm_52\n.address_size 64\n.func (.reg .u32 %o) f(.reg .u32 %a)\n{{\n.reg .u32 %b;\n\
             mul.lo.u32 %b, %a, %a;\nadd.u32 %o, %b, %a;\nret;\n}}\n.visible .entry k(.param .u64 p)\n{{\n.reg .b64 %a, %w;\n.reg .b32 %x;\n\
             ld.param.u64 %a, [p];\nld.global.u64 %w, [%a];\ndiv.u64 %w, %w, %a;\nst.global.u64 [%a], %w;\nmov.u32 %x, 5;\n{call}\
             st.global.b32 [%a+8], %x;\nret;\n}}\n"
        );
        let passes = AssemblerSpec { register_banks: false, ..AssemblerSpec::ALL };
        assembled(&text, passes).registers_per_thread
    };
    let own = registers("");
    assert!(own >= 13 + 4, "{own}");
    // The first two rows are the frame's where there are calls.
    assert_eq!(registers("call.uni (%x), f, (%x);\n"), own + 2);
}

/// An instruction on words and pairs: loads, stores, products, divisions, under a guard or not, or a branch.
fn line() -> impl Strategy<Value = String> {
    let register = || 0u32..16;
    (0u32..10, register(), register(), register(), 0u32..4).prop_map(|(kind, d, a, b, guarded)| {
        let guard = if guarded == 0 { "@%p " } else { "" };
        match kind {
            0 | 1 => format!("{guard}ld.global.u64 %l{d}, [%l{a}];\n"),
            9 => format!("ld.global.u64 %l{d}, [%l{a}];\nld.global.u64 %l{b}, [%l{d}];\n"),
            2 | 3 => format!("{guard}ld.global.u32 %r{d}, [%l{a}];\n"),
            4 => format!("{guard}st.global.u32 [%l{a}], %r{b};\n"),
            5 => format!("{guard}mad.wide.u32 %l{d}, %r{a}, %r{b}, %l{b};\n"),
            6 => format!("@%p bra L{};\n", d % 4),
            7 => format!("{guard}div.u32 %r{d}, %r{a}, %r{b};\n"),
            _ => format!("{guard}add.u32 %r{d}, %r{a}, %r{b};\n"),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// What is live at a place, and what is written there, lies in rows of its own, whatever accesses hold.
    #[test]
    fn what_is_live_together_shares_no_row(parts in proptest::collection::vec(proptest::collection::vec(line(), 0..12), 4)) {
        let body: String = parts.iter().enumerate().map(|(i, lines)| format!("L{i}:\n{}", lines.concat())).collect();
        let ends: String = (0..6).map(|i| format!("st.global.u64 [%a+{}], %l{i};\nst.global.u32 [%a+{}], %r{i};\n", 16 * i, 16 * i + 8)).collect();
        let text = format!(
            ".version 7.8\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n.reg .b32 %r<16>;\n.reg .b64 %l<16>, %a;\n\
             .reg .pred %p;\nld.param.u64 %a, [p];\nsetp.eq.u32 %p, %r0, 1;\n{body}{ends}ret;\n}}\n"
        );
        for func in translated(&text) {
            for (first_row, held) in [(0, HELD), (0, 0), (2, HELD)] {
                let made = assign(&func, &intervals(&func), (first_row, 0), 30, held).expect("room");
                rows_are_alone(&func, &made, first_row);
            }
        }
    }
}
