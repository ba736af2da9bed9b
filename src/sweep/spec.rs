//! Sweep files: what is varied, how the axes combine, and which points are left out.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use sim_core::monitor::Check;
use sim_core::reconvergence::registry::PolicyChoice;
use sim_frontend::diagnostic::{Diagnostic, Source, nearest};
use sim_frontend::workload::Number;
use sim_frontend::yaml::{key_span, read_checked};

use super::values::{MOST, Scalar, Values};
use super::workloads::Workloads;
use crate::cuda::command::CudaWorkload;
use crate::request::{Program, Request, SchedulerChoice, Setting};

/// The axes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Axes {
    /// Workloads, by name, folder or file, and CUDA programs by their commands. Paths are relative to the current directory.
    #[serde(default)]
    pub workload: Option<Workloads>,
    /// Variants of the workloads.
    #[serde(default)]
    pub variant: Option<Values>,
    /// Chips, by name or file. Paths are relative to the current directory.
    #[serde(default)]
    pub chip: Option<Values>,
    /// Reconvergence policies, NAME[:key=value,…].
    #[serde(default)]
    pub policy: Option<Values>,
    /// Warp scheduler, as for `run --scheduler`.
    #[serde(default)]
    pub scheduler: Option<Values>,
    /// Seeds of random buffer contents, as for `run --seed`.
    #[serde(default)]
    pub seed: Option<Values>,
    /// Keys of the chip by their paths, parameters of the workloads by their names, and what stands in braces in commands.
    #[serde(default)]
    pub set: BTreeMap<String, Values>,
}

/// Condition on the value of an axis.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Wanted {
    /// One of these values.
    List(Vec<Scalar>),
    /// A number from `min` to `max`.
    Between {
        /// At least.
        #[serde(default)]
        min: Option<Number>,
        /// At most.
        #[serde(default)]
        max: Option<Number>,
    },
    /// This value.
    One(Scalar),
}

impl Wanted {
    /// Those of its conditions that none of the values meets, in words.
    fn missed(&self, values: &[String]) -> Vec<String> {
        let absent = |one: &&Scalar| !values.contains(&one.to_string());
        match self {
            Self::One(one) => Some(one).into_iter().filter(absent).map(ToString::to_string).collect(),
            Self::List(list) => list.iter().filter(absent).map(ToString::to_string).collect(),
            Self::Between { min, max } if !values.iter().any(|value| self.holds(value)) => {
                let bound = |word: &str, bound: &Option<Number>| bound.map(|bound| format!("{word} {bound}"));
                let bounds: Vec<String> = bound("from", min).into_iter().chain(bound("to", max)).collect();
                vec![bounds.join(" ")]
            }
            Self::Between { .. } => Vec::new(),
        }
    }

    fn holds(&self, value: &str) -> bool {
        match self {
            Self::One(one) => one.to_string() == value,
            Self::List(list) => list.iter().any(|one| one.to_string() == value),
            Self::Between { min, max } => Number::parse(value)
                .is_ok_and(|value| min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max)),
        }
    }
}

/// Options that all points have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Common {
    /// Run-time checks: off, safety or full.
    #[serde(default)]
    pub check: Option<String>,
    /// Core cycles after which a point is stopped, including launch latencies.
    #[serde(default)]
    pub max_cycles: Option<u64>,
    /// Allows instructions above the chip's compute capability.
    #[serde(default)]
    pub allow_newer_isa: bool,
}

/// A sweep.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepSpec {
    /// Version of this format: 1.
    pub schema: u32,
    /// Name of the sweep.
    pub name: String,
    /// Description in one line.
    #[serde(default)]
    pub description: String,
    /// Options that all points have in common.
    #[serde(default)]
    pub run: Common,
    /// What is varied: every value of an axis is combined with every value of the others.
    pub axes: Axes,
    /// Groups of axes that vary together: their first values, then their second values, and so on.
    #[serde(default)]
    pub zip: Vec<Vec<String>>,
    /// Points that meet one of these conditions are kept. Default: all points.
    #[serde(default)]
    pub only: Vec<BTreeMap<String, Wanted>>,
    /// Points that meet one of these conditions are left out.
    #[serde(default)]
    pub exclude: Vec<BTreeMap<String, Wanted>>,
}

/// A point: the value of each axis, in the order of the axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Axis and value.
    pub values: Vec<(String, String)>,
    /// Its workload, where that is a CUDA program.
    pub cuda: Option<CudaWorkload>,
}

impl Point {
    /// The value of an axis.
    pub fn get(&self, axis: &str) -> Option<&str> {
        self.values.iter().find(|(name, _)| name == axis).map(|(_, value)| value.as_str())
    }

    fn meets(&self, filter: &BTreeMap<String, Wanted>) -> bool {
        filter.iter().all(|(axis, wanted)| self.get(axis).is_some_and(|value| wanted.holds(value)))
    }

    /// The run of it.
    ///
    /// # Errors
    /// Values that are none of their axis.
    pub fn request(&self, common: &Common) -> Result<Request, Vec<Diagnostic>> {
        let one = |e: Diagnostic| vec![e];
        let text = |axis: &str| self.get(axis).map(str::to_string);
        let seed = |text: &str| {
            let message = format!("`{text}` is not a seed: a whole number from 0 to {}", u64::MAX);
            text.parse::<u64>().map_err(|_| Diagnostic::error("seed", message))
        };
        let set = self.values.iter().filter(|(axis, _)| !Axes::NAMED.contains(&axis.as_str()));
        Ok(Request {
            variant: text("variant"),
            chip: text("chip"),
            policy: self.get("policy").map(PolicyChoice::parse).transpose().map_err(one)?,
            scheduler: self.get("scheduler").map(SchedulerChoice::parse).transpose().map_err(one)?,
            seed: self.get("seed").map(seed).transpose().map_err(one)?.unwrap_or(0),
            set: set.map(|(key, value)| Setting { key: key.clone(), value: value.clone() }).collect(),
            check: common.check.as_deref().and_then(Check::named).unwrap_or_default(),
            max_cycles: common.max_cycles,
            allow_newer_isa: common.allow_newer_isa,
            ..Request::new(self.program()?)
        })
    }

    fn program(&self) -> Result<Program, Vec<Diagnostic>> {
        match &self.cuda {
            None => Program::named(self.get("workload").unwrap_or_default()),
            Some(cuda) => {
                let command = cuda.command().map_err(|error| vec![error])?;
                Ok(Program::Cuda(Box::new(command)))
            }
        }
    }

    /// Arguments of `warpsim run` that make the same run, for people: results have them. Those of a CUDA program are
    /// `cuda` and its arguments.
    pub fn words(&self, common: &Common) -> Vec<String> {
        let mut words = match &self.cuda {
            None => vec![self.get("workload").unwrap_or_default().to_string()],
            Some(cuda) => {
                let timed = cuda.time.iter().flat_map(|rule| ["--time".to_string(), rule.clone()]);
                let warm = Some(cuda.warm).filter(|warm| *warm > 0);
                let warm = warm.map(|warm| ["--warm".to_string(), warm.to_string()]);
                std::iter::once("cuda".to_string()).chain(timed).chain(warm.into_iter().flatten()).collect()
            }
        };
        let mut command = self.cuda.as_ref().map(|cuda| cuda.command.clone());
        for (axis, value) in self.values.iter().filter(|(axis, _)| axis != "workload") {
            let place = format!("{{{axis}}}");
            if let Some(command) = command.as_mut().filter(|command| command.contains(&place)) {
                *command = command.replace(&place, value);
            } else if Axes::NAMED.contains(&axis.as_str()) {
                words.extend([format!("--{axis}"), value.clone()]);
            } else {
                words.extend(["--set".to_string(), format!("{axis}={value}")]);
            }
        }
        if let Some(check) = &common.check {
            words.extend(["--check".to_string(), check.clone()]);
        }
        if let Some(cycles) = common.max_cycles {
            words.extend(["--max-cycles".to_string(), cycles.to_string()]);
        }
        if common.allow_newer_isa {
            words.push("--allow-newer-isa".to_string());
        }
        if let Some(command) = command {
            words.extend(["--".to_string(), command]);
        }
        words
    }
}

impl Axes {
    /// Axes that are options of `run`.
    const NAMED: [&'static str; 6] = ["workload", "variant", "chip", "policy", "scheduler", "seed"];

    fn all(&self) -> Vec<(&str, Values)> {
        let workloads = self.workload.as_ref().map(Workloads::values);
        let others = [&self.variant, &self.chip, &self.policy, &self.scheduler, &self.seed];
        let named = std::iter::once(workloads).chain(others.map(Clone::clone));
        let named = Self::NAMED.into_iter().zip(named).filter_map(|(name, values)| Some((name, values?)));
        named.chain(self.set.iter().map(|(name, values)| (name.as_str(), values.clone()))).collect()
    }
}

impl SweepSpec {
    /// Reads and checks a sweep file.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub fn load(source: &Source) -> Result<Self, Vec<Diagnostic>> {
        let spec: Self = read_checked(source)?;
        let mut errors = Vec::new();
        let mut wrong = |path: &[&str], message: String| {
            let error = Diagnostic::error("sweep", message).in_source(source);
            errors.push(match key_span(source, path) {
                Some(span) => error.at(span, ""),
                None => error,
            });
        };
        if spec.schema != 1 {
            wrong(&["schema"], "this version of warpsim reads only schema 1".into());
        }
        if spec.axes.workload.is_none() {
            wrong(&["axes"], "`axes` names no workload".into());
        }
        for error in spec.axes.workload.iter().flat_map(Workloads::errors) {
            wrong(&["axes", "workload"], error);
        }
        let axes = spec.axes.all();
        for (name, values) in &axes {
            let path: Vec<&str> = match Axes::NAMED.contains(name) {
                true => vec!["axes", name],
                false => vec!["axes", "set", name],
            };
            match values.list() {
                Ok(list) if list.is_empty() => wrong(&path, format!("the axis `{name}` has no values")),
                Ok(_) => {}
                Err(reason) => wrong(&path, format!("`{name}`: {reason}")),
            }
        }
        let known = |name: &str| axes.iter().any(|(axis, _)| *axis == name);
        let mut unknown = |path: &str, name: &str| {
            let near = nearest(name, axes.iter().map(|(axis, _)| *axis));
            let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            wrong(&[path], format!("`{path}` names `{name}`, which is not an axis of this sweep{hint}"));
        };
        let zipped = spec.zip.iter().flatten().map(|name| ("zip", name));
        let kept = spec.only.iter().flat_map(BTreeMap::keys).map(|name| ("only", name));
        let left_out = spec.exclude.iter().flat_map(BTreeMap::keys).map(|name| ("exclude", name));
        for (path, name) in zipped.chain(kept).chain(left_out) {
            if !known(name) {
                unknown(path, name);
            }
        }
        // A condition that no point can meet is a slip: it would keep or leave out nothing.
        for (path, filters) in [("only", &spec.only), ("exclude", &spec.exclude)] {
            for (name, wanted) in filters.iter().flatten() {
                let Some(values) = axes.iter().find(|(axis, _)| axis == name) else { continue };
                let Ok(values) = values.1.list() else { continue };
                if let Wanted::Between { min, max } = wanted
                    && let Some(bound) = min.iter().chain(max).find(|bound| !bound.is_finite())
                {
                    wrong(
                        &[path],
                        format!("`{path}`: a bound of `{name}` must be a finite number, not {bound}"),
                    );
                    continue;
                }
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                for missed in wanted.missed(&values) {
                    let near = nearest(&missed, values.iter().map(String::as_str));
                    let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                    wrong(&[path], format!("`{path}` requires `{name}` {missed}, which no point has{hint}"));
                }
            }
        }
        if let Some(check) = &spec.run.check
            && !["off", "safety", "full"].contains(&check.as_str())
        {
            wrong(&["run", "check"], format!("`check` must be off, safety or full, not `{check}`"));
        }
        for group in &spec.zip {
            let axes = axes.iter().filter(|(axis, _)| group.iter().any(|name| name == axis));
            let lengths: Vec<(&str, usize)> =
                axes.filter_map(|(axis, values)| Some((*axis, values.list().ok()?.len()))).collect();
            if lengths.windows(2).any(|pair| pair[0].1 != pair[1].1) {
                let list: Vec<String> = lengths.iter().map(|(name, n)| format!("`{name}` {n}")).collect();
                wrong(
                    &["zip"],
                    format!("zipped axes must have the same number of values: {}", list.join(", ")),
                );
            }
        }
        for (i, name) in spec.zip.iter().flatten().enumerate() {
            if spec.zip.iter().flatten().take(i).any(|other| other == name) {
                wrong(&["zip"], format!("`{name}` appears more than once in `zip`"));
            }
        }
        if errors.is_empty() { Ok(spec) } else { Err(errors) }
    }

    /// The points, in the order of the axes, the last of which changes fastest.
    ///
    /// # Errors
    /// There are too many.
    pub fn points(&self) -> Result<Vec<Point>, Diagnostic> {
        let axes: Vec<(&str, Vec<Scalar>)> = self
            .axes
            .all()
            .into_iter()
            .map(|(name, values)| (name, values.list().unwrap_or_default()))
            .collect();
        // Axes that go together are one dimension, at the place of the first of them.
        let mut dimensions: Vec<Vec<usize>> = Vec::new();
        for (i, (name, _)) in axes.iter().enumerate() {
            let group = self.zip.iter().find(|group| group.iter().any(|other| other == name));
            let members: Vec<usize> = match group {
                Some(group) => (0..axes.len()).filter(|j| group.iter().any(|g| g == axes[*j].0)).collect(),
                None => vec![i],
            };
            if members[0] == i {
                dimensions.push(members);
            }
        }
        let lengths: Vec<usize> = dimensions.iter().map(|members| axes[members[0]].1.len()).collect();
        let all = lengths.iter().try_fold(1usize, |all, n| all.checked_mul(*n)).filter(|all| *all <= MOST);
        let Some(all) = all else {
            return Err(Diagnostic::error("sweep", format!("{} has more than {MOST} points", self.name)));
        };
        let mut points = Vec::new();
        for number in 0..all {
            let mut rest = number;
            let mut values = vec![String::new(); axes.len()];
            for (members, length) in dimensions.iter().zip(&lengths).rev() {
                let at = rest % length;
                rest /= length;
                for &member in members {
                    values[member] = axes[member].1[at].to_string();
                }
            }
            let values = axes.iter().map(|(name, _)| (*name).to_string()).zip(values).collect();
            let mut point = Point { values, cuda: None };
            let workload = point.get("workload").unwrap_or_default();
            point.cuda = self.axes.workload.as_ref().and_then(|list| list.cuda(workload)).cloned();
            let kept = self.only.is_empty() || self.only.iter().any(|filter| point.meets(filter));
            if kept && !self.exclude.iter().any(|filter| point.meets(filter)) {
                points.push(point);
            }
        }
        Ok(points)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<SweepSpec, String> {
        SweepSpec::load(&Source::new("s.yaml", text))
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    fn points(axes: &str) -> Vec<String> {
        let spec = load(&format!("schema: 1\nname: s\naxes:\n{axes}")).unwrap_or_else(|e| panic!("{e}"));
        let points = spec.points().unwrap_or_else(|e| panic!("{e}"));
        let words = |p: &Point| p.values.iter().map(|(_, v)| v.as_str()).collect::<Vec<_>>().join(" ");
        points.iter().map(words).collect()
    }

    #[test]
    fn axes_are_crossed_and_the_last_changes_fastest() {
        let found = points("  workload: [a, b]\n  chip: [x, y]\n  set:\n    n: [1, 2]\n");
        assert_eq!(found, ["a x 1", "a x 2", "a y 1", "a y 2", "b x 1", "b x 2", "b y 1", "b y 2"]);
        assert_eq!(points("  workload: a\n"), ["a"]);
    }

    #[test]
    fn ranges_hold_their_ends() {
        let found = points(
            "  workload: a\n  set:\n    m.x: {range: {from: 0.1, to: 0.5, step: 0.1}}\n    n: {log: {from: 8, to: 64}}\n",
        );
        assert_eq!(found.len(), 5 * 4);
        assert_eq!(
            (found[0].as_str(), found[3].as_str(), found[4].as_str()),
            ("a 0.1 8", "a 0.1 64", "a 0.2 8")
        );
        assert_eq!(
            points("  workload: a\n  seed: {range: {from: 1, to: 3, step: 1}}\n"),
            ["a 1", "a 2", "a 3"]
        );
        assert_eq!(
            points("  workload: a\n  set: {n: {log: {from: 1, to: 100, factor: 10}}}\n"),
            ["a 1", "a 10", "a 100"]
        );
    }

    #[test]
    fn integers_of_64_bits_are_exact() {
        let found = points("  workload: a\n  set: {n: [9007199254740993, 0xdeadbeefcafebabe]}\n");
        assert_eq!(found, ["a 9007199254740993", "a 16045690984503098046"]);
        let range = "{range: {from: 9007199254740993, to: 9007199254740995, step: 2}}";
        assert_eq!(
            points(&format!("  workload: a\n  set: {{n: {range}}}\n")),
            ["a 9007199254740993", "a 9007199254740995"]
        );
    }

    #[test]
    fn axes_go_together_and_points_are_left_out() {
        let found = points("  workload: [a, b]\n  chip: [x, y]\n  policy: [p, q]\nzip: [[chip, policy]]\n");
        assert_eq!(found, ["a x p", "a y q", "b x p", "b y q"]);
        let found = points(
            "  workload: [a, b]\n  set:\n    n: [1, 2, 3]\nexclude:\n- {workload: a, n: [1, 3]}\n- {n: {min: 3}}\n",
        );
        assert_eq!(found, ["a 2", "b 1", "b 2"]);
        assert_eq!(
            points("  workload: [a, b]\n  set:\n    n: [1, 2]\nonly:\n- {workload: b, n: 2}\n"),
            ["b 2"]
        );
    }

    #[test]
    fn a_point_is_a_run() {
        let spec = load(
            "schema: 1\nname: s\nrun: {check: full, max_cycles: 9, allow_newer_isa: true}\naxes:\n  workload: a\n  chip: x\n  seed: 3\n  set: {m.x: 4}\n",
        );
        let spec = spec.unwrap_or_else(|e| panic!("{e}"));
        let words = spec.points().expect("one")[0].words(&spec.run).join(" ");
        assert_eq!(words, "a --chip x --seed 3 --set m.x=4 --check full --max-cycles 9 --allow-newer-isa");
    }

    #[test]
    fn all_wrong_keys_are_named_at_once() {
        let text = load(
            "schema: 1\nnames: s\nrun: {checks: full}\naxes:\n  workload: a\n  cihp: x\n  set:\n    \
             n: {range: {from: 1, until: 2, step: 1}}\nexclude:\n- {workload: {min: 1, mx: 3}}\n",
        );
        let wanted = [
            "s.yaml:1:1: error: missing key: `name`",
            "s.yaml:2:1: error: there is no key `names`",
            "s.yaml:3:7: error: there is no key `run.checks`",
            "s.yaml:6:3: error: there is no key `axes.cihp`",
            "s.yaml:8:9: error: missing key in `axes.set.n.range`: `to`",
            "s.yaml:8:26: error: there is no key `axes.set.n.range.until`",
            "s.yaml:10:23: error: there is no key `exclude[0].workload.mx`",
        ];
        assert_eq!(text.expect_err("refused"), wanted.join("\n"));
    }

    #[test]
    fn wrong_files_say_where() {
        let wrong = |axes: &str| load(&format!("schema: 1\nname: s\naxes:\n{axes}")).expect_err("refused");
        assert_eq!(wrong("  chip: x\n"), "s.yaml:3:1: error: `axes` names no workload");
        assert!(
            wrong("  workload: a\n  cihp: x\n").contains("s.yaml:5:3"),
            "{}",
            wrong("  workload: a\n  cihp: x\n")
        );
        assert_eq!(wrong("  workload: a\n  chip: []\n"), "s.yaml:5:3: error: the axis `chip` has no values");
        let text = wrong("  workload: a\n  set:\n    n: {range: {from: 1, to: 2, step: 0}}\n");
        assert_eq!(text, "s.yaml:6:5: error: `n`: `step` must be positive");
        // Conditions that no point meets.
        let axes = "  workload: a\n  chip: [v100, gtx480]\n  set:\n    n: [1, 2]\n";
        for (filter, said) in [
            ("only:\n- {chip: V10}", "`only` requires `chip` V10, which no point has"),
            (
                "exclude:\n- {chip: [v100, gtx48]}",
                "`exclude` requires `chip` gtx48, which no point has; did you mean `gtx480`?",
            ),
            ("exclude:\n- {n: {min: 3, max: 2}}", "`exclude` requires `n` from 3 to 2, which no point has"),
            ("run: {check: safty}", "`check` must be off, safety or full, not `safty`"),
        ] {
            let text = wrong(&format!("{axes}{filter}\n"));
            assert!(text.contains(said) && text.starts_with("s.yaml:8:"), "{text}");
        }
        let text = wrong("  workload: a\nexclude:\n- {chip: x}\n");
        assert_eq!(text, "s.yaml:5:1: error: `exclude` names `chip`, which is not an axis of this sweep");
        let text = wrong("  workload: [a, b]\n  chip: [x, y, z]\nzip: [[workload, chip]]\n");
        assert_eq!(
            text,
            "s.yaml:6:1: error: zipped axes must have the same number of values: `workload` 2, `chip` 3"
        );
        let text = wrong("  workload: a\n  set: {n: {range: {from: 0, to: 1e9, step: 1}}}\n");
        assert!(text.contains("more than 1000000 values"), "{text}");
    }
}
