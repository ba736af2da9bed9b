//! Workload files: variants of a program, buffers, launches, expected results.

mod buffer;
mod expr;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use sim_memory::vocabulary::ScalarType;

pub use buffer::{HostBuffer, SplitMix64};
pub use expr::{Expr, Params, evaluate};

use crate::diagnostic::{Diagnostic, Source, Span};
use crate::yaml::{key_span, read};

/// How much results depend on the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Memory and every thread's trace are the same under every schedule.
    Independent,
    /// Final memory is.
    Values,
    /// Checked against its own expectation only.
    Dependent,
}

/// Under which schedules a workload ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Termination {
    /// Under all.
    #[default]
    Always,
    /// Under weakly fair ones; others may leave a thread behind that the rest waits for.
    FairSchedules,
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// Version of this format: 1.
    pub schema: u32,
    /// Name.
    pub name: String,
    /// One line.
    pub description: String,
    /// How much results depend on the schedule.
    pub schedule: Schedule,
    /// Why, where they do.
    #[serde(default)]
    pub reason: Option<String>,
    /// Under which schedules it ends.
    #[serde(default)]
    pub termination: Termination,
    /// Numbers that `--set` can change, by name.
    #[serde(default)]
    pub params: BTreeMap<String, f64>,
    /// Programs, oldest target first.
    pub variants: Vec<Variant>,
    /// Buffers by name.
    pub buffers: BTreeMap<String, BufferSpec>,
    /// Steps in order.
    pub launches: Vec<Step>,
    /// Expected results; without any the run is unchecked, and says so.
    #[serde(default)]
    pub expect: Vec<Expectation>,
    /// The file it was read from.
    #[serde(skip)]
    pub source: Option<Source>,
}

/// One program of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Name.
    pub name: String,
    /// PTX file beside the workload file.
    pub file: String,
    /// What made it.
    pub compiler: String,
    /// `sm_20`.
    pub target: String,
}

impl Variant {
    /// The target as major * 10 + minor.
    pub fn sm(&self) -> u32 {
        let digits: String =
            self.target.trim_start_matches("sm_").chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    }
}

/// A buffer.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BufferSpec {
    /// Element type.
    #[serde(rename = "type")]
    pub ty: ScalarType,
    /// Elements.
    pub length: Expr,
    /// First contents.
    pub init: Init,
}

/// First contents of a buffer.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Init {
    /// Zeros.
    Zeros,
    /// 0, 1, 2 …
    Iota,
    /// SplitMix64 between bounds, both included for integers.
    Random {
        /// Seed.
        seed: u64,
        /// Least value.
        min: f64,
        /// Greatest value.
        max: f64,
    },
    /// Literal values; the rest is zero.
    Values(Vec<f64>),
    /// Bytes in hexadecimal digits; the rest is zero.
    Hex(String),
    /// `.npy`, or raw bytes.
    File(String),
    /// `(i % modulo) * scale + offset`.
    Formula {
        /// Period.
        modulo: u64,
        /// Factor.
        scale: f64,
        /// Added.
        #[serde(default)]
        offset: f64,
    },
    /// Made by a named function.
    Reference(String),
}

/// A step of the host.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "StepKeys")]
pub enum Step {
    /// A kernel launch.
    Launch(LaunchSpec),
    /// Sets every element of a buffer.
    Fill {
        /// Which, and to what.
        fill: Fill,
    },
    /// Steps repeated until a buffer says stop.
    Loop {
        /// Its facts.
        body: LoopSpec,
    },
}

/// A kernel launch (`entry`, `grid`, `block`, `args` and what else it has), a `fill` or a `loop`.
// The keys of every kind, so that a wrong one is named.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StepKeys {
    /// Sets every element of a buffer.
    fill: Option<Fill>,
    /// Repeats steps until a buffer says stop.
    #[serde(rename = "loop")]
    body: Option<LoopSpec>,
    /// Entry.
    entry: Option<String>,
    /// One to three sizes in blocks.
    grid: Option<Vec<Expr>>,
    /// One to three sizes in threads.
    block: Option<Vec<Expr>>,
    /// Dynamic shared memory in bytes.
    dynamic_shared: Option<Expr>,
    /// Stream.
    stream: Option<u32>,
    /// Arguments in order.
    args: Option<Vec<Argument>>,
}

impl JsonSchema for Step {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Step".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        StepKeys::json_schema(generator)
    }
}

impl TryFrom<StepKeys> for Step {
    type Error = String;

    fn try_from(keys: StepKeys) -> Result<Self, String> {
        let StepKeys { fill, body, entry, grid, block, dynamic_shared, stream, args } = keys;
        let launches = entry.is_some() || grid.is_some() || block.is_some() || args.is_some();
        match (fill, body) {
            (Some(fill), None) if !launches => Ok(Self::Fill { fill }),
            (None, Some(body)) if !launches => Ok(Self::Loop { body }),
            (None, None) => {
                let missing = |key: &str| format!("a launch needs `{key}`");
                Ok(Self::Launch(LaunchSpec {
                    entry: entry.ok_or_else(|| missing("entry"))?,
                    grid: grid.ok_or_else(|| missing("grid"))?,
                    block: block.ok_or_else(|| missing("block"))?,
                    dynamic_shared,
                    stream: stream.unwrap_or_default(),
                    args: args.ok_or_else(|| missing("args"))?,
                    place: None,
                }))
            }
            _ => Err("a step is a launch, a `fill` or a `loop`, one of them".into()),
        }
    }
}

/// Sets every element of a buffer.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    /// Which.
    pub buffer: String,
    /// The value.
    pub value: Expr,
}

/// A kernel launch.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchSpec {
    /// Entry.
    pub entry: String,
    /// One to three sizes in blocks.
    pub grid: Vec<Expr>,
    /// One to three sizes in threads.
    pub block: Vec<Expr>,
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: Option<Expr>,
    /// Stream.
    pub stream: u32,
    /// Arguments in order.
    pub args: Vec<Argument>,
    /// Where the file names the entry.
    pub place: Option<Span>,
}

/// An argument: the name of a buffer, a scalar by type, or the bytes of a struct.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Argument {
    /// A pointer to a buffer.
    Buffer(String),
    /// One pair: type (or `bytes`) and value.
    Scalar(BTreeMap<String, Expr>),
}

/// Repeated steps.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoopSpec {
    /// When to stop.
    #[serde(default)]
    pub until: Option<Until>,
    /// Most passes.
    pub max_iterations: Expr,
    /// Name of the pass counter in expressions.
    #[serde(default)]
    pub index: Option<String>,
    /// The steps.
    pub launches: Vec<Step>,
}

/// A condition on a buffer, looked at after each pass.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// Which buffer.
    pub buffer: String,
    /// Which element.
    pub index: Expr,
    /// Stops when it has this value.
    pub equals: Expr,
}

/// An expected result.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Buffer.
    pub buffer: String,
    /// A named function computes it on the host.
    #[serde(default)]
    pub reference: Option<String>,
    /// Literal values of its first elements.
    #[serde(default)]
    pub values: Option<Vec<f64>>,
    /// A file of its bytes.
    #[serde(default)]
    pub file: Option<String>,
    /// How near it must be.
    pub tolerance: Tolerance,
}

/// How near a result must be.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tolerance {
    /// The same bits.
    Exact,
    /// The same elements, in any order.
    Multiset,
    /// Units in the last place.
    Ulp(u32),
    /// Absolute error, plus a part of the expected value.
    Near {
        /// Absolute.
        abs: f64,
        /// Relative.
        rel: f64,
    },
}

/// Where a file says `entry:`, in order, and what stands behind it.
fn entries_in(source: &Source) -> Vec<(Span, &str)> {
    let text = &*source.text;
    let found = text.match_indices("entry:").filter_map(|(at, key)| {
        let before = text[..at].chars().next_back();
        let rest = &text[at + key.len()..];
        let lead = rest.len() - rest.trim_start_matches(' ').len();
        let name = rest[lead..].split([',', '}', '\n']).next().unwrap_or("").trim_end();
        let start = (at + key.len() + lead) as u32;
        let span = Span { start, end: start + name.len() as u32 };
        before
            .is_none_or(|c| c.is_whitespace() || "{-".contains(c))
            .then_some((span, name.trim_matches(['"', '\''])))
    });
    found.collect()
}

/// Each launch has its place: the next one that names its entry.
fn put_places<'s>(steps: &mut [Step], places: &mut impl Iterator<Item = (Span, &'s str)>) {
    for step in steps {
        match step {
            Step::Launch(launch) => {
                launch.place = places.find(|(_, name)| *name == launch.entry).map(|(span, _)| span);
            }
            Step::Loop { body } => put_places(&mut body.launches, places),
            Step::Fill { .. } => {}
        }
    }
}

impl WorkloadSpec {
    /// Reads and checks a workload file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn load(source: &Source) -> Result<Self, Vec<Diagnostic>> {
        let mut spec: Self = read(source).map_err(|e| vec![e])?;
        let mut places = entries_in(source).into_iter();
        put_places(&mut spec.launches, &mut places);
        spec.source = Some(source.clone());
        let mut errors = Vec::new();
        let mut wrong = |key: &[&str], message: String| {
            let error = Diagnostic::error("workload", message).in_source(source);
            errors.push(match key_span(source, key) {
                Some(span) => error.at(span, ""),
                None => error,
            });
        };
        if spec.schema != 1 {
            wrong(&["schema"], "this version reads schema 1".into());
        }
        if spec.schedule == Schedule::Dependent && spec.reason.is_none() {
            wrong(
                &["schedule"],
                "a workload whose results depend on the schedule must say why in `reason`".into(),
            );
        }
        if spec.variants.is_empty() {
            wrong(&["variants"], "a workload needs a variant".into());
        }
        if spec.expect.is_empty() {
            wrong(&["expect"], "a workload needs an expected result".into());
        }
        for expected in &spec.expect {
            if !spec.buffers.contains_key(&expected.buffer) {
                wrong(&["expect"], format!("`expect` names `{}`, which is no buffer", expected.buffer));
            }
            let given = [expected.reference.is_some(), expected.values.is_some(), expected.file.is_some()];
            if given.iter().filter(|g| **g).count() != 1 {
                wrong(&["expect"], format!("`{}` needs one of reference, values, file", expected.buffer));
            }
        }
        if errors.is_empty() { Ok(spec) } else { Err(errors) }
    }

    /// The variant asked for, or the newest whose target is not above the chip.
    ///
    /// # Errors
    /// There is none; the names are listed.
    pub fn variant(&self, name: Option<&str>, capability: u32) -> Result<&Variant, Diagnostic> {
        let names: Vec<&str> = self.variants.iter().map(|v| v.name.as_str()).collect();
        match name {
            Some(name) => self.variants.iter().find(|v| v.name == name).ok_or_else(|| {
                Diagnostic::error(
                    "variant",
                    format!("`{}` has no variant `{name}`; it has: {}", self.name, names.join(", ")),
                )
            }),
            None => self.variants.iter().filter(|v| v.sm() <= capability).max_by_key(|v| v.sm()).ok_or_else(
                || {
                    Diagnostic::error(
                        "variant",
                        format!(
                            "no variant of `{}` runs on this chip; it has: {}",
                            self.name,
                            names.join(", ")
                        ),
                    )
                },
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "schema: 1\nname: t\ndescription: d\nschedule: independent\nparams: {n: 8}\nvariants:\n- {name: sm_20, file: t.ptx, compiler: c, target: sm_20}\n- {name: sm_52, file: u.ptx, compiler: c, target: sm_52}\nbuffers:\n  a: {type: f32, length: n * 2, init: {random: {seed: 1, min: 0, max: 1}}}\n  b: {type: u32, length: 4, init: iota}\nlaunches:\n- {entry: k, grid: [\"ceil_div(n, 4)\"], block: [4], args: [a, {s32: n}]}\n- {fill: {buffer: b, value: 3}}\n- loop: {until: {buffer: b, index: 0, equals: 0}, max_iterations: 3, index: i, launches: [{entry: k, grid: [1], block: [1], args: []}]}\nexpect:\n- {buffer: b, values: [1, 2], tolerance: exact}\n- {buffer: a, reference: r, tolerance: {near: {abs: 1e-6, rel: 1e-5}}}\n";

    #[test]
    fn a_whole_file() {
        let spec =
            WorkloadSpec::load(&Source::new("w.yaml", TEXT)).unwrap_or_else(|e| panic!("{}", e[0].render()));
        assert!(matches!(&spec.launches[..], [Step::Launch(_), Step::Fill { .. }, Step::Loop { .. }]));
        assert_eq!(spec.variant(None, 20).map(|v| v.name.as_str()), Ok("sm_20"));
        assert_eq!(spec.variant(None, 60).map(|v| v.name.as_str()), Ok("sm_52"));
        assert!(spec.variant(Some("sm_90"), 20).is_err());
        assert!(spec.variant(None, 10).is_err());
    }

    #[test]
    fn wrong_files_say_where() {
        for (from, to, wanted) in [
            ("expect:", "expects:", "did you mean `expect`?"),
            ("schedule: independent", "schedule: dependent", "must say why"),
            ("buffer: b, values", "buffer: c, values", "names `c`"),
            ("args: [a", "arg: [a", "did you mean `args`?"),
            ("block: [4], ", "", "a launch needs `block`"),
            ("entry: k, grid: [1]", "fill: {buffer: b, value: 1}, grid: [1]", "one of them"),
        ] {
            let errors =
                WorkloadSpec::load(&Source::new("w.yaml", &TEXT.replacen(from, to, 1))).expect_err(from);
            let text: String = errors.iter().map(Diagnostic::render).collect();
            assert!(text.contains(wanted) && text.contains("w.yaml:"), "{text}");
        }
    }

    #[test]
    fn launches_know_their_places() {
        let source = Source::new("w.yaml", TEXT);
        let spec = WorkloadSpec::load(&source).expect("it is right");
        let line = |step: &Step| match step {
            Step::Launch(launch) => launch.place.map(|span| source.position(span.start)),
            _ => None,
        };
        assert_eq!(line(&spec.launches[0]), Some((13, 11)));
        let Step::Loop { body } = &spec.launches[2] else { panic!("the third is a loop") };
        assert_eq!(line(&body.launches[0]).map(|(line, _)| line), Some(15));
    }
}
