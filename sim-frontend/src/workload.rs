//! Workload files: variants of a program, buffers, launches, expected results.

mod argument;
mod buffer;
mod expr;
mod image;
mod key_span;
mod keys;
mod number;
mod tensor_map;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_memory::vocabulary::ScalarType;

pub use argument::{Argument, ArgumentKind};
pub use buffer::{HostBuffer, SplitMix64, push_element};
pub use expr::{Expr, Params, evaluate};
pub use image::{ImageAddress, ImageAddresses, ImageFilter, ImageRead, ImageSpec, ImageStorage};
pub use key_span::KeySpan;
pub use number::Number;
pub use tensor_map::{AlongW, Im2colSpec, SwizzleAtom, TensorFill, TensorMapSpec};

use crate::diagnostic::{Diagnostic, Source};
use crate::yaml;

/// How much results depend on the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Memory and every thread's trace are the same under every schedule.
    Independent,
    /// The final memory is the same under every schedule; the traces of threads may differ.
    Values,
    /// Checked against its own expectation only.
    Dependent,
}

/// Under which schedules a workload terminates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Termination {
    /// Under all schedules.
    #[default]
    Always,
    /// Under weakly fair schedules; others may starve a thread that the rest waits for.
    FairSchedules,
    /// Wrong on purpose: it does not end, stops with a fault, or its results depend on the schedule.
    Broken,
}

/// What becomes of values that PTX leaves undefined: what `shfl.sync` reads from a lane that does not participate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UndefinedValues {
    /// Reading one is a fault.
    #[default]
    Fault,
    /// They are 0 and counted in reports; a fault with `--check full` or `--check sync`. Recorded CUDA programs say this.
    Zero,
}

/// A workload: programs, buffers, launches, expected results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkloadSpec {
    /// Version of the format.
    pub schema: u32,
    /// Name, as `warpsim run` takes it.
    pub name: String,
    /// Description in one line.
    pub description: String,
    /// How much results depend on the schedule.
    pub schedule: Schedule,
    /// Why, where they do.
    pub reason: Option<String>,
    /// Why its accesses race on purpose, where they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intended_races: Option<String>,
    /// Under which schedules it ends.
    pub termination: Termination,
    /// What becomes of values that PTX leaves undefined.
    #[serde(skip_serializing_if = "is_fault")]
    pub undefined_values: UndefinedValues,
    /// Numbers that `--set` can change, by name.
    pub params: Params,
    /// Programs, oldest target first.
    pub variants: Vec<Variant>,
    /// Buffers by name.
    pub buffers: BTreeMap<String, BufferSpec>,
    /// Variables of the program by name, as far as something is said of them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, VariableSpec>,
    /// Textures over buffers, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub textures: BTreeMap<String, ImageSpec>,
    /// Surfaces over buffers, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub surfaces: BTreeMap<String, ImageSpec>,
    /// Tensor maps over buffers, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tensor_maps: BTreeMap<String, TensorMapSpec>,
    /// A file of the lines that L2 holds before the first launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l2: Option<String>,
    /// Steps in order.
    pub launches: Vec<Step>,
    /// Expected results.
    pub expect: Vec<Expectation>,
    /// The file it was read from.
    #[serde(skip)]
    pub source: Option<Source>,
}

fn is_fault(values: &UndefinedValues) -> bool {
    *values == UndefinedValues::Fault
}

impl JsonSchema for WorkloadSpec {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WorkloadSpec".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        keys::WorkloadKeys::json_schema(generator)
    }
}

/// One program of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Variant {
    /// Name, as `--variant` takes it.
    pub name: String,
    /// PTX file beside the workload file.
    pub file: String,
    /// What made it.
    pub compiler: String,
    /// Target of the program, such as `sm_20`.
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

/// A buffer in global memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BufferSpec {
    /// Element type.
    pub ty: ScalarType,
    /// Number of elements.
    pub length: Expr,
    /// First contents.
    pub init: Init,
    /// Its address in device memory; the next free one where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// Where the file says how long it is.
    #[serde(skip)]
    pub length_place: KeySpan,
    /// Where the file says what it holds.
    #[serde(skip)]
    pub init_place: KeySpan,
}

/// A variable of the program, in global or constant memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VariableSpec {
    /// Its address, or its offset in constant memory; the next free one where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// Its bytes, where it is a part of the device runtime whose size a program sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Where the file says so.
    #[serde(skip)]
    pub bytes_place: KeySpan,
    /// Initial contents; those that the program gives it where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<Init>,
    /// Where the file says what it holds.
    #[serde(skip)]
    pub init_place: KeySpan,
}

/// Initial contents of a buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(deny_unknown_fields)]
pub enum Init {
    /// Zeros.
    Zeros,
    /// 0, 1, 2 …
    Iota,
    /// Random values (SplitMix64) between bounds, both inclusive for integers.
    Random {
        /// Seed.
        seed: u64,
        /// Least value.
        min: Number,
        /// Greatest value.
        max: Number,
    },
    /// Literal values; the rest is zero.
    Values(Vec<Number>),
    /// Bytes in hexadecimal digits; the rest is zero.
    Hex(String),
    /// A file beside the workload file, with the whole contents: `.npy` of the buffer's type, or raw bytes; compressed
    /// by zstd where its name ends with `.zst`.
    File(String),
    /// `(i % modulo) * scale + offset`.
    Formula {
        /// Period.
        modulo: u64,
        /// Factor.
        scale: Number,
        /// Added.
        #[serde(default = "zero")]
        offset: Number,
    },
    /// Made by a named function.
    Reference(String),
}

fn zero() -> Number {
    Number::ZERO
}

/// A step of the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

/// Sets every element of a buffer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fill {
    /// Name of the buffer.
    pub buffer: String,
    /// The value of every element.
    pub value: Expr,
    /// Where the file has it.
    #[serde(skip)]
    pub place: KeySpan,
}

/// A kernel launch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaunchSpec {
    /// Name of the kernel.
    pub entry: String,
    /// One to three sizes in blocks.
    pub grid: Vec<Expr>,
    /// One to three sizes in threads.
    pub block: Vec<Expr>,
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: Option<Expr>,
    /// One to three sizes of clusters in blocks; none where the kernel says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster: Vec<Expr>,
    /// Clusters may have more blocks than every chip allows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub non_portable_cluster: bool,
    /// Stream of the launch.
    pub stream: u32,
    /// Arguments in order.
    pub args: Vec<Argument>,
    /// Where the file names the entry.
    #[serde(skip)]
    pub place: KeySpan,
}

/// Steps that are repeated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoopSpec {
    /// When to stop.
    pub until: Option<Until>,
    /// Largest number of iterations.
    pub max_iterations: Expr,
    /// Name of the pass counter in expressions.
    pub index: Option<String>,
    /// Pairs of buffers that exchange their names after each pass.
    pub swap: Vec<[String; 2]>,
    /// The steps of an iteration.
    pub launches: Vec<Step>,
    /// Where the file has it.
    #[serde(skip)]
    pub place: KeySpan,
}

/// A condition on a buffer, looked at after each pass.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Until {
    /// Name of the buffer.
    pub buffer: String,
    /// Index of the element.
    pub index: Expr,
    /// Stops when it has this value.
    pub equals: Expr,
}

/// An expected result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expectation {
    /// Name of the buffer.
    pub buffer: String,
    /// A named function computes it on the host.
    pub reference: Option<String>,
    /// Literal values of its first elements.
    pub values: Option<Vec<Number>>,
    /// A file of its elements.
    pub file: Option<String>,
    /// How near it must be.
    pub tolerance: Tolerance,
    /// Where the file has it.
    #[serde(skip)]
    pub place: KeySpan,
}

/// Permitted difference between a result and its expected value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(deny_unknown_fields)]
pub enum Tolerance {
    /// The same bits.
    Exact,
    /// The same elements, in any order.
    Multiset,
    /// Maximum error in units in the last place.
    Ulp(u32),
    /// Maximum error: `abs` plus `rel` times the expected value.
    Near {
        /// Absolute.
        abs: f64,
        /// Relative.
        rel: f64,
    },
}

impl WorkloadSpec {
    /// Reads and checks a workload file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn load(source: &Source) -> Result<Self, Vec<Diagnostic>> {
        match yaml::survey::<keys::WorkloadKeys>(source) {
            (Some(keys), found) => keys.spec(source, found),
            (None, found) => Err(found),
        }
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
            ("name: t\ndescription: d\n", "", "missing keys: `name`, `description`"),
            ("type: f32, length: n * 2, ", "", "missing keys in `buffers.a`: `type`, `length`"),
            ("file: t.ptx, compiler: c, ", "", "missing keys in `variants[0]`: `file`, `compiler`"),
            (
                "buffer: b, values: [1, 2], tolerance: exact",
                "values: [1]",
                "missing keys in `expect[0]`: `buffer`, `tolerance`",
            ),
            ("min: 0, max: 1", "min: 5, max: 1", "`min` 5 is greater than `max` 1"),
            ("min: 0, max: 1", "min: .nan, max: 1", "must be finite"),
            ("init: iota", "init: {formula: {modulo: 0, scale: 1}}", "`modulo` must be at least 1"),
            ("init: iota", "init: {formula: {modulo: 2, scale: 0.5}}", "elements of .u32 need integers"),
            ("init: iota", "init: {random: {seed: 1, min: -5, max: 1}}", "-5 is out of range 0..=4294967295"),
            ("values: [1, 2]", "values: [1, 4294967296]", "4294967296 is out of range"),
            ("abs: 1e-6", "abs: .inf", "must be finite and at least 0"),
            ("rel: 1e-5", "rel: -1", "must be finite and at least 0"),
            ("rel: 1e-5", "rel: .nan", "must be finite and at least 0"),
            ("tolerance: exact", "tolerance: {ulp: 2}", "`ulp` is for floating-point elements"),
            ("params: {n: 8}", "params: {n: .nan}", "must be finite"),
            ("{s32: n}", "{s32: n, u32: 1}", "an argument has one type"),
            ("index: i,", "index: i, swap: [[a, b]],", "two buffers of one type"),
            ("index: i,", "index: i, swap: [[a, c]],", "`swap` names `c`"),
            ("name: t", "name: \"t\\e[2J\"", "without control characters"),
            ("entry: k, grid: [1]", "fill: {buffer: b, value: 1}, grid: [1]", "exactly one of"),
        ] {
            let errors =
                WorkloadSpec::load(&Source::new("w.yaml", &TEXT.replacen(from, to, 1))).expect_err(from);
            let text: String = errors.iter().map(Diagnostic::render).collect();
            assert!(text.contains(wanted) && text.contains("w.yaml:"), "{text}");
        }
    }

    /// What is said of a file that is not right.
    fn said(text: &str) -> Vec<String> {
        let errors = WorkloadSpec::load(&Source::new("w.yaml", text)).expect_err("refused");
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_that_is_missing_or_unknown_is_named_at_once() {
        let text = TEXT
            .replace("schedule: independent\n", "schedul: independent\n")
            .replace("type: u32, ", "typ: u32, ")
            .replace("value: 3", "valu: 3")
            .replace("seed: 1, min: 0", "seeds: 1, min: 0")
            .replace("block: [4], ", "blocks: [4], ")
            .replace("target: sm_52", "target: sm_52, flags: x")
            .replace("abs: 1e-6, ", "");
        assert_eq!(
            said(&text),
            [
                "w.yaml:1:1: error: missing key: `schedule`",
                "w.yaml:4:1: error: there is no key `schedul`",
                "w.yaml:8:58: error: there is no key `variants[1].flags`",
                "w.yaml:10:40: error: missing key in `buffers.a.init.random`: `seed`",
                "w.yaml:10:49: error: there is no key `buffers.a.init.random.seeds`",
                "w.yaml:11:3: error: missing key in `buffers.b`: `type`",
                "w.yaml:11:7: error: there is no key `buffers.b.typ`",
                "w.yaml:13:40: error: there is no key `launches[0].blocks`",
                "w.yaml:14:4: error: missing key in `launches[1].fill`: `value`",
                "w.yaml:14:22: error: there is no key `launches[1].fill.valu`",
                "w.yaml:18:41: error: missing key in `expect[1].tolerance.near`: `abs`",
            ]
        );
        // With every value readable, what steps lack is among it.
        let text = TEXT.replace("block: [4], ", "blocks: [4], ").replace("reference: r", "refers: r");
        assert_eq!(
            said(&text),
            [
                "w.yaml:13:3: error: a launch needs `block`",
                "w.yaml:13:40: error: there is no key `launches[0].blocks`",
                "w.yaml:18:3: error: `a` needs one of `reference`, `values`, `file`",
                "w.yaml:18:15: error: there is no key `expect[1].refers`",
            ]
        );
    }

    #[test]
    fn a_value_of_a_wrong_kind_hides_no_wrong_key() {
        let text = TEXT.replace("length: 4", "length: [4]").replace("expect:", "expects:");
        let said = said(&text);
        assert!(said.len() == 2 && said[0].starts_with("w.yaml:11:18: error: "), "{said:?}");
        assert_eq!(said[1], "w.yaml:16:1: error: there is no key `expects`");
    }

    #[test]
    fn integers_of_64_bits_are_exact() {
        let text = TEXT
            .replace("params: {n: 8}", "params: {n: 16045690984503098046, m: -0x8000_0000_0000_0000}")
            .replace(
                "{type: u32, length: 4, init: iota}",
                "{type: u64, length: 4, init: {values: [9007199254740993]}}",
            )
            .replace("value: 3", "value: 0xdeadbeefcafebabe")
            .replace("values: [1, 2]", "values: [18446744073709551615]");
        let spec =
            WorkloadSpec::load(&Source::new("w.yaml", &text)).unwrap_or_else(|e| panic!("{}", e[0].render()));
        assert_eq!(spec.params["n"].integer(), Some(16_045_690_984_503_098_046));
        assert_eq!(spec.params["m"].integer(), Some(i64::MIN.into()));
        assert_eq!(spec.buffers["b"].init, Init::Values(vec![9_007_199_254_740_993u64.into()]));
        let Step::Fill { fill } = &spec.launches[1] else { panic!("the second fills") };
        assert_eq!(evaluate(&fill.value, &spec.params), Ok(0xdead_beef_cafe_babe_u64.into()));
        assert_eq!(spec.expect[0].values, Some(vec![u64::MAX.into()]));
    }

    #[test]
    fn arguments_of_every_form() {
        let text = TEXT.replace(
            "args: [a, {s32: n}]",
            "args: [a + n / 2, {struct: [b, {f32: [1, 2.5]}, {u8: 0xff}]}, {bytes: \"00ff\"}]",
        );
        let spec =
            WorkloadSpec::load(&Source::new("w.yaml", &text)).unwrap_or_else(|e| panic!("{}", e[0].render()));
        let Step::Launch(launch) = &spec.launches[0] else { panic!("the first launches") };
        let kinds: Vec<&ArgumentKind> = launch.args.iter().map(|argument| &argument.kind).collect();
        let number = |value: f64| Expr::Number(value.into());
        assert_eq!(
            *kinds[0],
            ArgumentKind::Pointer { buffer: "a".into(), offset: Some(Expr::Text("n / 2".into())) }
        );
        assert_eq!(
            *kinds[1],
            ArgumentKind::Struct(vec![
                ArgumentKind::pointer("b"),
                ArgumentKind::Scalar { ty: "f32".into(), values: vec![number(1.0), number(2.5)] },
                ArgumentKind::Scalar { ty: "u8".into(), values: vec![number(255.0)] },
            ])
        );
        assert_eq!(*kinds[2], ArgumentKind::Bytes("00ff".into()));
        let source = Source::new("w.yaml", &text);
        assert_eq!(launch.args[0].place.0.map(|span| source.position(span.start).0), Some(13));
    }

    #[test]
    fn nothing_need_be_expected() {
        let text = TEXT.split("expect:").next().unwrap_or_default();
        assert_eq!(WorkloadSpec::load(&Source::new("w.yaml", text)).map(|spec| spec.expect), Ok(Vec::new()));
    }

    #[test]
    fn launches_know_their_places() {
        let source = Source::new("w.yaml", TEXT);
        let spec = WorkloadSpec::load(&source).expect("it is right");
        let line = |step: &Step| match step {
            Step::Launch(launch) => launch.place.0.map(|span| source.position(span.start)),
            _ => None,
        };
        assert_eq!(line(&spec.launches[0]), Some((13, 11)));
        let Step::Loop { body } = &spec.launches[2] else { panic!("the third is a loop") };
        assert_eq!(line(&body.launches[0]).map(|(line, _)| line), Some(15));
    }
}
