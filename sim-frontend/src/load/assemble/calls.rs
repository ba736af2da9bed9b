//! Who calls whom: what may run, in which order, and what that takes of stack and registers.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::lower::ir::Func;
use crate::ptx::ast::{Function, Init, Module as Ast, OperandKind};

/// Functions of the module whose address is taken, by a variable's initial value or by one of
/// `functions`.
pub(super) fn with_address<'f>(ast: &Ast<'_>, functions: impl Iterator<Item = &'f Func>) -> BTreeSet<usize> {
    fn in_init<'a>(init: &Init<'a>, found: &mut Vec<&'a str>) {
        match init {
            Init::List(list) => list.iter().for_each(|inner| in_init(inner, found)),
            Init::Value(operand) => {
                if let OperandKind::Offset { name, .. } | OperandKind::Name(name) = operand.kind {
                    found.push(name);
                }
            }
        }
    }
    let mut found = Vec::new();
    ast.variables.iter().filter_map(|v| v.init.as_ref()).for_each(|init| in_init(init, &mut found));
    let named = |f: &Function<'_>| !f.entry && f.body.is_some() && found.contains(&f.name);
    let in_variables = (0..ast.functions.len()).filter(|i| named(&ast.functions[*i]));
    in_variables.chain(functions.flat_map(|func| func.addressed.iter().copied())).collect()
}

/// A function can be called while it runs.
pub(super) fn is_cyclic(functions: &[(usize, Arc<Func>)]) -> bool {
    fn visit(
        f: usize,
        functions: &[(usize, Arc<Func>)],
        path: &mut Vec<usize>,
        done: &mut BTreeSet<usize>,
    ) -> bool {
        if path.contains(&f) {
            return true;
        }
        if !done.insert(f) {
            return false;
        }
        path.push(f);
        let func = functions.iter().find(|(g, _)| *g == f);
        let cyclic =
            func.is_some_and(|(_, func)| func.callees.iter().any(|g| visit(*g, functions, path, done)));
        path.pop();
        cyclic
    }
    functions.first().is_some_and(|(f, _)| visit(*f, functions, &mut Vec::new(), &mut BTreeSet::new()))
}

/// For each function, the functions whose registers it must leave alone: none where calls save
/// registers, else those that call it, which come before it.
pub(super) fn register_bases(functions: &[(usize, Arc<Func>)], saves: bool, calls: bool) -> Vec<Vec<usize>> {
    let callers = |f: usize| -> Vec<usize> {
        functions.iter().filter(|(_, func)| func.callees.contains(&f)).map(|(g, _)| *g).collect()
    };
    functions.iter().map(|(f, _)| if saves || !calls { Vec::new() } else { callers(*f) }).collect()
}

/// Callers before the functions they call, which do not recur; the entry stays first.
pub(super) fn callers_first(functions: Vec<(usize, Arc<Func>)>) -> Vec<(usize, Arc<Func>)> {
    let mut left: Vec<Option<(usize, Arc<Func>)>> = functions.into_iter().map(Some).collect();
    let mut out = Vec::with_capacity(left.len());
    while out.len() < left.len() {
        let called: BTreeSet<usize> =
            left.iter().flatten().flat_map(|(_, func)| func.callees.iter().copied()).collect();
        let free =
            |slot: &Option<(usize, Arc<Func>)>| slot.as_ref().is_some_and(|(f, _)| !called.contains(f));
        match left.iter_mut().find(|slot| free(slot)).and_then(Option::take) {
            Some(next) => out.push(next),
            // A cycle, which there is none of here.
            None => out.extend(left.iter_mut().filter_map(Option::take)),
        }
    }
    out
}

/// Bytes of the frames of function `index` and of what it calls.
pub(super) fn frame_need(functions: &[(usize, Arc<Func>)], index: usize) -> u32 {
    let (_, func) = &functions[index];
    let deeper = func
        .callees
        .iter()
        .filter_map(|f| functions.iter().position(|(g, _)| g == f))
        .map(|i| frame_need(functions, i))
        .max()
        .unwrap_or(0);
    // Parameters of calls to functions that are not defined here lie behind the frame too.
    func.frame_bytes.saturating_add(deeper).saturating_add(if func.stack_base.is_some() { 64 } else { 0 })
}
