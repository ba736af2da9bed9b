//! One instruction: form by the table, operands by the shapes of the form.

use std::sync::Arc;

use sim_memory::vocabulary::{ScalarType, Scope, StateSpace};

use super::{Local, Symbol, Translator};
use crate::diagnostic::{Span, nearest};
use crate::form::{BarrierKind, Form, VideoSelect};
use crate::isa::{self, Legacy, OperandShape, Root, Shape};
use crate::lower::ir::{Callee, Inst, Operand, PredOperand, Reg, Terminator, Width};
use crate::lower::tf1_validate::{Place, compatible, mismatch, modifiers};
use crate::lower::tf3_stack::{adjust, frame_access, made};
use crate::lower::{tf2_fold_constants, tf3_stack, tf5_explicit_exit};
use crate::program::{ClockRegister, Extra, OpClass, SpecialRegister};
use crate::ptx::ast::{Instruction, Operand as AstOperand, OperandKind};
use crate::ptx::print;

/// A name that is a special register.
enum Special {
    Constant(SpecialRegister),
    Clock(ClockRegister),
    /// Always zero or another constant.
    Value(u64),
}

fn special(name: &str, component: Option<&str>) -> Option<Special> {
    use SpecialRegister as S;
    let axis = |x: S, y: S, z: S| match component {
        Some("x") | None => Some(Special::Constant(x)),
        Some("y") => Some(Special::Constant(y)),
        Some("z") => Some(Special::Constant(z)),
        Some("w") => Some(Special::Value(0)),
        Some(_) => None,
    };
    match name {
        "%tid" => return axis(S::TidX, S::TidY, S::TidZ),
        "%ntid" => return axis(S::NtidX, S::NtidY, S::NtidZ),
        "%ctaid" => return axis(S::CtaidX, S::CtaidY, S::CtaidZ),
        "%nctaid" => return axis(S::NctaidX, S::NctaidY, S::NctaidZ),
        _ if component.is_some() => return None,
        _ => {}
    }
    Some(match name {
        "%laneid" => Special::Constant(S::LaneId),
        "%warpid" => Special::Constant(S::WarpId),
        "%nwarpid" => Special::Constant(S::NwarpId),
        "%smid" => Special::Constant(S::SmId),
        "%nsmid" => Special::Constant(S::NsmId),
        "%gridid" => Special::Constant(S::GridId),
        "%lanemask_eq" => Special::Constant(S::LanemaskEq),
        "%lanemask_le" => Special::Constant(S::LanemaskLe),
        "%lanemask_lt" => Special::Constant(S::LanemaskLt),
        "%lanemask_ge" => Special::Constant(S::LanemaskGe),
        "%lanemask_gt" => Special::Constant(S::LanemaskGt),
        "%dynamic_smem_size" => Special::Constant(S::DynamicSmemSize),
        "%total_smem_size" => Special::Constant(S::TotalSmemSize),
        "%clock" => Special::Clock(ClockRegister::Clock),
        "%clock_hi" => Special::Clock(ClockRegister::ClockHi),
        "%clock64" => Special::Clock(ClockRegister::Clock64),
        "%globaltimer" => Special::Clock(ClockRegister::GlobalTimer),
        "%globaltimer_lo" => Special::Clock(ClockRegister::GlobalTimerLo),
        "%globaltimer_hi" => Special::Clock(ClockRegister::GlobalTimerHi),
        _ if name.starts_with("%envreg") || name.starts_with("%pm") => Special::Value(0),
        _ => return None,
    })
}

/// Results of a video instruction: 1, or 2 or 4 in the parts of a register.
fn video_lanes(root: Root) -> usize {
    match root {
        _ if (Root::Vadd2..=Root::Vset2).contains(&root) => 2,
        _ if (Root::Vadd4..=Root::Vset4).contains(&root) => 4,
        _ => 1,
    }
}

/// [`VideoSelect`] of a part as PTX writes it; where none is written, all of it.
fn video_select(lanes: usize, position: usize, part: Option<&str>) -> Option<VideoSelect> {
    if lanes == 1 {
        let names = ["b0", "b1", "b2", "b3", "h0", "h1"];
        return match part {
            None => Some(0),
            Some(part) => names.iter().position(|name| *name == part).map(|i| i as u16 + 1),
        };
    }
    let default = match (lanes, position) {
        (2, 0 | 1) => "h10",
        (2, _) => "h32",
        (_, 0 | 1) => "b3210",
        _ => "b7654",
    };
    let digits = part.unwrap_or(default).strip_prefix(if lanes == 2 { 'h' } else { 'b' })?;
    let numbers: Option<Vec<u16>> = digits.chars().map(|c| c.to_digit(8).map(|d| d as u16)).collect();
    let numbers = numbers?;
    if position == 0 {
        let falling = numbers.windows(2).all(|pair| pair[0] > pair[1]);
        let inside = numbers.iter().all(|n| usize::from(*n) < lanes);
        return (falling && inside && !numbers.is_empty())
            .then(|| numbers.iter().fold(0, |mask, n| mask | 1 << n));
    }
    let inside = numbers.iter().all(|n| usize::from(*n) < 2 * lanes);
    (numbers.len() == lanes && inside).then(|| numbers.iter().fold(0, |bits, n| bits << 4 | n))
}

impl<'a> Translator<'_, 'a> {
    pub(super) fn instruction(&mut self, ast: &Instruction<'a>) {
        let papers = self.cx.module.papers;
        let root = match ast.root {
            "break" if papers => "brk",
            other => other,
        };
        let entry = isa::entry(root).filter(|entry| papers || !entry.papers);
        let Some(entry) = entry else {
            self.error(ast.opcode, "instruction", format!("there is no instruction `{}`", ast.root));
            let names = isa::TABLE.iter().filter(|e| !e.papers).map(|e| e.name);
            if let Some(near) = nearest(ast.root, names) {
                self.help(format!("did you mean `{near}`?"));
            }
            return;
        };
        if ast.spaced && !papers {
            self.error(ast.opcode, "syntax", "a blank stands before a modifier");
            return;
        }
        let mut inst = self.blank_like(ast.span);
        inst.text = Arc::from(print::instruction(ast));
        inst.min_sm = entry.min_sm;
        inst.form.root = entry.root;
        if let Some(guard) = ast.guard {
            inst.guard = self.predicate_named(guard.name, guard.negated, guard.span);
        }
        let resolved = match isa::resolve(entry, &ast.modifiers, papers) {
            Ok(resolved) => resolved,
            Err((at, wanted)) => {
                let message = match at.and_then(|i| ast.modifiers.get(i)) {
                    Some(word) => format!("`.{word}` does not belong here in `{}`", entry.name),
                    None => format!("a modifier of `{}` is missing", entry.name),
                };
                let word = at.and_then(|i| ast.modifiers.get(i).copied());
                let place = word.map_or(ast.opcode, |word| self.cx.source.span_of(word));
                self.error(place, "modifier", message);
                let words = || wanted.split(", ").map(|word| word.trim_start_matches('.'));
                // A type that exists was meant; it is another that fits.
                let typo = word.filter(|word| crate::ptx::parser::scalar_type(word).is_none());
                match typo.and_then(|word| nearest(word, words())) {
                    Some(near) => self.help(format!("did you mean `.{near}`?")),
                    None if wanted.is_empty() => {}
                    None => self.help(format!("one of these may follow: {wanted}")),
                }
                return;
            }
        };
        inst.form = resolved.form;
        inst.min_sm = resolved.min_sm;
        inst.uniform_hint = resolved.form.mods.uni;
        self.fits_module(ast, &resolved);
        if !resolved.executed {
            ast.operands.iter().for_each(|operand| self.mention(operand));
            inst.class = OpClass::Unsupported;
            let what = if entry.executed() { "this form of " } else { "" };
            inst.unsupported = Some(Arc::from(format!("{what}`{}` is parsed but not executed", entry.name)));
            return self.push(inst);
        }
        if !papers && let Err(message) = modifiers(&resolved.form) {
            return self.error(ast.opcode, "modifier", message);
        }
        match entry.root {
            Root::Bra => self.branch(inst, ast),
            Root::Brx => {
                if let [index, table] = ast.operands.as_slice() {
                    inst.src[0] = self.source(index, ScalarType::U32, Place::Exact);
                    inst.class = OpClass::BranchIndirect;
                    if let Some(targets) = self.table(table) {
                        self.finish(Terminator::Indirect(Box::new(inst), targets));
                    }
                } else {
                    self.count(ast, 2);
                }
            }
            Root::Ret | Root::Exit => {
                inst.class = match entry.root {
                    Root::Ret => tf5_explicit_exit::class_of_return(self.func.entry),
                    _ => OpClass::Exit,
                };
                if entry.root == Root::Ret {
                    self.returns_to_frame(&inst);
                }
                if inst.guard == PredOperand::Const(true) {
                    self.finish(Terminator::End(Box::new(inst)));
                } else {
                    self.push(inst);
                }
            }
            Root::Call => self.call(inst, ast),
            Root::Ld
            | Root::Ldu
            | Root::St
            | Root::Atom
            | Root::Red
            | Root::Prefetch
            | Root::Prefetchu
            | Root::Discard
            | Root::Applypriority => self.memory(inst, ast, resolved.operands),
            Root::Mov => self.mov(inst, ast),
            Root::Ssy | Root::PreBrk | Root::PreRet => {
                self.func.injected_by_hand = true;
                inst.class = match entry.root {
                    Root::Ssy => OpClass::Ssy,
                    Root::PreBrk => OpClass::PreBreak,
                    _ => OpClass::PreReturn,
                };
                self.by_hand_target(inst, ast);
            }
            Root::Sync | Root::Brk => {
                self.func.injected_by_hand = true;
                inst.class = if entry.root == Root::Sync { OpClass::Sync } else { OpClass::Break };
                self.push(inst);
            }
            _ => self.ordinary(inst, ast, resolved.operands),
        }
    }

    /// The module's `.target` and `.version` have the form.
    fn fits_module(&mut self, ast: &Instruction<'a>, resolved: &isa::Resolved) {
        let module = self.cx.module;
        if let Some(target) = module.target_sm().filter(|target| *target < resolved.min_sm) {
            let message = format!(
                "`{}` needs .target sm_{} or higher; the module's is sm_{target}",
                print::opcode(ast),
                resolved.min_sm
            );
            self.error(ast.opcode, "target", message);
        }
        let late = match resolved.legacy {
            None => None,
            Some(Legacy::Version) => module.version.filter(|v| *v > (1, 4)).map(|_| "from PTX ISA 1.5 on"),
            Some(Legacy::Target) => module.target_sm().filter(|sm| *sm >= 20).map(|_| "from sm_20 on"),
        };
        if let Some(since) = late.filter(|_| !module.papers) {
            let message = format!("`{}` must say how it rounds {since}", print::opcode(ast));
            self.error(ast.opcode, "modifier", message);
            self.help("`.approx`, or `.rn`, `.rz`, `.rm`, `.rp` where the target has it".into());
        }
    }

    /// The names in an operand of an instruction that is not executed are declared.
    fn mention(&mut self, operand: &AstOperand<'a>) {
        match &operand.kind {
            OperandKind::Name(name)
            | OperandKind::Not(name)
            | OperandKind::Offset { name, .. }
            | OperandKind::Component(name, _)
            | OperandKind::Negated(name, _)
            | OperandKind::Address { base: Some(name), .. } => {
                if special(name, None).is_none()
                    && self.lookup(name).is_none()
                    && !self.cx.symbols.contains_key(*name)
                {
                    self.unknown(name, operand.span);
                }
            }
            OperandKind::Vector(list) | OperandKind::List(list) => {
                list.iter().for_each(|operand| self.mention(operand));
            }
            OperandKind::Pair(a, b) => {
                self.mention(a);
                self.mention(b);
            }
            OperandKind::Int(_)
            | OperandKind::Float32(_)
            | OperandKind::Float64(_)
            | OperandKind::Address { base: None, .. }
            | OperandKind::Sink => {}
        }
    }

    pub(super) fn count(&mut self, ast: &Instruction<'a>, wanted: usize) {
        let message = format!("`{}` takes {wanted} operands here, not {}", ast.root, ast.operands.len());
        self.error(ast.span, "operands", message);
    }

    /// The papers' ssy, preBrk, preRet name a label or a line of the listing.
    fn by_hand_target(&mut self, mut inst: Inst, ast: &Instruction<'a>) {
        let line = |o: &AstOperand<'a>| {
            let text = self.cx.source.text.get(o.span.start as usize..o.span.end as usize);
            // The parser put a label before the line of the listing that is named.
            text.and_then(|name| self.labels.find(name).copied())
        };
        match ast.operands.first().map(|o| (o, &o.kind)) {
            Some((operand, OperandKind::Name(_))) => {
                if let Some(label) = self.label(operand) {
                    inst.imm = label as i64;
                    self.push(inst);
                }
            }
            Some((operand, OperandKind::Int(_))) => match line(operand) {
                Some(label) => {
                    inst.imm = label as i64;
                    self.push(inst);
                }
                None => self.error(operand.span, "label", "no statement stands on or after this line"),
            },
            Some(_) => self.error(ast.span, "label", "a label must stand here"),
            None => self.push(inst),
        }
    }

    fn branch(&mut self, mut inst: Inst, ast: &Instruction<'a>) {
        let [target] = ast.operands.as_slice() else { return self.count(ast, 1) };
        inst.class = OpClass::Branch;
        if self.cx.module.papers
            && let OperandKind::Name(name) = &target.kind
            && self.labels.find(name).is_none()
            && let Operand::Reg(reg) = self.source(target, ScalarType::B32, Place::Exact)
        {
            inst.class = OpClass::BranchIndirect;
            inst.imm = -1;
            inst.src[0] = Operand::Reg(reg);
            let targets = self.all_labels();
            self.finish(Terminator::Indirect(Box::new(inst), targets));
            return;
        }
        let Some(label) = self.label(target) else { return };
        match inst.guard {
            PredOperand::Const(true) => self.finish(Terminator::Jump(Some(Box::new(inst)), label)),
            _ => self.split(|next| Terminator::Branch(Box::new(inst), label, next)),
        }
    }

    /// `call (ret), f, (args), proto`: parameters lie in the frame; the stack base moves.
    fn call(&mut self, mut inst: Inst, ast: &Instruction<'a>) {
        let mut operands = ast.operands.iter().peekable();
        let list = |o: &&AstOperand<'a>| matches!(o.kind, OperandKind::List(_));
        let returns = operands.next_if(|o| list(o));
        let Some(target) = operands.next() else { return self.count(ast, 1) };
        let arguments = operands.next_if(|o| list(o));
        inst.class = OpClass::Call;
        let name = match &target.kind {
            OperandKind::Name(name) => *name,
            _ => return self.error(target.span, "call", "a function or register must stand here"),
        };
        match self.lookup(name) {
            Some(Local::Reg(reg, _)) => {
                inst.class = OpClass::CallIndirect;
                inst.src[0] = Operand::Reg(reg);
            }
            _ => match self.cx.symbols.get(name) {
                Some(Symbol::Function(index)) => inst.callee = Callee::Function(*index),
                Some(Symbol::Undefined) => {
                    inst.class = OpClass::Unsupported;
                    inst.unsupported = Some(Arc::from(format!("`{name}` is not defined in this module")));
                }
                Some(Symbol::Variable(..)) => {
                    let message = format!("`{name}` is a variable; a function or register must stand here");
                    return self.error(target.span, "call", message);
                }
                None => return self.unknown(name, target.span),
            },
        }
        if inst.class == OpClass::CallIndirect && operands.next().is_none() && !self.cx.module.papers {
            self.error(ast.span, "call", "an indirect call says what it calls");
            return self.help("name a .callprototype or .calltargets label last".into());
        }
        let base = self.func.stack_base;
        let frame = self.frame;
        let items = |o: Option<&AstOperand<'a>>| match o.map(|o| &o.kind) {
            Some(OperandKind::List(list)) => list.clone(),
            _ => Vec::new(),
        };
        let (returns, arguments) = (items(returns), items(arguments));
        // Where the callee finds each value; an indirect call has only its own list to go by.
        let expected = match inst.callee {
            Callee::Function(index) => {
                let callee = &self.cx.module.functions[index];
                let (offsets, _) = tf3_stack::layout(callee.returns.iter().chain(&callee.params));
                let given = (returns.len(), arguments.len());
                if given != (callee.returns.len(), callee.params.len()) {
                    let message = format!(
                        "`{}` returns {} values and takes {}; the call has {} and {}",
                        callee.name,
                        callee.returns.len(),
                        callee.params.len(),
                        given.0,
                        given.1
                    );
                    return self.error(ast.span, "call", message);
                }
                Some(offsets)
            }
            _ => None,
        };
        // Registers and constants go to the frame before, results come from it after.
        if let Callee::Function(index) = inst.callee {
            self.argument_sizes(index, returns.iter().chain(&arguments));
        }
        let mut at = 0u32;
        let mut after = Vec::new();
        let (mut variables, mut registers) = (false, false);
        for (i, operand) in returns.iter().chain(&arguments).enumerate() {
            let is_return = i < returns.len();
            let (value, ty, bytes) = match &operand.kind {
                OperandKind::Name(name) => match self.lookup(name) {
                    Some(Local::Reg(reg, ty)) => (Operand::Reg(reg), ty, ty.bytes()),
                    Some(Local::Variable(StateSpace::Param, _)) => {
                        variables = true;
                        continue;
                    }
                    _ => {
                        self.unknown(name, operand.span);
                        continue;
                    }
                },
                OperandKind::Sink => continue,
                literal => {
                    let bits = tf2_fold_constants::bits(literal, ScalarType::B32, true).unwrap_or(0);
                    (Operand::Const { bits, wide: false }, ScalarType::B32, 4)
                }
            };
            registers = true;
            at = match &expected {
                Some(offsets) => offsets[i],
                None => at.next_multiple_of(bytes.max(1)),
            };
            let mut access = frame_access(&inst, !is_return, base, frame + at, value, ty);
            access.guard = inst.guard;
            if is_return {
                after.push(access)
            } else {
                self.push(access)
            }
            at += bytes;
        }
        if expected.is_none() && variables && registers && inst.class == OpClass::CallIndirect {
            let message = "an indirect call takes registers or .param variables, not both: where the callee \
                           finds them is not known";
            return self.error(ast.span, "call", message);
        }
        let moves = base.filter(|_| inst.class != OpClass::Unsupported);
        if let Some(base) = moves {
            let up = adjust(&inst, base, frame, true);
            self.push(up);
        }
        let down = moves.map(|base| adjust(&inst, base, frame, false));
        self.push(inst);
        down.into_iter().chain(after).for_each(|i| self.push(i));
    }

    /// Values given and taken have the sizes of the callee's parameters.
    fn argument_sizes<'o>(&mut self, callee: usize, given: impl Iterator<Item = &'o AstOperand<'a>>)
    where
        'a: 'o,
    {
        let module = self.cx.module;
        let callee = &module.functions[callee];
        for (param, operand) in callee.returns.iter().chain(&callee.params).zip(given) {
            let OperandKind::Name(name) = operand.kind else { continue };
            let bytes = match self.lookup(name) {
                Some(Local::Reg(_, ty)) => Some(u64::from(ty.bytes())),
                Some(Local::Variable(StateSpace::Param, _)) => self.bytes.find(name).copied(),
                _ => None,
            };
            let wanted = param.bytes().unwrap_or(0);
            if let Some(bytes) = bytes.filter(|bytes| *bytes != wanted) {
                let message =
                    format!("`{name}` has {bytes} bytes; `{}` of `{}` has {wanted}", param.name, callee.name);
                self.error(operand.span, "call", message);
                self.also(Some(param.span), "the parameter");
            }
        }
    }

    fn mov(&mut self, mut inst: Inst, ast: &Instruction<'a>) {
        let [to, from] = ast.operands.as_slice() else { return self.count(ast, 2) };
        let ty = inst.form.ty;
        if ty == ScalarType::Pred {
            inst.pdst[0] = self.predicate_destination(to);
            inst.psrc[0] = self.predicate(from);
            return self.push(inst);
        }
        match (&to.kind, &from.kind) {
            (OperandKind::Vector(parts), _) => {
                let Some(part) = self.part_type(ty, parts.len(), to.span) else { return };
                inst.form.mods.vector = parts.len() as u8;
                inst.form.dst = part;
                for (slot, operand) in parts.iter().enumerate() {
                    inst.dst[slot] = self.destination(operand, part, Place::Exact);
                }
                inst.src[0] = self.source(from, ty, Place::Exact);
            }
            (_, OperandKind::Vector(parts)) => {
                let Some(part) = self.part_type(ty, parts.len(), from.span) else { return };
                inst.form.mods.vector = parts.len() as u8;
                inst.form.ty = part;
                inst.form.dst = ty;
                for (slot, operand) in parts.iter().enumerate() {
                    inst.src[slot] = self.source(operand, part, Place::Exact);
                }
                inst.dst[0] = self.destination(to, ty, Place::Exact);
            }
            _ => {
                inst.dst[0] = self.destination(to, ty, Place::Exact);
                inst.src[0] = self.source(from, ty, Place::Exact);
            }
        }
        inst.form.dst_reg = isa::register_bits(inst.form.dst);
        inst.form.src_reg = isa::register_bits(inst.form.ty);
        self.push(inst);
    }

    fn part_type(&mut self, whole: ScalarType, parts: usize, span: Span) -> Option<ScalarType> {
        let part = match (whole.bits(), parts) {
            (64, 2) => ScalarType::B32,
            (64, 4) | (32, 2) => ScalarType::B16,
            _ => {
                let message =
                    format!("a .{} value does not have {parts} parts of a register's size", whole.name());
                self.error(span, "vector", message);
                return None;
            }
        };
        Some(part)
    }

    fn ordinary(&mut self, mut inst: Inst, ast: &Instruction<'a>, shapes: &'static [OperandShape]) {
        let required = shapes.iter().filter(|s| !s.optional).count();
        let given = ast.operands.len();
        if given < required || given > shapes.len() {
            return self.count(ast, required);
        }
        // Optional operands are filled from the left as far as there are operands to spare.
        let mut spare = given - required;
        let (mut d, mut s, mut q, mut p) = (0, 0, 0, 0);
        let mut operands = ast.operands.iter();
        let form = inst.form;
        let loose = if form.root == Root::Cvt { Place::Wider } else { Place::Exact };
        for shape in shapes {
            if shape.optional {
                if spare == 0 {
                    if matches!(shape.shape, Shape::Source(..)) {
                        s += 1;
                    }
                    continue;
                }
                spare -= 1;
            }
            let Some(mut operand) = operands.next() else { break };
            let mut second = None;
            if shape.pair
                && let OperandKind::Pair(a, b) = &operand.kind
            {
                operand = a;
                second = Some(b.as_ref());
            }
            match shape.shape {
                Shape::Destination(ty) => {
                    inst.dst[d] = self.destination(operand, ty.unwrap_or(form.dst), loose);
                    if form.root == Root::Cvt
                        && let Operand::Reg(reg) = inst.dst[d]
                    {
                        inst.form.dst_reg = self.register_bits(reg);
                    }
                    d += 1;
                }
                Shape::PredicateDestination => {
                    inst.pdst[q] = self.predicate_destination(operand);
                    q += 1;
                }
                Shape::Predicate => {
                    inst.psrc[p] = self.predicate(operand);
                    p += 1;
                }
                Shape::Source(ty, as_result) => {
                    let ty = ty.unwrap_or(if as_result { form.dst } else { form.ty });
                    inst.src[s] = self.source(operand, ty, loose);
                    if form.root == Root::Cvt
                        && let Operand::Reg(reg) = inst.src[s]
                    {
                        inst.form.src_reg = self.register_bits(reg);
                    }
                    s += 1;
                }
                Shape::DestinationPart(ty) => {
                    let ty = ty.unwrap_or(form.dst);
                    let mut part = None;
                    inst.dst[d] = match operand.kind {
                        OperandKind::Component(name, found) => {
                            part = Some(found);
                            self.register(name, operand.span, ty, loose).map_or(Operand::None, Operand::Reg)
                        }
                        _ => self.destination(operand, ty, loose),
                    };
                    inst.form.mods.video.select[0] = self.select(form.root, 0, part, operand.span);
                    d += 1;
                    // With a part of the destination the rest comes from c.
                    let merges = shapes.last().is_some_and(|s| s.optional);
                    if merges && part.is_some() != (given == shapes.len()) {
                        let message = "a part of the destination and a source for the rest of it go together";
                        self.error(operand.span, "operands", message);
                    }
                }
                Shape::Part(minus) => {
                    let ty = match (s, form.mods.a_type) {
                        (0, Some(ty)) => ty,
                        (2, _) => form.dst,
                        _ => form.ty,
                    };
                    let (source, part) = self.source_part(operand, ty);
                    inst.src[s] = source;
                    inst.form.mods.video.negate[s] = matches!(operand.kind, OperandKind::Negated(..));
                    if inst.form.mods.video.negate[s] && !minus {
                        self.error(operand.span, "operand", "a register cannot be negated here");
                    }
                    if s < 2 {
                        inst.form.mods.video.select[s + 1] =
                            self.select(form.root, s + 1, part, operand.span);
                    }
                    s += 1;
                }
                Shape::Immediate => {
                    if !matches!(operand.kind, OperandKind::Int(_)) {
                        self.error(operand.span, "operand", "an integer constant must stand here");
                    }
                    inst.src[s] = self.source(operand, ScalarType::U32, loose);
                    s += 1;
                }
                _ => {}
            }
            if let Some(second) = second {
                inst.pdst[q] = self.predicate_destination(second);
                q += 1;
            }
        }
        if form.mods.cc {
            inst.pdst[0] = PredOperand::Reg(self.carry(), false);
        }
        if matches!(form.root, Root::Addc | Root::Subc | Root::Madc) {
            inst.psrc[0] = PredOperand::Reg(self.carry(), false);
        }
        self.classify(&mut inst, &form);
        if inst.class == OpClass::Barrier
            && let Operand::Const { bits, .. } = inst.src[0]
            && bits > 15
        {
            self.error(
                ast.operands[0].span,
                "barrier",
                format!("barriers have the numbers 0 to 15, not {bits}"),
            );
        }
        if form.root == Root::Elect && inst.pdst[0] == PredOperand::None {
            self.error(ast.span, "operands", "`elect` writes a predicate too: `_|%p1` or `%r1|%p1`");
        }
        self.push(inst);
    }

    /// A source of which a part may be meant, and the part.
    fn source_part(&mut self, operand: &AstOperand<'a>, ty: ScalarType) -> (Operand, Option<&'a str>) {
        let (name, part) = match operand.kind {
            OperandKind::Component(name, part) if special(name, Some(part)).is_none() => (name, Some(part)),
            OperandKind::Negated(name, part) => (name, part),
            _ => return (self.source(operand, ty, Place::Exact), None),
        };
        let register = self.register(name, operand.span, ty, Place::Exact);
        (register.map_or(Operand::None, Operand::Reg), part)
    }

    /// Which part of operand `position` (destination, a, b) is meant.
    fn select(&mut self, root: Root, position: usize, part: Option<&str>, span: Span) -> VideoSelect {
        let lanes = video_lanes(root);
        let found = video_select(lanes, position, part);
        found.unwrap_or_else(|| {
            let part = part.unwrap_or_default();
            self.error(span, "operand", format!("`.{part}` is no part of this operand"));
            let words = match (lanes, position) {
                (1, _) => "`.b0` to `.b3`, `.h0` and `.h1` are",
                (2, 0) => "`.h0`, `.h1` and `.h10` are",
                (2, _) => "`.h` and two of the halves 0 to 3 is",
                (_, 0) => "`.b` and falling numbers of bytes 0 to 3 is",
                _ => "`.b` and four of the bytes 0 to 7 is",
            };
            self.help(words.into());
            0
        })
    }

    fn carry(&mut self) -> Reg {
        if let Some(carry) = self.func.carry {
            return carry;
        }
        let carry = self.fresh(ScalarType::Pred);
        self.func.carry = Some(carry);
        carry
    }

    fn register_bits(&self, reg: Reg) -> u8 {
        match self.func.regs[reg as usize] {
            Width::Pair => 64,
            Width::Word => 32,
            Width::Half | Width::Pred => 16,
        }
    }

    /// The class and facts of instructions that are more than data operations.
    fn classify(&mut self, inst: &mut Inst, form: &Form) {
        let m = &form.mods;
        let sync = m.sync;
        (inst.class, inst.extra) = match form.root {
            Root::Bar | Root::Barrier if m.barrier == Some(BarrierKind::WarpSync) => {
                (OpClass::WarpSync, Extra::None)
            }
            Root::Bar | Root::Barrier => {
                let kind = m.barrier.unwrap_or(BarrierKind::Sync);
                (OpClass::Barrier, Extra::Barrier { kind, reduction: m.reduction })
            }
            Root::Vote => match m.vote {
                Some(mode) => (OpClass::Vote, Extra::Vote { mode, sync }),
                None => (OpClass::Unsupported, Extra::None),
            },
            Root::Shfl => match m.shfl {
                Some(mode) => (OpClass::Shuffle, Extra::Shuffle { mode, sync }),
                None => (OpClass::Unsupported, Extra::None),
            },
            Root::Match => (OpClass::Match, Extra::Match { all: m.match_all, wide: form.ty.bits() == 64 }),
            Root::Redux => match m.reduction {
                Some(reduction) => (OpClass::Redux, Extra::Redux { reduction, signed: form.ty.is_signed() }),
                None => (OpClass::Unsupported, Extra::None),
            },
            Root::Elect => (OpClass::Elect, Extra::None),
            Root::Activemask => (OpClass::ActiveMask, Extra::None),
            Root::Membar | Root::Fence => (OpClass::Membar, Extra::Membar(m.scope.unwrap_or(Scope::Sys))),
            Root::Nanosleep => (OpClass::Sleep, Extra::None),
            Root::Trap => (OpClass::Trap, Extra::None),
            _ => (OpClass::Data, Extra::None),
        };
    }

    pub(super) fn predicate_named(&mut self, name: &'a str, negated: bool, span: Span) -> PredOperand {
        match self.lookup(name) {
            Some(Local::Reg(reg, ScalarType::Pred)) => PredOperand::Reg(reg, negated),
            Some(Local::Reg(reg, ty)) => {
                if self.cx.module.papers {
                    return PredOperand::Reg(reg, negated);
                }
                self.error(span, "type", mismatch(name, ty, ScalarType::Pred));
                self.also(self.declaration_of(name), "declared here");
                PredOperand::None
            }
            None if self.cx.module.papers => {
                let reg = self.fresh(ScalarType::Pred);
                let _ = self.names.declare(name, Local::Reg(reg, ScalarType::Pred));
                PredOperand::Reg(reg, negated)
            }
            _ => {
                self.unknown(name, span);
                PredOperand::None
            }
        }
    }

    /// A predicate operand, negated or not [expr-B].
    fn predicate(&mut self, operand: &AstOperand<'a>) -> PredOperand {
        match &operand.kind {
            OperandKind::Name(name) => self.predicate_named(name, false, operand.span),
            OperandKind::Not(name) => self.predicate_named(name, true, operand.span),
            OperandKind::Int(value) => PredOperand::Const(*value != 0),
            _ => {
                self.error(operand.span, "type", "a predicate must stand here");
                PredOperand::None
            }
        }
    }

    fn predicate_destination(&mut self, operand: &AstOperand<'a>) -> PredOperand {
        match &operand.kind {
            OperandKind::Name(name) => self.predicate_named(name, false, operand.span),
            OperandKind::Sink => PredOperand::None,
            _ => {
                self.error(operand.span, "type", "a predicate register must stand here");
                PredOperand::None
            }
        }
    }

    pub(super) fn destination(&mut self, operand: &AstOperand<'a>, ty: ScalarType, place: Place) -> Operand {
        match &operand.kind {
            OperandKind::Sink => Operand::None,
            OperandKind::Name(name) => {
                self.register(name, operand.span, ty, place).map_or(Operand::None, Operand::Reg)
            }
            _ => {
                self.error(operand.span, "operand", "a register must stand here");
                Operand::None
            }
        }
    }

    fn register(&mut self, name: &'a str, span: Span, ty: ScalarType, place: Place) -> Option<Reg> {
        match self.lookup(name) {
            Some(Local::Reg(reg, declared)) => {
                if !self.cx.module.papers && !compatible(declared, ty, place) {
                    self.error(span, "type", mismatch(name, declared, ty));
                    self.also(self.declaration_of(name), "declared here");
                }
                Some(reg)
            }
            None if self.cx.module.papers => {
                let ty = if ty == ScalarType::Pred { ty } else { ScalarType::B32 };
                let reg = self.fresh(ty);
                let _ = self.names.declare(name, Local::Reg(reg, ty));
                Some(reg)
            }
            None => {
                self.unknown(name, span);
                None
            }
            Some(_) => {
                self.error(span, "operand", format!("`{name}` is a variable; a register must stand here"));
                None
            }
        }
    }

    /// A source: register, constant, special register, or the address of a symbol [expr-E];
    /// operands left out are none [expr-Eopt].
    pub(super) fn source(&mut self, operand: &AstOperand<'a>, ty: ScalarType, place: Place) -> Operand {
        let wide = ty.bits() > 32;
        match &operand.kind {
            OperandKind::Name(name) => {
                if let Some(found) = special(name, None) {
                    return self.special_source(found, wide);
                }
                match self.lookup(name) {
                    Some(Local::Variable(space, at)) => self.address_of(space, at, 0, wide, operand.span),
                    Some(Local::Param(offset)) => Operand::Const { bits: offset, wide },
                    Some(Local::Reg(..)) => {
                        self.register(name, operand.span, ty, place).map_or(Operand::None, Operand::Reg)
                    }
                    None => match self.cx.symbols.get(*name).copied() {
                        Some(Symbol::Variable(_, at)) => Operand::Const { bits: at, wide },
                        Some(Symbol::Function(index)) => Operand::Function(index, wide),
                        Some(Symbol::Undefined) => {
                            self.error(
                                operand.span,
                                "name",
                                format!("`{name}` is not defined in this module"),
                            );
                            Operand::None
                        }
                        None if self.cx.module.papers => {
                            self.register(name, operand.span, ty, place).map_or(Operand::None, Operand::Reg)
                        }
                        None => {
                            self.unknown(name, operand.span);
                            Operand::None
                        }
                    },
                }
            }
            OperandKind::Component(name, component) => match special(name, Some(component)) {
                Some(found) => self.special_source(found, wide),
                None => {
                    let message = format!("there is no special register `{name}.{component}`");
                    self.error(operand.span, "name", message);
                    let vectors = ["%tid", "%ntid", "%ctaid", "%nctaid"];
                    if vectors.contains(name) {
                        self.help(format!("`{name}` has the components .x, .y and .z"));
                    } else if let Some(near) = nearest(name, vectors) {
                        self.help(format!("did you mean `{near}.{component}`?"));
                    }
                    Operand::None
                }
            },
            OperandKind::Offset { name, offset, .. } => {
                match (self.lookup(name), self.cx.symbols.get(*name).copied()) {
                    (Some(Local::Variable(space, at)), _) => {
                        self.address_of(space, at, *offset, wide, operand.span)
                    }
                    (Some(Local::Param(at)), _) | (None, Some(Symbol::Variable(_, at))) => {
                        Operand::Const { bits: at.wrapping_add_signed(*offset), wide }
                    }
                    _ => {
                        self.unknown(name, operand.span);
                        Operand::None
                    }
                }
            }
            OperandKind::Vector(_)
            | OperandKind::List(_)
            | OperandKind::Pair(..)
            | OperandKind::Address { .. }
            | OperandKind::Negated(..)
            | OperandKind::Not(_) => {
                self.error(operand.span, "operand", "a register or constant must stand here");
                Operand::None
            }
            OperandKind::Sink => Operand::None,
            literal => match tf2_fold_constants::bits(literal, ty, self.cx.module.papers) {
                Some(bits) => Operand::Const { bits, wide },
                None => {
                    let message = format!("this literal cannot be a .{} value", ty.name());
                    self.error(operand.span, "type", message);
                    Operand::None
                }
            },
        }
    }

    fn special_source(&mut self, found: Special, wide: bool) -> Operand {
        match found {
            Special::Constant(register) if !wide => Operand::Special(register),
            Special::Constant(register) => {
                // A 64-bit read of a 32-bit special register is extended by a conversion.
                let like = self.blank_like(Span::default());
                let reg = self.fresh(ScalarType::U64);
                let mut inst = made(&like, OpClass::Data, Root::Cvt, ScalarType::U32);
                inst.form.dst = ScalarType::U64;
                inst.form.dst_reg = 64;
                inst.form.src_reg = 32;
                inst.dst[0] = Operand::Reg(reg);
                inst.src[0] = Operand::Special(register);
                self.push(inst);
                Operand::Reg(reg)
            }
            Special::Value(bits) => Operand::Const { bits, wide },
            Special::Clock(clock) => {
                let like = self.blank_like(Span::default());
                let ty = if wide { ScalarType::U64 } else { ScalarType::U32 };
                let reg = self.fresh(ty);
                let mut inst = made(&like, OpClass::Clock, Root::Mov, ty);
                inst.dst[0] = Operand::Reg(reg);
                inst.extra = Extra::Clock(clock);
                self.push(inst);
                Operand::Reg(reg)
            }
        }
    }

    /// The address of a variable: local ones move with the frame.
    fn address_of(&mut self, space: StateSpace, at: u64, offset: i64, wide: bool, span: Span) -> Operand {
        let bits = at.wrapping_add_signed(offset);
        let in_frame = matches!(space, StateSpace::Local | StateSpace::Param);
        let Some(base) = self.func.stack_base.filter(|_| in_frame && !self.func.entry) else {
            return Operand::Const { bits, wide };
        };
        let like = self.blank_like(span);
        let (ty, mut start) = (if wide { ScalarType::U64 } else { ScalarType::U32 }, Operand::Reg(base));
        if wide {
            let reg = self.fresh(ScalarType::U64);
            let mut inst = made(&like, OpClass::Data, Root::Cvt, ScalarType::U32);
            inst.form.dst = ScalarType::U64;
            inst.form.dst_reg = 64;
            inst.dst[0] = Operand::Reg(reg);
            inst.src[0] = start;
            self.push(inst);
            start = Operand::Reg(reg);
        }
        let reg = self.fresh(ty);
        let mut inst = made(&like, OpClass::Data, Root::Add, ty);
        inst.dst[0] = Operand::Reg(reg);
        inst.src[0] = start;
        inst.src[1] = Operand::Const { bits, wide };
        self.push(inst);
        Operand::Reg(reg)
    }
}
