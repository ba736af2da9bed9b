//! Decoded code: a program with the data that depends on this host and chip, one cache line per operation.

mod decoded;

use std::sync::Arc;

use sim_frontend::chip::TensorSpec;
use sim_frontend::form::{BarrierKind, BulkWay};
use sim_frontend::isa::UnitClass;
use sim_frontend::isa_cost::IsaCosts;
use sim_frontend::program::{Exposed, Extra, MbarrierOp, Op, OpClass, Pc, Program, Row};
use sim_memory::vocabulary::{Scope, Semantics, StateSpace, WARP_LANES};

pub use self::decoded::{DecodedOp, Drain, Queue};
use self::decoded::{Traits, blocking_of, padded};
use crate::instruction_set::InstructionSet;
use crate::lanes::{self, resolve};
use crate::reconvergence::plan::Plan;
use crate::registers::LaneRow;

/// A decoded program for this host and chip.
#[derive(Debug)]
pub struct Code {
    /// The assembled program.
    pub program: Arc<Program>,
    /// The operations in the form that lane functions take.
    pub ops: Vec<Op>,
    /// The decoded form of each operation.
    pub decoded: Vec<DecodedOp>,
    /// Constant rows of the program; a launch appends those of its parameters.
    pub consts: Vec<LaneRow>,
    /// Offsets of the parameter words that become constant rows of a launch.
    parameters: Vec<u32>,
    /// Control-flow analysis for the reconvergence policies.
    pub plan: Arc<Plan>,
    /// True if the program has fences or releases of device scope, so that writes must be counted by block.
    pub publishes: bool,
    /// True if the program cancels launches of blocks.
    pub cancels: bool,
    /// Registers that may be read before they are written.
    pub exposed: Exposures,
    /// By operation, and behind the last one.
    runs: Vec<Run>,
    /// Machine instructions of a line of code; 0 where the chip has no instruction cache.
    line: u32,
    /// The number of its first line, behind those of the programs loaded before it.
    pub first_line: u64,
}

/// Straight runs of the functional mode.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// Data operations and accesses of words in shared memory from this one on, at consecutive addresses before
    /// transformation 6.
    length: u32,
    /// Machine operations of all operations before it.
    machine: u64,
}

/// The straight runs of a program.
fn runs_of(decoded: &[DecodedOp]) -> Vec<Run> {
    let mut runs = vec![Run::default(); decoded.len() + 1];
    for (pc, op) in decoded.iter().enumerate() {
        runs[pc + 1].machine = runs[pc].machine + u64::from(op.machine_operations);
    }
    for (pc, op) in decoded.iter().enumerate().rev() {
        if (op.lane.is_some() || op.words()) && !op.bookkeeping() {
            let follows = decoded.get(pc + 1).is_some_and(|next| next.base_pc == op.base_pc + 1);
            runs[pc].length = 1 + if follows { runs[pc + 1].length } else { 0 };
        }
    }
    runs
}

/// Registers that may be read before they are written.
#[derive(Debug, Default)]
pub struct Exposures {
    /// How many there are.
    pub registers: usize,
    /// For each operation: 1 + its place in [`Program::exposed`], 0 if it has none. Empty if there is none.
    pub places: Vec<u32>,
}

impl Exposures {
    fn new(program: &Program) -> Self {
        let registers = |op: &Exposed| op.reads.iter().chain(&op.writes).chain(&op.guard).copied().max();
        let Some(last) = program.exposed.iter().filter_map(registers).max() else { return Self::default() };
        let mut places = vec![0; program.ops.len()];
        for (place, op) in program.exposed.iter().enumerate() {
            if let Some(of) = places.get_mut(op.pc as usize) {
                *of = 1 + place as u32;
            }
        }
        Self { registers: 1 + last as usize, places }
    }
}

/// What of a chip no operation's cost says.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    /// Of a constant, in core cycles.
    pub constant: u32,
    /// From the integer lanes to the multipliers and back, in core cycles.
    pub crossing: u32,
    /// That a predicate takes longer to a guard, a branch, or what is no arithmetic, in core cycles.
    pub guard: u32,
    /// Machine instructions of a line of code; 0 where the chip has no instruction cache.
    pub line: u32,
    /// Lines of code of the programs loaded before.
    pub first_line: u64,
}

/// Latency of the operations of transformation 6: one issue slot on the control unit.
const INJECTED_LATENCY: u16 = 1;

impl Code {
    /// The slots of an operation beyond those it has itself; see [`Drain::Fragments`].
    pub fn more_slots(&self, decoded: &DecodedOp) -> &[u16] {
        let [low, high, count, _] = decoded.blocking;
        let first = usize::from(low) | usize::from(high) << 16;
        self.program.more_slots.get(first..first + usize::from(count)).unwrap_or_default()
    }

    /// Resolves lane functions for `isa` and costs by `costs`, those of products of matrices by `tensor`. Loads of
    /// parameters at a constant offset become moves of constant rows.
    pub fn new(
        program: Arc<Program>,
        costs: &IsaCosts,
        tensor: Option<&TensorSpec>,
        fixed: Fixed,
        isa: InstructionSet,
    ) -> Self {
        let cost_of: Vec<_> = program.forms.iter().map(|form| costs.cost(form)).collect();
        let acquires = program.ops.iter().any(|op| acquires(op.class, &op.extra));
        let lane_of: Vec<_> = program.forms.iter().map(|form| resolve(form, isa)).collect();
        let mut decoded: Vec<DecodedOp> = program
            .ops
            .iter()
            .zip(&program.info)
            .map(|(op, info)| {
                let form = usize::from(op.form);
                let cost = cost_of.get(form);
                let (mut blocking, blocking_used) = blocking_of(op);
                let mut drain = drain_of(op.class, &op.extra, acquires);
                let more = op.extra.more_operations();
                let product = match &op.extra {
                    Extra::Mma(mma) => {
                        let (first, count) = mma.slots;
                        if count > 0 {
                            drain = Drain::Fragments;
                            blocking = [first as u16, (first >> 16) as u16, count.into(), 0];
                        }
                        tensor.and_then(|tensor| tensor.cost(mma))
                    }
                    Extra::Wgmma(wgmma) => {
                        let (first, count) = wgmma.slots;
                        if count > 0 {
                            drain = Drain::Fragments;
                            blocking = [first as u16, (first >> 16) as u16, count, 0];
                        }
                        tensor.and_then(|tensor| tensor.warpgroup_cost(wgmma))
                    }
                    _ => None,
                };
                DecodedOp {
                    lane: lane_of.get(form).copied().flatten().filter(|_| op.class == OpClass::Data),
                    class: op.class,
                    unit: match op.class {
                        OpClass::Mma => UnitClass::Tensor as u8,
                        // The tensor core takes it when it comes to it.
                        OpClass::Wgmma => UnitClass::Control as u8,
                        _ => cost.map_or(0, |c| c.unit as u8),
                    },
                    queue: Queue::default(),
                    traits: Traits::default()
                        .and(Traits::INJECTED, info.injected)
                        .and(Traits::BOOKKEEPING, info.injected || info.by_hand)
                        .and(Traits::WORDS, is_words(op))
                        .and(Traits::INVERTED, info.inverted),
                    line: 0,
                    drain,
                    guard: op.guard,
                    latency: if info.injected || info.by_hand {
                        INJECTED_LATENCY
                    } else {
                        let latency = product.map(|(latency, _)| latency).or(cost.map(|c| c.latency));
                        latency.unwrap_or(1).clamp(1, u32::from(u16::MAX)) as u16
                    },
                    initiation: if info.injected || info.by_hand {
                        1
                    } else {
                        let initiation = product.map(|(_, interval)| interval).or(cost.map(|c| c.initiation));
                        initiation.unwrap_or(1).saturating_add(more).clamp(1, u32::from(u16::MAX)) as u16
                    },
                    machine_operations: cost
                        .map_or(1, |c| c.machine_operations.saturating_add(more))
                        .min(u32::from(u16::MAX)) as u16,
                    slots_used: op.slots_used,
                    slots_written: op.slots_written,
                    slots: padded(op, &program),
                    blocking,
                    blocking_used,
                    base_pc: info.base_pc,
                }
            })
            .collect();
        let consts: Vec<LaneRow> = program.consts.iter().map(|row| LaneRow(*row)).collect();
        let mut ops = program.ops.clone();
        for op in &mut ops {
            let form = program.forms.get(usize::from(op.form));
            if let Some(imm) = form.filter(|_| op.class == OpClass::Data).and_then(lanes::immediate) {
                op.imm = imm;
            }
        }
        let mut parameters = Vec::new();
        if let Ok(latency) = u16::try_from(fixed.constant) {
            for (op, decoded) in ops.iter_mut().zip(&mut decoded) {
                if let Some((offset, words)) = whole_parameter(op, program.param_bytes)
                    && let Some(row) = parameter_rows(&mut parameters, consts.len(), offset, words)
                {
                    op.src[0] = row;
                    (decoded.lane, decoded.latency) = (lanes::mov_words(words, isa), latency);
                }
            }
        }
        lengthen(&mut decoded, fixed, program.registers);
        let plan = Arc::new(Plan::new(&program));
        let cancels = program
            .ops
            .iter()
            .any(|op| matches!(&op.extra, Extra::Bulk(facts) if matches!(facts.way, BulkWay::Cancel { .. })));
        let publishes = decoded.iter().any(|decoded| decoded.drain == Drain::Device);
        let exposed = Exposures::new(&program);
        let runs = runs_of(&decoded);
        let (line, first_line) = (fixed.line, fixed.first_line);
        let mut code = Self {
            program,
            ops,
            decoded,
            consts,
            parameters,
            plan,
            publishes,
            cancels,
            exposed,
            runs,
            line,
            first_line,
        };
        for pc in 0..code.decoded.len() {
            code.decoded[pc].line = code.line_of(pc as Pc) as u16;
        }
        code.find_quick();
        code
    }

    /// Finds the quick operations: data operations that take one cycle of their scheduler and their unit, and that another one
    /// follows which is in the same line of code and waits for nothing but its slots. One leads if the next one is quick too and
    /// does not use its results.
    fn find_quick(&mut self) {
        for at in (0..self.decoded.len()).rev() {
            let op = &self.decoded[at];
            let data = op.lane.is_some() && op.class == OpClass::Data && !op.bookkeeping();
            let once = (op.machine_operations, op.initiation) == (1, 1);
            let Some(next) = self.decoded.get(at + 1) else {
                self.decoded[at].queue = Queue::new(op.unit, false);
                continue;
            };
            // The check of an operation that is not of the source looks where it is.
            let checks = next.base_pc == op.base_pc + 1 || next.injected();
            let quick = data && once && checks && next.line == op.line && next.drain == Drain::None;
            let waits = op.latency > 1 && op.written().iter().any(|slot| next.slots().contains(slot));
            let leads = quick && next.quick() && !waits;
            let op = &mut self.decoded[at];
            op.queue = Queue::new(op.unit, leads);
            op.traits = op.traits.and(Traits::QUICK, quick);
        }
    }

    /// The line of code that an operation begins in.
    pub fn line_of(&self, pc: Pc) -> u32 {
        let before = self.runs.get(pc as usize).map_or(0, |run| run.machine);
        before.checked_div(self.line.into()).map_or(0, |line| line as u32)
    }

    /// Its lines of code.
    pub fn line_count(&self) -> u32 {
        let all = self.runs.last().map_or(0, |run| run.machine);
        if self.line == 0 { 0 } else { all.div_ceil(self.line.into()) as u32 }
    }

    /// The straight run from an operation on: data operations and accesses of words in shared memory, at consecutive addresses
    /// before transformation 6. `None` where fewer than two follow one another.
    #[inline(always)]
    pub(crate) fn straight(&self, pc: Pc) -> Option<(&[DecodedOp], &[Op])> {
        let length = self.runs.get(pc as usize).map_or(0, |run| run.length as usize);
        if length < 2 {
            return None;
        }
        let own = pc as usize..pc as usize + length;
        Some((self.decoded.get(own.clone())?, self.ops.get(own)?))
    }

    /// The machine operations of `count` operations from one on.
    #[inline(always)]
    pub(crate) fn machine_operations(&self, pc: Pc, count: Pc) -> u64 {
        let before = |pc: Pc| self.runs.get(pc as usize).map_or(0, |run| run.machine);
        before(pc + count) - before(pc)
    }

    /// The constant rows of a launch with these parameters: those of the program, then the parameter words.
    pub fn constant_rows(&self, params: &[u8]) -> Box<[LaneRow]> {
        let word = |offset: u32| {
            let bytes = params.get(offset as usize..).and_then(|rest| rest.first_chunk());
            debug_assert!(bytes.is_some(), "a launch has the program's bytes of parameters");
            LaneRow([u32::from_le_bytes(bytes.copied().unwrap_or_default()); WARP_LANES])
        };
        let words = self.parameters.iter().map(|&offset| word(offset));
        let mut rows: Box<[LaneRow]> = self.consts.iter().copied().chain(words).collect();
        for &(row, offset) in &self.program.parameter_rows {
            rows[usize::from(row)] = word(offset);
        }
        rows
    }
}

/// Operations behind one among which the first is looked for that uses its result.
const NEAR: usize = 64;

/// Results come later to the other of the two pipelines, and predicates to guards, branches and what is no arithmetic. The first
/// use counts, up to a branch: what follows it is not known. Predicates have slots from `registers` on.
fn lengthen(decoded: &mut [DecodedOp], fixed: Fixed, registers: u16) {
    if fixed.crossing == 0 && fixed.guard == 0 {
        return;
    }
    let multiplies = |op: &DecodedOp| match UnitClass::ALL.get(usize::from(op.unit)) {
        Some(UnitClass::Alu) => Some(false),
        Some(UnitClass::Fma | UnitClass::Imul) => Some(true),
        _ => None,
    };
    for pc in 0..decoded.len() {
        let op = &decoded[pc];
        if op.class != OpClass::Data || op.injected() {
            continue;
        }
        let used = decoded[pc + 1..].iter().take(NEAR).find_map(|next| {
            let slot = op.written().iter().find(|slot| next.slots().contains(slot));
            let ends = next.control() && !next.injected();
            slot.map(|slot| Some((next, *slot))).or(ends.then_some(None))
        });
        let Some((user, slot)) = used.flatten() else { continue };
        let arithmetic = user.class == OpClass::Data && multiplies(user).is_some();
        let as_guard =
            !user.guard.is_const() && slot.checked_sub(registers) == Some(user.guard.index() as u16);
        let crosses = arithmetic && multiplies(op).is_some_and(|side| multiplies(user) == Some(!side));
        let waits = slot >= registers && (as_guard || !arithmetic);
        let more = (if crosses { fixed.crossing } else { 0 }).max(if waits { fixed.guard } else { 0 });
        let more = u16::try_from(more).unwrap_or(u16::MAX);
        decoded[pc].latency = decoded[pc].latency.saturating_add(more);
    }
}

/// Offset and number of words of a load of one whole parameter at a constant offset, the form that compilers
/// emit.
fn whole_parameter(op: &Op, param_bytes: u32) -> Option<(u32, u32)> {
    let Extra::Memory(facts) = &op.extra else { return None };
    let bytes = u32::from(facts.element_bytes);
    let whole = op.class == OpClass::LoadParam
        && !op.src[0].is_some()
        && facts.vector == 1
        && u32::from(facts.reg_bits) == 8 * bytes
        && matches!(bytes, 4 | 8);
    let offset = u32::try_from(op.imm).ok().filter(|_| whole)?;
    (offset.checked_add(bytes)? <= param_bytes).then_some((offset, bytes / 4))
}

/// The row of the first of `words` parameter words at `offset`, after `consts` other rows; `None` if the row
/// numbers are exhausted.
fn parameter_rows(rows: &mut Vec<u32>, consts: usize, offset: u32, words: u32) -> Option<Row> {
    let wanted = (0..words).map(|word| offset + 4 * word);
    let known =
        (0..rows.len()).find(|&at| rows[at..].iter().copied().take(words as usize).eq(wanted.clone()));
    let first = known.unwrap_or(rows.len());
    let row = u16::try_from(consts + first + words as usize).ok().filter(|end| *end < Row::CONST)?;
    if known.is_none() {
        rows.extend(wanted);
    }
    Some(Row(Row::CONST + (row - words as u16)))
}

/// Offsets of 64-bit addresses in shared memory from here on, either way, are far from all of it.
const FAR: u64 = 1 << 30;

/// True if an operation is a load or store of one word a lane in shared memory.
pub(crate) fn is_words(op: &Op) -> bool {
    let Extra::Memory(facts) = &op.extra else { return false };
    let word = (facts.element_bytes, facts.vector, facts.reg_bits) == (4, 1, 32);
    let near = !facts.address_64 || op.imm.unsigned_abs() < FAR;
    let plain = word && near && !facts.of_warp && op.src[0].is_some();
    plain && facts.space == StateSpace::Shared && matches!(op.class, OpClass::Load | OpClass::Store)
}

/// True if the operation is an acquire that leaves the SM: accesses that follow it in program order must be
/// performed after it (PTX ISA "Release and acquire patterns"). Shared memory acts at issue and is in order
/// anyway.
pub fn acquires(class: OpClass, extra: &Extra) -> bool {
    match (class, extra) {
        (OpClass::Load | OpClass::Atomic, Extra::Memory(facts)) => {
            matches!(facts.semantics, Semantics::Acquire | Semantics::AcqRel | Semantics::Sc)
                && (facts.space != StateSpace::Shared || facts.cluster)
        }
        _ => false,
    }
}

/// What an operation waits for; `acquires` is true if its program has acquire accesses.
fn drain_of(class: OpClass, extra: &Extra, acquires: bool) -> Drain {
    let ordinary = if acquires { Drain::Acquires } else { Drain::None };
    match (class, extra) {
        (OpClass::Barrier, Extra::Barrier { kind, .. }) if *kind != BarrierKind::WarpSync => Drain::Block,
        (OpClass::WarpSync, _) | (OpClass::Membar, Extra::Membar(Scope::Cta, _)) => Drain::Block,
        (OpClass::Membar, _) => Drain::Device,
        (_, Extra::Mbarrier(MbarrierOp { releases: true, cluster: false, .. })) => Drain::Block,
        // Other SMs see what was written before.
        (_, Extra::Mbarrier(MbarrierOp { releases: true, .. }))
        | (_, Extra::ClusterBarrier { releases: true, .. }) => Drain::Device,
        (_, Extra::BulkWait(newest, read)) => Drain::Puts(*newest, *read),
        (_, Extra::CopyWait(newest)) => Drain::Copies(*newest),
        (OpClass::Store | OpClass::Atomic, Extra::Memory(facts))
            if matches!(facts.semantics, Semantics::Release | Semantics::AcqRel | Semantics::Sc) =>
        {
            // Only threads of the block meet at an object in its shared memory.
            let own = facts.space == StateSpace::Shared && !facts.cluster;
            let block = facts.scope == Scope::Cta || own;
            if block { Drain::Block } else { Drain::Device }
        }
        // Shared memory acts at issue, in order by itself.
        (OpClass::Load | OpClass::Store, Extra::Memory(facts))
            if facts.semantics == Semantics::Volatile
                && (facts.space != StateSpace::Shared || facts.cluster) =>
        {
            Drain::Volatile
        }
        (
            OpClass::Load
            | OpClass::Store
            | OpClass::Atomic
            | OpClass::Copy
            | OpClass::Mbarrier
            | OpClass::Texture,
            _,
        ) => ordinary,
        _ => Drain::None,
    }
}

#[cfg(test)]
mod tests {
    use sim_frontend::diagnostic::Source;
    use sim_frontend::load::{Assembler, Module};
    use sim_frontend::program::ControlFlow;

    use super::*;

    #[test]
    fn words_of_parameters_share_rows() {
        let mut rows = Vec::new();
        let mut row =
            |offset, words| parameter_rows(&mut rows, 10, offset, words).map(|row| row.0 - Row::CONST);
        assert_eq!(row(8, 2), Some(10));
        assert_eq!(row(0, 1), Some(12));
        // A word of a pair, the pair again, and a pair whose words are not side by side.
        assert_eq!((row(12, 1), row(8, 2), row(4, 2)), (Some(11), Some(10), Some(13)));
        assert_eq!(rows, [8, 12, 0, 4, 8]);
        // Rows have numbers below the last.
        let last = usize::from(u16::MAX - Row::CONST);
        assert_eq!(parameter_rows(&mut Vec::new(), last - 1, 0, 1).map(|row| row.0), Some(u16::MAX - 1));
        assert_eq!(parameter_rows(&mut Vec::new(), last, 0, 1), None);
    }

    /// Latencies of the data operations of a body.
    fn latencies(body: &str, crossing: u32) -> Vec<u16> {
        with_guards(body, crossing, 0)
    }

    fn with_guards(body: &str, crossing: u32, guard: u32) -> Vec<u16> {
        let text = format!(
            ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
             .reg .u32 %r<9>;\n.reg .f32 %f<9>;\n.reg .u64 %rd<3>;\n.reg .pred %p<3>;\n{body}\nret;\n}}\n"
        );
        let module = Module::build(&Source::new("k.ptx", &text), false)
            .unwrap_or_else(|e| panic!("{}", e[0].render()));
        let assembler = Assembler { stack_bytes: 1024, registers: 255, passes: Default::default() };
        let program = module.program_for("k", &|_| None, ControlFlow::Plain, assembler);
        let program = program.unwrap_or_else(|e| panic!("{}", e[0].render()));
        let costs = include_str!("../../configs/isa/9.0.yaml");
        let costs =
            IsaCosts::load(&Source::new("9.0.yaml", costs)).unwrap_or_else(|e| panic!("{}", e[0].render()));
        let code = Code::new(
            program,
            &costs,
            None,
            Fixed { constant: 8, crossing, guard, line: 0, first_line: 0 },
            InstructionSet::detect(),
        );
        code.decoded.iter().filter(|op| op.class == OpClass::Data).map(|op| op.latency).collect()
    }

    #[test]
    fn guards_and_branches_read_predicates_later() {
        let compare = "setp.lt.s32 %p1, %r1, %r2;\n";
        let used = |by: &str| with_guards(&format!("{compare}{by}"), 0, 9);
        assert_eq!(used("@%p1 add.s32 %r3, %r1, 1;"), [13, 4]);
        assert_eq!(used("@%p1 ld.global.u32 %r3, [%rd1];"), [13]);
        assert_eq!(used("@!%p1 bra E;\nadd.s32 %r3, %r1, 1;\nE:"), [13, 4]);
        assert_eq!(used("vote.sync.any.pred %p2, %p1, -1;"), [13]);
        // As an operand of arithmetic, which comes first, and where nobody reads it.
        assert_eq!(used("selp.b32 %r3, %r1, %r2, %p1;\n@%p1 add.s32 %r3, %r1, 1;"), [4, 4, 4]);
        assert_eq!(used("add.s32 %r3, %r1, 1;"), [4, 4]);
        assert_eq!(used("bra E;\nE: @%p1 add.s32 %r3, %r1, 1;"), [4, 4]);
        // A guarded operation whose operand is a predicate too: the guard counts.
        assert_eq!(used("@%p1 selp.b32 %r3, %r1, %r2, %p1;"), [13, 4]);
        // A register is no predicate.
        assert_eq!(with_guards("add.s32 %r1, %r2, %r3;\nst.global.u32 [%rd1], %r1;", 0, 9), [4]);
    }

    #[test]
    fn results_that_the_other_pipeline_uses_first_come_later() {
        let there_and_back = "add.s32 %r1, %r2, %r3;\nmad.lo.s32 %r4, %r1, %r2, %r3;\nxor.b32 %r5, %r4, %r2;";
        assert_eq!(latencies(there_and_back, 0), [4, 4, 4]);
        assert_eq!(latencies(there_and_back, 1), [5, 5, 4]);
        let floats = "add.f32 %f1, %f2, %f3;\nmin.f32 %f4, %f1, %f2;\nfma.rn.f32 %f5, %f4, %f2, %f3;\nmul.f32 %f6, %f5, %f2;";
        assert_eq!(latencies(floats, 3), [7, 7, 4, 4]);
        // The first use counts, also that of a predicate.
        let two = "add.s32 %r1, %r2, %r3;\nand.b32 %r4, %r1, %r2;\nmul.lo.s32 %r5, %r1, %r2;";
        assert_eq!(latencies(two, 1), [4, 4, 4]);
        let guard = "setp.lt.s32 %p1, %r1, %r2;\n@%p1 add.f32 %f1, %f2, %f3;";
        assert_eq!(latencies(guard, 1), [5, 4]);
        // What is not used, used behind a branch, or by another unit.
        let apart =
            "add.s32 %r1, %r2, %r3;\nsetp.eq.s32 %p1, %r2, %r3;\n@%p1 bra E;\nmul.lo.s32 %r5, %r1, %r2;\nE:";
        assert_eq!(latencies(apart, 1), [4, 4, 4]);
        assert_eq!(latencies("add.s32 %r1, %r2, %r3;\nst.global.u32 [%rd1], %r1;", 1), [4]);
    }
}
