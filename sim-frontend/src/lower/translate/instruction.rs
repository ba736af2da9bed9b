//! One instruction: form by the table, operands by the shapes of the form.

use std::num::NonZero;
use std::sync::Arc;

use sim_memory::vocabulary::{ScalarType, Scope, Semantics, StateSpace};

use super::operand::special;
use super::{Opcode, Translator, tensor_map};
use crate::diagnostic::{Span, nearest};
use crate::form::{BarrierKind, CopyStep, Form, Rounding};
use crate::isa::{self, Entry, Kind, Legacy, OperandShape, Resolved, Root, Shape};
use crate::lower::ir::{Inst, Operand, PredOperand, Reg, Terminator, Width};
use crate::lower::tf1_validate::{OperandSize, modifiers};
use crate::lower::tf5_explicit_exit;
use crate::program::{Extra, OpClass, SpecialRegister, Text};
use crate::ptx::ast::{Instruction, Operand as AstOperand, OperandKind};
use crate::ptx::print;

impl<'a> Translator<'_, 'a> {
    pub(super) fn instruction(&mut self, ast: &Instruction<'a>) {
        let Some(Opcode { entry, resolved, number }) = self.opcode(ast) else { return };
        let mut inst = self.blank_like(ast.span);
        inst.text = Text::Written(ast.span);
        if let Some(guard) = ast.guard {
            inst.guard = self.predicate_named(guard.name, guard.negated, guard.span);
        }
        inst.form = resolved.form;
        inst.opcode = number;
        inst.min_sm = resolved.min_sm;
        inst.uniform_hint = resolved.form.mods.uni;
        if !resolved.executed {
            ast.operands.iter().for_each(|operand| self.mention(operand));
            inst.class = OpClass::Unsupported;
            let what = if entry.executed() { "this form of " } else { "" };
            inst.unsupported = Some(Arc::from(format!("{what}`{}` is parsed but not executed", entry.name)));
            return self.push(inst);
        }
        inst.class = entry.class;
        match entry.class {
            _ if entry.root == Root::Multimem => self.multimem(inst, ast, resolved.operands),
            _ if entry.root == Root::Clusterlaunchcontrol => self.launch_control(inst, ast),
            _ if entry.kind == Kind::Rewritten => self.dynamic_stack(inst, ast),
            OpClass::Branch => self.branch(inst, ast),
            OpClass::BranchIndirect => {
                if let [index, table] = ast.operands.as_slice() {
                    inst.src[0] = self.source(index, ScalarType::U32, OperandSize::Exact);
                    if let Some(targets) = self.table(table) {
                        self.finish(Terminator::Indirect(Box::new(inst), targets));
                    }
                } else {
                    self.count(ast, 2);
                }
            }
            OpClass::Return | OpClass::Exit => {
                if entry.class == OpClass::Return {
                    inst.class = tf5_explicit_exit::class_of_return(self.func.entry);
                    self.returns_to_frame(&inst);
                }
                if inst.guard == PredOperand::Const(true) {
                    self.finish(Terminator::End(Box::new(inst)));
                } else {
                    self.push(inst);
                }
            }
            OpClass::Call => self.call(inst, ast),
            _ if entry.root == Root::Tensormap => self.tensor_map(inst, ast),
            OpClass::Store if ast.modifiers().next() == Some("bulk") => self.store_bulk(&inst, ast),
            // To global memory, where nobody is told of it: a store or reduction with these semantics.
            _ if resolved.form.mods.copy == Some(CopyStep::Store)
                && resolved.form.mods.semantics == Semantics::Release =>
            {
                self.memory(inst, ast, resolved.operands);
            }
            _ if resolved.form.mods.copy == Some(CopyStep::Store) => self.store_async(inst, ast),
            OpClass::Load | OpClass::Store | OpClass::Atomic | OpClass::Hint => {
                self.memory(inst, ast, resolved.operands);
            }
            OpClass::Membar => self.fence(inst, ast, resolved.operands),
            OpClass::Copy => self.asynchronous(inst, ast),
            OpClass::Mbarrier => self.mbarrier(inst, ast),
            OpClass::Mma | OpClass::MoveMatrix | OpClass::LoadMatrix | OpClass::StoreMatrix => {
                self.matrices(inst, ast, resolved.operands);
            }
            OpClass::Wgmma => self.warpgroup(inst, ast, resolved.operands),
            OpClass::SetRegisters => self.set_registers(inst, ast),
            OpClass::Texture => self.texture(inst, ast),
            OpClass::Ssy | OpClass::PreBreak | OpClass::PreReturn => {
                self.func.injected_by_hand = true;
                self.by_hand_target(inst, ast);
            }
            OpClass::Sync | OpClass::Break => {
                self.func.injected_by_hand = true;
                self.push(inst);
            }
            _ if entry.root == Root::Mov => self.mov(inst, ast),
            _ => self.ordinary(inst, ast, resolved.operands),
        }
    }

    /// The row and form of an opcode; each text is resolved once a module.
    fn opcode(&mut self, ast: &Instruction<'a>) -> Option<Opcode> {
        let source = self.cx.source;
        let text = source.text.get(ast.opcode.start as usize..ast.opcode.end as usize).unwrap_or_default();
        if let Some(known) = self.cx.opcodes.borrow().get(text) {
            return Some(known.clone());
        }
        let (entry, resolved) = self.resolve(ast)?;
        let mut opcodes = self.cx.opcodes.borrow_mut();
        let number = u16::try_from(opcodes.len() + 1).ok().and_then(NonZero::new);
        let found = Opcode { entry, resolved, number };
        opcodes.insert(text.into(), found.clone());
        Some(found)
    }

    fn resolve(&mut self, ast: &Instruction<'a>) -> Option<(&'static Entry, Resolved)> {
        let papers = self.cx.module.papers;
        let root = match ast.root {
            "break" if papers => "brk",
            other => other,
        };
        let Some(entry) = isa::entry(root).filter(|entry| papers || !entry.papers()) else {
            let before = self.errors.len();
            self.error(ast.opcode, "instruction", format!("unknown instruction `{}`", ast.root));
            let names = isa::TABLE.iter().filter(|e| !e.papers()).map(|e| e.name);
            if let Some(near) = nearest(ast.root, names) {
                self.help(format!("did you mean `{near}`?"));
            }
            self.refuse_since(before);
            return None;
        };
        if ast.spaced && !papers {
            self.error(ast.opcode, "syntax", "whitespace before a modifier is not allowed");
            return None;
        }
        let words: Vec<&str> = ast.modifiers().collect();
        let resolved = match isa::resolve(entry, &words, papers) {
            Ok(resolved) => resolved,
            Err((at, wanted)) => {
                let before = self.errors.len();
                self.wrong_modifier(ast, entry, at, &wanted);
                self.refuse_since(before);
                return None;
            }
        };
        if !self.fits_module(ast, &resolved) {
            return None;
        }
        if resolved.executed
            && !papers
            && let Err(message) = modifiers(&resolved.form)
        {
            self.error(ast.opcode, "modifier", message);
            return None;
        }
        Some((entry, resolved))
    }

    fn wrong_modifier(&mut self, ast: &Instruction<'a>, entry: &Entry, at: Option<usize>, wanted: &str) {
        let word = at.and_then(|i| ast.modifiers().nth(i));
        let before = ast.modifiers().take(at.unwrap_or(usize::MAX));
        let opcode = before.fold(entry.name.to_string(), |opcode, word| opcode + "." + word);
        let message = match word {
            Some(word) => format!("`.{word}` is not allowed after `{opcode}`"),
            None => format!("`{opcode}` is incomplete: a modifier is missing"),
        };
        let place = word.map_or(ast.opcode, |word| self.cx.source.span_of(word));
        self.error(place, "modifier", message);
        // A word that fits elsewhere in a form does not help here.
        let others = || wanted.split(", ").filter(|other| word != Some(other.trim_start_matches('.')));
        // A type that exists was meant; it is another that fits.
        let typo = word.filter(|word| ScalarType::named(word).is_none());
        match typo.and_then(|word| nearest(word, others().map(|other| other.trim_start_matches('.')))) {
            Some(near) => self.help(format!("did you mean `.{near}`?")),
            None if others().all(str::is_empty) => {}
            None => self.help(format!("expected one of: {}", others().collect::<Vec<_>>().join(", "))),
        }
    }

    /// The module's `.target` and `.version` have the form; otherwise an error says so.
    fn fits_module(&mut self, ast: &Instruction<'a>, resolved: &Resolved) -> bool {
        let module = self.cx.module;
        if let Some(target) = module.target_sm().filter(|target| *target < resolved.min_sm) {
            let message = format!(
                "`{}` requires .target sm_{} or higher; the module has .target sm_{target}",
                print::opcode(ast),
                resolved.min_sm
            );
            self.error(ast.opcode, "target", message);
            return false;
        }
        let form = &resolved.form;
        if !self.fits_architecture(ast, resolved) {
            return false;
        }
        let local = matches!(form.root, Root::Ld | Root::St) && form.mods.space == Some(StateSpace::Local);
        let volatile_local = local && form.mods.semantics == Semantics::Volatile;
        let least = if volatile_local { (9, 1) } else { resolved.version };
        if module.version.is_some_and(|version| version < least) {
            let message =
                format!("`{}` requires PTX ISA {}.{} or later", print::opcode(ast), least.0, least.1);
            self.error(ast.opcode, "version", message);
            return false;
        }
        let late = match resolved.legacy {
            None => None,
            Some(Legacy::Version) => module.version.filter(|v| *v > (1, 4)).map(|_| "from PTX ISA 1.5 on"),
            Some(Legacy::Target) => module.target_sm().filter(|sm| *sm >= 20).map(|_| "from sm_20 on"),
        };
        let Some(since) = late.filter(|_| !module.papers) else { return true };
        let message = format!("`{}` requires a rounding modifier {since}", print::opcode(ast));
        self.error(ast.opcode, "modifier", message);
        self.help("use `.approx`, or `.rn`, `.rz`, `.rm`, `.rp` where the target supports it".into());
        false
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
            OperandKind::Vector(list) | OperandKind::List(list) | OperandKind::Texture(list) => {
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

    pub(super) fn count(&mut self, ast: &Instruction<'a>, wanted: impl std::fmt::Display) {
        let wanted = wanted.to_string();
        let operands = if wanted == "1" { "operand" } else { "operands" };
        let message =
            format!("`{}` takes {wanted} {operands}, not {}", print::opcode(ast), ast.operands.len());
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
                None => self.error(operand.span, "label", "no statement is on or after this line"),
            },
            Some(_) => self.error(ast.span, "label", "expected a label"),
            None => self.push(inst),
        }
    }

    fn branch(&mut self, mut inst: Inst, ast: &Instruction<'a>) {
        let [target] = ast.operands.as_slice() else { return self.count(ast, 1) };
        inst.class = OpClass::Branch;
        if self.cx.module.papers
            && let OperandKind::Name(name) = &target.kind
            && self.labels.find(name).is_none()
            && let Operand::Reg(reg) = self.source(target, ScalarType::B32, OperandSize::Exact)
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

    fn mov(&mut self, mut inst: Inst, ast: &Instruction<'a>) {
        let [to, from] = ast.operands.as_slice() else { return self.count(ast, 2) };
        let ty = inst.form.ty;
        if ty == ScalarType::B128 {
            return self.mov_wide(&inst, [to, from]);
        }
        if ty == ScalarType::Pred {
            inst.pdst[0] = self.predicate_destination(to);
            inst.psrc[0] = self.predicate(from);
            return self.push(inst);
        }
        let elements = usize::from(inst.form.mods.vector);
        if elements > 1 {
            return self.mov_elements(&inst, [to, from], elements);
        }
        let (to, from) = (&self.as_list(to), &self.as_list(from));
        match (&to.kind, &from.kind) {
            (OperandKind::Vector(parts), _) => {
                let Some(part) = self.part_type(ty, parts, to.span) else { return };
                inst.form.mods.vector = parts.len() as u8;
                inst.form.dst = part;
                for (slot, operand) in parts.iter().enumerate() {
                    inst.dst[slot] = self.destination(operand, part, OperandSize::Exact);
                }
                inst.src[0] = self.source(from, ty, OperandSize::Exact);
            }
            (_, OperandKind::Vector(parts)) => {
                let Some(part) = self.part_type(ty, parts, from.span) else { return };
                inst.form.mods.vector = parts.len() as u8;
                inst.form.ty = part;
                inst.form.dst = ty;
                for (slot, operand) in parts.iter().enumerate() {
                    inst.src[slot] = self.source(operand, part, OperandSize::Exact);
                }
                inst.dst[0] = self.destination(to, ty, OperandSize::Exact);
            }
            _ => {
                inst.dst[0] = self.destination(to, ty, OperandSize::Exact);
                inst.src[0] = self.source(from, ty, OperandSize::Exact);
            }
        }
        inst.form.dst_reg = crate::form::register_bits(inst.form.dst);
        inst.form.src_reg = crate::form::register_bits(inst.form.ty);
        self.push(inst);
    }

    /// `mov.v2`, `mov.v4`: element by element; all are read before any is written.
    fn mov_elements(&mut self, like: &Inst, [to, from]: [&AstOperand<'a>; 2], elements: usize) {
        let ty = like.form.ty;
        let mut lists = [self.as_list(to), self.as_list(from)];
        // A vector of special registers has four elements; a `mov.v2` of it does not exist.
        if let OperandKind::Name(name @ ("%tid" | "%ntid" | "%ctaid" | "%nctaid")) = from.kind {
            let element = |part| AstOperand { kind: OperandKind::Component(name, part), span: from.span };
            lists[1].kind = OperandKind::Vector(["x", "y", "z", "w"].map(element).to_vec());
        }
        let [OperandKind::Vector(to_list), OperandKind::Vector(from_list)] = lists.map(|list| list.kind)
        else {
            return self.error(to.span, "vector", format!("expected vectors of {elements} elements"));
        };
        if to_list.len() != elements || from_list.len() != elements {
            let message = format!(
                "found vectors of {} and {} elements, expected {elements}",
                to_list.len(),
                from_list.len()
            );
            return self.error(to.span, "vector", message);
        }
        let mut single = like.clone();
        single.form.mods.vector = 1;
        let mut between = Vec::new();
        for source in &from_list {
            let mut read = single.clone();
            let reg = self.fresh(ty);
            read.src[0] = self.source(source, ty, OperandSize::Exact);
            read.dst[0] = Operand::Reg(reg);
            read.text = Text::Made("an element of a vector is read");
            self.push(read);
            between.push(reg);
        }
        for (i, (destination, reg)) in to_list.iter().zip(between).enumerate() {
            let mut write = single.clone();
            write.src[0] = Operand::Reg(reg);
            write.dst[0] = self.destination(destination, ty, OperandSize::Exact);
            if i + 1 < elements {
                write.text = Text::Made("an element of a vector is written");
            }
            self.push(write);
        }
    }

    /// The type of the elements that a value is packed from or unpacked into.
    fn part_type(&mut self, whole: ScalarType, parts: &[AstOperand<'a>], span: Span) -> Option<ScalarType> {
        let part = match (whole.bits(), parts.len()) {
            (64, 2) => ScalarType::B32,
            (64, 4) | (32, 2) => ScalarType::B16,
            (32, 4) | (16, 2) => ScalarType::B8,
            (bits, count) => {
                let allowed = match bits {
                    64 => "2 (.b32) or 4 (.b16) are allowed",
                    32 => "2 (.b16) or 4 (.b8) are allowed",
                    _ => "a .b16 value has 2 (.b8), a .b32 value 2 or 4, a .b64 value 2 or 4",
                };
                let message = format!(
                    "a .{} value cannot be packed from or unpacked into {count} elements; {allowed}",
                    whole.name()
                );
                self.error(span, "vector", message);
                return None;
            }
        };
        if !whole.is_bits() {
            let message = format!(
                "only values of .b types are packed and unpacked; write .b{} for .{}",
                whole.bits(),
                whole.name()
            );
            self.error(span, "vector", message);
        }
        if parts.iter().all(|part| matches!(part.kind, OperandKind::Sink)) {
            self.error(span, "vector", "one element at least must be a register");
        }
        Some(part)
    }

    pub(super) fn ordinary(
        &mut self,
        mut inst: Inst,
        ast: &Instruction<'a>,
        shapes: &'static [OperandShape],
    ) {
        let required = shapes.iter().filter(|s| !s.optional).count();
        let given = ast.operands.len();
        if given < required || given > shapes.len() {
            return match shapes.len() {
                most if most == required => self.count(ast, required),
                most => self.count(ast, format!("{required} to {most}")),
            };
        }
        // Optional operands are filled from the left as far as there are operands to spare.
        let mut spare = given - required;
        let (mut d, mut s, mut q, mut p) = (0, 0, 0, 0);
        let mut operands = ast.operands.iter();
        let form = inst.form;
        // Registers of packed formats have their size, and both of a conversion from or to `.bf16`.
        let brain = |ty: ScalarType| matches!(ty, ScalarType::Bf16 | ScalarType::Bf16x2);
        let whole = brain(form.ty) || brain(form.dst);
        let size = |named: bool| match form.root {
            Root::Cvt if !named && !whole => OperandSize::Wider,
            _ => OperandSize::Exact,
        };
        let loose = OperandSize::Exact;
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
                    let place = size(ty.is_some());
                    inst.dst[d] = self.destination(operand, ty.unwrap_or(form.dst), place);
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
                    let place = size(ty.is_some());
                    // Random bits and scales.
                    let by_chance = form.mods.rounding == Some(Rounding::Rs);
                    let register = ty.is_some() && (by_chance || form.mods.scaled && s > 0);
                    let ty = ty.unwrap_or(if as_result { form.dst } else { form.ty });
                    inst.src[s] = self.source(operand, ty, place);
                    if register && matches!(inst.src[s], Operand::Const { .. }) {
                        self.error(operand.span, "operand", "this operand must be a register");
                    }
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
                        let message = "a destination with a byte or halfword selector requires the merge operand c, and operand c requires such a destination";
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
                // Four values that are converted at once.
                Shape::Vector => {
                    for element in self.fragment_elements(operand, 4).unwrap_or_default() {
                        inst.src[s] = self.source(&element, form.ty, OperandSize::Wider);
                        s += 1;
                    }
                }
                Shape::Address => {
                    inst.src[s] = self.address(operand).map_or(Operand::None, |address| address.base);
                    s += 1;
                }
                Shape::Immediate => {
                    if !matches!(operand.kind, OperandKind::Int(_)) {
                        self.error(operand.span, "operand", "expected an integer constant");
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
        if matches!(form.root, Root::Min | Root::Max) && given == 4 {
            self.of_three(&mut inst, ast);
        }
        if form.mods.cc {
            inst.pdst[0] = PredOperand::Reg(self.carry(), false);
        }
        if matches!(form.root, Root::Addc | Root::Subc | Root::Madc) {
            inst.psrc[0] = PredOperand::Reg(self.carry(), false);
        }
        if form.asks_for_rank() {
            inst.src[1] = Operand::Special(SpecialRegister::ClusterCtarank);
        }
        self.classify(&mut inst, &form);
        self.check_barrier_and_elect(&inst, ast);
        self.push(inst);
    }

    /// What the shapes of operands do not say of barriers and of `elect`.
    fn check_barrier_and_elect(&mut self, inst: &Inst, ast: &Instruction<'a>) {
        if inst.class == OpClass::Barrier
            && let Operand::Const { bits, .. } = inst.src[0]
            && bits > 15
        {
            self.error(
                ast.operands[0].span,
                "barrier",
                format!("barrier index {bits} is out of range 0 to 15"),
            );
        }
        if inst.form.root == Root::Elect && inst.pdst[0] == PredOperand::None {
            self.error(
                ast.span,
                "operands",
                "`elect` requires a predicate destination: `_|%p1` or `%r1|%p1`",
            );
        }
    }

    /// `min` and `max` of three values: the first two, then their result and the third.
    fn of_three(&mut self, inst: &mut Inst, ast: &Instruction<'a>) {
        inst.min_sm = inst.min_sm.max(100);
        if let Some(target) = self.cx.module.target_sm().filter(|target| *target < 100) {
            let message = format!(
                "`{}` with three source operands requires .target sm_100 or higher; the module has .target sm_{target}",
                ast.root
            );
            return self.error(ast.opcode, "target", message);
        }
        let between = self.fresh(inst.form.ty);
        let mut first = inst.clone();
        first.dst[0] = Operand::Reg(between);
        first.src[2] = Operand::None;
        first.text = Text::Made("of the first two values");
        self.push(first);
        inst.src[0] = Operand::Reg(between);
        inst.src[1] = std::mem::replace(&mut inst.src[2], Operand::None);
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

    /// The facts of instructions that are more than data operations, and their class where the form says it.
    fn classify(&mut self, inst: &mut Inst, form: &Form) {
        let m = &form.mods;
        let sync = m.sync;
        (inst.class, inst.extra) = match inst.class {
            OpClass::Barrier if m.barrier == Some(BarrierKind::WarpSync) => (OpClass::WarpSync, Extra::None),
            OpClass::Barrier if m.cluster_wait.is_some() => {
                let releases = m.semantics != Semantics::Relaxed;
                (inst.class, Extra::ClusterBarrier { wait: m.cluster_wait == Some(true), releases })
            }
            OpClass::Barrier => {
                let kind = m.barrier.unwrap_or(BarrierKind::Sync);
                (inst.class, Extra::Barrier { kind, reduction: m.reduction })
            }
            OpClass::Vote => match m.vote {
                Some(mode) => (inst.class, Extra::Vote { mode, sync }),
                None => (OpClass::Unsupported, Extra::None),
            },
            OpClass::Shuffle => match m.shfl {
                Some(mode) => (inst.class, Extra::Shuffle { mode, sync }),
                None => (OpClass::Unsupported, Extra::None),
            },
            OpClass::Match => (inst.class, Extra::Match { all: m.match_all, wide: form.ty.bits() == 64 }),
            OpClass::Redux => match m.reduction {
                Some(reduction) => {
                    let float = form.ty.is_float().then_some((m.abs, m.propagate_nan));
                    (inst.class, Extra::Redux { reduction, signed: form.ty.is_signed(), float })
                }
                None => (OpClass::Unsupported, Extra::None),
            },
            OpClass::Membar => {
                let semantics = match (form.root, m.semantics) {
                    _ if m.scope.is_none() => Semantics::Weak,
                    (Root::Membar, _) => Semantics::Sc,
                    (_, Semantics::Weak) => Semantics::AcqRel,
                    (_, semantics) => semantics,
                };
                let scope = match m.scope.unwrap_or(Scope::Sys) {
                    scope if m.map_proxy => tensor_map::visible(scope),
                    scope => scope,
                };
                (inst.class, Extra::Membar(scope, semantics))
            }
            class => (class, Extra::None),
        };
    }
}
