//! Operands: registers, constants, special registers, addresses of symbols, predicates, parts of
//! registers.

use sim_memory::vocabulary::{ScalarType, StateSpace};

use super::{Local, Symbol, Translator};
use crate::diagnostic::{Span, nearest};
use crate::form::{CmpOp, Form, VideoSelect};
use crate::isa::{Kind, Root, entry_of};
use crate::lower::ir::{Link, Operand, PredOperand, Reg};
use crate::lower::tf1_validate::{OperandSize, compatible, mismatch};
use crate::lower::tf2_fold_constants;
use crate::lower::tf3_stack::made;
use crate::program::{ClockRegister, Extra, OpClass, SpecialRegister, Text};
use crate::ptx::ast::{Operand as AstOperand, OperandKind};

/// A name that is a special register.
pub(super) enum Special {
    Constant(SpecialRegister),
    Clock(ClockRegister),
    /// Always zero or another constant.
    Value(u64),
}

pub(super) fn special(name: &str, component: Option<&str>) -> Option<Special> {
    use SpecialRegister as S;
    // Most names are `%r1`, `%rd2` and the like: of the special registers with a number behind them
    // only the clocks, the counters and two more have these letters.
    let numbered = name.as_bytes().last().is_some_and(u8::is_ascii_digit);
    if numbered && !matches!(name.as_bytes().get(2), Some(b'l' | b'm' | b'n' | b'e')) {
        return None;
    }
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
        "%clusterid" => return axis(S::ClusterIdX, S::ClusterIdY, S::ClusterIdZ),
        "%nclusterid" => return axis(S::NclusterIdX, S::NclusterIdY, S::NclusterIdZ),
        "%cluster_ctaid" => return axis(S::ClusterCtaidX, S::ClusterCtaidY, S::ClusterCtaidZ),
        "%cluster_nctaid" => return axis(S::ClusterNctaidX, S::ClusterNctaidY, S::ClusterNctaidZ),
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
        "%current_graph_exec" => Special::Value(0),
        "%cluster_ctarank" => Special::Constant(S::ClusterCtarank),
        "%cluster_nctarank" => Special::Constant(S::ClusterNctarank),
        "%aggr_smem_size" => Special::Constant(S::TotalSmemSize),
        // No shared memory is kept back for the system.
        _ if name.starts_with("%reserved_smem_offset_") => Special::Value(0),
        // nvcc's cooperative groups find their workspace by these.
        "%envreg1" => Special::Constant(S::WorkspaceHigh),
        "%envreg2" => Special::Constant(S::WorkspaceLow),
        _ if name.starts_with("%envreg") || name.starts_with("%pm") => Special::Value(0),
        _ => return None,
    })
}

/// Results of a video instruction: 1, or 2 or 4 in the parts of a register.
fn video_lanes(root: Root) -> usize {
    match entry_of(root).kind {
        Kind::Video { elements } => elements as usize,
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

/// The element that `.x`, or as a colour `.r`, names.
fn element(part: &str) -> Option<u32> {
    Some(match part {
        "x" | "r" => 0,
        "y" | "g" => 1,
        "z" | "b" => 2,
        "w" | "a" => 3,
        _ => return None,
    })
}

impl<'a> Translator<'_, 'a> {
    /// The register of an element of a vector register.
    fn element_of(&mut self, name: &'a str, part: &str, span: Span) -> Option<Local> {
        let Some(Local::Vector(first, elements, ty)) = self.lookup(name) else { return None };
        match element(part).filter(|element| *element < elements) {
            Some(element) => Some(Local::Reg(first + element, ty)),
            None => {
                self.error(span, "name", format!("`{name}` has {elements} elements; there is no `.{part}`"));
                Some(Local::Reg(first, ty))
            }
        }
    }

    /// A vector register as the list of its elements; other operands as they are.
    pub(super) fn as_list(&self, operand: &AstOperand<'a>) -> AstOperand<'a> {
        if let OperandKind::Name(name) = operand.kind
            && let Some(Local::Vector(_, elements, _)) = self.lookup(name)
        {
            let parts = ["x", "y", "z", "w"].into_iter().take(elements as usize);
            let list =
                parts.map(|part| AstOperand { kind: OperandKind::Component(name, part), span: operand.span });
            return AstOperand { kind: OperandKind::Vector(list.collect()), span: operand.span };
        }
        operand.clone()
    }

    /// A source of which a part may be meant, and the part.
    pub(super) fn source_part(
        &mut self,
        operand: &AstOperand<'a>,
        ty: ScalarType,
    ) -> (Operand, Option<&'a str>) {
        let (name, part) = match operand.kind {
            OperandKind::Component(name, part) if special(name, Some(part)).is_none() => (name, Some(part)),
            OperandKind::Negated(name, part) => (name, part),
            _ => return (self.source(operand, ty, OperandSize::Exact), None),
        };
        let register = self.register(name, operand.span, ty, OperandSize::Exact);
        (register.map_or(Operand::None, Operand::Reg), part)
    }

    /// Which part of operand `position` (destination, a, b) is meant.
    pub(super) fn select(
        &mut self,
        root: Root,
        position: usize,
        part: Option<&str>,
        span: Span,
    ) -> VideoSelect {
        let lanes = video_lanes(root);
        let found = video_select(lanes, position, part);
        found.unwrap_or_else(|| {
            let part = part.unwrap_or_default();
            self.error(span, "operand", format!("`.{part}` is not a valid selector for this operand"));
            let words = match (lanes, position) {
                (1, _) => "`.b0` to `.b3`, `.h0` and `.h1`",
                (2, 0) => "`.h0`, `.h1` and `.h10`",
                (2, _) => "`.h` followed by two halfword numbers from 0 to 3, such as `.h10`",
                (_, 0) => "`.b` followed by byte numbers from 0 to 3 in decreasing order, such as `.b320`",
                _ => "`.b` followed by four byte numbers from 0 to 7, such as `.b3210`",
            };
            self.help(format!("valid selectors: {words}"));
            0
        })
    }

    pub(super) fn predicate_named(&mut self, name: &'a str, negated: bool, span: Span) -> PredOperand {
        match self.lookup(name) {
            Some(Local::Reg(reg, ScalarType::Pred)) => PredOperand::Reg(reg, negated),
            Some(Local::Reg(_, ty)) => {
                self.error(span, "type", mismatch(name, ty, ScalarType::Pred));
                self.also(self.declaration_of(name), "declared here");
                PredOperand::None
            }
            None if self.cx.module.papers => {
                let reg = self.fresh(ScalarType::Pred);
                let _ = self.declare(name, Local::Reg(reg, ScalarType::Pred));
                PredOperand::Reg(reg, negated)
            }
            _ => {
                self.unknown(name, span);
                PredOperand::None
            }
        }
    }

    /// A predicate operand, negated or not [expr-B].
    pub(super) fn predicate(&mut self, operand: &AstOperand<'a>) -> PredOperand {
        match &operand.kind {
            OperandKind::Name("%is_explicit_cluster") => {
                let like = self.blank_like(operand.span);
                let reg = self.fresh(ScalarType::Pred);
                let mut inst = made(&like, OpClass::Data, Root::Setp, ScalarType::U32);
                inst.form = Form::compare(CmpOp::Ne, ScalarType::U32);
                inst.pdst[0] = PredOperand::Reg(reg, false);
                inst.src[0] = Operand::Special(SpecialRegister::IsExplicitCluster);
                inst.src[1] = Operand::Const { bits: 0, wide: false };
                inst.text = Text::Made("whether the size of clusters is given");
                self.push(inst);
                PredOperand::Reg(reg, false)
            }
            OperandKind::Name(name) => self.predicate_named(name, false, operand.span),
            OperandKind::Not(name) => self.predicate_named(name, true, operand.span),
            OperandKind::Int(value) => PredOperand::Const(value.value() != 0),
            _ => {
                self.error(operand.span, "type", "expected a predicate");
                PredOperand::None
            }
        }
    }

    pub(super) fn predicate_destination(&mut self, operand: &AstOperand<'a>) -> PredOperand {
        match &operand.kind {
            OperandKind::Name(name) => self.predicate_named(name, false, operand.span),
            OperandKind::Sink => PredOperand::None,
            _ => {
                self.error(operand.span, "type", "expected a predicate register");
                PredOperand::None
            }
        }
    }

    pub(super) fn destination(
        &mut self,
        operand: &AstOperand<'a>,
        ty: ScalarType,
        place: OperandSize,
    ) -> Operand {
        match &operand.kind {
            OperandKind::Sink => Operand::None,
            OperandKind::Name(name) => {
                self.register(name, operand.span, ty, place).map_or(Operand::None, Operand::Reg)
            }
            OperandKind::Component(name, part)
                if let Some(found) = self.element_of(name, part, operand.span) =>
            {
                self.register_found(Some(found), name, operand.span, ty, place)
                    .map_or(Operand::None, Operand::Reg)
            }
            OperandKind::Component(name, part) if special(name, Some(part)).is_some() => {
                self.error(operand.span, "operand", "expected a register; special registers are read-only");
                Operand::None
            }
            _ => {
                self.error(operand.span, "operand", "expected a register");
                Operand::None
            }
        }
    }

    pub(super) fn register(
        &mut self,
        name: &'a str,
        span: Span,
        ty: ScalarType,
        place: OperandSize,
    ) -> Option<Reg> {
        self.register_found(self.lookup(name), name, span, ty, place)
    }

    fn register_found(
        &mut self,
        found: Option<Local>,
        name: &'a str,
        span: Span,
        ty: ScalarType,
        place: OperandSize,
    ) -> Option<Reg> {
        match found {
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
                let _ = self.declare(name, Local::Reg(reg, ty));
                Some(reg)
            }
            None => {
                self.unknown(name, span);
                None
            }
            Some(Local::Wide(_)) => {
                self.error(span, "type", mismatch(name, ScalarType::B128, ty));
                self.also(self.declaration_of(name), "declared here");
                None
            }
            Some(Local::Vector(_, elements, _)) => {
                let message =
                    format!("`{name}` is a vector of {elements} elements; select an element, such as `.x`");
                self.error(span, "operand", message);
                None
            }
            Some(_) => {
                self.error(span, "operand", format!("`{name}` is a variable; expected a register"));
                None
            }
        }
    }

    /// A source: register, constant, special register, or the address of a symbol [expr-E];
    /// operands left out are none [expr-Eopt].
    pub(super) fn source(&mut self, operand: &AstOperand<'a>, ty: ScalarType, place: OperandSize) -> Operand {
        let wide = ty.bits() > 32;
        match &operand.kind {
            OperandKind::Name(name) => {
                if let Some(found) = special(name, None) {
                    return self.special_source(found, wide, operand.span);
                }
                let found = self.lookup(name);
                match found {
                    Some(Local::Variable(space, at)) => self.address_of(space, at, 0, wide, operand.span),
                    Some(Local::Linked(_, link)) => Operand::Link { link, addend: 0, wide },
                    Some(Local::Param(offset)) => Operand::Const { bits: offset, wide },
                    Some(Local::Reg(..) | Local::Vector(..) | Local::Wide(_)) => self
                        .register_found(found, name, operand.span, ty, place)
                        .map_or(Operand::None, Operand::Reg),
                    None => match self.cx.symbols.get(*name).copied() {
                        Some(Symbol::Variable(_)) => {
                            let link = self.link(Link::Variable((*name).into()));
                            Operand::Link { link, addend: 0, wide }
                        }
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
                        None if self.is_kernel(name) => {
                            self.launches_kernels(
                                &format!("takes the address of the kernel `{name}`"),
                                operand.span,
                            );
                            Operand::Const { bits: 0, wide }
                        }
                        None => {
                            self.unknown(name, operand.span);
                            Operand::None
                        }
                    },
                }
            }
            OperandKind::Component(name, component) => match special(name, Some(component)) {
                Some(found) => self.special_source(found, wide, operand.span),
                None => {
                    if let Some(found) = self.element_of(name, component, operand.span) {
                        let found = self.register_found(Some(found), name, operand.span, ty, place);
                        return found.map_or(Operand::None, Operand::Reg);
                    }
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
                    (Some(Local::Param(at)), _) => {
                        Operand::Const { bits: at.wrapping_add_signed(*offset), wide }
                    }
                    (Some(Local::Linked(_, link)), _) => Operand::Link { link, addend: *offset, wide },
                    (None, Some(Symbol::Variable(_))) => {
                        let link = self.link(Link::Variable((*name).into()));
                        Operand::Link { link, addend: *offset, wide }
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
            | OperandKind::Texture(_)
            | OperandKind::Address { .. }
            | OperandKind::Negated(..)
            | OperandKind::Not(_) => {
                self.error(operand.span, "operand", "expected a register or a constant");
                Operand::None
            }
            OperandKind::Sink => {
                let message = "the sink symbol `_` is allowed only as a destination; a source operand must be a register or a constant";
                self.error(operand.span, "operand", message);
                Operand::None
            }
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

    pub(super) fn special_source(&mut self, found: Special, wide: bool, span: Span) -> Operand {
        match found {
            Special::Constant(register) if !wide => Operand::Special(register),
            Special::Constant(register) => {
                // A 64-bit read of a 32-bit special register is extended by a conversion.
                let like = self.blank_like(span);
                let reg = self.fresh(ScalarType::U64);
                let mut inst = made(&like, OpClass::Data, Root::Cvt, ScalarType::U32);
                inst.form.dst = ScalarType::U64;
                inst.form.dst_reg = 64;
                inst.form.src_reg = 32;
                inst.dst[0] = Operand::Reg(reg);
                inst.src[0] = Operand::Special(register);
                inst.text = Text::Made("a special register in 64 bits");
                self.push(inst);
                Operand::Reg(reg)
            }
            Special::Value(bits) => Operand::Const { bits, wide },
            Special::Clock(clock) => {
                let like = self.blank_like(span);
                let ty = if wide { ScalarType::U64 } else { ScalarType::U32 };
                let reg = self.fresh(ty);
                let mut inst = made(&like, OpClass::Clock, Root::Mov, ty);
                inst.dst[0] = Operand::Reg(reg);
                inst.extra = Extra::Clock(clock);
                inst.text = Text::Made("the clock is read");
                self.push(inst);
                Operand::Reg(reg)
            }
        }
    }

    /// The address of a variable: local ones move with the frame.
    pub(super) fn address_of(
        &mut self,
        space: StateSpace,
        at: u64,
        offset: i64,
        wide: bool,
        span: Span,
    ) -> Operand {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_registers_with_a_number_behind_them() {
        for name in [
            "%clock64",
            "%pm0",
            "%pm7",
            "%pm3_64",
            "%envreg0",
            "%envreg31",
            "%reserved_smem_offset_1",
            "%tid",
        ] {
            assert!(special(name, None).is_some(), "{name}");
        }
        for name in ["%r1", "%rd22", "%p3", "%f4", "%fd5", "%rs6", "%h7", "%a8", "%rl2", "%r", "x1", "5"] {
            assert!(special(name, None).is_none(), "{name}");
        }
    }
}
