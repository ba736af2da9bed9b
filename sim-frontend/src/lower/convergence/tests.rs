use crate::chip::AssemblerSpec;
use crate::lower::assembled::assembled;

/// The instructions of a body as letters: `S` sets a barrier up, `W` waits, `b` branches, `.` is another, `e` ends.
fn barriers(body: &str) -> String {
    let text = format!(
        ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u32 n)\n{{\n\
         .reg .u32 %r<19>;\n.reg .u64 %rd<3>;\n.reg .pred %p<9>;\n{body}\n}}\n"
    );
    let passes = AssemblerSpec { clean_up: true, convergence_barriers: true, ..AssemblerSpec::default() };
    let program = assembled(&text, passes);
    (0..program.ops.len() as u32)
        .map(|pc| match program.text(pc).as_str() {
            "bssy" => 'S',
            "bsync" => 'W',
            text if text.contains("bra") => 'b',
            text if text.contains("ret") || text.contains("exit") => 'e',
            _ => '.',
        })
        .collect()
}

const BEGIN: &str = "ld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 3;\n";
const UNIFORM: &str = "ld.param.u64 %rd1, [p];\nld.param.u32 %r1, [n];\nsetp.eq.u32 %p1, %r1, 3;\n";
const STORE: &str = "st.global.u32 [%rd1], %r1;\n";

#[test]
fn branches_that_divide_a_warp_have_a_barrier_where_they_meet() {
    let arms = format!("@%p1 bra A;\n{STORE}A:\n{STORE}ret;");
    assert_eq!(barriers(&format!("{BEGIN}{arms}")), "...Sb.W.e");
    assert_eq!(barriers(&format!("{UNIFORM}{arms}")), "...b..e");
    // Two arms; what both lead to ends nothing.
    let both = format!("{BEGIN}@%p1 bra A;\n{STORE}bra B;\nA:\n{STORE}{STORE}B:\n{STORE}ret;");
    assert_eq!(barriers(&both), "...Sb.b..W.e");
    // Where threads end there is nothing to wait for.
    assert_eq!(barriers(&format!("{BEGIN}@%p1 bra A;\n{STORE}A:\nret;")), "...b.e");
    // Threads that end on the way are not waited for.
    let early = format!(
        "{BEGIN}@%p1 bra A;\n@!%p1 bra X;\n{STORE}A:\n{STORE}bra E;\nX:\n{STORE}exit;\nE:\n{STORE}ret;"
    );
    assert_eq!(barriers(&early).matches('W').count(), 1, "{}", barriers(&early));
}

#[test]
fn branches_that_meet_at_one_block_share_a_barrier() {
    let chain =
        format!("{BEGIN}setp.gt.u32 %p2, %r1, 9;\n@%p1 bra A;\n{STORE}@%p2 bra A;\n{STORE}A:\n{STORE}ret;");
    assert_eq!(barriers(&chain), "....Sb.b.W.e");
    let nested = format!(
        "{BEGIN}setp.gt.u32 %p2, %r1, 9;\n@%p1 bra A;\n{STORE}@%p2 bra B;\n{STORE}B:\n{STORE}A:\n{STORE}ret;"
    );
    assert_eq!(barriers(&nested), "....Sb.Sb.W.W.e");
}

#[test]
fn a_barrier_for_a_loop_is_set_up_in_front_of_it() {
    let rounds = |begin: &str| {
        format!("{begin}L:\n{STORE}sub.u32 %r1, %r1, 1;\nsetp.ne.u32 %p2, %r1, 0;\n@%p2 bra L;\n{STORE}ret;")
    };
    assert_eq!(barriers(&rounds(BEGIN)), "..S...bW.e");
    // A number that counts the same for all threads.
    assert_eq!(barriers(&rounds(UNIFORM)), ".....b.e");
    // Left early by some: the numbers of those that stay are the same, behind it they differ.
    let left = format!(
        "{UNIFORM}mov.u32 %r2, %tid.x;\nL:\nsub.u32 %r1, %r1, 1;\nsetp.eq.u32 %p3, %r1, %r2;\n@%p3 bra A;\nsetp.ne.u32 %p2, %r1, 0;\n\
         @%p2 bra L;\nA:\nsetp.gt.u32 %p4, %r1, 4;\n@%p4 bra B;\n{STORE}B:\n{STORE}ret;"
    );
    assert_eq!(barriers(&left), "...S..b.bW.Sb.W.e");
}

#[test]
fn what_ways_of_a_branch_write_differs_behind_it() {
    let body = |begin: &str| {
        format!(
            "{begin}mov.u32 %r2, 1;\n@%p1 bra A;\nmov.u32 %r2, 2;\n{STORE}A:\nsetp.eq.u32 %p2, %r2, 1;\n@%p2 bra B;\n{STORE}B:\n{STORE}ret;"
        )
    };
    assert_eq!(barriers(&body(BEGIN)).matches('W').count(), 2);
    assert_eq!(barriers(&body(UNIFORM)).matches('W').count(), 0);
    // What they write the same is no matter.
    let other = format!(
        "{BEGIN}ld.param.u32 %r2, [n];\n@%p1 bra A;\n{STORE}A:\nsetp.eq.u32 %p2, %r2, 1;\n@%p2 bra B;\n{STORE}B:\n{STORE}ret;"
    );
    assert_eq!(barriers(&other).matches('W').count(), 1);
}
