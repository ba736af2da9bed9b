//! `inspect`: what a chip is made of.

use sim_frontend::diagnostic::Diagnostic;
use sim_memory::programs::{Operation, TEXTS};

use super::{InspectArgs, complain, status, table};

/// The table of memory programs of a chip, or the text of one.
pub fn memory(args: &InspectArgs) -> u8 {
    let chip = match crate::configs::chip(&args.memory, &[]) {
        Ok((chip, _)) => chip,
        Err(errors) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
    };
    let memory = &chip.memory;
    let program = |operation: Operation| match memory.programs.get(operation.name()) {
        Some(choice) => (choice.name.as_str(), choice.text.as_deref(), true),
        None => (operation.program(memory.protocol), None, false),
    };
    if let Some(wanted) = &args.operation {
        let Some(&operation) = Operation::ALL.iter().find(|operation| operation.name() == wanted) else {
            let known: Vec<&str> = Operation::ALL.iter().map(|operation| operation.name()).collect();
            let message = format!("there is no operation `{wanted}`; there are: {}", known.join(", "));
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
    println!("scope gpu stands for cluster and sys too");
    status::DONE
}
