use super::TokenType::{Call, Diverge, Sync};
use super::*;

/// A mask as the thesis writes it: the first digit is thread 1, lane 0.
fn mask(digits: &str) -> LaneMask {
    digits.bytes().enumerate().fold(0, |m, (i, d)| m | u32::from(d == b'1') << i)
}

fn token(kind: TokenType, digits: &str, pc: Pc) -> Token {
    Token { kind, mask: mask(digits), pc }
}

/// One row of a figure: pc of the instruction that ran, active mask and stack (top first) after.
fn row(state: &ExecState, ran: Pc, expected: (Pc, &str, &[Token])) {
    let mut stack: Vec<Token> = state.stack.clone();
    stack.reverse();
    assert_eq!((ran, state.active, stack.as_slice()), (expected.0, mask(expected.1), expected.2));
}

#[test]
fn crs_ssy_crs_braguard_crs_sync_crs_brauni_crs_next_figure_5_2() {
    let mut s = ExecState::start(1, mask("11"), mask("11"));
    let sync = token(Sync, "11", 10);
    let diverge = token(Diverge, "01", 4);
    let to = |pc| Targets::One(pc);
    s.next(); // 1: setp
    row(&s, 1, (1, "11", &[]));
    s.ssy(10);
    row(&s, 2, (2, "11", &[sync]));
    s.bra(mask("10"), &to(7)); // 3: @p bra DIVERGE (line 7 is its first instruction)
    row(&s, 3, (3, "10", &[diverge, sync]));
    assert_eq!(s.pc, 7);
    s.next(); // 7: mul
    row(&s, 7, (7, "10", &[diverge, sync]));
    s.pc = 9;
    s.sync().expect("a token is there");
    row(&s, 9, (9, "01", &[sync]));
    assert_eq!(s.pc, 4);
    s.next(); // 4: sub
    row(&s, 4, (4, "01", &[sync]));
    s.bra(mask("01"), &to(9)); // 5: bra SYNC
    row(&s, 5, (5, "01", &[sync]));
    assert_eq!(s.pc, 9);
    s.sync().expect("a token is there");
    row(&s, 9, (9, "11", &[]));
    assert_eq!(s.pc, 10);
    s.next();
    row(&s, 10, (10, "11", &[]));
}

#[test]
fn crs_bratarget_figure_5_3() {
    let mut s = ExecState::start(1, mask("1111"), mask("1111"));
    let sync = token(Sync, "1111", 13);
    // Threads 1 and 3 (bit 0 and 2) want other paths: 1 → PATH-3, 2 and 4 → PATH-2, 3 → PATH-1.
    let mut pcs = [0; 32];
    pcs[..4].copy_from_slice(&[10, 7, 4, 7]);
    let targets = Targets::PerLane(&pcs);
    s.ssy(13);
    row(&s, 1, (1, "1111", &[sync]));
    s.bra(s.active, &targets);
    row(&s, 2, (2, "0101", &[token(Diverge, "1010", 2), sync]));
    assert_eq!(s.pc, 7);
    s.next();
    row(&s, 7, (7, "0101", &[token(Diverge, "1010", 2), sync]));
    s.bra(s.active, &Targets::One(12));
    row(&s, 8, (8, "0101", &[token(Diverge, "1010", 2), sync]));
    s.sync().expect("a token is there");
    row(&s, 12, (12, "1010", &[sync]));
    assert_eq!(s.pc, 2);
    s.bra(s.active, &targets);
    row(&s, 2, (2, "1000", &[token(Diverge, "0010", 2), sync]));
    assert_eq!(s.pc, 10);
    s.next();
    s.pc = 12;
    s.sync().expect("a token is there");
    row(&s, 12, (12, "0010", &[sync]));
    s.bra(s.active, &targets);
    row(&s, 2, (2, "0010", &[sync]));
    assert_eq!(s.pc, 4);
    s.next();
    row(&s, 4, (4, "0010", &[sync]));
    s.bra(s.active, &Targets::One(12));
    row(&s, 5, (5, "0010", &[sync]));
    s.sync().expect("a token is there");
    row(&s, 12, (12, "1111", &[]));
    s.next();
    row(&s, 13, (13, "1111", &[]));
}

#[test]
fn crs_retdiv_crs_retuni_figure_5_4() {
    const X: Pc = 99;
    let mut s = ExecState::start(1, mask("111"), mask("111"));
    let call = token(Call, "111", X);
    s.stack.push(call);
    let sync = token(Sync, "111", 10);
    let diverge = token(Diverge, "100", 4);
    s.next();
    row(&s, 1, (1, "111", &[call]));
    s.ssy(10);
    row(&s, 2, (2, "111", &[sync, call]));
    s.bra(mask("011"), &Targets::One(7));
    row(&s, 3, (3, "011", &[diverge, sync, call]));
    s.ret(mask("010")).expect("a call token is there");
    row(&s, 7, (7, "001", &[diverge, sync, call]));
    assert_eq!(s.disabled.return_, mask("010"));
    s.pc = 9;
    s.sync().expect("a token is there");
    row(&s, 9, (9, "100", &[sync, call]));
    s.next();
    row(&s, 4, (4, "100", &[sync, call]));
    s.bra(s.active, &Targets::One(9));
    row(&s, 5, (5, "100", &[sync, call]));
    s.sync().expect("a token is there");
    row(&s, 9, (9, "101", &[call]));
    assert_eq!(s.pc, 10);
    s.next();
    row(&s, 10, (10, "101", &[call]));
    s.ret(s.active).expect("a call token is there");
    row(&s, 11, (11, "111", &[]));
    assert_eq!((s.pc, s.disabled), (X, DisableMask::default()));
}

#[test]
fn crs_prebrk_crs_brkdiv_crs_brkuni_a_loop_waits_for_its_last_thread() {
    let mut s = ExecState::start(0, mask("11"), mask("11"));
    s.pre_brk(20);
    s.brk(mask("01")).expect("a token is there");
    assert_eq!((s.active, s.disabled.break_, s.pc), (mask("10"), mask("01"), 2));
    s.brk(mask("10")).expect("a token is there");
    assert_eq!((s.active, s.disabled.break_, s.pc), (mask("11"), 0, 20));
    assert!(s.stack.is_empty());
}

#[test]
fn crs_exitdiv_crs_exituni_crs_unwind_completes_or_is_bottom() {
    let mut s = ExecState::start(0, mask("11"), mask("1111"));
    assert_eq!(s.exit(mask("10")), Ok(WarpState::Active));
    assert_eq!(s.exit(mask("01")), Ok(WarpState::Completed));
    let mut s = ExecState::start(0, mask("11"), mask("11"));
    s.brk(mask("10")).expect("one thread is left");
    let violation = s.exit(mask("01")).expect_err("a thread waits for a break token that is not there");
    assert_eq!((violation.rule, violation.lanes), ("crs-unwind", mask("10")));
}

#[test]
fn crs_preret_crs_calluni_crs_callguard_crs_calltarget() {
    let mut s = ExecState::start(0, mask("1111"), mask("1111"));
    s.pre_ret(2);
    s.call(s.active, &Targets::One(50));
    assert_eq!((s.pc, s.active), (50, mask("1111")));
    let mut s = ExecState::start(0, mask("1111"), mask("1111"));
    s.pre_ret(2);
    s.call(mask("0110"), &Targets::One(50));
    assert_eq!((s.pc, s.active, s.stack.len()), (50, mask("0110"), 1));
    s.ret(mask("0110")).expect("the call token is there");
    assert_eq!((s.pc, s.active), (2, mask("1111")));
    let mut pcs = [0; 32];
    pcs[..4].copy_from_slice(&[60, 50, 60, 50]);
    let mut s = ExecState::start(0, mask("1111"), mask("1111"));
    s.call(s.active, &Targets::PerLane(&pcs));
    // A tie goes to the target of the lowest lane; the others call again.
    assert_eq!((s.pc, s.active, s.stack[0]), (60, mask("1010"), token(Diverge, "0101", 0)));
}

#[test]
fn crs_uni_crs_taken_crs_nottaken_crs_minus_crs_enable_crs_updexecstate() {
    assert!(uni(0b011, 0b111) && !uni(0b011, 0b001));
    let pcs: [Pc; 32] = std::array::from_fn(|lane| lane as Pc % 2);
    let targets = Targets::PerLane(&pcs);
    assert_eq!(taken(0b1111, &targets, 1), 0b1010);
    assert_eq!(not_taken(0b11111, 0b1111, &targets, 1), 0b10101);
    let mut delta = DisableMask { break_: 0b001, return_: 0b010, exit: 0b100 };
    assert_eq!(minus(0b1111, &delta), 0b1000);
    enable(0b011, &mut delta.break_);
    assert_eq!((delta.break_, delta.return_), (0, 0b010));
    let mut s = ExecState::start(0, 0b11, 0b11);
    s.disabled.break_ = 0b01;
    s.stack.push(Token { kind: TokenType::Break, mask: 0b11, pc: 7 });
    assert_eq!(s.update_exec_state(), Some(()));
    assert_eq!((s.active, s.disabled.break_, s.pc), (0b11, 0, 7));
    assert_eq!(s.update_exec_state(), None);
}

/// Four lanes: 0 and 1 in a branch, 2 waits at the other side, 3 has left the loop around both.
fn in_a_branch_of_a_loop() -> ExecState {
    let token = |kind, mask, pc| Token { kind, mask, pc };
    ExecState {
        pc: 10,
        active: 0b0011,
        disabled: DisableMask { break_: 0b1000, ..DisableMask::default() },
        stack: vec![
            token(TokenType::Break, 0b1111, 40),
            token(TokenType::Sync, 0b0111, 30),
            token(TokenType::Diverge, 0b0100, 20),
        ],
        lanes: 0b1111,
    }
}

#[test]
fn safe_acttoken_is_the_topmost_token_that_fits_the_reason_a_lane_waits() {
    let state = in_a_branch_of_a_loop();
    let tokens: Vec<Option<usize>> = (0..4).map(|lane| state.act_token(lane)).collect();
    // Lane 3 left the loop: only the break token will do, whatever lies above.
    assert_eq!(tokens, [None, None, Some(2), Some(0)]);
    assert_eq!(state.invariants(), Ok(()));
    let ended = ExecState { disabled: DisableMask { exit: 0b1000, ..DisableMask::default() }, ..state };
    assert_eq!(ended.act_token(3), None);
}

#[test]
fn each_waiting_lane_is_held_by_its_act_token() {
    let state = in_a_branch_of_a_loop();
    let policy =
        CrsStack { warps: vec![state.clone()], parameters: Parameters::default(), warp_lanes: 0b1111 };
    let mut held = Vec::new();
    policy.threads(0, &mut |holding| held.push((holding.pc, holding.mask, holding.waits)));
    assert_eq!(held, [(10, 0b0011, false), (20, 0b0100, true), (40, 0b1000, true)]);
    for (pc, mask, _) in &held[1..] {
        for lane in Lanes(*mask) {
            assert_eq!(state.act_token(lane).map(|at| state.stack[at].pc), Some(*pc));
        }
    }
}

#[test]
fn inv_1_inv_2_inv_3_inv_4_inv_5_inv_6_each_broken_once() {
    let broken = |change: &dyn Fn(&mut ExecState)| {
        let mut state = in_a_branch_of_a_loop();
        change(&mut state);
        state.invariants().map_err(|violation| (violation.rule, violation.lanes))
    };
    assert_eq!(broken(&|s| s.stack[0].kind = TokenType::Sync), Err(("inv-1", 0b1000)));
    assert_eq!(
        broken(&|s| {
            s.active = 0;
            s.stack[1].mask = 0b0111;
            s.stack.push(Token { kind: TokenType::Diverge, mask: 0b0011, pc: 12 });
        }),
        Err(("inv-2", 0b1111))
    );
    assert_eq!(broken(&|s| s.stack[1].mask = 0b0101), Err(("inv-3", 0b0010)));
    assert_eq!(broken(&|s| s.stack[1].mask = 0b0011), Err(("inv-4", 0b0100)));
    assert_eq!(broken(&|s| s.disabled.return_ = 0b0001), Err(("inv-5", 0b0001)));
    let empty = Token { kind: TokenType::Diverge, mask: 0, pc: 12 };
    assert_eq!(broken(&|s| s.stack.push(empty)), Err(("inv-6", 0)));
}
