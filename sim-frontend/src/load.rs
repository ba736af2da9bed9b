//! `load` of CS §5.1.3: from a module to the program environment of one entry [tf-load]:
//! instruction, guard, label, function, local and variable environments become one dense array
//! of operations whose names are numbers.

mod assemble;
mod header;
pub use header::target_of;
pub mod library;

use std::sync::Arc;

use sim_memory::vocabulary::StateSpace;

use self::assemble::{Fit, Parts, Reached, Request};
use crate::chip::AssemblerSpec;
use crate::diagnostic::{Diagnostic, Source, Span};
use crate::lower::tf2_fold_constants;
use crate::program::{ControlFlow, LaunchBounds, ParamInfo, Program, function_address};
use crate::ptx::ast::Module as Ast;
use crate::ptx::ast::{Init, MAX_VARIABLE, Opaque, OperandKind, Statement, Storage, Variable};
use crate::ptx::parser::parse;

/// A variable of global or constant memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalVariable {
    /// Name of the variable.
    pub name: String,
    /// State space: global or const.
    pub space: StateSpace,
    /// Size in bytes.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// Initial bytes; shorter than `size` where the rest is zero.
    pub init: Vec<u8>,
    /// Where it is declared.
    pub span: Span,
    /// Addresses to be written into it: offset, bytes, symbol, addend, generic.
    pub relocations: Vec<(u64, u32, String, i64, bool)>,
}

/// What a chip's assembler makes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assembler {
    /// Bytes of local memory of a thread where calls can recur.
    pub stack_bytes: u32,
    /// 32-bit registers of a thread at most. Where the assembler [cleans up](AssemblerSpec::clean_up), a kernel's bounds may
    /// ask for fewer.
    pub registers: u32,
    /// What is done to the program ([`clean_up`](crate::lower::clean_up), [`select`](crate::lower::select)).
    pub passes: AssemblerSpec,
}

/// A checked PTX module.
#[derive(Clone, Debug)]
pub struct Module {
    source: Source,
    papers: bool,
    entries: Vec<String>,
    /// Functions that can be called, with their addresses.
    functions: Vec<(String, u32)>,
    globals: Vec<GlobalVariable>,
    target_sm: u32,
    address_bits: u32,
    parts: Arc<Parts>,
}

/// Samplers have variables of their own in independent mode only.
fn samplers_of_unified_mode(source: &Source, ast: &Ast<'_>) -> Vec<Diagnostic> {
    let unified = !ast.target.contains(&"texmode_independent");
    let samplers = ast.variables.iter().filter(|variable| variable.opaque == Some(Opaque::Sampler));
    let error = |variable: &Variable<'_>| {
        let message =
            format!("`{}`: a .samplerref variable requires .target texmode_independent", variable.name);
        Diagnostic::error("target", message).at(variable.span, "").in_source(source)
    };
    samplers.filter(|_| unified).map(error).collect()
}

impl Module {
    /// Parses a module and checks everything that can be checked without addresses.
    ///
    /// # Errors
    /// Every error of the file.
    pub fn build(source: &Source, papers: bool) -> Result<Self, Vec<Diagnostic>> {
        let ast = parse(source, papers)?;
        let address_bits = address_bits(&ast);
        if source.is_all_the_users()
            && let Some(linked) = library::link(source, &ast, address_bits)
        {
            return Self::build(&linked, papers);
        }
        let mut errors = header::check(source, &ast);
        errors.extend(samplers_of_unified_mode(source, &ast));
        let mut globals = Vec::new();
        let inner = ast.functions.iter().flat_map(|function| {
            let list = local_globals(function.body.as_deref().unwrap_or_default());
            list.into_iter().map(move |variable| (Some(function.name), variable))
        });
        // A declaration of what another module defines is no variable: who names it has nothing to be linked to.
        let own = ast.variables.iter().filter(|variable| !assemble::is_declared_only(variable));
        for (function, variable) in own.map(|variable| (None, variable)).chain(inner) {
            let mut found = global(variable, source);
            if let (Some(function), Ok(Some(found))) = (function, &mut found) {
                found.name = variable.inner_name(function);
            }
            match found {
                Ok(Some(found)) => globals.push(found),
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        let parts = match Parts::of(source, &ast) {
            Ok(parts) if errors.is_empty() => Arc::new(parts),
            found => {
                errors.extend(found.err().unwrap_or_default());
                errors.sort_by_key(|e| e.labels.first().map_or(0, |(span, _)| span.start));
                return Err(errors);
            }
        };
        Ok(Self {
            source: source.clone(),
            papers: ast.papers,
            entries: ast
                .functions
                .iter()
                .filter(|f| f.entry && f.body.is_some())
                .map(|f| f.name.to_string())
                .collect(),
            functions: ast
                .functions
                .iter()
                .enumerate()
                .filter(|(_, f)| !f.entry && f.body.is_some())
                .map(|(i, f)| (f.name.to_string(), function_address(i)))
                .collect(),
            globals,
            target_sm: ast.target_sm().unwrap_or(0),
            address_bits,
            parts,
        })
    }

    /// Names of the entries.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(String::as_str)
    }

    /// The address of a function, as registers and tables in memory hold it.
    pub fn function_address(&self, name: &str) -> Option<u64> {
        self.functions.iter().find(|(own, _)| own == name).map(|(_, address)| u64::from(*address))
    }

    /// Variables to be allocated before a program can be made.
    pub fn globals(&self) -> &[GlobalVariable] {
        &self.globals
    }

    /// The `.target`, as major * 10 + minor; 0 in the papers' dialect.
    pub fn target_sm(&self) -> u32 {
        self.target_sm
    }

    /// Bits of an address.
    pub fn address_bits(&self) -> u32 {
        self.address_bits
    }

    /// The PTX text of the module.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The program of an entry; `address` gives the addresses of [`globals`](Self::globals).
    /// With injected control flow the plain program is its `base`. `stack_bytes` is the local
    /// memory of a thread where calls can recur.
    ///
    /// # Errors
    /// No such entry, or something the lowering cannot do; diagnostics with places.
    pub fn program(
        &self,
        entry: &str,
        address: &dyn Fn(&str) -> Option<u64>,
        flow: ControlFlow,
        stack_bytes: u32,
    ) -> Result<Arc<Program>, Vec<Diagnostic>> {
        let assembler = Assembler { stack_bytes, registers: u32::MAX, passes: AssemblerSpec::default() };
        self.program_for(entry, address, flow, assembler)
    }

    /// The same as an assembler makes it for a chip. Where a thread has at most `registers`: if its
    /// functions together need more, those that are live across a call are saved in local memory, as where
    /// calls recur; if one of them needs more, it spills.
    ///
    /// # Errors
    /// As [`program`](Self::program).
    pub fn program_for(
        &self,
        entry: &str,
        address: &dyn Fn(&str) -> Option<u64>,
        flow: ControlFlow,
        Assembler { stack_bytes, registers, passes }: Assembler,
    ) -> Result<Arc<Program>, Vec<Diagnostic>> {
        let Some(index) = self.parts.entry(entry) else {
            let known: Vec<&str> = self.entries().collect();
            let error = Diagnostic::error(
                "entry",
                format!("{} has no entry `{entry}`; it has: {}", self.source.name, known.join(", ")),
            );
            return Err(vec![error]);
        };
        let (source, papers) = (&self.source, self.papers);
        let request = Request { source, papers, entry: index, address, flow, stack_bytes, passes };
        let mut reached = Reached::of(&self.parts, &request)?;
        let saves = reached.can_save();
        let bounds = self.parts.params(index).map(|(_, bounds)| bounds).filter(|_| passes.clean_up);
        let bound = bounds.and_then(|bounds| reached.most_registers(&bounds));
        let registers = registers.min(bound.unwrap_or(u32::MAX)).saturating_sub(passes.reserved_registers);
        let mut make = |fit| assemble::program(&self.parts, &request, &mut reached, fit);
        // Control flow may take some registers of its own. What the last one comes to is what there is.
        let rows = |own: u32| Some(registers.saturating_sub(own).min(u16::MAX.into()) as u16);
        let most = Some(registers);
        let whole = Fit { saves: false, rows: None, most };
        let saving = saves.then_some(Fit { saves, ..whole });
        let spilling = [0, 4].map(|own| Fit { saves, rows: rows(own), most });
        for fit in [whole].into_iter().chain(saving).chain(spilling) {
            if let Some(program) = make(fit)? {
                return Ok(program);
            }
        }
        let last = make(Fit { saves, rows: rows(16), most: None })?;
        last.ok_or_else(|| vec![Diagnostic::error("registers", "no program fits").in_source(source)])
    }

    /// Parameters of an entry.
    pub fn params(&self, entry: &str) -> Option<(Vec<ParamInfo>, LaunchBounds)> {
        self.parts.params(self.parts.entry(entry)?)
    }
}

/// Bits of an address: before `.address_size` there were 32.
fn address_bits(ast: &Ast<'_>) -> u32 {
    ast.address_size.unwrap_or(if ast.version.is_some_and(|v| v < (2, 3)) { 32 } else { 64 })
}

/// Variables of global and constant memory that a body declares.
fn local_globals<'s, 'a>(body: &'s [Statement<'a>]) -> Vec<&'s Variable<'a>> {
    let mut out = Vec::new();
    for statement in body {
        match statement {
            Statement::Declaration(variable)
                if matches!(variable.storage, Storage::Space(StateSpace::Global | StateSpace::Const)) =>
            {
                out.push(variable);
            }
            Statement::Block(inner) => out.extend(local_globals(inner)),
            _ => {}
        }
    }
    out
}

/// A module-scope variable of global or constant memory with its initial bytes.
fn global(variable: &Variable<'_>, source: &Source) -> Result<Option<GlobalVariable>, Diagnostic> {
    let Storage::Space(space @ (StateSpace::Global | StateSpace::Const)) = variable.storage else {
        return Ok(None);
    };
    let mut out = GlobalVariable {
        name: variable.name.to_string(),
        space,
        size: 0,
        align: variable.alignment(),
        init: Vec::new(),
        span: variable.span,
        relocations: Vec::new(),
    };
    let mut elements = 0u64;
    // What is too large is refused where sizes are checked.
    let (Some(row), Some(whole)) = (variable.row_bytes(), variable.bytes()) else { return Ok(None) };
    if let Some(init) = &variable.init {
        fill(init, variable, &mut out, &mut elements, 0, source)?;
    }
    // `[]` takes its length from the initialiser.
    out.size = match variable.dims.first() {
        Some(None) => {
            let bytes = elements.max(1).checked_mul(variable.ty.bytes().into());
            let rows = bytes.and_then(|bytes| bytes.checked_next_multiple_of(row.max(1)));
            rows.unwrap_or(MAX_VARIABLE)
        }
        _ => whole,
    };
    if (out.init.len() as u64) > out.size {
        return Err(Diagnostic::error(
            "init",
            format!("`{}` has more initial values than elements", variable.name),
        )
        .at(variable.span, "")
        .in_source(source));
    }
    Ok(Some(out))
}

fn fill(
    init: &Init<'_>,
    variable: &Variable<'_>,
    out: &mut GlobalVariable,
    elements: &mut u64,
    depth: usize,
    source: &Source,
) -> Result<(), Diagnostic> {
    match init {
        Init::List(list) => {
            let begin = *elements;
            for inner in list {
                fill(inner, variable, out, elements, depth + 1, source)?;
            }
            // An inner list that is short is filled with zeros.
            if depth > 0 {
                let row: u64 = variable.dims.iter().skip(depth).map(|d| d.unwrap_or(1)).product::<u64>()
                    * u64::from(variable.vector);
                *elements = begin.saturating_add(row.max(*elements - begin));
            }
            Ok(())
        }
        Init::Value(operand) => {
            let bytes = variable.ty.bytes() as usize;
            let at = (*elements as usize).saturating_mul(bytes);
            *elements = elements.saturating_add(1);
            if at > 1 << 32 {
                return Err(Diagnostic::error("init", "this initializer is too long")
                    .at(operand.span, "")
                    .in_source(source));
            }
            out.init.resize((at + bytes).max(out.init.len()), 0);
            if let OperandKind::Offset { name, offset, generic } = &operand.kind {
                out.relocations.push((at as u64, bytes as u32, name.to_string(), *offset, *generic));
                return Ok(());
            }
            let Some(bits) = tf2_fold_constants::bits(&operand.kind, variable.ty, true) else {
                return Err(Diagnostic::error(
                    "init",
                    format!("this is not a .{} value", variable.ty.name()),
                )
                .at(operand.span, "")
                .in_source(source));
            };
            let value = bits.to_le_bytes();
            let n = bytes.min(8);
            out.init[at..at + n].copy_from_slice(&value[..n]);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
