//! Encodes emitted functions as dense operations.

use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::chip::AssemblerSpec;
use crate::diagnostic::{Diagnostic, Source};
use crate::form::Form;
use crate::isa::Root;
use crate::lower::ir::{Callee, Func, Inst, Operand, PredOperand, Width};
use crate::lower::linear_scan::Assignment;
use crate::lower::tf6_control_flow::emitted::{Emitted, Item, NONE};
use crate::program::{
    CleanUp, ControlFlow, Exposed, Extra, Function, LaunchBounds, MAX_SLOTS, NO_PC, Op, OpClass, OpInfo,
    ParamInfo, Pc, Pred, Program, Row, SpecialRegister, Text, function_address,
};
use sim_memory::vocabulary::{ScalarType, WARP_LANES};

/// A function ready to be encoded.
pub(super) struct Ready {
    pub(super) func: Arc<Func>,
    pub(super) assignment: Assignment,
    pub(super) emitted: Emitted,
}

/// What is known of the program besides its functions.
pub(super) struct Facts<'s> {
    pub(super) source: &'s Source,
    pub(super) papers: bool,
    pub(super) numbers: &'s [usize],
    pub(super) params: Vec<ParamInfo>,
    pub(super) param_bytes: u32,
    pub(super) shared_bytes: u32,
    pub(super) dynamic_shared_align: u32,
    pub(super) local_bytes: u32,
    pub(super) recursive: bool,
    pub(super) deepest_call: u32,
    pub(super) bounds: LaunchBounds,
    pub(super) notes: Vec<String>,
    pub(super) clean_up: Option<CleanUp>,
    pub(super) passes: AssemblerSpec,
    pub(super) shared_rows: bool,
    pub(super) max_tokens: u32,
}

struct Encoder<'r> {
    functions: &'r [Ready],
    /// Places of the functions, by number.
    places: FxHashMap<usize, usize>,
    starts: Vec<Pc>,
    /// By function: places of the registers that transformation 6 made.
    extra: Vec<Vec<u16>>,
    registers: u16,
    consts: Vec<[u32; WARP_LANES]>,
    const_rows: FxHashMap<(u64, bool), Row>,
    parameter_rows: Vec<(u16, u32)>,
    specials: Vec<(Row, SpecialRegister)>,
    forms: Vec<Form>,
    /// Forms by root.
    form_ids: Vec<Vec<u16>>,
    /// Forms by opcode as it is written.
    opcode_ids: Vec<Vec<u16>>,
    fragments: Vec<Row>,
    more_slots: Vec<u16>,
}

/// Places of the registers that control flow takes, behind the function's own.
fn extra_places(ready: &Ready) -> Vec<u16> {
    let (mut rows, mut preds) = (ready.assignment.all_rows() as u16, ready.assignment.preds);
    let place = |width: &Width| {
        let next = if *width == Width::Pred { &mut preds } else { &mut rows };
        *next += 1;
        *next - 1
    };
    ready.emitted.extra.iter().map(place).collect()
}

/// Rows and predicates that a function takes, with those of its control flow.
pub(super) fn taken(assignment: &Assignment, emitted: &Emitted) -> (u32, u32) {
    let preds = emitted.extra.iter().filter(|width| **width == Width::Pred).count() as u32;
    let rows = emitted.extra.len() as u32 - preds;
    (assignment.all_rows() + rows, u32::from(assignment.preds) + preds)
}

/// Rows of a thread. What the entry holds in uniform registers is not among them; rows of functions come behind that, if they do
/// not share its own, from an even one on.
fn of_a_thread(facts: &Facts<'_>, functions: &[Ready]) -> u32 {
    let Some(entry) = functions.first().map(|ready| &ready.assignment) else { return 0 };
    let (rows, all) = (u32::from(entry.rows), entry.all_rows());
    let reserved = u32::from(entry.stack_pointer);
    let own = functions.iter().enumerate().map(|(place, ready)| {
        let before = match place {
            0 => all - rows + reserved,
            _ if facts.shared_rows => 0,
            _ => all.saturating_sub(rows.next_multiple_of(2)),
        };
        taken(&ready.assignment, &ready.emitted).0.saturating_sub(before)
    });
    own.max().unwrap_or(0).max(entry.at_least.into())
}

/// The program of `functions`, the entry first.
pub(super) fn encode(
    facts: &Facts<'_>,
    functions: &[Ready],
    control_flow: ControlFlow,
    base: Option<Arc<Program>>,
) -> Result<Program, Vec<Diagnostic>> {
    let (mut starts, mut pc) = (Vec::new(), 0);
    for ready in functions {
        starts.push(pc as Pc);
        pc += ready.emitted.items.len();
    }
    let taken = functions.iter().map(|ready| taken(&ready.assignment, &ready.emitted));
    let (registers, predicates) = taken.fold((0, 0), |all, own| (all.0.max(own.0), all.1.max(own.1)));
    let registers_per_thread = counted(of_a_thread(facts, functions), facts.passes);
    // Pairs of rows are aligned.
    let rows = [registers.next_multiple_of(2), predicates];
    let [registers, predicates] = rows.map(|rows| u16::try_from(rows).unwrap_or(u16::MAX));
    let mut encoder = Encoder {
        functions,
        places: facts.numbers.iter().copied().zip(0..).collect(),
        starts,
        extra: functions.iter().map(extra_places).collect(),
        registers,
        consts: Vec::new(),
        const_rows: FxHashMap::default(),
        parameter_rows: Vec::new(),
        specials: Vec::new(),
        forms: Vec::new(),
        form_ids: Vec::new(),
        opcode_ids: Vec::new(),
        fragments: Vec::new(),
        more_slots: Vec::new(),
    };
    // Without registers of its own, the program with injected control flow has the operations of
    // the plain one, and differs in guards and targets alone.
    let same = base.as_deref().filter(|_| functions.iter().all(|r| r.emitted.extra.is_empty()));
    if let Some(base) = same {
        encoder.begin_as(base);
    }
    // The first form of every program.
    let control = if same.is_some() { 0 } else { encoder.form(control_form()) };
    let (mut ops, mut info): (Vec<Op>, Vec<OpInfo>) = (Vec::with_capacity(pc), Vec::with_capacity(pc));
    let mut tables = Vec::new();
    let base_starts: Vec<Pc> = match &base {
        Some(base) => base.functions.iter().map(|f| f.entry_pc).collect(),
        None => encoder.starts.clone(),
    };
    for (f, ready) in functions.iter().enumerate() {
        // Where the blocks begin in the plain program.
        let mut blocks: Vec<Pc> = Vec::with_capacity(ready.func.blocks.len());
        let mut at = base_starts[f];
        for block in &ready.func.blocks {
            blocks.push(at);
            at += (block.insts.len() + usize::from(block.last().is_some())) as Pc;
        }
        for item in &ready.emitted.items {
            let inst = inst_of(ready, item);
            let base_pc = item.source.map_or(NO_PC, |(block, i)| blocks[block] + i as Pc);
            let plain = same.and_then(|base| base.ops.get(base_pc as usize));
            let mut op = match (plain, inst) {
                (Some(plain), Some(inst)) => encoder.guarded(f, item, inst, plain),
                _ => encoder.op(f, item, inst, control),
            };
            if op.class == OpClass::BranchIndirect && !item.targets.is_empty() && op.imm >= 0 {
                op.imm = tables.len() as i64;
                tables.push(item.targets.iter().map(|t| encoder.starts[f] + *t as Pc).collect());
            }
            ops.push(op);
            let base_target = match (&base, item.source) {
                (Some(base), Some(_)) => base.info.get(base_pc as usize).map_or(NO_PC, |i| i.base_target),
                _ => ops.last().map_or(NO_PC, |op| op.target),
            };
            let min_sm = inst.map_or(10, |i| i.min_sm);
            info.push(OpInfo {
                line: inst.map_or(0, |i| i.line),
                text: inst.map_or_else(|| Text::Made(injected_name(item.class)), |i| i.text),
                base_pc,
                injected: item.source.is_none(),
                by_hand: item.source.is_some() && ready.func.injected_by_hand && item.class.is_of_stack(),
                base_target,
                inverted: item.inverted,
                uniform_hint: inst.is_some_and(|i| i.uniform_hint),
                loc: inst.and_then(|i| i.loc),
                function: f as u32,
                min_sm,
                unsupported: inst.and_then(|i| i.unsupported.clone()),
            });
        }
    }
    // An injected operation stands before the next one that is not.
    let mut next = NO_PC;
    for fact in info.iter_mut().rev() {
        if fact.injected {
            fact.base_pc = next;
        } else {
            next = fact.base_pc;
        }
    }
    let too_large = |what: String, help: &str| {
        let mut error = Diagnostic::error("size", what).in_source(facts.source);
        error.help = Some(help.into());
        Err(vec![error])
    };
    let entry = functions.first().map_or_else(|| "".into(), |ready| Arc::clone(&ready.func.name));
    if ops.len() >= NO_PC as usize / 2 {
        return too_large(format!("`{entry}` has too many instructions"), "split the kernel");
    }
    // A row names a constant in 15 bits, and an operation its form in 16.
    let rows = encoder.consts.len();
    if rows > usize::from(u16::MAX - Row::CONST) + 1 {
        let what = format!(
            "`{entry}` uses {rows} constant words; the limit is {} (a 64-bit constant takes two)",
            usize::from(u16::MAX - Row::CONST) + 1
        );
        return too_large(what, "keep them in a `.const` array and load them, or split the kernel");
    }
    if encoder.forms.len() > usize::from(u16::MAX) {
        let what =
            format!("`{entry}` has {} instruction forms; the limit is {}", encoder.forms.len(), u16::MAX);
        return too_large(what, "split the kernel");
    }
    let exposed = functions.first().map_or_else(Vec::new, exposed_of);
    let functions = functions
        .iter()
        .zip(&encoder.starts)
        .zip(facts.numbers)
        .map(|((ready, &start), &number)| Function {
            name: Arc::clone(&ready.func.name),
            address: function_address(number),
            entry_pc: start,
            end_pc: start + ready.emitted.items.len() as Pc,
            frame_bytes: ready.func.frame_bytes,
        })
        .collect::<Vec<_>>();
    let entry_registers = entry_registers(&facts.bounds, &ops);
    Ok(Program {
        entry: functions.first().map_or_else(|| "".into(), |f| Arc::clone(&f.name)),
        control_flow,
        ops,
        info,
        entry_pc: 0,
        forms: encoder.forms,
        consts: encoder.consts,
        parameter_rows: encoder.parameter_rows,
        registers,
        predicates,
        registers_per_thread: entry_registers.unwrap_or(registers_per_thread),
        entry_registers,
        specials: encoder.specials,
        functions,
        tables,
        params: facts.params.clone(),
        param_bytes: facts.param_bytes,
        shared_bytes: facts.shared_bytes,
        dynamic_shared_align: facts.dynamic_shared_align,
        local_bytes: facts.local_bytes,
        recursive: facts.recursive,
        deepest_call: facts.deepest_call,
        bounds: facts.bounds.clone(),
        notes: facts.notes.clone(),
        clean_up: facts.clean_up,
        max_tokens: facts.max_tokens,
        base,
        source: facts.source.clone(),
        papers: facts.papers,
        exposed,
        fragments: encoder.fragments,
        more_slots: encoder.more_slots,
    })
}

/// The operations of the entry on registers that it may read before it writes them.
fn exposed_of(entry: &Ready) -> Vec<Exposed> {
    let registers = &entry.assignment.exposed;
    if registers.is_empty() || entry.func.injected_by_hand {
        return Vec::new();
    }
    // What a call hands over, takes back and saves is moved by operations at its line.
    let is_call = |class: OpClass| matches!(class, OpClass::Call | OpClass::CallIndirect);
    let insts = || entry.emitted.items.iter().filter_map(|item| Some((item.class, inst_of(entry, item)?)));
    let calls: BTreeSet<u32> =
        insts().filter(|(class, _)| is_call(*class)).map(|(_, inst)| inst.line).collect();
    let numbers: FxHashMap<_, _> = registers.iter().copied().zip(0u32..).collect();
    let mut out = Vec::new();
    for (pc, item) in entry.emitted.items.iter().enumerate() {
        let Some(inst) = inst_of(entry, item).filter(|_| item.source.is_some()) else { continue };
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let call = calls.contains(&inst.line);
        for operand in inst.sources() {
            if let Operand::Reg(reg) = operand {
                if call { &mut writes } else { &mut reads }.extend(numbers.get(reg));
            }
        }
        for pred in &inst.psrc {
            if let PredOperand::Reg(reg, _) = pred {
                reads.extend(numbers.get(reg));
            }
        }
        let guard = match &inst.guard {
            PredOperand::Reg(reg, _) => numbers.get(reg).copied(),
            _ => None,
        };
        inst.for_writes(|reg| writes.extend(numbers.get(&reg)));
        if !reads.is_empty() || !writes.is_empty() || guard.is_some() {
            out.push(Exposed { pc: pc as Pc, reads, guard, writes });
        }
    }
    out
}

fn injected_name(class: OpClass) -> &'static str {
    match class {
        OpClass::Ssy => "ssy",
        OpClass::Sync => "sync",
        OpClass::PreBreak => "preBrk",
        OpClass::Break => "brk",
        OpClass::PreReturn => "preRet",
        OpClass::Branch => "bra",
        _ => "selector",
    }
}

fn inst_of<'r>(ready: &'r Ready, item: &'r Item) -> Option<&'r Inst> {
    match item.source {
        Some((b, i)) => {
            let block = &ready.func.blocks[b];
            block.insts.get(i).or(block.last())
        }
        None => item.data.as_deref(),
    }
}

impl Encoder<'_> {
    /// The operation of the plain program with the guard and target of `item`.
    fn guarded(&mut self, f: usize, item: &Item, inst: &Inst, plain: &Op) -> Op {
        let mut op = plain.clone();
        op.class = item.class;
        op.target = self.target(f, item, Some(inst));
        op.imm = inst.imm;
        if item.guard != inst.guard {
            op.guard = self.guard(f, item);
            self.slots(f, &mut op, Some(inst), item);
        }
        op
    }

    fn guard(&self, f: usize, item: &Item) -> Pred {
        if item.guard == PredOperand::None { Pred::TRUE } else { self.pred(f, item.guard) }
    }

    fn target(&self, f: usize, item: &Item, inst: Option<&Inst>) -> Pc {
        if let Some(Callee::Function(callee)) = inst.map(|inst| inst.callee) {
            return self.starts[self.places.get(&callee).copied().unwrap_or(0)];
        }
        if item.target == NONE { NO_PC } else { self.starts[f] + item.target as Pc }
    }

    fn op(&mut self, f: usize, item: &Item, inst: Option<&Inst>, control: u16) -> Op {
        let mut op = Op {
            class: item.class,
            cost: 0,
            form: 0,
            guard: self.guard(f, item),
            dst: [Row::NONE; 4],
            src: [Row::NONE; 5],
            pdst: [Pred::NONE; 2],
            psrc: [Pred::NONE; 2],
            imm: 0,
            target: self.target(f, item, inst),
            extra: Extra::None,
            slots: [0; MAX_SLOTS],
            slots_used: 0,
            slots_written: 0,
        };
        let Some(inst) = inst else {
            op.form = control;
            self.slots(f, &mut op, None, item);
            return op;
        };
        op.form = self.form_of(inst);
        op.imm = inst.imm;
        op.extra = inst.extra;
        // Most operations have few of the operands that there can be.
        let given = |operand: &&Operand| **operand != Operand::None;
        for (i, operand) in inst.dst.iter().enumerate().filter(|(_, o)| given(o)) {
            op.dst[i] = self.row(f, *operand);
        }
        for (i, operand) in inst.src.iter().enumerate().filter(|(_, o)| given(o)) {
            op.src[i] = self.row(f, *operand);
        }
        if let Extra::Mma(mma) = &mut op.extra {
            mma.rows = self.fragments.len() as u32;
            let rows: Vec<Row> = inst.fragments.iter().map(|operand| self.row(f, *operand)).collect();
            self.fragments.extend(rows);
        }
        if let Extra::Wgmma(wgmma) = &mut op.extra {
            wgmma.rows = self.fragments.len() as u32;
            let operands = inst.fragments.iter().chain(&inst.results);
            let rows: Vec<Row> = operands.map(|operand| self.row(f, *operand)).collect();
            self.fragments.extend(rows);
        }
        for i in 0..2 {
            op.pdst[i] = self.pred(f, inst.pdst[i]);
            op.psrc[i] = self.pred(f, inst.psrc[i]);
        }
        self.slots(f, &mut op, Some(inst), item);
        op
    }

    /// The rows, lists and forms of another program.
    fn begin_as(&mut self, base: &Program) {
        self.consts.clone_from(&base.consts);
        self.parameter_rows.clone_from(&base.parameter_rows);
        self.fragments.clone_from(&base.fragments);
        self.more_slots.clone_from(&base.more_slots);
        self.specials.clone_from(&base.specials);
        self.forms.clone_from(&base.forms);
    }

    /// Forms have forty fields to compare, so that what is known of the opcode comes first.
    fn form_of(&mut self, inst: &Inst) -> u16 {
        let Some(opcode) = inst.opcode.map(|opcode| usize::from(opcode.get())) else {
            return self.form(inst.form);
        };
        if let Some(ids) = self.opcode_ids.get(opcode)
            && let Some(id) = ids.iter().find(|id| self.forms[usize::from(**id)].same_of_opcode(&inst.form))
        {
            debug_assert_eq!(self.forms[usize::from(*id)], inst.form);
            return *id;
        }
        let id = self.form(inst.form);
        if opcode >= self.opcode_ids.len() {
            self.opcode_ids.resize_with(opcode + 1, Vec::new);
        }
        self.opcode_ids[opcode].push(id);
        id
    }

    fn form(&mut self, form: Form) -> u16 {
        let root = form.root as usize;
        if root >= self.form_ids.len() {
            self.form_ids.resize_with(root + 1, Vec::new);
        }
        let ids = &mut self.form_ids[root];
        if let Some(id) = ids.iter().find(|id| self.forms[usize::from(**id)] == form) {
            return *id;
        }
        let id = u16::try_from(self.forms.len()).unwrap_or(u16::MAX);
        self.forms.push(form);
        ids.push(id);
        id
    }

    /// Physical place of a register: the function's own, or one of those transformation 6 made.
    fn place(&self, f: usize, reg: u32) -> Option<(u16, Width)> {
        let ready = &self.functions[f];
        let own = ready.func.regs.len();
        if let Some(width) = ready.func.regs.get(reg as usize) {
            return Some((ready.assignment.place[reg as usize]?, *width));
        }
        let width = *ready.emitted.extra.get(reg as usize - own)?;
        Some((*self.extra[f].get(reg as usize - own)?, width))
    }

    fn pred(&self, f: usize, operand: PredOperand) -> Pred {
        match operand {
            PredOperand::None => Pred::NONE,
            PredOperand::Const(true) => Pred::TRUE,
            PredOperand::Const(false) => Pred(Pred::TRUE.0 | Pred::NOT),
            PredOperand::Reg(reg, not) => self
                .place(f, reg)
                .map_or(Pred::NONE, |(place, _)| Pred(place | if not { Pred::NOT } else { 0 })),
        }
    }

    fn row(&mut self, f: usize, operand: Operand) -> Row {
        match operand {
            // Every link has been replaced by its number.
            Operand::None | Operand::Link { .. } => Row::NONE,
            Operand::Reg(reg) => self.place(f, reg).map_or(Row::NONE, |(place, _)| Row(place)),
            Operand::Const { bits, wide } => self.constant(bits, wide),
            Operand::Parameter { offset, wide } => self.parameter(offset, wide),
            Operand::Function(function, wide) => self.constant(function_address(function).into(), wide),
            Operand::Special(register) => {
                if let Some((row, _)) = self.specials.iter().find(|(_, r)| *r == register) {
                    return *row;
                }
                let row = Row(self.registers + self.specials.len() as u16);
                self.specials.push((row, register));
                row
            }
        }
    }

    fn constant(&mut self, bits: u64, wide: bool) -> Row {
        if let Some(row) = self.const_rows.get(&(bits, wide)) {
            return *row;
        }
        if wide && self.consts.len() % 2 == 1 {
            self.consts.push([0; WARP_LANES]);
        }
        let row = Row(Row::CONST.saturating_add(u16::try_from(self.consts.len()).unwrap_or(u16::MAX)));
        if wide {
            self.consts.push([bits as u32; WARP_LANES]);
            self.consts.push([(bits >> 32) as u32; WARP_LANES]);
        } else {
            self.consts.push([bits as u32; WARP_LANES]);
        }
        self.const_rows.insert((bits, wide), row);
        row
    }

    /// The row of a word of the parameters, or the first of two.
    fn parameter(&mut self, offset: u32, wide: bool) -> Row {
        let known = |(i, (row, at)): (usize, &(u16, u32))| {
            let both = !wide
                || row % 2 == 0 && self.parameter_rows.get(i + 1) == Some(&(row.wrapping_add(1), offset + 4));
            (*at == offset && both).then_some(*row)
        };
        if let Some(row) = self.parameter_rows.iter().enumerate().find_map(known) {
            return Row(Row::CONST.saturating_add(row));
        }
        if wide && self.consts.len() % 2 == 1 {
            self.consts.push([0; WARP_LANES]);
        }
        let row = u16::try_from(self.consts.len()).unwrap_or(u16::MAX);
        for word in 0..1 + u16::from(wide) {
            self.consts.push([0; WARP_LANES]);
            self.parameter_rows.push((row.saturating_add(word), offset + 4 * u32::from(word)));
        }
        Row(Row::CONST.saturating_add(row))
    }

    /// Scoreboard slots: written ones first; a written pair has both rows, a read one its first.
    fn slots(&mut self, f: usize, op: &mut Op, inst: Option<&Inst>, item: &Item) {
        op.slots_used = 0;
        let mut more = Vec::new();
        let add = |op: &mut Op, more: &mut Vec<u16>, slot: u16| {
            let used = usize::from(op.slots_used);
            if op.slots[..used].contains(&slot) || more.contains(&slot) {
                return;
            }
            if used < MAX_SLOTS {
                op.slots[used] = slot;
                op.slots_used += 1;
            } else {
                // Only fragments of matrices are as many.
                debug_assert!(matches!(op.extra, Extra::Mma(_) | Extra::Wgmma(_)));
                more.push(slot);
            }
        };
        let pred_slot = |p: PredOperand| match p {
            PredOperand::Reg(reg, _) => self.place(f, reg).map(|(place, _)| self.registers + place),
            _ => None,
        };
        if let Some(inst) = inst {
            for operand in inst.destinations() {
                if let Operand::Reg(reg) = operand
                    && let Some((place, width)) = self.place(f, *reg)
                {
                    add(op, &mut more, place);
                    if width == Width::Pair {
                        add(op, &mut more, place + 1);
                    }
                }
            }
            inst.pdst.iter().filter_map(|p| pred_slot(*p)).for_each(|slot| add(op, &mut more, slot));
        }
        op.slots_written = op.slots_used;
        let more_written = more.len() as u16;
        if let Some(inst) = inst {
            for operand in inst.sources() {
                if let Operand::Reg(reg) = operand
                    && let Some((place, _)) = self.place(f, *reg)
                {
                    add(op, &mut more, place);
                }
            }
            inst.psrc.iter().filter_map(|p| pred_slot(*p)).for_each(|slot| add(op, &mut more, slot));
        }
        if let Some(slot) = pred_slot(item.guard) {
            add(op, &mut more, slot);
        }
        if let Extra::Mma(mma) = &mut op.extra {
            mma.slots = (self.more_slots.len() as u32, more.len() as u8);
            self.more_slots.extend(more);
        } else if let Extra::Wgmma(wgmma) = &mut op.extra {
            wgmma.slots = (self.more_slots.len() as u32, more.len() as u16);
            wgmma.written = more_written;
            self.more_slots.extend(more);
        }
    }
}

/// What a thread begins with, where operations change it.
fn entry_registers(bounds: &LaunchBounds, ops: &[Op]) -> Option<u32> {
    let moves = ops.iter().any(|op| op.class == OpClass::SetRegisters);
    bounds.entry_registers().filter(|_| moves)
}

/// Registers of a thread whose values take so many, with those that are reserved. NVIDIA's assembler keeps to as many as an SM is full
/// of warps with as long as values alone do not take more: it has uniform registers, and makes values anew.
fn counted(rows: u32, passes: AssemblerSpec) -> u32 {
    let (full, all) = (passes.full(), rows + passes.reserved_registers);
    if rows <= full { full.min(all) } else { all }
}

/// The form of injected control flow.
fn control_form() -> Form {
    Form::plain(Root::Sync, ScalarType::B32)
}
