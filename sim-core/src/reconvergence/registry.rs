//! The policies by name, with their typed, defaulted parameters: the listing, the command line
//! and the documents derive from [`POLICIES`].

use sim_frontend::diagnostic::Diagnostic;
use sim_memory::vocabulary::LaneMask;

/// A parameter of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name, as in `--policy NAME:key=value`.
    pub name: &'static str,
    /// What it means, with its unit.
    pub doc: &'static str,
    /// Its default.
    pub default: u32,
    /// The least and the greatest value it takes.
    pub range: (u32, u32),
}

/// A policy.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInfo {
    /// Its name.
    pub name: &'static str,
    /// One line.
    pub doc: &'static str,
    /// Where it is described.
    pub reference: &'static str,
    /// What is known of its fairness.
    pub fairness: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
}

/// Every policy there is.
pub const POLICIES: &[PolicyInfo] = &[
    PolicyInfo {
        name: "crs_stack",
        doc: "token stack of call, return, synchronization with injected control flow",
        reference: "CS §5.4.1 (Habermaier 2011)",
        fairness: "unfair: a path runs until it pops its token, so a spin lock can hang",
        parameters: &[
            Parameter {
                name: "depth",
                doc: "tokens a warp holds on chip before the oldest are spilled",
                default: 16,
                range: (1, 4096),
            },
            Parameter {
                name: "spill_cycles",
                doc: "core cycles to move one token to or from spill memory",
                default: 0,
                range: (0, 10_000),
            },
        ],
    },
    PolicyInfo {
        name: "mimd",
        doc: "every thread alone: the reference for what each thread computes",
        reference: "SC §3 (interleaved semantics)",
        fairness: "as fair as the warp scheduler",
        parameters: &[],
    },
];

/// A policy and the values of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyChoice {
    /// Its name.
    pub name: &'static str,
    /// Parameters in the order of the registry.
    pub values: Vec<(&'static str, u32)>,
    /// The lanes a warp of the chip has.
    pub warp_lanes: LaneMask,
}

impl PolicyChoice {
    /// Parses `NAME[:key=value,…]`.
    ///
    /// # Errors
    /// A diagnostic that lists the valid names, keys or values.
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let Some(info) = POLICIES.iter().find(|policy| policy.name == name) else {
            let names: Vec<&str> = POLICIES.iter().map(|policy| policy.name).collect();
            return Err(Diagnostic::error(
                "policy",
                format!("there is no policy `{name}`; there are: {}", names.join(", ")),
            ));
        };
        let mut values: Vec<(&'static str, u32)> =
            info.parameters.iter().map(|p| (p.name, p.default)).collect();
        for part in parameters.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let position = info.parameters.iter().position(|p| p.name == key);
            let Some(index) = position else {
                let keys: Vec<&str> = info.parameters.iter().map(|p| p.name).collect();
                let known = if keys.is_empty() { "none".into() } else { keys.join(", ") };
                return Err(Diagnostic::error(
                    "policy",
                    format!("`{name}` has no parameter `{key}`; it has: {known}"),
                ));
            };
            let (least, most) = info.parameters[index].range;
            match value.parse::<u32>() {
                Ok(value) if (least..=most).contains(&value) => values[index].1 = value,
                _ => {
                    return Err(Diagnostic::error(
                        "policy",
                        format!("`{key}` takes a whole number from {least} to {most}, not `{value}`"),
                    ));
                }
            }
        }
        Ok(Self { name: info.name, values, warp_lanes: u32::MAX })
    }

    /// The value of a parameter the registry declares; 0 for one it does not.
    pub fn get(&self, name: &str) -> u32 {
        self.values.iter().find(|(key, _)| *key == name).map_or(0, |(_, value)| *value)
    }

    /// `NAME` or `NAME:key=value,…` with every parameter.
    pub fn canonical(&self) -> String {
        if self.values.is_empty() {
            return self.name.to_string();
        }
        let values: Vec<String> = self.values.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{}:{}", self.name, values.join(","))
    }
}
