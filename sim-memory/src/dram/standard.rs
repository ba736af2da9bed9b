//! DRAM standards: the timing constraints of a channel, as rows of data over the parameters that a chip
//! gives. Shipped standards lie beside this file; a chip can name its own file.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;

use crate::spec::DramSpec;

/// The DRAM commands that the constraints relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Command {
    /// Activate: opens a row.
    #[serde(rename = "ACT")]
    Activate,
    /// Precharge: closes the open row.
    #[serde(rename = "PRE")]
    Precharge,
    /// A read of one burst.
    #[serde(rename = "RD")]
    Read,
    /// A write of one burst.
    #[serde(rename = "WR")]
    Write,
    /// Refresh of a bank or of the channel.
    #[serde(rename = "REF")]
    Refresh,
}

/// Number of commands.
pub(super) const COMMANDS: usize = 5;

/// The longest window of a constraint, in commands.
pub(super) const LONGEST_WINDOW: usize = 8;

/// The scope of a constraint or a refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, borsh::BorshSerialize, borsh::BorshDeserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// A single bank.
    Bank,
    /// The banks of one bank group.
    BankGroup,
    /// All banks of the channel.
    Channel,
}

/// A timing constraint: after the `window`-th last `preceding` command at one `level`, `following` waits at
/// least `latency` cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// The scope within which the two commands are related.
    pub level: Level,
    /// The earlier command.
    pub preceding: Command,
    /// The later one.
    pub following: Command,
    /// Minimum distance in cycles of the command clock.
    pub latency: u64,
    /// Which earlier command counts: 1 is the last, 4 the fourth last (four-activate window).
    pub window: usize,
}

/// The timing of a channel: a standard's constraints evaluated with a chip's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DramTimings {
    /// All constraints of the standard.
    pub constraints: Vec<Constraint>,
    /// Cycles of the command clock from a read command to its data.
    pub read_latency: u64,
    /// Cycles of the command clock from a write command to its data.
    pub write_latency: u64,
    /// The level a refresh applies to, and the cycles of the command clock between two.
    pub refresh: Option<(Level, u64)>,
    /// The same constraints, indexed for lookup by channels.
    pub(super) rules: Rules,
}

/// One constraint on a later command, for lookup by the earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) following: u8,
    /// Number of commands of the same kind between the earlier command and the last one (`window - 1`).
    pub(super) back: u8,
    pub(super) latency: u64,
}

/// The constraints, indexed by the earlier command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// By earlier command and level (bank, bank group, channel).
    pub(super) preceding: [[Held; 3]; COMMANDS],
}

/// The constraints that one command imposes at one level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Constraints from the last command (window 1).
    pub(super) last: Vec<Rule>,
    /// Constraints from an earlier one (window above 1).
    pub(super) windows: Vec<Rule>,
}

impl Rules {
    fn new(constraints: &[Constraint]) -> Self {
        let mut rules = Self::default();
        for row in constraints {
            let held = &mut rules.preceding[row.preceding as usize][row.level as usize];
            let rules = if row.window == 1 { &mut held.last } else { &mut held.windows };
            rules.push(Rule {
                following: row.following as u8,
                back: (row.window - 1) as u8,
                latency: row.latency,
            });
        }
        rules
    }
}

/// The shipped standards: name and text.
pub const STANDARDS: &[(&str, &str)] = &[
    ("gddr5", include_str!("gddr5.yaml")),
    ("gddr6", include_str!("gddr6.yaml")),
    ("hbm2", include_str!("hbm2.yaml")),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u32,
    #[allow(dead_code, reason = "read by people")]
    description: String,
    parameters: BTreeMap<String, String>,
    column: Column,
    #[serde(default)]
    refresh: Option<RefreshRow>,
    constraints: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Column {
    read: String,
    write: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RefreshRow {
    level: Level,
    interval: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    level: Level,
    preceding: Vec<Command>,
    following: Vec<Command>,
    latency: String,
    #[serde(default = "last")]
    window: usize,
}

fn last() -> usize {
    1
}

impl File {
    fn read(name: &str, text: &str) -> Result<Self, String> {
        let options = serde_yaml::options! { strict_booleans: true };
        serde_yaml::from_str_with_options(text, options)
            .map_err(|error| format!("DRAM standard `{name}`: {error}"))
    }
}

impl DramTimings {
    /// The timing of a channel of a chip.
    ///
    /// # Errors
    /// A description of the problem: the standard does not exist or does not parse, a parameter is missing,
    /// or the standard does not know a parameter.
    pub fn of(spec: &DramSpec) -> Result<Self, String> {
        let name = &spec.standard.name;
        // A shipped one is read once in a process, at its first use.
        static READ: [OnceLock<Arc<File>>; STANDARDS.len()] = [const { OnceLock::new() }; STANDARDS.len()];
        let file = match (&spec.standard.text, STANDARDS.iter().position(|(shipped, _)| shipped == name)) {
            (Some(text), _) => Arc::new(File::read(name, text)?),
            (None, Some(index)) => match READ[index].get() {
                Some(file) => Arc::clone(file),
                None => {
                    let file = Arc::new(File::read(name, STANDARDS[index].1)?);
                    Arc::clone(READ[index].get_or_init(|| file))
                }
            },
            (None, None) => {
                let known: Vec<&str> = STANDARDS.iter().map(|(name, _)| *name).collect();
                return Err(format!(
                    "there is no DRAM standard or file `{name}`; shipped: {}",
                    known.join(", ")
                ));
            }
        };
        if file.schema != 1 {
            return Err(format!("DRAM standard `{name}`: this version of warpsim reads only schema 1"));
        }
        let list = |names: Vec<&String>| names.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let missing: Vec<_> = file.parameters.keys().filter(|key| !spec.timing.contains_key(*key)).collect();
        if !missing.is_empty() {
            return Err(format!("timing lacks {}, which `{name}` needs", list(missing)));
        }
        let unknown: Vec<_> = spec.timing.keys().filter(|key| !file.parameters.contains_key(*key)).collect();
        if !unknown.is_empty() {
            let known = list(file.parameters.keys().collect());
            return Err(format!("timing: `{name}` has no {}; it has {known}", list(unknown)));
        }
        let value = |expression: &str| {
            evaluate(expression, spec).map_err(|why| format!("DRAM standard `{name}`: `{expression}`: {why}"))
        };
        let mut constraints = Vec::new();
        for row in &file.constraints {
            if !(1..=LONGEST_WINDOW).contains(&row.window) {
                return Err(format!(
                    "DRAM standard `{name}`: timing windows must be between 1 and {LONGEST_WINDOW}"
                ));
            }
            let latency = value(&row.latency)?;
            for &preceding in &row.preceding {
                constraints.extend(row.following.iter().map(|&following| Constraint {
                    level: row.level,
                    preceding,
                    following,
                    latency,
                    window: row.window,
                }));
            }
        }
        let refresh = match &file.refresh {
            Some(row) => Some((row.level, value(&row.interval)?)),
            None => None,
        };
        if let Some((level, interval)) = refresh {
            let banks = if level == Level::Bank { u64::from(spec.banks) } else { 1 };
            if level == Level::BankGroup || interval / banks == 0 {
                return Err(format!(
                    "DRAM standard `{name}`: `refresh` must have the level bank or channel, and an interval of at least one cycle per bank"
                ));
            }
        }
        Ok(Self {
            rules: Rules::new(&constraints),
            constraints,
            read_latency: value(&file.column.read)?,
            write_latency: value(&file.column.write)?,
            refresh,
        })
    }

    /// Cycles from a precharge to the data of a read: the lookahead a scheduler needs to hide a row miss.
    pub fn row_miss(&self) -> u64 {
        let delay = |preceding, following| self.delay(Level::Bank, preceding, following);
        delay(Command::Precharge, Command::Activate)
            + delay(Command::Activate, Command::Read)
            + self.read_latency
    }

    /// Minimum distance in cycles between two reads within one bank, bank group or the channel.
    pub fn column_delay(&self, level: Level) -> u64 {
        self.delay(level, Command::Read, Command::Read)
    }

    /// The largest latency of the window-1 constraints between two commands at a level.
    pub fn delay(&self, level: Level, preceding: Command, following: Command) -> u64 {
        let rows = self.constraints.iter().filter(|row| {
            (row.level, row.preceding, row.following, row.window) == (level, preceding, following, 1)
        });
        rows.map(|row| row.latency).max().unwrap_or(0)
    }
}

/// Evaluates a sum of parameters and numbers; `BL` is a burst's time on the data bus. The result is at least
/// zero.
fn evaluate(expression: &str, spec: &DramSpec) -> Result<u64, String> {
    let mut sum = 0i64;
    let mut sign = Some(1);
    for word in expression.split_whitespace() {
        match (word, sign) {
            ("+", None) => sign = Some(1),
            ("-", None) => sign = Some(-1),
            (word, Some(factor)) => {
                let value = match word.parse::<u32>() {
                    Ok(number) => number,
                    Err(_) if word == "BL" => spec.burst_cycles,
                    Err(_) => {
                        *spec.timing.get(word).ok_or_else(|| format!("there is no parameter `{word}`"))?
                    }
                };
                sum += factor * i64::from(value);
                sign = None;
            }
            (word, None) => return Err(format!("expected + or - before `{word}`")),
        }
    }
    match sign {
        None => Ok(sum.max(0) as u64),
        Some(_) => Err("ends without a value".to_string()),
    }
}
