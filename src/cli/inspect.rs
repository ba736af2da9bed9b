//! `inspect`: what can be said of a program without running it, and the memory programs of a chip.

mod program;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::Args;

use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::fairness::{self, Verdict};
use sim_frontend::load::Module;
use sim_frontend::program::ControlFlow;
use sim_memory::address_space::Allocations;
use sim_memory::programs::{Operation, TEXTS};
use sim_memory::vocabulary::StateSpace;

use crate::console::{complain, status, table};

/// One of three things is inspected.
const USAGE: &str =
    "warpsim inspect [--entry ENTRY] [--chip CHIP] [--set KEY=VALUE] [--block THREADS] [--graphviz] FILE
       warpsim inspect --memory CHIP [--operation OPERATION]
       warpsim inspect --liveness FILE";

/// Options of `inspect`.
#[derive(Args, Clone, Debug)]
#[group(skip)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["file", "memory", "liveness"])))]
#[command(override_usage = USAGE)]
pub struct InspectArgs {
    /// A .ptx file. Shows control-flow graphs with post-dominators and injected instructions, loops, branches that
    /// may diverge, memory instructions by state space, registers and occupancy.
    #[arg(conflicts_with_all = ["memory", "liveness"])]
    pub file: Option<PathBuf>,
    /// Kernel. Default: all kernels of the file.
    #[arg(long, requires = "file")]
    pub entry: Option<String>,
    /// Chip for the occupancy. Default: the smallest shipped chip that supports the target of the file; gtx480 if
    /// there is none.
    #[arg(long)]
    pub chip: Option<String>,
    /// Override of a key of the chip, as for `run --set`: `assembler.three_inputs=true` shows what that pass leaves.
    #[arg(long, value_name = "KEY=VALUE", requires = "file")]
    pub set: Vec<String>,
    /// Threads per block for the occupancy. Default: from the kernel's directives, else 256.
    #[arg(long, value_name = "THREADS", requires = "file", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub block: Option<u32>,
    /// Prints the control-flow graphs in Graphviz format.
    #[arg(long, requires = "file")]
    pub graphviz: bool,
    /// Lists the memory operations of a chip (a name or a file), each with the name of its memory program: the
    /// sequence of micro-operations that carries it out.
    #[arg(long, value_name = "CHIP", conflicts_with = "liveness")]
    pub memory: Option<String>,
    /// Prints the memory program of an operation, such as ld.global.ca.
    #[arg(long, value_name = "OPERATION", requires = "memory")]
    pub operation: Option<String>,
    /// A .ptx file. Lists its loops and for each whether unfair scheduling can prevent its termination, and why.
    #[arg(long, value_name = "FILE")]
    pub liveness: Option<PathBuf>,
}

/// Runs the command.
pub fn inspect(args: &InspectArgs) -> u8 {
    match (&args.file, &args.liveness, &args.memory) {
        (Some(file), ..) => program::program(file, args),
        (_, Some(file), _) => liveness(file),
        (.., Some(chip)) => memory(chip, args.operation.as_deref()),
        // The command line asks for one of them.
        (None, None, None) => status::BAD_INPUT,
    }
}

/// The loops of a file's kernels, and whether unfair scheduling may keep them going.
fn liveness(file: &Path) -> u8 {
    let source = match crate::configs::read(file) {
        Ok(source) => source,
        Err(error) => {
            complain(&[error]);
            return status::BAD_INPUT;
        }
    };
    let module = match Module::build(&source, false) {
        Ok(module) => module,
        Err(errors) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
    };
    let addresses = addresses(&module);
    let mut out = table(&["kernel", "function", "lines", "verdict", "because of line"]);
    for entry in module.entries() {
        let program = match module.program(entry, &|name| addresses(name), ControlFlow::Plain, STACK_BYTES) {
            Ok(program) => program,
            Err(errors) => {
                complain(&errors);
                return status::BAD_INPUT;
            }
        };
        let found = fairness::loops(&program);
        if found.is_empty() {
            out.add_row([entry, "", "", "no loops", ""]);
        }
        for one in found {
            let what = if one.recursion { "recursion " } else { "" };
            let lines = format!("{what}{}–{}", one.lines.0, one.lines.1);
            let (verdict, why) = match one.verdict {
                Verdict::Independent => {
                    ("terminates if each thread terminates when run alone", String::new())
                }
                Verdict::Affected { line, reason } => {
                    ("may be affected by unfair scheduling", format!("{line}: {reason}"))
                }
                Verdict::Endless => ("has no exit", String::new()),
            };
            out.add_row([entry, &one.function, &lines, verdict, &why]);
        }
    }
    println!("{out}");
    status::DONE
}

/// Where a run without buffers puts the variables of a module: constants of the program, so what is made
/// of it depends on them.
fn addresses(module: &Module) -> impl Fn(&str) -> Option<u64> {
    let mut memory = Allocations::new(u64::MAX >> 16, u64::MAX >> 16);
    let mut list = HashMap::new();
    for variable in module.globals() {
        let at = match variable.space {
            StateSpace::Const => memory.constant(&variable.name, variable.size, variable.align),
            _ => memory.global(&variable.name, variable.size),
        };
        list.extend(at.map(|at| (variable.name.clone(), at)));
    }
    move |name| list.get(name).copied()
}

/// Local memory of a thread where calls can recur; the analysis does not depend on it.
const STACK_BYTES: u32 = 8 << 10;

/// The table of memory programs of a chip, or the text of one.
fn memory(chip: &str, operation: Option<&str>) -> u8 {
    let chip = match crate::configs::chip(chip, &[]) {
        Ok((chip, _)) => chip,
        Err(errors) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
    };
    let memory = &chip.memory;
    let program = |operation: Operation| match memory.programs.get(operation.name()) {
        Some(choice) => (choice.name.as_str(), choice.text.as_deref(), true),
        None => (operation.program_on(memory.protocol, chip.capability()), None, false),
    };
    if let Some(wanted) = operation {
        let Some(&operation) = Operation::ALL.iter().find(|operation| operation.name() == wanted) else {
            let known: Vec<&str> = Operation::ALL.iter().map(|operation| operation.name()).collect();
            let message = format!("there is no operation `{wanted}`; available: {}", known.join(", "));
            complain(&[Diagnostic::error("operation", message)]);
            return status::BAD_INPUT;
        };
        let (name, own, _) = program(operation);
        let shipped = TEXTS.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text);
        println!("// {wanted} on {}: {name}", chip.name);
        print!("{}", own.or(shipped).unwrap_or_default());
        return status::DONE;
    }
    let mut out = table(&["operation", "space", "operator or semantics", "scope", "program", ""]);
    for &operation in Operation::ALL {
        let mut parts = operation.name().split('.');
        let mut part = || parts.next().unwrap_or("");
        let (kind, second, third, fourth) = (part(), part(), part(), part());
        // A fence has a scope and no state space.
        let (space, semantics, scope) =
            if kind == "fence" { ("", "", second) } else { (second, third, fourth) };
        let (name, _, chosen) = program(operation);
        out.add_row([kind, space, semantics, scope, name, if chosen { "named by the chip" } else { "" }]);
    }
    println!("{out}");
    println!("rows with scope gpu also apply to scopes cluster and sys");
    status::DONE
}
