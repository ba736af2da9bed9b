//! Loads, stores, atomics: address operands, spaces, data operands.

use sim_memory::priority::Policy;
use sim_memory::vocabulary::{CacheHint, CacheOp, ScalarType, StateSpace};

use super::{Local, Symbol, Translator};
use crate::isa::{OperandShape, Root};
use crate::lower::ir::{Inst, Link, Operand, Width};
use crate::lower::tf1_validate::OperandSize;
use crate::lower::tf4_access_sizes;
use crate::program::{Extra, OpClass};
use crate::ptx::ast::{Instruction, Operand as AstOperand, OperandKind};
use crate::ptx::print;

/// An address: base register, offset, and whether the base has 64 bits.
pub(super) struct Address {
    pub(super) base: Operand,
    pub(super) offset: i64,
    pub(super) wide: bool,
    /// The space of the variable it names.
    pub(super) space: Option<StateSpace>,
    /// A parameter of the kernel.
    pub(super) param: bool,
}

/// The address of a variable whose own is known later.
fn linked(space: StateSpace, link: u32, offset: i64) -> Address {
    let base = Operand::Link { link, addend: 0, wide: true };
    Address { base, offset, wide: true, space: Some(space), param: false }
}

impl<'a> Translator<'_, 'a> {
    pub(super) fn memory(&mut self, mut inst: Inst, ast: &Instruction<'a>, shapes: &[OperandShape]) {
        let mut operands = ast.operands.as_slice();
        let mut policy = Operand::None;
        let wanted = shapes.iter().filter(|s| !s.optional).count() + usize::from(inst.form.mods.cache_hint);
        if operands.len() != wanted {
            return self.count(ast, wanted);
        }
        if inst.form.mods.cache_hint
            && let [rest @ .., policy_operand] = operands
        {
            policy = self.source(policy_operand, ScalarType::B64, OperandSize::Exact);
            operands = rest;
        }
        inst.src[4] = policy;
        if self.in_pieces(&inst, ast, operands) {
            return;
        }
        self.access(inst, ast, operands);
    }

    /// An access that the memory side makes at once.
    pub(super) fn access(&mut self, mut inst: Inst, ast: &Instruction<'a>, operands: &[AstOperand<'a>]) {
        let root = inst.form.root;
        let whole = inst.form.ty == ScalarType::B128;
        let atomic = matches!(root, Root::Atom | Root::Red);
        if whole && !atomic {
            // Two elements of 64 bits.
            (inst.form.ty, inst.form.dst, inst.form.mods.vector) = (ScalarType::B64, ScalarType::B64, 2);
        }
        // `ldu` reads what no thread writes meanwhile: the read-only path may serve it.
        inst.form.mods.non_coherent |= root == Root::Ldu;
        let (address, data): (&AstOperand<'a>, &[AstOperand<'a>]) = match (root, operands) {
            (Root::Ld | Root::Ldu, [to, from]) => (from, std::slice::from_ref(to)),
            (Root::Atom, [to, at, rest @ ..]) if !rest.is_empty() && rest.len() <= 3 => {
                if whole {
                    let Some(halves) = self.wide_destination(to) else { return };
                    inst.dst[..2].copy_from_slice(&halves);
                } else {
                    inst.dst[0] = self.destination(to, inst.form.ty, OperandSize::Exact);
                }
                (at, rest)
            }
            (Root::St | Root::Red, [at, rest @ ..]) if rest.len() == 1 => (at, rest),
            (Root::Prefetch | Root::Prefetchu, [at]) => (at, &[]),
            (Root::Discard | Root::Applypriority, [at, size]) => {
                if self.source(size, ScalarType::U32, OperandSize::Exact)
                    != (Operand::Const { bits: 128, wide: false })
                {
                    let message = format!("the size operand of `{}` must be 128", ast.root);
                    return self.error(size.span, "operands", message);
                }
                (at, &[])
            }
            _ => {
                let message =
                    format!("`{}` does not take {} operands", print::opcode(ast), ast.operands.len());
                return self.error(ast.span, "operands", message);
            }
        };
        let Some(address) = self.address(address) else { return };
        inst.src[0] = address.base;
        inst.imm = address.offset;
        let written = inst.form.mods.space;
        let mut space = match written {
            Some(space) => space,
            // The papers leave the space to the variable.
            None if self.cx.module.papers => address.space.unwrap_or(StateSpace::Global),
            None => StateSpace::Generic,
        };
        let ty = inst.form.ty;
        let mut reg_bits =
            crate::form::register_bits(ty).max(if root == Root::Atom || root == Root::Red { 32 } else { 16 });
        match root {
            Root::Ld | Root::Ldu if whole => {
                let Some(halves) = self.wide_destination(&data[0]) else { return };
                inst.dst[..2].copy_from_slice(&halves);
            }
            Root::St if whole => {
                let Some(halves) = self.wide_source(&data[0]) else { return };
                inst.src[1..3].copy_from_slice(&halves);
            }
            Root::Ld | Root::Ldu | Root::St => {
                let operand = &self.as_list(&data[0]);
                let parts: &[AstOperand<'a>] = match &operand.kind {
                    OperandKind::Vector(parts) => parts,
                    _ => std::slice::from_ref(operand),
                };
                if parts.len() != usize::from(inst.form.mods.vector.max(1)) {
                    let message = other_length(&operand.kind, inst.form.mods.vector.max(1));
                    return self.error(operand.span, "vector", message);
                }
                for (i, part) in parts.iter().enumerate() {
                    let place = if root != Root::St {
                        inst.dst[i] = self.destination(part, ty, OperandSize::Wider);
                        inst.dst[i]
                    } else {
                        inst.src[i + 1] = self.source(part, ty, OperandSize::Wider);
                        inst.src[i + 1]
                    };
                    if let Operand::Reg(reg) = place {
                        reg_bits = reg_bits.max(match self.func.regs[reg as usize] {
                            Width::Pair => 64,
                            Width::Word => 32,
                            Width::Half | Width::Pred => 16,
                        });
                    }
                }
                if root == Root::St && reg_bits == 64 {
                    for operand in &mut inst.src[1..] {
                        if let Operand::Const { wide, .. } | Operand::Link { wide, .. } = operand {
                            *wide = true;
                        }
                    }
                }
            }
            Root::Atom | Root::Red => {
                for (i, operand) in data.iter().take(2).enumerate() {
                    if whole {
                        let Some(halves) = self.wide_source(operand) else { return };
                        inst.src[2 * i + 1..2 * i + 3].copy_from_slice(&halves);
                        continue;
                    }
                    inst.src[i + 1] = self.source(operand, ty, OperandSize::Exact);
                }
            }
            _ => {}
        }
        if space == StateSpace::Param {
            if self.func.entry && (address.param || address.space.is_none()) {
                match root {
                    Root::Ld | Root::Ldu => inst.class = OpClass::LoadParam,
                    // Of a tensor map.
                    Root::Prefetch => {}
                    _ => return self.error(ast.opcode, "space", "kernel parameters are read-only"),
                }
            } else {
                space = StateSpace::Local;
            }
        }
        if let Some(found) = address.space
            && found != space
            && !matches!((found, space), (StateSpace::Param, StateSpace::Local))
            && space != StateSpace::Generic
        {
            let message =
                format!("the variable is in .{found:?}; this operand must be an address in .{space:?}")
                    .to_lowercase();
            return self.error(ast.span, "space", message);
        }
        if space == StateSpace::Generic
            && let Some(found) = address.space
        {
            // A variable named directly tells its space.
            space = if found == StateSpace::Param { StateSpace::Local } else { found };
        }
        let mut facts = tf4_access_sizes::facts(&inst.form, space, reg_bits, address.wide);
        if ty == ScalarType::Pred {
            facts.element_bytes = 1;
        }
        if inst.src[4] != Operand::None && inst.form.mods.cache_hint {
            // Exchanges of 128 bits have no room for it.
            facts.policy = match root {
                Root::Atom | Root::Red if whole => Policy::None,
                Root::Atom | Root::Red => Policy::Operand(1),
                _ => Policy::Operand(0),
            };
        }
        inst.extra = Extra::Memory(facts);
        if inst.class == OpClass::Hint {
            // Of the line that one byte lies in.
            facts.element_bytes = 1;
            facts.hint = Some(match (root, facts.cache) {
                (Root::Discard, _) => CacheHint::Discard,
                (Root::Applypriority, _) => CacheHint::EvictNormal,
                (_, CacheOp::Cg) => CacheHint::PrefetchL2,
                _ => CacheHint::PrefetchL1,
            });
            inst.extra = Extra::Memory(facts);
        }
        self.push(inst);
    }

    pub(super) fn address(&mut self, operand: &AstOperand<'a>) -> Option<Address> {
        let (name, offset) = match &operand.kind {
            OperandKind::Address { base: Some(name), offset } => (*name, *offset),
            OperandKind::Address { base: None, offset } => {
                return Some(Address {
                    base: Operand::None,
                    offset: *offset,
                    wide: true,
                    space: None,
                    param: false,
                });
            }
            // The papers leave the brackets out.
            OperandKind::Name(name) if self.cx.module.papers => (*name, 0),
            _ => {
                self.error(operand.span, "address", "expected an address in brackets");
                return None;
            }
        };
        match self.lookup(name) {
            Some(Local::Reg(reg, _)) => {
                let wide = match self.func.regs[reg as usize] {
                    Width::Pair => true,
                    Width::Word => false,
                    Width::Half | Width::Pred => {
                        self.error(
                            operand.span,
                            "type",
                            format!("`{name}` cannot hold an address; use a 32-bit or 64-bit register"),
                        );
                        return None;
                    }
                };
                Some(Address { base: Operand::Reg(reg), offset, wide, space: None, param: false })
            }
            Some(Local::Param(at)) => Some(Address {
                base: Operand::None,
                offset: (at as i64).wrapping_add(offset),
                wide: true,
                space: Some(StateSpace::Param),
                param: true,
            }),
            Some(Local::Variable(space, at)) => {
                let in_frame = matches!(space, StateSpace::Local | StateSpace::Param);
                let base = self.func.stack_base.filter(|_| in_frame && !self.func.entry);
                Some(Address {
                    base: base.map_or(Operand::None, Operand::Reg),
                    offset: (at as i64).wrapping_add(offset),
                    wide: base.is_none(),
                    space: Some(space),
                    param: false,
                })
            }
            Some(Local::Linked(space, link)) => Some(linked(space, link, offset)),
            Some(Local::Wide(_)) => {
                let message = format!("`{name}` cannot hold an address; use a 32-bit or 64-bit register");
                self.error(operand.span, "type", message);
                None
            }
            Some(Local::Vector(..)) => {
                self.error(operand.span, "address", format!("`{name}` is a vector; expected a register"));
                None
            }
            None => match self.cx.symbols.get(name).copied() {
                Some(Symbol::Variable(_)) if self.opaque(name).is_some() => {
                    let message = format!(
                        "`{name}` is of an opaque type; only texture and surface instructions access it"
                    );
                    self.error(operand.span, "operand", message);
                    None
                }
                Some(Symbol::Variable(space)) => {
                    let link = self.link(Link::Variable(name.into()));
                    Some(linked(space, link, offset))
                }
                None if self.cx.module.papers => {
                    let reg = self.fresh(ScalarType::B32);
                    let _ = self.declare(name, Local::Reg(reg, ScalarType::B32));
                    Some(Address { base: Operand::Reg(reg), offset, wide: false, space: None, param: false })
                }
                _ => {
                    self.unknown(name, operand.span);
                    None
                }
            },
        }
    }
}

/// An operand has another number of elements than `wanted`.
fn other_length(operand: &OperandKind<'_>, wanted: u8) -> String {
    match operand {
        OperandKind::Vector(parts) if wanted == 1 => format!(
            "the vector operand has {} elements, but the instruction has no `.v2`, `.v4` or `.v8`; expected a scalar \
             operand",
            parts.len()
        ),
        OperandKind::Vector(parts) => {
            format!("the vector operand has {} elements; the instruction requires {wanted}", parts.len())
        }
        _ => format!("expected a vector of {wanted} elements"),
    }
}
