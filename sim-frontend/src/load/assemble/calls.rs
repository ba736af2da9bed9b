//! Who calls whom: what may run, in which order, and what that takes of stack and registers.

use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use crate::lower::ir::Func;
use crate::ptx::ast::{Function, Init, Module as Ast, OperandKind};

/// Functions of the module whose address is taken, by a variable's initial value or by one of
/// `functions`.
pub(super) fn with_address<'f>(ast: &Ast<'_>, functions: impl Iterator<Item = &'f Func>) -> BTreeSet<usize> {
    fn in_init<'a>(init: &Init<'a>, found: &mut FxHashSet<&'a str>) {
        match init {
            Init::List(list) => list.iter().for_each(|inner| in_init(inner, found)),
            Init::Value(operand) => {
                if let OperandKind::Offset { name, .. } | OperandKind::Name(name) = operand.kind {
                    found.insert(name);
                }
            }
        }
    }
    let mut found = FxHashSet::default();
    ast.variables.iter().filter_map(|v| v.init.as_ref()).for_each(|init| in_init(init, &mut found));
    let named = |f: &Function<'_>| !f.entry && f.body.is_some() && found.contains(f.name);
    let in_variables = (0..ast.functions.len()).filter(|i| named(&ast.functions[*i]));
    in_variables.chain(functions.flat_map(|func| func.addressed.iter().copied())).collect()
}

/// Who calls whom among the functions of a program, by their places in it.
pub(super) struct Calls {
    /// By function: those it calls, in the order of the module.
    pub(super) callees: Vec<Vec<usize>>,
    /// By function: those that call it, in the order of the program.
    pub(super) callers: Vec<Vec<usize>>,
}

impl Calls {
    pub(super) fn new(functions: &[(usize, Arc<Func>)]) -> Self {
        let places: FxHashMap<usize, usize> = functions.iter().map(|(f, _)| *f).zip(0..).collect();
        let mut callers = vec![Vec::new(); functions.len()];
        let callees = functions.iter().zip(0..).map(|((_, func), from)| {
            let callees: Vec<usize> = func.callees.iter().filter_map(|f| places.get(f).copied()).collect();
            callees.iter().for_each(|to| callers[*to].push(from));
            callees
        });
        let callees = callees.collect();
        Self { callees, callers }
    }

    /// Callers before those they call, of several the first one in the program; `None` where a function
    /// can be called while it runs.
    pub(super) fn callers_first(&self) -> Option<Vec<usize>> {
        let mut left: Vec<usize> = self.callers.iter().map(Vec::len).collect();
        let free = left.iter().enumerate().filter(|(_, callers)| **callers == 0);
        let mut free: BinaryHeap<Reverse<usize>> = free.map(|(place, _)| Reverse(place)).collect();
        let mut order = Vec::with_capacity(left.len());
        while let Some(Reverse(next)) = free.pop() {
            order.push(next);
            for &callee in &self.callees[next] {
                left[callee] -= 1;
                if left[callee] == 0 {
                    free.push(Reverse(callee));
                }
            }
        }
        (order.len() == left.len()).then_some(order)
    }

    /// Bytes of the frames of the first function and of what it calls; `order` has callers before those
    /// they call.
    pub(super) fn frame_need(&self, functions: &[(usize, Arc<Func>)], order: &[usize]) -> u32 {
        let mut needs = vec![0u32; functions.len()];
        for &place in order.iter().rev() {
            let func = &functions[place].1;
            let deeper = self.callees[place].iter().map(|callee| needs[*callee]).max().unwrap_or(0);
            // Parameters of calls to functions that are not defined here lie behind the frame too.
            let behind = if func.stack_base.is_some() { 64 } else { 0 };
            needs[place] = func.frame_bytes.saturating_add(deeper).saturating_add(behind);
        }
        needs.first().copied().unwrap_or(0)
    }
}
