//! The policies by name, with their typed, defaulted parameters: the listing, the command line
//! and the documents derive from [`POLICIES`].

use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::program::ControlFlow;

use super::Reconvergence;
use super::convergence_barriers;
use super::crs_stack::{self, CrsStack};
use super::dual_path;
use super::dynamic_warp_formation;
use super::lowest_first::Order;
use super::mimd::Mimd;
use super::multi_path;
use super::parameters::{Parameter, Parameters};
use super::pdom_stack::{self, PdomStack};
use super::table::Table;
use super::table_policies::TablePolicy;
use super::warp_subdivision;

/// A row of the registry of policies.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInfo {
    /// Name, as `--policy` takes it.
    pub name: &'static str,
    /// What it does, in one line.
    pub doc: &'static str,
    /// Where it is described.
    pub reference: &'static str,
    /// What is known of its fairness.
    pub fairness: &'static str,
    /// Its parameters, with defaults and ranges.
    pub parameters: &'static [Parameter],
    /// The policy with the defaults of its parameters.
    pub default: fn() -> Policy,
}

/// A policy with its parameters, by what runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// [`CrsStack`](super::crs_stack::CrsStack).
    CrsStack(crs_stack::Parameters),
    /// [`PdomStack`](super::pdom_stack::PdomStack).
    PdomStack(pdom_stack::Parameters),
    /// [`Mimd`](super::mimd::Mimd).
    Mimd,
    /// [`Table`](super::table::Table).
    Table(TablePolicy),
}

impl Policy {
    /// Which control flow its programs have.
    pub fn flow(&self) -> ControlFlow {
        match self {
            Self::CrsStack(_) => CrsStack::FLOW,
            Self::PdomStack(_) => PdomStack::FLOW,
            Self::Mimd => Mimd::FLOW,
            Self::Table(_) => Table::FLOW,
        }
    }

    /// Its parameters; none where it has none.
    fn parameters(&mut self) -> Option<&mut dyn Parameters> {
        use TablePolicy as T;
        match self {
            Self::CrsStack(own) => Some(own),
            Self::PdomStack(own) => Some(own),
            Self::Table(T::DualPath(own)) => Some(own),
            Self::Table(T::MultiPath(own)) => Some(own),
            Self::Table(T::WarpSubdivision(own)) => Some(own),
            Self::Table(T::DynamicWarpFormation(own)) => Some(own),
            Self::Table(T::ConvergenceBarriers(own)) => Some(own),
            Self::Mimd | Self::Table(T::LowestFirst(_) | T::ThreadBlockCompaction) => None,
        }
    }
}

/// Every policy there is.
pub const POLICIES: &[PolicyInfo] = &[
    PolicyInfo {
        name: "crs_stack",
        doc: "stack of call, return and synchronization tokens, driven by injected control-flow instructions",
        reference: "CS §5.4.1 (Habermaier 2011)",
        fairness: "unfair: a path runs until it pops its token, so a spin lock can hang",
        parameters: crs_stack::Parameters::TABLE,
        default: || Policy::CrsStack(Default::default()),
    },
    PolicyInfo {
        name: "pdom_stack",
        doc: "stack of (pc, reconvergence pc, mask); paths reconverge at the immediate post-dominator",
        reference: "Fung et al., MICRO 2007, baseline; Levinthal and Porter 1984",
        fairness: "unfair: one path of a branch runs until it reaches the post-dominator",
        parameters: pdom_stack::Parameters::TABLE,
        default: || Policy::PdomStack(Default::default()),
    },
    PolicyInfo {
        name: "min_pc",
        doc: "the threads of a warp with the lowest PC run; no stack",
        reference: "Collange 2011 (hal-00622654)",
        fairness: "unfair: threads in a loop at lower PCs starve threads at higher PCs",
        parameters: &[],
        default: || Policy::Table(TablePolicy::LowestFirst(Order::Pc)),
    },
    PolicyInfo {
        name: "min_sp_pc",
        doc: "the threads at the greatest call depth run; among these, the ones at the lowest PC",
        reference: "Collange 2011 (hal-00622654)",
        fairness: "unfair: as min_pc",
        parameters: &[],
        default: || Policy::Table(TablePolicy::LowestFirst(Order::SpPc)),
    },
    PolicyInfo {
        name: "thread_frontiers",
        doc: "basic blocks have static priorities; the threads at the block of highest priority run",
        reference: "Diamos et al., MICRO 2011 (sorted list of paths)",
        fairness: "unfair: threads in a loop of blocks of high priority starve the others",
        parameters: &[],
        default: || Policy::Table(TablePolicy::LowestFirst(Order::Frontier)),
    },
    PolicyInfo {
        name: "dual_path",
        doc: "post-dominator stack whose top holds two paths that both may issue",
        reference: "Rhu and Erez, HPCA 2013",
        fairness: "unfair: paths below the top of the stack wait",
        parameters: dual_path::Parameters::TABLE,
        default: || Policy::Table(TablePolicy::DualPath(Default::default())),
    },
    PolicyInfo {
        name: "multi_path",
        doc: "tables of splits and of reconvergence points; every path may issue",
        reference: "ElTantawy et al., HPCA 2014",
        fairness: "threads waiting at a reconvergence point stay blocked while any other path of the warp is running; runnable paths are scheduled round-robin",
        parameters: multi_path::Parameters::TABLE,
        default: || Policy::Table(TablePolicy::MultiPath(Default::default())),
    },
    PolicyInfo {
        name: "warp_subdivision",
        doc: "warps split at divergent branches and at loads whose data has arrived for only some lanes, and merge again",
        reference: "Meng, Tarjan, Skadron, ISCA 2010",
        fairness: "unfair where a branch is not subdivided; the splits of a subdivided branch issue independently",
        parameters: warp_subdivision::Parameters::TABLE,
        default: || Policy::Table(TablePolicy::WarpSubdivision(Default::default())),
    },
    PolicyInfo {
        name: "dynamic_warp_formation",
        doc: "threads of all warps of the SM at the same PC are regrouped into new warps at each issue",
        reference: "Fung et al., MICRO 2007",
        fairness: "unfair except with scheduler=DTime: threads at PCs that are not preferred wait",
        parameters: dynamic_warp_formation::Parameters::TABLE,
        default: || Policy::Table(TablePolicy::DynamicWarpFormation(Default::default())),
    },
    PolicyInfo {
        name: "thread_block_compaction",
        doc: "one post-dominator stack per block; the threads of a path are compacted into warps",
        reference: "Fung and Aamodt, HPCA 2011",
        fairness: "unfair: one path of a branch runs until all its threads in the block have reached the post-dominator",
        parameters: &[],
        default: || Policy::Table(TablePolicy::ThreadBlockCompaction),
    },
    PolicyInfo {
        name: "convergence_barriers",
        doc: "independent thread scheduling: barriers at post-dominators; threads yield at back edges",
        reference: "Diamos et al., US 2016/0019066 (BSSY and BSYNC of Volta and later)",
        fairness: "weakly fair unless yield_after=never: threads leave a barrier that other threads do not reach",
        parameters: convergence_barriers::Parameters::TABLE,
        default: || Policy::Table(TablePolicy::ConvergenceBarriers(Default::default())),
    },
    PolicyInfo {
        name: "mimd",
        doc: "every thread executes independently: the reference for what each thread computes",
        reference: "SC §3 (interleaved semantics)",
        fairness: "as fair as the warp scheduler",
        parameters: &[],
        default: || Policy::Mimd,
    },
];

/// A policy that was chosen: its row of [`POLICIES`] and the values of its parameters.
#[derive(Clone, Copy, Debug)]
pub struct PolicyChoice {
    /// What the registry says of it.
    pub info: &'static PolicyInfo,
    /// The policy with the values of its parameters.
    pub policy: Policy,
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
                format!("there is no policy `{name}`; available: {}", names.join(", ")),
            ));
        };
        let mut policy = (info.default)();
        for part in parameters.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let position = info.parameters.iter().position(|p| p.name == key);
            let (Some(index), Some(own)) = (position, policy.parameters()) else {
                let keys: Vec<&str> = info.parameters.iter().map(|p| p.name).collect();
                let known = if keys.is_empty() { "none".into() } else { keys.join(", ") };
                return Err(Diagnostic::error(
                    "policy",
                    format!("`{name}` has no parameter `{key}`; it has: {known}"),
                ));
            };
            own.set(index, info.parameters[index].parse(value)?);
        }
        Ok(Self { info, policy })
    }

    /// `NAME` or `NAME:key=value,…` with every parameter.
    pub fn canonical(&self) -> String {
        let mut policy = self.policy;
        let numbers = policy.parameters().map_or(Vec::new(), |own| own.numbers());
        let values: Vec<String> = self
            .info
            .parameters
            .iter()
            .zip(numbers)
            .map(|(parameter, number)| format!("{}={}", parameter.name, parameter.spell(number)))
            .collect();
        match values.is_empty() {
            true => self.info.name.to_string(),
            false => format!("{}:{}", self.info.name, values.join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each row says of its parameters is what its policy has.
    #[test]
    fn rows_and_policies_have_the_same_parameters() {
        for info in POLICIES {
            let mut policy = (info.default)();
            let own = policy.parameters().map_or(&[][..], |own| own.table());
            assert_eq!(own, info.parameters, "{}", info.name);
            let defaults: Vec<u32> = info.parameters.iter().map(|parameter| parameter.default).collect();
            let numbers = policy.parameters().map_or(Vec::new(), |own| own.numbers());
            assert_eq!(numbers, defaults, "{}", info.name);
        }
    }

    /// Each parameter keeps each end of its range, and nothing else changes with it.
    #[test]
    fn each_parameter_is_set_alone() {
        for info in POLICIES {
            for (index, parameter) in info.parameters.iter().enumerate() {
                for value in [parameter.range.0, parameter.range.1] {
                    let text = format!("{}:{}={}", info.name, parameter.name, parameter.spell(value));
                    let mut choice = PolicyChoice::parse(&text).expect("within its range");
                    let own = choice.policy.parameters().expect("it has one");
                    let mut expected: Vec<u32> = info.parameters.iter().map(|p| p.default).collect();
                    expected[index] = value;
                    assert_eq!(own.numbers(), expected, "{text}");
                    assert_eq!(PolicyChoice::parse(&choice.canonical()).expect("one").policy, choice.policy);
                }
                let over = format!("{}:{}={}", info.name, parameter.name, u64::from(parameter.range.1) + 1);
                assert!(PolicyChoice::parse(&over).is_err(), "{over}");
            }
        }
    }
}
