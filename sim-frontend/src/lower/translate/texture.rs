//! Textures and surfaces: handles, coordinates, and the other operands.

use sim_memory::vocabulary::{AtomicOp, CacheOp, ScalarType, Scope, Semantics, StateSpace};

use super::{Local, Symbol, Translator};
use crate::diagnostic::Span;
use crate::form::{Beyond, Geometry, ImageQuery, MipLevel, register_bits};
use crate::isa::Root;
use crate::lower::ir::{Inst, Link, Operand, Width};
use crate::lower::tf1_validate::OperandSize;
use crate::lower::tf3_stack::made;
use crate::program::{Extra, MemoryOp, OpClass, TEXTURE_OPERANDS, Text, TextureOp, TextureStep};
use crate::ptx::ast::{Instruction, Opaque, Operand as AstOperand, OperandKind};

/// Operands of [`OpClass::TextureOperands`].
const STAGE: usize = 5;

/// An operand and whether it has 64 bits.
type Input = (Operand, bool);

impl<'a> Translator<'_, 'a> {
    pub(super) fn texture(&mut self, mut inst: Inst, ast: &Instruction<'a>) {
        let before = self.errors.len();
        match inst.form.root {
            Root::Txq | Root::Suq | Root::Istypep => self.image_query(&mut inst, ast),
            Root::Suld | Root::Sust | Root::Sured => self.surface(&mut inst, ast),
            _ => self.lookup_texture(&mut inst, ast),
        }
        if self.errors.len() == before {
            self.push(inst);
        }
    }

    /// The facts that most of these instructions have.
    fn image_facts(inst: &Inst, step: TextureStep) -> TextureOp {
        let m = inst.form.mods;
        let memory = MemoryOp {
            space: StateSpace::Global,
            cache: m.cache.unwrap_or(if step == TextureStep::Store { CacheOp::Wb } else { CacheOp::Ca }),
            semantics: Semantics::Weak,
            scope: Scope::Cta,
            element_bytes: (inst.form.ty.bits() / 8) as u8,
            vector: m.vector.max(1),
            signed: false,
            reg_bits: 32,
            address_64: true,
            scale: 0,
            alignment: 1,
            atomic: None,
            hint: None,
            policy: sim_memory::priority::Policy::None,
            cluster: false,
            of_warp: false,
            combined: None,
        };
        TextureOp {
            step,
            geometry: m.image.geometry.unwrap_or(Geometry::One),
            samples: m.image.samples,
            integer: inst.form.ty == ScalarType::S32,
            level: m.image.level,
            offset: false,
            reference: false,
            sampler: false,
            component: m.image.component,
            halves: 0,
            beyond: m.image.beyond.unwrap_or(Beyond::Trap),
            formatted: m.image.formatted,
            wide: 0,
            memory,
        }
    }

    /// The handle in an operand: a register of 64 bits, or a variable of an opaque type.
    fn handle(
        &mut self,
        name: &'a str,
        span: Span,
        wanted: &[Opaque],
        argument: usize,
        root: &str,
    ) -> Operand {
        match self.lookup(name) {
            Some(Local::Reg(reg, _)) if self.func.regs[reg as usize] == Width::Pair => {
                return Operand::Reg(reg);
            }
            None if matches!(self.cx.symbols.get(name), Some(Symbol::Variable(_))) => {
                let opaque = self.opaque(name);
                if opaque.is_some_and(|found| wanted.contains(&found)) {
                    let link = self.link(Link::Variable(name.into()));
                    return Operand::Link { link, addend: 0, wide: true };
                }
            }
            None if !self.cx.symbols.contains_key(name) => {
                self.unknown(name, span);
                return Operand::None;
            }
            _ => {}
        }
        let names: Vec<&str> = wanted.iter().map(|opaque| opaque.name()).collect();
        let message = format!(
            "operand {argument} of `{root}` must be a {} variable or a .u64 register",
            names.join(" or ")
        );
        self.error(span, "type", message);
        Operand::None
    }

    /// The opaque type of a variable of the module.
    pub(super) fn opaque(&self, name: &str) -> Option<Opaque> {
        let named = self.cx.module.variables.iter().find(|variable| variable.name == name);
        named.and_then(|variable| variable.opaque)
    }

    /// The elements of a vector, or a scalar by itself; there must be as many as `sizes` allow.
    fn elements(
        &mut self,
        operand: &AstOperand<'a>,
        sizes: &[usize],
        what: &str,
    ) -> Option<Vec<AstOperand<'a>>> {
        let listed = self.as_list(operand);
        let list = match listed.kind {
            OperandKind::Vector(list) => list,
            _ => vec![operand.clone()],
        };
        if sizes.contains(&list.len()) {
            return Some(list);
        }
        let wanted: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let message = format!(
            "the {what} vector has {} elements; this form requires {}",
            list.len(),
            wanted.join(" or ")
        );
        self.error(operand.span, "vector", message);
        None
    }

    fn value(&mut self, operand: &AstOperand<'a>, ty: ScalarType) -> Input {
        (self.source(operand, ty, OperandSize::Exact), ty.bits() > 32)
    }

    /// `[a, c]` or `[a, b, c]`: handle, sampler and coordinates.
    fn image_place(
        &mut self,
        inst: &mut Inst,
        facts: &mut TextureOp,
        operand: &AstOperand<'a>,
        root: &str,
        inputs: &mut Vec<Input>,
    ) -> Option<Operand> {
        let OperandKind::Texture(list) = &operand.kind else {
            self.error(operand.span, "address", "expected `[a, c]`: a handle and coordinates");
            return None;
        };
        let texture = matches!(facts.step, TextureStep::Sample | TextureStep::Gather);
        let (name, sampler, coordinates) = match list.as_slice() {
            [name, coordinates] => (name, None, coordinates),
            [name, sampler, coordinates] if texture => (name, Some(sampler), coordinates),
            _ => {
                self.error(operand.span, "address", "expected `[a, c]`: a handle and coordinates");
                return None;
            }
        };
        let OperandKind::Name(handle) = name.kind else { return None };
        let wanted: &[Opaque] = if texture { &[Opaque::Texture] } else { &[Opaque::Surface] };
        inst.src[0] = self.handle(handle, name.span, wanted, 1, root);
        let independent = self.cx.module.target.contains(&"texmode_independent");
        if texture && independent && sampler.is_none() {
            let message = format!(
                "operand 2 of `{root}` must be a .samplerref variable or a .u64 register: the module has .target texmode_independent"
            );
            self.error(operand.span, "operands", message);
        }
        let sampler = match sampler.map(|sampler| (&sampler.kind, sampler.span)) {
            None => None,
            Some((OperandKind::Name(name), span)) => {
                Some(self.handle(name, span, &[Opaque::Sampler], 2, root))
            }
            Some((_, span)) => {
                self.error(span, "operand", "expected a .samplerref variable or a .u64 register");
                None
            }
        };
        facts.sampler = sampler.is_some();
        // Two-dimensional coordinates may be written as vectors of four, as old compilers do.
        let sizes: &[usize] = match facts.geometry {
            _ if facts.samples => &[4],
            Geometry::One => &[1, 4],
            Geometry::Two | Geometry::OneArray => &[2, 4],
            Geometry::Three | Geometry::TwoArray | Geometry::Cube | Geometry::CubeArray => &[4],
        };
        let list = self.elements(coordinates, sizes, "coordinate")?;
        let ty = if texture { inst.form.ty } else { ScalarType::S32 };
        // A sample and a layer come first.
        let layer = usize::from(facts.geometry.layered()) + usize::from(facts.samples);
        for (i, element) in list.iter().enumerate() {
            let ty = if i < layer { ScalarType::U32 } else { ty };
            let input = self.value(element, ty);
            if i < layer + facts.geometry.coordinates() {
                inputs.push(input);
            }
        }
        sampler
    }

    /// Hands the operands over: the first four to the instruction, the others to ones before it.
    fn give(&mut self, inst: &mut Inst, facts: &mut TextureOp, inputs: &[Input]) {
        for (i, (_, wide)) in inputs.iter().enumerate() {
            facts.wide |= u16::from(*wide) << i;
        }
        let (own, staged) = inputs.split_at(inputs.len().min(TEXTURE_OPERANDS));
        for (i, (operand, _)) in own.iter().enumerate() {
            inst.src[1 + i] = *operand;
        }
        for (i, list) in staged.chunks(STAGE).enumerate() {
            let mut stage = made(inst, OpClass::TextureOperands, Root::Mov, ScalarType::B32);
            stage.text = Text::Made("operands of the texture instruction that follows");
            stage.imm = (STAGE * i) as i64;
            let mut wide = 0;
            for (slot, (operand, is_wide)) in list.iter().enumerate() {
                stage.src[slot] = *operand;
                wide |= u8::from(*is_wide) << slot;
            }
            stage.extra = Extra::TextureOperands(wide);
            self.push(stage);
        }
    }

    /// `tex`, `tld4`.
    fn lookup_texture(&mut self, inst: &mut Inst, ast: &Instruction<'a>) {
        let step = if inst.form.root == Root::Tld4 { TextureStep::Gather } else { TextureStep::Sample };
        let mut facts = Self::image_facts(inst, step);
        facts.halves = match inst.form.dst {
            ScalarType::F16 => 1,
            ScalarType::F16x2 => 2,
            _ => 0,
        };
        let [result, place, rest @ ..] = ast.operands.as_slice() else {
            return self.count(ast, "at least 2");
        };
        let mut result = result;
        if let OperandKind::Pair(vector, resident) = &result.kind {
            inst.pdst[0] = self.predicate_destination(resident);
            result = vector;
        }
        let vector = usize::from(inst.form.mods.vector);
        let Some(list) = self.elements(result, &[vector], "destination") else { return };
        let before = self.errors.len();
        for (slot, operand) in list.iter().enumerate() {
            inst.dst[slot] = self.destination(operand, inst.form.dst, OperandSize::Exact);
            // What is wrong with one element is mostly wrong with all.
            if self.errors.len() > before {
                return;
            }
        }
        let mut inputs = Vec::new();
        let sampler = self.image_place(inst, &mut facts, place, ast.root, &mut inputs);
        let axes = facts.geometry.axes();
        let mut rest = rest.iter();
        match facts.level {
            MipLevel::Base => {}
            MipLevel::Detail => {
                let Some(level) = rest.next() else { return self.count(ast, "at least 3") };
                inputs.push(self.value(level, inst.form.ty));
            }
            MipLevel::Gradient => {
                let coordinates = facts.geometry.coordinates();
                let size = if coordinates == 3 { 4 } else { coordinates };
                for _ in 0..2 {
                    let Some(gradient) = rest.next() else { return self.count(ast, "at least 4") };
                    let Some(list) = self.elements(gradient, &[size], "derivative") else { return };
                    for (i, element) in list.iter().enumerate() {
                        let input = self.value(element, ScalarType::F32);
                        if i < coordinates {
                            inputs.push(input);
                        }
                    }
                }
            }
        }
        let mut next = rest.next();
        // A vector, or an integer, is the offset; a number is the reference value.
        if let Some(operand) = next.filter(|operand| self.is_offset(operand)) {
            if facts.geometry.cube() {
                let message = format!("`{}` has no offset operand with .cube and .acube", ast.root);
                return self.error(operand.span, "operands", message);
            }
            let size = if axes == 3 { 4 } else { axes };
            let Some(list) = self.elements(operand, &[size], "offset") else { return };
            for (i, element) in list.iter().enumerate() {
                let input = self.value(element, ScalarType::S32);
                if i < axes {
                    inputs.push(input);
                }
            }
            facts.offset = true;
            next = rest.next();
        }
        if let Some(operand) = next {
            if facts.geometry == Geometry::Three || facts.samples {
                let which = if facts.samples { "several samples" } else { ".3d" };
                let message = format!("`{}` has no depth-compare operand with {which}", ast.root);
                return self.error(operand.span, "operands", message);
            }
            inputs.push(self.value(operand, ScalarType::F32));
            facts.reference = true;
        }
        if rest.next().is_some() {
            let message = format!("`{}` does not take {} operands", ast.root, ast.operands.len());
            return self.error(ast.span, "operands", message);
        }
        if let Some(sampler) = sampler {
            inputs.push((sampler, true));
        }
        self.give(inst, &mut facts, &inputs);
        inst.extra = Extra::Texture(facts);
    }

    fn is_offset(&self, operand: &AstOperand<'a>) -> bool {
        match &operand.kind {
            OperandKind::Vector(_) | OperandKind::Int(_) => true,
            OperandKind::Name(name) => match self.lookup(name) {
                Some(Local::Reg(_, ty)) => ty.is_signed() && !ty.is_float() || ty == ScalarType::U32,
                Some(Local::Vector(..)) => true,
                _ => false,
            },
            _ => false,
        }
    }

    /// `suld`, `sust`, `sured`.
    fn surface(&mut self, inst: &mut Inst, ast: &Instruction<'a>) {
        let ty = inst.form.ty;
        let step = match inst.form.root {
            Root::Suld => TextureStep::Load,
            Root::Sust => TextureStep::Store,
            _ => TextureStep::Reduce,
        };
        let mut facts = Self::image_facts(inst, step);
        let [first, second] = ast.operands.as_slice() else { return self.count(ast, 2) };
        let vector = usize::from(inst.form.mods.vector.max(1));
        if vector as u32 * ty.bits() > 128 {
            return self.error(ast.opcode, "vector", "a vector of more than 128 bits is not allowed");
        }
        let (place, data) = if step == TextureStep::Load { (second, first) } else { (first, second) };
        let mut inputs = Vec::new();
        self.image_place(inst, &mut facts, place, ast.root, &mut inputs);
        if step == TextureStep::Reduce {
            inputs.push(self.value(data, ty));
            let operation = inst.form.mods.atomic.unwrap_or(AtomicOp::Add);
            // Formatted reductions are of unsigned words, as their type is not said.
            let ty = if ty == ScalarType::B32 && !matches!(operation, AtomicOp::And | AtomicOp::Or) {
                ScalarType::U32
            } else {
                ty
            };
            facts.memory.atomic = Some((operation, ty));
            facts.memory.reg_bits = register_bits(ty).max(32);
        } else {
            let Some(list) = self.elements(data, &[vector], "data") else { return };
            let mut bits = register_bits(ty);
            for (slot, operand) in list.iter().enumerate() {
                let operand = if step == TextureStep::Load {
                    inst.dst[slot] = self.destination(operand, ty, OperandSize::Wider);
                    inst.dst[slot]
                } else {
                    let wide = ty.bits() > 32;
                    let value = self.source(operand, ty, OperandSize::Wider);
                    let register = match value {
                        Operand::Reg(reg) => self.func.regs[reg as usize] == Width::Pair,
                        _ => wide,
                    };
                    inputs.push((value, register));
                    value
                };
                if let Operand::Reg(reg) = operand {
                    bits = bits.max(match self.func.regs[reg as usize] {
                        Width::Pair => 64,
                        Width::Word => 32,
                        Width::Half | Width::Pred => 16,
                    });
                }
            }
            facts.memory.reg_bits = bits;
        }
        self.give(inst, &mut facts, &inputs);
        inst.extra = Extra::Texture(facts);
    }

    /// `txq`, `suq`, `istypep`.
    fn image_query(&mut self, inst: &mut Inst, ast: &Instruction<'a>) {
        use ImageQuery as Q;
        let Some(query) = inst.form.mods.image.query else { return };
        let mut facts = Self::image_facts(inst, TextureStep::Query(query));
        let level = facts.level == MipLevel::Detail;
        let (result, at, rest) = match ast.operands.as_slice() {
            [result, at] if !level => (result, at, None),
            [result, at, rest] if level => (result, at, Some(rest)),
            _ => return self.count(ast, if level { 3 } else { 2 }),
        };
        if inst.form.root == Root::Istypep {
            inst.pdst[0] = self.predicate_destination(result);
            inst.src[0] = self.source(at, ScalarType::U64, OperandSize::Exact);
            inst.extra = Extra::Texture(facts);
            return;
        }
        inst.dst[0] = self.destination(result, ScalarType::B32, OperandSize::Exact);
        let OperandKind::Address { base: Some(name), offset: 0 } = at.kind else {
            return self.error(at.span, "address", "expected a handle in brackets");
        };
        let independent = self.cx.module.target.contains(&"texmode_independent");
        let of_sampler = matches!(
            query,
            Q::NormalizedCoords | Q::ForceUnnormalizedCoords | Q::FilterMode | Q::AddrMode(_)
        );
        let wanted = match inst.form.root {
            Root::Suq => Opaque::Surface,
            _ if of_sampler && independent && query != Q::NormalizedCoords => Opaque::Sampler,
            _ => Opaque::Texture,
        };
        inst.src[0] = self.handle(name, at.span, &[wanted], 1, ast.root);
        if let Some(level) = rest {
            let input = self.value(level, ScalarType::U32);
            self.give(inst, &mut facts, &[input]);
        }
        inst.extra = Extra::Texture(facts);
    }
}
