//! The frame of a function: where parameters and locals lie, and how registers go to it and come back.

use rustc_hash::FxHashMap;
use sim_memory::vocabulary::{ScalarType, StateSpace};

use super::{Context, Local, Symbol, Translator};
use crate::lower::ir::{Inst, Operand, Reg};
use crate::lower::tf3_stack::{FRAME_ALIGN, frame_access, layout, predicate_of_word, predicate_to_word};
use crate::lower::tf7_unique_names::Scopes;
use crate::ptx::ast::{Function, OperandKind, Statement, Storage, Variable};

impl<'a> Translator<'_, 'a> {
    /// Offsets of the frame: own parameters, locals, saved registers, then the parameters of
    /// calls, each where its call's callee looks for it.
    pub(super) fn plan_frame(&mut self, ast: &Function<'a>, body: &[Statement<'a>]) {
        let own = if ast.entry { 0 } else { layout(ast.returns.iter().chain(&ast.params)).1 };
        let mut locals: Vec<(bool, &Variable<'a>)> = Vec::new();
        let mut placed: FxHashMap<usize, Placed> = FxHashMap::default();
        let mut scopes: Scopes<'a, usize> = Scopes::default();
        gather(self.cx, body, &mut locals, &mut scopes, &mut placed);
        let mut at = u64::from(own);
        self.places = vec![0; locals.len()];
        // One that no call takes, or calls at different places, has a place of its own.
        let own_place =
            |i: usize, is_param: bool| !is_param || placed.get(&i).is_none_or(|p| p.offset.is_none());
        for (i, (is_param, variable)) in locals.iter().enumerate() {
            if own_place(i, *is_param) {
                at = at.next_multiple_of(variable.alignment());
                self.places[i] = at;
                at += variable.bytes().unwrap_or(0);
            }
        }
        let total =
            at.next_multiple_of(FRAME_ALIGN.into()) + u64::from(self.cx.saved.next_multiple_of(FRAME_ALIGN));
        self.frame = total.min(u32::MAX.into()) as u32;
        for (i, (is_param, variable)) in locals.iter().enumerate() {
            match placed.get(&i).filter(|_| *is_param) {
                Some(Placed { offset: Some(offset), .. }) => self.places[i] = total + offset,
                Some(Placed { offset: None, indirect: true }) => self.error(
                    variable.span,
                    "param",
                    format!("`{}` is passed to calls whose parameter layouts differ", variable.name),
                ),
                _ => {}
            }
        }
    }

    /// Return values in registers go to the frame.
    pub(super) fn returns_to_frame(&mut self, like: &Inst) {
        let ast = &self.cx.module.functions[self.function];
        if ast.entry {
            return;
        }
        let (offsets, _) = layout(ast.returns.iter());
        for (value, offset) in ast.returns.iter().zip(offsets) {
            if let (Storage::Register, Some(Local::Reg(reg, ty))) =
                (value.storage, self.names.find(value.name).copied())
            {
                let base = self.func.stack_base;
                self.store_to_frame(like, base, offset, Operand::Reg(reg), ty);
            }
        }
    }

    /// Stores a value to the frame, a predicate as a word.
    pub(super) fn store_to_frame(
        &mut self,
        like: &Inst,
        base: Option<Reg>,
        offset: u32,
        value: Operand,
        ty: ScalarType,
    ) {
        let (mut value, mut ty) = (value, ty);
        if let (Operand::Reg(reg), ScalarType::Pred) = (value, ty) {
            ty = ScalarType::B32;
            let word = self.fresh(ty);
            self.push(predicate_to_word(like, word, reg));
            value = Operand::Reg(word);
        }
        self.push(frame_access(like, true, base, offset, value, ty));
    }

    /// The load of a register's value from the frame, and what makes a predicate of the word.
    pub(super) fn load_from_frame(
        &mut self,
        like: &Inst,
        base: Option<Reg>,
        offset: u32,
        reg: Reg,
        ty: ScalarType,
    ) -> (Inst, Option<Inst>) {
        if ty != ScalarType::Pred {
            return (frame_access(like, false, base, offset, Operand::Reg(reg), ty), None);
        }
        let word = self.fresh(ScalarType::B32);
        let load = frame_access(like, false, base, offset, Operand::Reg(word), ScalarType::B32);
        (load, Some(predicate_of_word(like, reg, word)))
    }
}

/// Where calls look for a parameter variable.
struct Placed {
    /// From the end of the frame; `None` where calls differ.
    offset: Option<u64>,
    /// An indirect call takes it.
    indirect: bool,
}

/// Local and parameter variables in order of declaration, and where calls put the latter.
fn gather<'s, 'a>(
    cx: &Context<'_, 'a>,
    body: &'s [Statement<'a>],
    locals: &mut Vec<(bool, &'s Variable<'a>)>,
    scopes: &mut Scopes<'a, usize>,
    placed: &mut FxHashMap<usize, Placed>,
) {
    for statement in body {
        match statement {
            Statement::Declaration(variable) => {
                let is_param = variable.storage == Storage::Space(StateSpace::Param);
                if is_param || variable.storage == Storage::Space(StateSpace::Local) {
                    let _ = scopes.declare(variable.name, locals.len());
                    locals.push((is_param, variable));
                }
            }
            Statement::Block(inner) => {
                scopes.open();
                gather(cx, inner, locals, scopes, placed);
                scopes.close();
            }
            Statement::Instruction(instruction) if instruction.root == "call" => {
                let lists = instruction.operands.iter().filter_map(|o| match &o.kind {
                    OperandKind::List(list) => Some(list),
                    _ => None,
                });
                let callee = instruction.operands.iter().find_map(|o| match o.kind {
                    OperandKind::Name(name) => match cx.symbols.get(name)? {
                        Symbol::Function(index) => cx.module.functions.get(*index),
                        _ => cx.module.functions.iter().find(|f| f.name == name),
                    },
                    _ => None,
                });
                // An indirect call's list is laid out as it stands.
                let offsets = callee.map(|f| layout(f.returns.iter().chain(&f.params)).0);
                let mut at = 0u64;
                for (i, operand) in lists.flatten().enumerate() {
                    let OperandKind::Name(name) = operand.kind else { continue };
                    let Some(&id) = scopes.find(name) else { continue };
                    let variable = locals[id].1;
                    at = match offsets.as_ref().and_then(|offsets| offsets.get(i)) {
                        Some(offset) => u64::from(*offset),
                        None => at.next_multiple_of(variable.alignment()),
                    };
                    let slot = placed.entry(id).or_insert(Placed { offset: Some(at), indirect: false });
                    if slot.offset != Some(at) {
                        slot.offset = None;
                    }
                    slot.indirect |= offsets.is_none();
                    at += variable.bytes().unwrap_or(0);
                }
            }
            _ => {}
        }
    }
}
