//! Mutation tests: policies with an injected error, which the monitors must detect.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::Source;
use sim_frontend::isa_cost::IsaCosts;
use sim_frontend::program::{ControlFlow, Pc};
use sim_memory::vocabulary::LaneMask;

use crate::context::Launch;
use crate::device::{Device, Options};
use crate::error::{SimError, Violation};
use crate::literal::Follower;
use crate::monitor::Check;
use crate::reconvergence::crs_stack::{CrsStack, ExecState};
use crate::reconvergence::mimd::Mimd;
use crate::reconvergence::pdom_stack::PdomStack;
use crate::reconvergence::plan::Plan;
use crate::reconvergence::registry::{POLICIES, Policy, PolicyChoice};
use crate::reconvergence::table::Table;
use crate::reconvergence::{
    Corruption, Cost, Holding, Injected, LaneTargets, ReadyAddress, Reconvergence, SplitId, WarpSlots,
};
use crate::sm::scheduler::WarpScheduler;

/// An error to inject once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// Exchanges the lanes that take a branch and those that do not.
    SwapTargets,
    /// Skips the execution of a data operation.
    Skip,
    /// Corrupts the policy's own state after a branch.
    Corrupt(Corruption),
}

thread_local! {
    /// The error to inject, and the number of opportunities to pass before it.
    static PLANNED: Cell<Option<(Mistake, u32)>> = const { Cell::new(None) };
    /// The instruction that was skipped.
    static SKIPPED: Cell<Option<Pc>> = const { Cell::new(None) };
}

/// True if `mistake` is to be injected now.
fn now(mistake: Mistake) -> bool {
    match PLANNED.get() {
        Some((planned, 0)) if planned == mistake => {
            PLANNED.set(None);
            true
        }
        Some((planned, left)) if planned == mistake => {
            PLANNED.set(Some((planned, left - 1)));
            false
        }
        _ => false,
    }
}

/// A policy that injects the planned error.
#[derive(borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Mutant<P>(P);

impl<P: Reconvergence> Mutant<P> {
    fn corrupted(&mut self, split: SplitId) {
        if let Some((Mistake::Corrupt(how), 0)) = PLANNED.get() {
            if self.0.mask(split) != 0 && self.0.corrupt(split, how) {
                PLANNED.set(None);
            }
        } else if let Some((Mistake::Corrupt(how), left)) = PLANNED.get() {
            PLANNED.set(Some((Mistake::Corrupt(how), left - 1)));
        }
    }
}

impl<P: Reconvergence> Reconvergence for Mutant<P> {
    const FLOW: ControlFlow = P::FLOW;
    const WHOLE_WARP: bool = P::WHOLE_WARP;
    const SPLITS: usize = P::SPLITS;
    const FORMS_WARPS: bool = P::FORMS_WARPS;

    type Parameters = P::Parameters;

    fn new(parameters: &P::Parameters, slots: WarpSlots) -> Self {
        Self(P::new(parameters, slots))
    }
    fn in_use(&self, warp: usize) -> u32 {
        self.0.in_use(warp)
    }
    fn grow(&mut self, warps: usize) {
        self.0.grow(warps);
    }
    fn admit(
        &mut self,
        warp: usize,
        block: usize,
        lanes: LaneMask,
        plan: &Arc<Plan>,
        touched: &mut Vec<SplitId>,
    ) {
        self.0.admit(warp, block, lanes, plan, touched);
    }
    fn pc(&self, split: SplitId) -> Pc {
        self.0.pc(split)
    }
    fn mask(&self, split: SplitId) -> LaneMask {
        self.0.mask(split)
    }
    fn advance(&mut self, split: SplitId) -> bool {
        let stops = self.0.advance(split);
        if stops || !now(Mistake::Skip) {
            return stops;
        }
        SKIPPED.set(Some(self.0.pc(split)));
        self.0.advance(split)
    }
    fn stop(&self, split: SplitId) -> Pc {
        self.0.stop(split)
    }
    fn advance_by(&mut self, split: SplitId, count: Pc) {
        self.0.advance_by(split, count);
    }
    fn arrived(&mut self, split: SplitId, touched: &mut Vec<SplitId>) -> Cost {
        self.0.arrived(split, touched)
    }
    fn parked(&mut self, split: SplitId, touched: &mut Vec<SplitId>) {
        self.0.parked(split, touched);
    }
    fn resumed(&mut self, split: SplitId, touched: &mut Vec<SplitId>) {
        self.0.resumed(split, touched);
    }
    fn give_way(&mut self, split: SplitId, touched: &mut Vec<SplitId>) -> bool {
        self.0.give_way(split, touched)
    }
    fn forms_warps(&self) -> bool {
        self.0.forms_warps()
    }
    fn spans_blocks(&self) -> bool {
        self.0.spans_blocks()
    }
    fn prefers(&mut self, places: &[ReadyAddress]) -> Option<usize> {
        self.0.prefers(places)
    }
    fn carve(&mut self, split: SplitId, lanes: LaneMask) -> Option<SplitId> {
        self.0.carve(split, lanes)
    }
    fn jumped(&mut self, split: SplitId, target: Pc) -> bool {
        let behind = self.0.pc(split) + 1;
        let jumped = self.0.jumped(split, target);
        if jumped {
            if target != behind && now(Mistake::SwapTargets) {
                self.0.jumped(split, behind);
            }
            self.corrupted(split);
        }
        jumped
    }
    fn branched(
        &mut self,
        split: SplitId,
        to: &LaneTargets<'_>,
        touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        let mut to = *to;
        if !to.call && now(Mistake::SwapTargets) {
            to.lanes = self.0.mask(split) & !to.lanes;
        }
        let cost = self.0.branched(split, &to, touched)?;
        self.corrupted(split);
        Ok(cost)
    }
    fn returned(
        &mut self,
        split: SplitId,
        lanes: LaneMask,
        touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        self.0.returned(split, lanes, touched)
    }
    fn exited(
        &mut self,
        split: SplitId,
        lanes: LaneMask,
        touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        self.0.exited(split, lanes, touched)
    }
    fn injected(
        &mut self,
        split: SplitId,
        lanes: LaneMask,
        instruction: Injected,
        touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        let cost = self.0.injected(split, lanes, instruction, touched)?;
        self.corrupted(split);
        Ok(cost)
    }
    fn threads(&self, warp: usize, visit: &mut dyn FnMut(Holding)) {
        self.0.threads(warp, visit);
    }
    fn held(&self, warp: usize) -> (LaneMask, LaneMask) {
        self.0.held(warp)
    }
    fn invariants(&self, warp: usize) -> Result<(), Violation> {
        self.0.invariants(warp)
    }
    fn corrupt(&mut self, split: SplitId, how: Corruption) -> bool {
        self.0.corrupt(split, how)
    }
    fn describe(&self, warp: usize) -> String {
        self.0.describe(warp)
    }
    fn exec_state(&self, warp: usize) -> Option<&ExecState> {
        self.0.exec_state(warp)
    }
}

/// Nested branches in a loop whose trip count differs by lane, and a function.
const PROGRAM: &str = ".version 3.0\n.target sm_20\n.address_size 64\n\
    .func (.reg .u32 %ro) f(.reg .u32 %ri)\n{\n.reg .u32 %a;\n.reg .pred %p;\nand.b32 %a, %ri, 1;\n\
    setp.eq.u32 %p, %a, 0;\n@%p bra EVEN;\nadd.u32 %a, %ri, 3;\nbra OUT;\nEVEN:\nadd.u32 %a, %ri, 5;\nOUT:\n\
    mov.u32 %ro, %a;\nret;\n}\n\
    .visible .entry k(.param .u64 p)\n{\n.reg .u32 %t, %i, %r, %a;\n.reg .u64 %o, %w;\n.reg .pred %p;\n\
    ld.param.u64 %o, [p];\nmov.u32 %t, %tid.x;\nand.b32 %i, %t, 7;\nmov.u32 %r, %t;\n\
    LOOP:\nadd.u32 %r, %r, 7;\nand.b32 %a, %r, 2;\nsetp.eq.u32 %p, %a, 0;\n@%p bra ELSE;\n\
    and.b32 %a, %r, 4;\nsetp.eq.u32 %p, %a, 0;\n@%p bra INNER;\nadd.u32 %r, %r, 11;\nmul.lo.u32 %r, %r, 3;\n\
    INNER:\nadd.u32 %r, %r, 13;\ncall (%r), f, (%r);\nbra JOIN;\nELSE:\nadd.u32 %r, %r, 17;\nxor.b32 %r, %r, 5;\n\
    JOIN:\nsub.u32 %i, %i, 1;\nsetp.ge.s32 %p, %i, 0;\n@%p bra LOOP;\n\
    mul.wide.u32 %w, %t, 4;\nadd.u64 %w, %w, %o;\nst.global.u32 [%w], %r;\nexit;\n}\n";

/// Runs the program under a mutant of `policy`; returns the outcome, and whether the error was injected.
fn run(
    policy: &str,
    check: Check,
    functional: bool,
    planned: Option<(Mistake, u32)>,
) -> (Result<Vec<u8>, SimError>, bool) {
    let chip = include_str!("../../../configs/chips/gtx480.yaml");
    let mut chip = ChipSpec::load(&Source::new("gtx480.yaml", chip)).expect("a chip");
    chip.limits.num_processors = 1;
    let costs = include_str!("../../../configs/isa/2.0.yaml");
    let costs = IsaCosts::load(&Source::new("2.0.yaml", costs)).expect("costs");
    let choice = PolicyChoice::parse(policy).expect("a policy");
    let kind = choice.policy;
    let options = Options { check, max_cycles: Some(100_000), ..Options::of(choice, WarpScheduler::Gto) };
    let mut device = Device::new(Arc::new(chip), Arc::new(costs), options);
    let id = device.create_context();
    device.load(id, &Source::new("t.ptx", PROGRAM), false).expect("loads");
    let context = device.context(id).expect("it exists");
    let out = context.malloc("out", 4 * 96).expect("fits");
    let launch = Launch {
        module: 0,
        entry: "k".into(),
        grid: [1; 3],
        block: [96, 1, 1],
        dynamic_shared: 0,
        stream: 0,
        params: out.to_le_bytes().to_vec(),
        functional,
        cluster: None,
        non_portable_cluster: false,
    };
    device.launch(id, &launch).expect("launches");
    PLANNED.set(planned);
    let stop = AtomicBool::new(false);
    let context = device.context(id).expect("it exists");
    let done = match &kind {
        Policy::CrsStack(own) => context.run::<Mutant<CrsStack>>(own, &stop, &|_, _, _| {}),
        Policy::PdomStack(own) => context.run::<Mutant<PdomStack>>(own, &stop, &|_, _, _| {}),
        Policy::Table(own) => context.run::<Mutant<Table>>(own, &stop, &|_, _, _| {}),
        Policy::Mimd => context.run::<Mutant<Mimd>>(&(), &stop, &|_, _, _| {}),
    };
    // What transformation 6 injected is no part of a thread's own control flow.
    let injected = |pc: Pc| context.modules[0].codes[0].1.program.info[pc as usize].injected;
    let made = PLANNED.take().is_none() && !SKIPPED.take().is_some_and(injected);
    let mut words = vec![0; 4 * 96];
    context.read(out, &mut words);
    (done.map(|()| words), made)
}

/// Runs each policy with `mistake` at several places and checks that every injected error is detected.
/// Returns the number injected for each policy, and the rules that detected them.
fn all_found(mistake: Mistake, check: Check) -> Vec<(&'static str, usize, Vec<String>)> {
    let mut out = Vec::new();
    for policy in POLICIES {
        let (expected, _) = run(policy.name, check, true, None);
        let expected = expected.unwrap_or_else(|e| panic!("{}: {e}", policy.name));
        let (mut count, mut rules) = (0, Vec::new());
        for functional in [true, false] {
            for at in [0, 1, 2, 3, 5, 8, 13, 21, 34] {
                let (got, made) = run(policy.name, check, functional, Some((mistake, at)));
                if !made {
                    continue;
                }
                // Where the lost lane had nothing left to do but to wait, nothing is lost.
                if matches!(mistake, Mistake::Corrupt(_))
                    && got.as_ref().is_ok_and(|words| *words == expected)
                {
                    continue;
                }
                count += 1;
                match got {
                    Err(SimError::Stopped(fault)) => rules.push(fault.rule.clone()),
                    Err(other) => panic!("{} {mistake:?} {at}: {other}", policy.name),
                    Ok(words) => panic!(
                        "{} {mistake:?} at {at} was not found; results {}",
                        policy.name,
                        if words == expected { "are right" } else { "are wrong" }
                    ),
                }
            }
        }
        rules.sort_unstable();
        rules.dedup();
        out.push((policy.name, count, rules));
    }
    out
}

#[test]
fn safe_act_finds_exchanged_targets_in_every_policy() {
    for check in [Check::Safety, Check::Full] {
        for (policy, made, rules) in all_found(Mistake::SwapTargets, check) {
            assert!(made >= 10, "{policy}: {made}");
            assert!(rules.iter().any(|rule| rule.starts_with("safe-")), "{policy}: {rules:?}");
        }
    }
}

#[test]
fn safe_act_finds_skipped_instructions_in_every_policy() {
    for check in [Check::Safety, Check::Full] {
        for (policy, made, rules) in all_found(Mistake::Skip, check) {
            assert!(made >= 10, "{policy}: {made}");
            assert!(rules.contains(&"safe-act".to_string()), "{policy}: {rules:?}");
        }
    }
}

#[test]
fn safe_split_finds_lost_lanes_in_every_policy() {
    for check in [Check::Safety, Check::Full] {
        for (policy, made, rules) in all_found(Mistake::Corrupt(Corruption::DropLane), check) {
            assert!(made >= 8, "{policy}: {made}");
            assert!(rules.iter().all(|rule| rule.starts_with("safe-")), "{policy}: {rules:?}");
            assert!(
                policy == "crs_stack" || rules.contains(&"safe-split".to_string()),
                "{policy}: {rules:?}"
            );
        }
    }
}

#[test]
fn safe_split_safe_inact_find_lost_and_moved_tokens() {
    for (how, check) in
        [(Corruption::Pop, Check::Safety), (Corruption::Pop, Check::Full), (Corruption::MoveTop, Check::Full)]
    {
        let found = all_found(Mistake::Corrupt(how), check);
        let of = |name: &str| {
            let (_, made, rules) = found.iter().find(|(policy, ..)| *policy == name).expect("it is there");
            (*made, rules.clone())
        };
        for stack in ["crs_stack", "pdom_stack", "multi_path", "dual_path", "convergence_barriers"] {
            let (made, rules) = of(stack);
            assert!(made >= 4, "{stack}: {made} of {how:?}");
            let rule = if how == Corruption::Pop { "safe-split" } else { "safe-inact" };
            assert!(rules.iter().any(|found| found == rule), "{stack}: {rules:?}");
        }
    }
}

#[test]
fn the_literal_reference_finds_every_mistake_without_the_monitors() {
    let mistakes = [
        Mistake::SwapTargets,
        Mistake::Skip,
        Mistake::Corrupt(Corruption::DropLane),
        Mistake::Corrupt(Corruption::Pop),
        Mistake::Corrupt(Corruption::MoveTop),
    ];
    for mistake in mistakes {
        let mut found = 0;
        for at in [0, 1, 2, 3, 5, 8, 13, 21, 34] {
            Follower::begin(false);
            let (_, made) = run("crs_stack", Check::Off, false, Some((mistake, at)));
            match Follower::end(None) {
                Ok(_) => assert!(!made, "{mistake:?} at {at} was not found"),
                Err(why) => {
                    assert!(made, "{mistake:?} at {at} was not made, but: {why}");
                    found += 1;
                }
            }
        }
        assert!(found >= 4, "{mistake:?}: {found}");
    }
}
