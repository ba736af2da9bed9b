//! The policies by name, with their typed, defaulted parameters: the listing, the command line
//! and the documents derive from [`POLICIES`].

use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::program::ControlFlow;
use sim_memory::vocabulary::LaneMask;

use super::convergence_barriers::ConvergenceBarriers;
use super::dual_path::DualPath;
use super::dynamic_warp_formation::{DynamicWarpFormation, SCHEDULERS};
use super::lowest_first::{LowestFirst, Order};
use super::multi_path::MultiPath;
use super::table::Rules;
use super::thread_block_compaction::ThreadBlockCompaction;
use super::warp_subdivision::WarpSubdivision;

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
    /// Words for the values 0, 1, … where they have such.
    pub words: &'static [&'static str],
}

impl Parameter {
    /// A value as it is written.
    pub fn spell(&self, value: u32) -> String {
        self.words.get(value as usize).map_or_else(|| value.to_string(), |word| (*word).to_string())
    }

    fn parse(&self, text: &str) -> Result<u32, Diagnostic> {
        let (least, most) = self.range;
        let word = self.words.iter().position(|word| *word == text).map(|index| index as u32);
        let number = text.parse().ok().filter(|value| (least..=most).contains(value));
        word.or(number).ok_or_else(|| {
            let words = self.words.join(", ");
            let or = if words.is_empty() { "" } else { " or one of " };
            Diagnostic::error(
                "policy",
                format!(
                    "`{}` takes a whole number from {least} to {most}{or}{words}, not `{text}`",
                    self.name
                ),
            )
        })
    }
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
    /// How it is made.
    pub kind: Kind,
}

/// What runs a policy.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// [`CrsStack`](super::crs_stack::CrsStack).
    CrsStack,
    /// [`PdomStack`](super::pdom_stack::PdomStack).
    PdomStack,
    /// [`Mimd`](super::mimd::Mimd).
    Mimd,
    /// A table of paths under these rules.
    Table(fn(&PolicyChoice) -> Box<dyn Rules>),
}

const STACK_DEPTH: Parameter = Parameter {
    name: "depth",
    doc: "entries a warp holds on chip before the oldest are spilled",
    default: 32,
    range: (1, 4096),
    words: &[],
};

const SPILL_CYCLES: Parameter = Parameter {
    name: "spill_cycles",
    doc: "core cycles to move one entry to or from spill memory",
    default: 0,
    range: (0, 10_000),
    words: &[],
};

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
                words: &[],
            },
            Parameter {
                name: "spill_cycles",
                doc: "core cycles to move one token to or from spill memory",
                default: 0,
                range: (0, 10_000),
                words: &[],
            },
        ],
        kind: Kind::CrsStack,
    },
    PolicyInfo {
        name: "pdom_stack",
        doc: "stack of (pc, reconvergence pc, mask); paths meet at the immediate post-dominator",
        reference: "Fung et al., MICRO 2007, baseline; Levinthal and Porter 1984",
        fairness: "unfair: one path of a branch runs until it comes to the post-dominator",
        parameters: &[STACK_DEPTH, SPILL_CYCLES],
        kind: Kind::PdomStack,
    },
    PolicyInfo {
        name: "min_pc",
        doc: "the threads at the least address of a warp run; no stack",
        reference: "Collange 2011 (hal-00622654)",
        fairness: "unfair: threads that loop below an address keep those at it waiting",
        parameters: &[],
        kind: Kind::Table(|_| Box::new(LowestFirst(Order::Pc))),
    },
    PolicyInfo {
        name: "min_sp_pc",
        doc: "the threads in the deepest call, of these those at the least address, run",
        reference: "Collange 2011 (hal-00622654)",
        fairness: "unfair: as min_pc",
        parameters: &[],
        kind: Kind::Table(|_| Box::new(LowestFirst(Order::SpPc))),
    },
    PolicyInfo {
        name: "thread_frontiers",
        doc: "basic blocks have static priorities; the first block that threads wait at runs",
        reference: "Diamos et al., MICRO 2011 (sorted list of paths)",
        fairness: "unfair: threads that loop in blocks of high priority keep the others waiting",
        parameters: &[],
        kind: Kind::Table(|_| Box::new(LowestFirst(Order::Frontier))),
    },
    PolicyInfo {
        name: "dual_path",
        doc: "post-dominator stack whose top holds two paths that both may issue",
        reference: "Rhu and Erez, HPCA 2013",
        fairness: "unfair: paths below the top of the stack wait",
        parameters: &[STACK_DEPTH, SPILL_CYCLES],
        kind: Kind::Table(|choice| Box::new(DualPath::new(choice))),
    },
    PolicyInfo {
        name: "multi_path",
        doc: "tables of splits and of reconvergence points; every path may issue",
        reference: "ElTantawy et al., HPCA 2014",
        fairness: "threads that wait at a join wait for its other paths while one of the warp runs; paths that run are served in turn",
        parameters: &[
            Parameter {
                name: "paths",
                doc: "paths of a warp that may issue at a time",
                default: 32,
                range: (1, 32),
                words: &[],
            },
            Parameter {
                name: "early",
                doc: "1: paths that stand at one address before their join run on as one; 0: not",
                default: 1,
                range: (0, 1),
                words: &[],
            },
            Parameter {
                name: "entries",
                doc: "entries of both tables on chip",
                default: 64,
                range: (1, 4096),
                words: &[],
            },
            SPILL_CYCLES,
        ],
        kind: Kind::Table(|choice| Box::new(MultiPath::new(choice))),
    },
    PolicyInfo {
        name: "warp_subdivision",
        doc: "warps divide at branches and at loads some of whose data is there, and join again",
        reference: "Meng, Tarjan, Skadron, ISCA 2010",
        fairness: "unfair where a branch is not subdivided; splits are served in turn",
        parameters: &[
            Parameter {
                name: "splits",
                doc: "splits a warp can have",
                default: 8,
                range: (1, 32),
                words: &[],
            },
            Parameter {
                name: "branch_distance",
                doc: "instructions from a branch to its post-dominator up to which it is subdivided",
                default: 50,
                range: (0, 1_000_000),
                words: &[],
            },
            Parameter {
                name: "memory",
                doc: "subdivide at loads: never, lazy (where the SM has nothing else to issue), always",
                default: 1,
                range: (0, 2),
                words: &["never", "lazy", "always"],
            },
        ],
        kind: Kind::Table(|choice| Box::new(WarpSubdivision::new(choice))),
    },
    PolicyInfo {
        name: "dynamic_warp_formation",
        doc: "threads of all warps that stand at one address form warps anew at each issue",
        reference: "Fung et al., MICRO 2007",
        fairness: "unfair but for DTime: addresses that are not preferred wait",
        parameters: &[Parameter {
            name: "scheduler",
            doc: "the address that issues: most threads, fewest, oldest, most branches open, least",
            default: 0,
            range: (0, 4),
            words: SCHEDULERS,
        }],
        kind: Kind::Table(|choice| Box::new(DynamicWarpFormation::new(choice))),
    },
    PolicyInfo {
        name: "thread_block_compaction",
        doc: "one post-dominator stack a block; the threads of a path are compacted into warps",
        reference: "Fung and Aamodt, HPCA 2011",
        fairness: "unfair: one path of a block's branch runs until all its threads are at the post-dominator",
        parameters: &[],
        kind: Kind::Table(|_| Box::new(ThreadBlockCompaction::default())),
    },
    PolicyInfo {
        name: "convergence_barriers",
        doc: "independent thread scheduling: barriers at post-dominators, turns at back edges",
        reference: "Diamos et al., US 2016/0019066 (BSSY and BSYNC of Volta and later)",
        fairness: "weakly fair unless yield_after=never: threads leave a barrier that others keep away from",
        parameters: &[
            Parameter {
                name: "yield_after",
                doc: "issues of the warp without an arrival after which threads leave a barrier",
                default: 1024,
                range: (0, 1_000_000_000),
                words: &["never"],
            },
            Parameter {
                name: "registers",
                doc: "barriers and paths of a warp on chip",
                default: 16,
                range: (1, 4096),
                words: &[],
            },
            SPILL_CYCLES,
        ],
        kind: Kind::Table(|choice| Box::new(ConvergenceBarriers::new(choice))),
    },
    PolicyInfo {
        name: "mimd",
        doc: "every thread alone: the reference for what each thread computes",
        reference: "SC §3 (interleaved semantics)",
        fairness: "as fair as the warp scheduler",
        parameters: &[],
        kind: Kind::Mimd,
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
            values[index].1 = info.parameters[index].parse(value)?;
        }
        Ok(Self { name: info.name, values, warp_lanes: u32::MAX })
    }

    /// What the registry says of it.
    pub fn info(&self) -> &'static PolicyInfo {
        // The name is the registry's own.
        POLICIES.iter().find(|policy| policy.name == self.name).unwrap_or(&POLICIES[0])
    }

    /// Which control flow its programs have.
    pub fn flow(&self) -> ControlFlow {
        match self.info().kind {
            Kind::CrsStack => ControlFlow::Injected,
            Kind::PdomStack | Kind::Mimd | Kind::Table(_) => ControlFlow::Plain,
        }
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
        let parameters = self.info().parameters;
        let spell = |key: &str, value: u32| {
            let found = parameters.iter().find(|parameter| parameter.name == key);
            found.map_or_else(|| value.to_string(), |parameter| parameter.spell(value))
        };
        let values: Vec<String> =
            self.values.iter().map(|(key, value)| format!("{key}={}", spell(key, *value))).collect();
        format!("{}:{}", self.name, values.join(","))
    }
}
