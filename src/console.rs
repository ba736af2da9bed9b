//! What the commands print: diagnostics, tables, and their exit statuses.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::OnceLock;

use sim_frontend::diagnostic::Diagnostic;

/// Exit statuses.
pub mod status {
    /// Done, and right or unchecked.
    pub const DONE: u8 = 0;
    /// Results differ.
    pub const DIFFERS: u8 = 1;
    /// Bad input or usage.
    pub const BAD_INPUT: u8 = 2;
    /// A simulated fault, check violation, deadlock, or the limit of cycles.
    pub const FAULT: u8 = 3;
    /// A verdict is `unknown`.
    pub const UNKNOWN: u8 = 4;
    /// Stopped by Ctrl-C.
    pub const INTERRUPTED: u8 = 130;
}

/// When what is printed for people has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

static COLOUR: OnceLock<Colour> = OnceLock::new();

/// Sets when there are colours, once.
pub fn colours(when: Colour) {
    let _ = COLOUR.set(when);
}

/// Whether what goes to a stream has colours; `terminal`: it is one.
fn coloured(when: Colour, terminal: bool, no_colour: Option<&std::ffi::OsStr>) -> bool {
    match when {
        Colour::Always => true,
        Colour::Never => false,
        // As no-color.org has it: set, and not empty.
        Colour::Auto => terminal && no_colour.is_none_or(std::ffi::OsStr::is_empty),
    }
}

/// Prints diagnostics; those that say the same of other places are counted.
pub fn complain(errors: &[Diagnostic]) {
    let when = COLOUR.get().copied().unwrap_or_default();
    let terminal = std::io::stderr().is_terminal();
    let coloured = coloured(when, terminal, std::env::var_os("NO_COLOR").as_deref());
    for (error, others) in grouped(errors) {
        eprintln!("{}", if coloured { error.render_coloured() } else { error.render() });
        if !others.is_empty() {
            let places: Vec<String> = others.iter().take(3).filter_map(|other| other.place()).collect();
            let rest = if others.len() > places.len() { ", …" } else { "" };
            eprintln!("  = {} more like this: {}{rest}", others.len(), places.join(", "));
        }
    }
}

/// Each diagnostic with the later ones that say the same.
fn grouped(errors: &[Diagnostic]) -> Vec<(&Diagnostic, Vec<&Diagnostic>)> {
    let mut groups: Vec<(&Diagnostic, Vec<&Diagnostic>)> = Vec::new();
    let mut seen = HashMap::new();
    for error in errors {
        match seen.get(&(error.code, error.message.as_str())) {
            Some(&at) => {
                let (_, others): &mut (_, Vec<&Diagnostic>) = &mut groups[at];
                others.push(error);
            }
            None => {
                seen.insert((error.code, error.message.as_str()), groups.len());
                groups.push((error, Vec::new()));
            }
        }
    }
    groups
}

/// Says that nothing can be printed; gives the exit status. Whoever reads the output may stop reading, as
/// `head` does: that is no fault.
pub fn unprinted(reason: &str) -> u8 {
    if reason.contains("Broken pipe") {
        return status::DONE;
    }
    eprintln!("error: the output cannot be printed: {}", crate::files::reason(&reason));
    status::BAD_INPUT
}

/// A table for people.
pub fn table(header: &[&str]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.set_header(header.to_vec());
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    if !std::io::stdout().is_terminal() {
        table.set_width(120);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_want_them() {
        let set = |text: &'static str| Some(std::ffi::OsStr::new(text));
        assert!(coloured(Colour::Auto, true, None) && coloured(Colour::Auto, true, set("")));
        assert!(!coloured(Colour::Auto, false, None) && !coloured(Colour::Auto, true, set("1")));
        assert!(coloured(Colour::Always, false, set("1")) && !coloured(Colour::Never, true, None));
    }
}
