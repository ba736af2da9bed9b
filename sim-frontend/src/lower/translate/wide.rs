//! Operands of more than 128 bits and `.b128` registers: a register of 128 bits is two of 64, and an access that is
//! wider than the memory side's becomes several, as do vector atomics, whose elements are atomic one by one (PTX ISA
//! "atom"). `multimem` is written with them: with one device it works on ordinary memory.

use sim_memory::vocabulary::{AtomicOp, ScalarType};

use super::{Local, Translator};
use crate::isa::{OperandShape, Root};
use crate::lower::ir::{Inst, Operand, Reg};
use crate::lower::tf1_validate::{OperandSize, mismatch};
use crate::lower::tf3_stack;
use crate::program::{Extra, OpClass, Text};
use crate::ptx::ast::{Instruction, Operand as AstOperand, OperandKind};

/// What listings show of the operations before the last one.
const PART: Text = Text::Made("a part of a wide operand");

/// Bytes that an access moves a lane at most.
const WIDEST: u32 = 16;

/// One access of several that an instruction becomes.
struct Piece<'a> {
    /// The elements, if the instruction has data.
    data: Option<AstOperand<'a>>,
    /// What an atomic returns.
    old: Option<AstOperand<'a>>,
    /// Bytes behind the instruction's address.
    offset: i64,
}

impl<'a> Translator<'_, 'a> {
    /// The halves of a `.b128` register, the lower one first.
    pub(super) fn halves(&mut self, operand: &AstOperand<'a>) -> Option<[Reg; 2]> {
        match operand.kind {
            OperandKind::Name(name) => match self.lookup(name) {
                Some(Local::Wide(low)) => Some([low, low + 1]),
                Some(Local::Reg(_, ty)) => {
                    self.error(operand.span, "type", mismatch(name, ty, ScalarType::B128));
                    self.also(self.declaration_of(name), "declared here");
                    None
                }
                None => {
                    self.unknown(name, operand.span);
                    None
                }
                Some(_) => {
                    self.error(operand.span, "operand", format!("expected a .b128 register, not `{name}`"));
                    None
                }
            },
            _ => {
                self.error(operand.span, "operand", "expected a .b128 register");
                None
            }
        }
    }

    /// The halves of a `.b128` operand that is read: a register or an integer constant.
    pub(super) fn wide_source(&mut self, operand: &AstOperand<'a>) -> Option<[Operand; 2]> {
        if let OperandKind::Int(value) = &operand.kind {
            let bits = value.value();
            let constant = |bits: u64| Operand::Const { bits, wide: true };
            return Some([constant(bits as u64), constant(if (bits as i64) < 0 { u64::MAX } else { 0 })]);
        }
        Some(self.halves(operand)?.map(Operand::Reg))
    }

    /// The halves of a `.b128` operand that is written; `_` has none.
    pub(super) fn wide_destination(&mut self, operand: &AstOperand<'a>) -> Option<[Operand; 2]> {
        match operand.kind {
            OperandKind::Sink => Some([Operand::None; 2]),
            _ => Some(self.halves(operand)?.map(Operand::Reg)),
        }
    }

    /// `mov.b128`: between registers, packing and unpacking.
    pub(super) fn mov_wide(&mut self, inst: &Inst, [to, from]: [&AstOperand<'a>; 2]) {
        let moves = match (&to.kind, &from.kind) {
            (OperandKind::Vector(parts), OperandKind::Vector(_)) => {
                let message = "packing and unpacking need a .b128 register on one side";
                return self.error(parts.first().map_or(to.span, |part| part.span), "vector", message);
            }
            (OperandKind::Vector(parts), _) => {
                let (Some(ty), Some(halves)) = (self.part_of_wide(parts, to), self.wide_source(from)) else {
                    return;
                };
                let parts: Vec<Operand> =
                    parts.iter().map(|part| self.destination(part, ty, OperandSize::Exact)).collect();
                let each = parts.len() / 2;
                halves.iter().zip(parts.chunks(each)).map(|(half, to)| (to.to_vec(), vec![*half])).collect()
            }
            (_, OperandKind::Vector(parts)) => {
                let (Some(ty), Some(halves)) = (self.part_of_wide(parts, from), self.wide_destination(to))
                else {
                    return;
                };
                let parts: Vec<Operand> =
                    parts.iter().map(|part| self.source(part, ty, OperandSize::Exact)).collect();
                let each = parts.len() / 2;
                halves
                    .iter()
                    .zip(parts.chunks(each))
                    .map(|(half, from)| (vec![*half], from.to_vec()))
                    .collect()
            }
            _ => {
                let (Some(to), Some(from)) = (self.wide_destination(to), self.wide_source(from)) else {
                    return;
                };
                (0..2).map(|half| (vec![to[half]], vec![from[half]])).collect::<Vec<_>>()
            }
        };
        let last = moves.len() - 1;
        for (i, (to, from)) in moves.into_iter().enumerate() {
            let mut half = tf3_stack::made(inst, OpClass::Data, Root::Mov, ScalarType::B64);
            half.text = if i == last { inst.text } else { PART };
            if to.len() > 1 {
                half.form.dst = ScalarType::B32;
            }
            if from.len() > 1 {
                half.form.ty = ScalarType::B32;
            }
            half.form.dst_reg = crate::form::register_bits(half.form.dst);
            half.form.src_reg = crate::form::register_bits(half.form.ty);
            half.form.mods.vector = to.len().max(from.len()) as u8;
            half.dst[..to.len()].copy_from_slice(&to);
            half.src[..from.len()].copy_from_slice(&from);
            self.push(half);
        }
    }

    /// The type of the elements that a `.b128` value is packed from or unpacked into.
    fn part_of_wide(&mut self, parts: &[AstOperand<'a>], whole: &AstOperand<'a>) -> Option<ScalarType> {
        match parts.len() {
            2 => Some(ScalarType::B64),
            4 => Some(ScalarType::B32),
            count => {
                let message = format!(
                    "a .b128 value cannot be packed from or unpacked into {count} elements; 2 (.b64) or 4 (.b32) \
                     are allowed"
                );
                self.error(whole.span, "vector", message);
                None
            }
        }
    }

    /// An access that the memory side does not make at once, as several; false if it is one. `operands` are those of
    /// the instruction without its cache policy.
    pub(super) fn in_pieces(
        &mut self,
        inst: &Inst,
        ast: &Instruction<'a>,
        operands: &[AstOperand<'a>],
    ) -> bool {
        let (root, vector) = (inst.form.root, usize::from(inst.form.mods.vector.max(1)));
        let bytes = inst.form.ty.bytes() * vector as u32;
        let atomic = matches!(root, Root::Atom | Root::Red);
        // Four elements and a policy are more than an operation has room for.
        let policy = root == Root::St && vector == 4 && inst.form.mods.cache_hint;
        if vector == 1 || !atomic && bytes <= WIDEST && vector <= 4 && !policy {
            return false;
        }
        let each = if policy {
            2
        } else if atomic {
            1
        } else {
            (WIDEST / inst.form.ty.bytes()).min(4) as usize
        };
        let (at, data, old) = match (root, operands) {
            (Root::Atom, [old, at, data]) => (at, Some(data), Some(old)),
            (Root::Ld, [data, at]) | (Root::St | Root::Red, [at, data]) => (at, Some(data), None),
            _ => return false,
        };
        let Some(data) = data.and_then(|data| self.elements_of(data, vector)) else { return true };
        let old = match old.map(|old| (&old.kind, old)) {
            Some((OperandKind::Sink, old)) => Some(vec![old.clone(); vector]),
            Some((_, old)) => match self.elements_of(old, vector) {
                Some(list) => Some(list),
                None => return true,
            },
            None => None,
        };
        let pieces = data.chunks(each).enumerate().map(|(i, elements)| Piece {
            data: Some(match elements {
                [one] => one.clone(),
                several => AstOperand { kind: OperandKind::Vector(several.to_vec()), span: several[0].span },
            }),
            old: old.as_ref().map(|old| old[i].clone()),
            offset: (i * each) as i64 * i64::from(inst.form.ty.bytes()),
        });
        let pieces: Vec<Piece<'a>> = pieces.collect();
        let start = self.position();
        let errors = self.errors.len();
        for piece in &pieces {
            let mut part = inst.clone();
            part.form.mods.vector = each as u8;
            let Some(at) = moved(at, piece.offset) else {
                self.error(at.span, "address", "expected an address in brackets");
                return true;
            };
            let operands: Vec<AstOperand<'a>> = match root {
                Root::Ld => piece.data.iter().cloned().chain([at]).collect(),
                Root::Atom => piece.old.iter().cloned().chain([at]).chain(piece.data.clone()).collect(),
                _ => [at].into_iter().chain(piece.data.clone()).collect(),
            };
            self.access(part, ast, &operands);
            // The other pieces would say the same.
            if self.errors.len() > errors {
                return true;
            }
        }
        self.apart(start, bytes);
        true
    }

    /// What was pushed from `start` on reads its operands before any of it writes a result; the whole is aligned to
    /// its bytes.
    fn apart(&mut self, start: usize, bytes: u32) {
        let mut parts = self.pushed_since(start);
        let mut copies = Vec::new();
        for i in 0..parts.len() {
            for slot in 0..parts[i].dst.len() {
                let result = parts[i].dst[slot];
                let Operand::Reg(reg) = result else { continue };
                let read_later = parts[i + 1..].iter().any(|later| later.src.contains(&result));
                if !read_later {
                    continue;
                }
                let ty = self.types[reg as usize];
                let between = self.fresh(ty);
                parts[i].dst[slot] = Operand::Reg(between);
                let mut copy = tf3_stack::made(&parts[i], OpClass::Data, Root::Mov, ty);
                copy.text = PART;
                (copy.dst[0], copy.src[0]) = (result, Operand::Reg(between));
                copies.push(copy);
            }
        }
        if let Some(Extra::Memory(facts)) = parts.first_mut().map(|first| &mut first.extra) {
            facts.alignment = bytes as u8;
        }
        let last = parts.len().saturating_sub(1);
        let text = parts.first().map_or(PART, |part| part.text);
        for (i, mut part) in parts.into_iter().enumerate() {
            part.text = if i == last && copies.is_empty() { text } else { PART };
            self.push(part);
        }
        let last = copies.len().saturating_sub(1);
        for (i, mut copy) in copies.into_iter().enumerate() {
            copy.text = if i == last { text } else { PART };
            self.push(copy);
        }
    }

    /// The elements of a vector operand.
    fn elements_of(&mut self, operand: &AstOperand<'a>, wanted: usize) -> Option<Vec<AstOperand<'a>>> {
        match self.as_list(operand).kind {
            OperandKind::Vector(list) if list.len() == wanted => Some(list),
            OperandKind::Vector(list) => {
                let message = format!(
                    "the vector operand has {} elements; the instruction requires {wanted}",
                    list.len()
                );
                self.error(operand.span, "vector", message);
                None
            }
            _ => {
                self.error(operand.span, "vector", format!("expected a vector of {wanted} elements"));
                None
            }
        }
    }

    /// `multimem.ld_reduce`, `.st`, `.red` and `.cp`: of one device, so that the reduction of a load is over one value.
    pub(super) fn multimem(&mut self, mut inst: Inst, ast: &Instruction<'a>, shapes: &[OperandShape]) {
        let step = ast.modifiers().next().unwrap_or_default();
        if step == "cp" {
            return self.asynchronous(inst, ast);
        }
        (inst.form.root, inst.class) = match step {
            "ld_reduce" => (Root::Ld, OpClass::Load),
            "st" => (Root::St, OpClass::Store),
            _ => (Root::Red, OpClass::Atomic),
        };
        if step == "ld_reduce" {
            inst.form.mods.atomic = None;
        }
        // `and`, `or`, `xor` are read as those of predicates where the root is no atomic.
        if step == "red" {
            inst.form.mods.atomic = ast.modifiers().find_map(|word| match word {
                "and" => Some(AtomicOp::And),
                "or" => Some(AtomicOp::Or),
                "xor" => Some(AtomicOp::Xor),
                "add" => Some(AtomicOp::Add),
                "min" => Some(AtomicOp::Min),
                "max" => Some(AtomicOp::Max),
                _ => None,
            });
        }
        inst.form.mods.bool_op = None;
        inst.form.mods.space = Some(sim_memory::vocabulary::StateSpace::Global);
        self.memory(inst, ast, shapes);
    }
}

/// The address so many bytes further.
fn moved<'a>(at: &AstOperand<'a>, by: i64) -> Option<AstOperand<'a>> {
    let kind = match at.kind {
        OperandKind::Address { base, offset } => {
            OperandKind::Address { base, offset: offset.checked_add(by)? }
        }
        OperandKind::Name(_) if by == 0 => at.kind.clone(),
        _ => return None,
    };
    Some(AstOperand { kind, span: at.span })
}
