//! The command of a CUDA program, as requests and files have it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_frontend::diagnostic::Diagnostic;

/// A command that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CudaCommand {
    /// The program and its arguments.
    #[serde(skip)]
    pub words: Vec<OsString>,
    /// Where it runs; the current directory where nothing is said.
    pub folder: Option<PathBuf>,
    /// Variables of its environment beside those of this process.
    pub env: BTreeMap<String, String>,
    /// Launches that are timed, where not all are.
    pub time: Vec<String>,
    /// Functional launches that warm L2 before a timed one.
    pub warm: usize,
    /// What its standard output must have: a regular expression.
    pub expect: Option<String>,
}

impl CudaCommand {
    /// A command as it is typed, and nothing else.
    ///
    /// # Errors
    /// It has no words, or an open quotation.
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        let words = shlex::split(text).filter(|words| !words.is_empty());
        let none =
            || Diagnostic::error("command", format!("`{text}` is no command: words, and closed quotations"));
        let words = words.ok_or_else(none)?.into_iter().map(OsString::from).collect();
        Ok(Self { words, ..Self::default() })
    }

    /// The command as it is typed.
    pub fn name(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        joined(&words)
    }
}

/// Words as a shell takes them.
pub fn joined(words: &[String]) -> String {
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

/// A CUDA program as a workload.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CudaWorkload {
    /// The program and its arguments, in one line, split as by a shell. `{NAME}` stands for the value of the axis `set.NAME`.
    pub command: String,
    /// Its name in tables and conditions. Default: the command.
    #[serde(default)]
    pub name: Option<String>,
    /// The directory in which it runs, relative to the current one. Default: the current directory.
    #[serde(default)]
    pub folder: Option<String>,
    /// Environment variables beside those of `warpsim`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Launches that are timed, as for `cuda --time`. Default: all launches.
    #[serde(default)]
    pub time: Vec<String>,
    /// Functional launches before a timed one that warm L2, as for `cuda --warm`.
    #[serde(default)]
    pub warm: usize,
    /// A regular expression that the standard output must match somewhere. The program must exit with status 0 in any case.
    #[serde(default)]
    pub expect: Option<String>,
}

impl CudaWorkload {
    /// Its name in tables.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.command)
    }

    /// The command.
    ///
    /// # Errors
    /// It has no words, or an open quotation.
    pub fn command(&self) -> Result<CudaCommand, Diagnostic> {
        Ok(CudaCommand {
            folder: self.folder.as_ref().map(PathBuf::from),
            env: self.env.clone(),
            time: self.time.clone(),
            warm: self.warm,
            expect: self.expect.clone(),
            ..CudaCommand::parse(&self.command)?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_by_a_shell_and_joined_again() {
        let of = |command: &str| CudaWorkload {
            command: command.into(),
            name: None,
            folder: None,
            env: BTreeMap::new(),
            time: Vec::new(),
            warm: 0,
            expect: None,
        };
        let command = of("./bfs 4 'a b.txt' {n}").command().expect("words");
        assert_eq!(command.words, ["./bfs", "4", "a b.txt", "{n}"]);
        assert_eq!(command.name(), "./bfs 4 'a b.txt' '{n}'");
        assert!(of("'open").command().is_err() && of("  ").command().is_err());
    }
}
