//! Calls: parameters lie in the frame, which moves.

use std::sync::Arc;

use sim_memory::vocabulary::{ScalarType, StateSpace};

use super::{Local, Symbol, Translator};
use crate::diagnostic::Span;
use crate::lower::ir::{Callee, Inst, Operand, PredOperand};
use crate::lower::tf1_validate::mismatch;
use crate::lower::tf3_stack::{adjust, frame_bytes};
use crate::lower::{tf2_fold_constants, tf3_stack};
use crate::program::OpClass;
use crate::ptx::ast::{Instruction, Operand as AstOperand, OperandKind};

/// How functions are called by which a kernel launches others.
const LAUNCHES: [&str; 4] =
    ["cudaLaunchDevice", "cudaGetParameterBuffer", "__cudaCDP2LaunchDevice", "__cudaCDP2GetParameterBuffer"];
/// The code of what is said of them.
const DYNAMIC_PARALLELISM: &str = "dynamic_parallelism";

impl<'a> Translator<'_, 'a> {
    /// A name is that of a kernel of the module.
    pub(super) fn is_kernel(&self, name: &str) -> bool {
        self.cx.module.functions.iter().any(|function| function.entry && function.name == name)
    }

    /// The function launches kernels, by what it does here: it stops those that reach the function, not the module.
    pub(super) fn launches_kernels(&mut self, what: &str, span: Span) {
        if self.func.refused.iter().any(|found| found.code == DYNAMIC_PARALLELISM) {
            return;
        }
        let before = self.errors.len();
        let kind = if self.func.entry { "kernel" } else { "function" };
        let message = format!(
            "the {kind} `{}` {what}: kernels that launch kernels (dynamic parallelism) are not supported",
            self.func.name
        );
        self.error(span, DYNAMIC_PARALLELISM, message);
        self.help("launch them from the host; kernels of this module that launch none can run".into());
        self.refuse_since(before);
    }

    /// `call (ret), f, (args), proto`: parameters lie in the frame; the stack base moves.
    pub(super) fn call(&mut self, mut inst: Inst, ast: &Instruction<'a>) {
        let mut operands = ast.operands.iter().peekable();
        let list = |o: &&AstOperand<'a>| matches!(o.kind, OperandKind::List(_));
        let returns = operands.next_if(|o| list(o));
        let Some(target) = operands.next() else { return self.count(ast, "at least 1") };
        let arguments = operands.next_if(|o| list(o));
        inst.class = OpClass::Call;
        let name = match &target.kind {
            OperandKind::Name(name) => *name,
            _ => return self.error(target.span, "call", "expected a function or a register"),
        };
        match self.lookup(name) {
            Some(Local::Reg(reg, _)) => {
                inst.class = OpClass::CallIndirect;
                inst.src[0] = Operand::Reg(reg);
            }
            _ => match self.cx.symbols.get(name) {
                Some(Symbol::Function(index)) => inst.callee = Callee::Function(*index),
                Some(Symbol::Undefined) => {
                    if LAUNCHES.iter().any(|prefix| name.starts_with(prefix)) {
                        self.launches_kernels(&format!("calls `{name}`"), target.span);
                    }
                    inst.class = OpClass::Unsupported;
                    inst.unsupported = Some(Arc::from(format!("`{name}` is not defined in this module")));
                }
                Some(Symbol::Variable(..)) => {
                    let message =
                        format!("`{name}` is a variable; a call target must be a function or a register");
                    return self.error(target.span, "call", message);
                }
                None => return self.unknown(name, target.span),
            },
        }
        if inst.class == OpClass::CallIndirect && operands.next().is_none() && !self.cx.module.papers {
            self.error(ast.span, "call", "an indirect call requires a prototype or a list of targets");
            return self.help(
                "give the label of a .callprototype or .calltargets directive as the last operand".into(),
            );
        }
        let base = self.func.stack_base;
        let frame = self.frame;
        let items = |o: Option<&AstOperand<'a>>| match o.map(|o| &o.kind) {
            Some(OperandKind::List(list)) => list.clone(),
            _ => Vec::new(),
        };
        let (returns, arguments) = (items(returns), items(arguments));
        let module = self.cx.module;
        // Where the callee finds each value; an indirect call has only its own list to go by.
        let expected = match inst.callee {
            Callee::Function(index) => {
                let callee = &module.functions[index];
                let (offsets, _) = tf3_stack::layout(callee.returns.iter().chain(&callee.params));
                let given = (returns.len(), arguments.len());
                if given != (callee.returns.len(), callee.params.len()) {
                    let message = format!(
                        "`{}` has {} return values and {} parameters; the call has {} and {}",
                        callee.name,
                        callee.returns.len(),
                        callee.params.len(),
                        given.0,
                        given.1
                    );
                    return self.error(ast.span, "call", message);
                }
                Some((callee, offsets))
            }
            _ => None,
        };
        // Registers and constants go to the frame before, results come from it after.
        if let Callee::Function(index) = inst.callee {
            self.argument_sizes(index, returns.iter().chain(&arguments));
        }
        let mut at = 0u32;
        let (mut after, mut tests) = (Vec::new(), Vec::new());
        let (mut variables, mut registers) = (false, false);
        for (i, operand) in returns.iter().chain(&arguments).enumerate() {
            let is_return = i < returns.len();
            let (value, ty, bytes) = match &operand.kind {
                OperandKind::Name(name) => match self.lookup(name) {
                    Some(Local::Reg(reg, ty)) => (Operand::Reg(reg), ty, frame_bytes(ty)),
                    Some(Local::Variable(StateSpace::Param, own)) => {
                        variables = true;
                        let place = expected.as_ref().map(|(_, offsets)| u64::from(frame + offsets[i]));
                        if let Some(place) = place.filter(|place| *place != own) {
                            let bytes = self.bytes_of(name).unwrap_or(0);
                            let (from, to) = if is_return { (place, own) } else { (own, place) };
                            let copy = self.copy_in_frame(&inst, from, to, bytes);
                            if is_return {
                                after.extend(copy)
                            } else {
                                copy.into_iter().for_each(|i| self.push(i))
                            }
                        }
                        continue;
                    }
                    _ => {
                        self.unknown(name, operand.span);
                        continue;
                    }
                },
                OperandKind::Sink => continue,
                literal if !is_return => {
                    // It has the type of the parameter.
                    let ty = expected.as_ref().map_or(ScalarType::B32, |(callee, _)| {
                        callee.params.get(i - returns.len()).map_or(ScalarType::B32, |param| param.ty)
                    });
                    let bits = match ty {
                        ScalarType::Pred => None,
                        ty => tf2_fold_constants::bits(literal, ty, module.papers),
                    };
                    let Some(bits) = bits else {
                        let message = format!("this argument cannot be a .{} value", ty.name());
                        self.error(operand.span, "type", message);
                        continue;
                    };
                    (Operand::Const { bits, wide: ty.bits() > 32 }, ty, ty.bytes())
                }
                _ => {
                    self.error(
                        operand.span,
                        "call",
                        "the return operand must be a register or a .param variable",
                    );
                    continue;
                }
            };
            registers = true;
            at = match &expected {
                Some((_, offsets)) => offsets[i],
                None => at.next_multiple_of(bytes.max(1)),
            };
            match value {
                Operand::Reg(reg) if is_return => {
                    let (load, test) = self.load_from_frame(&inst, base, frame + at, reg, ty);
                    after.push(load);
                    tests.extend(test);
                }
                _ => self.store_to_frame(&inst, base, frame + at, value, ty),
            }
            at += bytes;
        }
        if expected.is_none() && variables && registers && inst.class == OpClass::CallIndirect {
            let message = "the arguments of an indirect call must be all registers or all .param variables: with both, the parameter layout that the callee expects is unknown";
            return self.error(ast.span, "call", message);
        }
        let moves = base.filter(|_| inst.class != OpClass::Unsupported);
        if let Some(base) = moves {
            let up = adjust(&inst, base, frame, true);
            self.push(up);
        }
        let down = moves.map(|base| adjust(&inst, base, frame, false));
        // A result that is the guard's own register changes last: the guard holds for all of them.
        if let PredOperand::Reg(guard, _) = inst.guard {
            tests.sort_by_key(|test: &Inst| matches!(test.pdst[0], PredOperand::Reg(reg, _) if reg == guard));
        }
        self.push(inst);
        down.into_iter().chain(after).chain(tests).for_each(|i| self.push(i));
    }

    /// Copies bytes of the frame, where a parameter variable lies elsewhere than a callee looks for it.
    fn copy_in_frame(&mut self, like: &Inst, from: u64, to: u64, bytes: u64) -> Vec<Inst> {
        let base = self.func.stack_base;
        let mut copy = Vec::new();
        let mut at = 0;
        while at < bytes {
            let fits = |size: u64| {
                (from + at).is_multiple_of(size) && (to + at).is_multiple_of(size) && at + size <= bytes
            };
            let ty = match () {
                () if fits(8) => ScalarType::B64,
                () if fits(4) => ScalarType::B32,
                () if fits(2) => ScalarType::B16,
                () => ScalarType::B8,
            };
            let reg = self.fresh(ty);
            let offset = |start: u64| (start + at).min(u32::MAX.into()) as u32;
            copy.push(tf3_stack::frame_access(like, false, base, offset(from), Operand::Reg(reg), ty));
            copy.push(tf3_stack::frame_access(like, true, base, offset(to), Operand::Reg(reg), ty));
            at += u64::from(ty.bytes());
        }
        copy
    }

    /// Values given and taken have the sizes of the callee's parameters.
    pub(super) fn argument_sizes<'o>(
        &mut self,
        callee: usize,
        given: impl Iterator<Item = &'o AstOperand<'a>>,
    ) where
        'a: 'o,
    {
        let module = self.cx.module;
        let callee = &module.functions[callee];
        for (param, operand) in callee.returns.iter().chain(&callee.params).zip(given) {
            let OperandKind::Name(name) = operand.kind else { continue };
            let bytes = match self.lookup(name) {
                Some(Local::Reg(_, ty)) if (ty == ScalarType::Pred) != (param.ty == ScalarType::Pred) => {
                    self.error(operand.span, "type", mismatch(name, ty, param.ty));
                    self.also(Some(param.span), "the parameter");
                    continue;
                }
                Some(Local::Reg(_, ty)) => Some(u64::from(frame_bytes(ty))),
                Some(Local::Variable(StateSpace::Param, _)) => self.bytes_of(name),
                _ => None,
            };
            let wanted = param.bytes().unwrap_or(0);
            if let Some(bytes) = bytes.filter(|bytes| *bytes != wanted) {
                let message = format!(
                    "argument `{name}` has {bytes} bytes; parameter `{}` of `{}` has {wanted}",
                    param.name, callee.name
                );
                self.error(operand.span, "call", message);
                self.also(Some(param.span), "the parameter");
            }
        }
    }
}
