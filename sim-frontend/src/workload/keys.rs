//! The keys of a workload file as they are written, each with its place. They become a
//! [`WorkloadSpec`](super::WorkloadSpec) in one pass that reports everything that is wrong. Keys that are
//! unknown or missing do not end the reading: the schema names them (`yaml::survey`), all at once.
//!
//! A key that must be there is an `Option`, so that all missing ones are named at once. Its schema says
//! `with` the type itself: of a key marked `required` schemars writes the type in place, not its name.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_yaml::Spanned;
use sim_memory::vocabulary::ScalarType;

use super::tensor_map::{TensorMapKeys, TensorMapSpec};
use super::{
    Argument, ArgumentKind, BufferSpec, Expectation, Expr, Fill, HostBuffer, ImageSpec, Init, KeySpan,
    LaunchSpec, LoopSpec, Number, Schedule, Step, Termination, Tolerance, UndefinedValues, Until,
    VariableSpec, Variant, WorkloadSpec,
};
use crate::diagnostic::{Diagnostic, Source, Span};
use crate::load::library::variables::{HEAP, OUTPUT};
use crate::yaml::span_of as span;

/// A workload.
#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct WorkloadKeys {
    /// Version of this format: 1.
    #[schemars(required)]
    schema: Option<u32>,
    /// Name.
    #[schemars(required)]
    name: Option<String>,
    /// Description in one line.
    #[schemars(required)]
    description: Option<String>,
    /// How much results depend on the schedule.
    #[schemars(with = "Schedule")]
    schedule: Option<Spanned<Schedule>>,
    /// Why the results depend on the schedule, if they do.
    #[serde(default)]
    reason: Option<String>,
    /// Why the program has intentional data races, if it has any: `--check races` lists them without
    /// counting them.
    #[serde(default)]
    intended_races: Option<String>,
    /// Under which schedules it terminates.
    #[serde(default)]
    termination: Termination,
    /// What becomes of values that PTX leaves undefined.
    #[serde(default)]
    undefined_values: UndefinedValues,
    /// Numbers that `--set` can change, by name.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Number>")]
    params: BTreeMap<String, Spanned<Number>>,
    /// Programs, oldest target first.
    #[schemars(with = "Vec<VariantKeys>")]
    variants: Option<Vec<VariantKeys>>,
    /// Buffers by name.
    #[schemars(with = "BTreeMap<String, BufferKeys>")]
    buffers: Option<BTreeMap<String, BufferKeys>>,
    /// Variables of the program by name: where they lie and what they hold, where the program does not say it.
    #[serde(default)]
    variables: BTreeMap<String, VariableKeys>,
    /// Textures over buffers, by name: an argument with the name is the handle.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, ImageSpec>")]
    textures: BTreeMap<String, Spanned<ImageSpec>>,
    /// Surfaces over buffers, by name: an argument with the name is the handle.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, ImageSpec>")]
    surfaces: BTreeMap<String, Spanned<ImageSpec>>,
    /// Tensor maps over buffers, by name: an argument with the name is the map.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, TensorMapKeys>")]
    tensor_maps: BTreeMap<String, Spanned<TensorMapKeys>>,
    /// A file of the lines that L2 holds before the first launch, as `warpsim cuda --record` writes it.
    #[serde(default)]
    l2: Option<String>,
    /// Steps in order.
    #[schemars(with = "Vec<StepKeys>")]
    launches: Option<Vec<Spanned<StepKeys>>>,
    /// Expected results; without any the result of a run is `unchecked`.
    #[serde(default)]
    #[schemars(with = "Vec<ExpectationKeys>")]
    expect: Vec<Spanned<ExpectationKeys>>,
}

/// One program of a workload.
#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Variant")]
struct VariantKeys {
    /// Name.
    #[schemars(required)]
    name: Option<String>,
    /// PTX file beside the workload file.
    #[schemars(required)]
    file: Option<String>,
    /// Compiler and version.
    #[schemars(required)]
    compiler: Option<String>,
    /// Target of the program, such as `sm_20`.
    #[schemars(required)]
    target: Option<String>,
}

/// A buffer.
#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "BufferSpec")]
struct BufferKeys {
    /// Element type.
    #[serde(rename = "type")]
    #[schemars(with = "ScalarType")]
    ty: Option<Spanned<ScalarType>>,
    /// Number of elements.
    #[schemars(with = "Expr")]
    length: Option<Spanned<Expr>>,
    /// Initial contents.
    #[schemars(with = "Init")]
    init: Option<Spanned<Init>>,
    /// Its address in device memory, a multiple of 256; the next free one where nothing is said.
    #[serde(default)]
    at: Option<u64>,
}

/// A variable of the program.
#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "VariableSpec")]
struct VariableKeys {
    /// Its address, or its offset in constant memory; the next free one where nothing is said.
    #[serde(default)]
    at: Option<u64>,
    /// Its bytes, where it is the heap of `malloc` or the buffer of `printf` and has others than on a new device.
    #[serde(default)]
    #[schemars(with = "Option<u64>")]
    bytes: Option<Spanned<u64>>,
    /// First contents, of bytes; those that the program gives it where nothing is said.
    #[serde(default)]
    #[schemars(with = "Option<Init>")]
    init: Option<Spanned<Init>>,
}

/// A kernel launch (`entry`, `grid`, `block`, `args` and optional keys), a `fill` or a `loop`.
// The keys of every kind, so that a wrong one is named.
#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Step")]
pub(super) struct StepKeys {
    /// Sets every element of a buffer.
    fill: Option<FillKeys>,
    /// Repeats steps until a buffer has a given value.
    #[serde(rename = "loop")]
    body: Option<LoopKeys>,
    /// Name of the kernel.
    #[schemars(with = "Option<String>")]
    entry: Option<Spanned<String>>,
    /// One to three sizes in blocks.
    grid: Option<Vec<Expr>>,
    /// One to three sizes in threads.
    block: Option<Vec<Expr>>,
    /// Dynamic shared memory in bytes.
    dynamic_shared: Option<Expr>,
    /// One to three sizes of clusters in blocks; by default as the kernel says, or each block is a cluster.
    cluster: Option<Vec<Expr>>,
    /// Clusters may have more blocks than every chip allows; by default not.
    non_portable_cluster: Option<bool>,
    /// Number of the stream.
    stream: Option<u32>,
    /// Arguments in order.
    #[schemars(with = "Option<Vec<ArgumentKind>>")]
    args: Option<Vec<Spanned<ArgumentKind>>>,
}

/// Sets every element of a buffer.
#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Fill")]
struct FillKeys {
    /// Name of the buffer.
    #[schemars(required)]
    buffer: Option<String>,
    /// The value.
    #[schemars(with = "Expr")]
    value: Option<Expr>,
}

/// Repeated steps.
#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "LoopSpec")]
struct LoopKeys {
    /// Condition that ends the loop.
    #[serde(default)]
    until: Option<UntilKeys>,
    /// Maximum number of iterations.
    #[schemars(with = "Expr")]
    max_iterations: Option<Expr>,
    /// Name of the iteration counter in expressions.
    #[serde(default)]
    index: Option<String>,
    /// Pairs of buffers whose names are exchanged after each iteration, before `until` is evaluated, as
    /// the pointers of a double-buffered loop are. After the loop the names stay as the last iteration
    /// left them.
    #[serde(default)]
    swap: Vec<[String; 2]>,
    /// The steps.
    #[schemars(with = "Vec<StepKeys>")]
    launches: Option<Vec<Spanned<StepKeys>>>,
}

/// A condition on a buffer, evaluated after each iteration.
#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Until")]
struct UntilKeys {
    /// Name of the buffer.
    #[schemars(required)]
    buffer: Option<String>,
    /// Index of the element.
    #[schemars(with = "Expr")]
    index: Option<Expr>,
    /// The loop ends when the element has this value.
    #[schemars(with = "Expr")]
    equals: Option<Expr>,
}

/// An expected result.
#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Expectation")]
struct ExpectationKeys {
    /// Buffer.
    #[schemars(required)]
    buffer: Option<String>,
    /// A named function computes it on the host.
    #[serde(default)]
    reference: Option<String>,
    /// Literal values of its first elements.
    #[serde(default)]
    values: Option<Vec<Number>>,
    /// A file of its elements: `.npy` or raw bytes.
    #[serde(default)]
    file: Option<String>,
    /// Permitted difference.
    #[schemars(with = "Tolerance")]
    tolerance: Option<Spanned<Tolerance>>,
}

/// What was wrong so far.
struct Reader<'s> {
    source: &'s Source,
    errors: Vec<Diagnostic>,
}

/// `a`, `b` and `c`.
fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

impl Reader<'_> {
    fn wrong(&mut self, at: Option<Span>, message: impl Into<String>) {
        self.complain(at, Diagnostic::error("workload", message));
    }

    fn complain(&mut self, at: Option<Span>, error: Diagnostic) {
        let error = error.in_source(self.source);
        self.errors.push(match at {
            Some(span) => error.at(span, ""),
            None => error,
        });
    }

    /// Names the keys of a launch that are not there. The schema does not: a step may be no launch.
    fn missing(&mut self, at: Option<Span>, keys: &[(&str, bool)]) {
        let names: Vec<&str> = keys.iter().filter(|(_, given)| !given).map(|(name, _)| *name).collect();
        if !names.is_empty() {
            self.wrong(at, format!("a launch needs {}", listed(&names)));
        }
    }

    fn variant(keys: VariantKeys) -> Option<Variant> {
        let VariantKeys { name, file, compiler, target } = keys;
        Some(Variant { name: name?, file: file?, compiler: compiler?, target: target? })
    }

    fn buffer(&mut self, name: &str, keys: BufferKeys) -> Option<BufferSpec> {
        let BufferKeys { ty, length, init, at } = keys;
        let (ty, length, init) = (ty?, length?, init?);
        if let Err(reason) = HostBuffer::holds(ty.value) {
            self.complain(span(&ty), Diagnostic::error("type", format!("`{name}`: {reason}")));
        }
        let ty = ty.value;
        let init_place = span(&init);
        if let Err(error) = check_init(ty, &init.value) {
            self.complain(
                init_place,
                Diagnostic { message: format!("`{name}`: {}", error.message), ..error },
            );
        }
        let length_place = KeySpan(span(&length));
        Some(BufferSpec {
            ty,
            length: length.value,
            init: init.value,
            at,
            length_place,
            init_place: KeySpan(init_place),
        })
    }

    /// Textures or surfaces, over buffers that there are.
    fn images(
        &mut self,
        what: &str,
        images: BTreeMap<String, Spanned<ImageSpec>>,
        buffers: &dyn Fn(&str) -> Option<ScalarType>,
    ) -> BTreeMap<String, ImageSpec> {
        let mut out = BTreeMap::new();
        for (name, image) in images {
            let at = span(&image);
            self.known(at, what, &image.value.buffer, buffers);
            if buffers(&name).is_some() {
                self.wrong(at, format!("`{name}` is a buffer; `{what}` needs a name of its own"));
            }
            out.insert(name, ImageSpec { place: KeySpan(at), ..image.value });
        }
        out
    }

    /// Tensor maps, over buffers that there are.
    fn tensor_maps(
        &mut self,
        maps: BTreeMap<String, Spanned<TensorMapKeys>>,
        buffers: &dyn Fn(&str) -> Option<ScalarType>,
    ) -> BTreeMap<String, TensorMapSpec> {
        let mut out = BTreeMap::new();
        for (name, keys) in maps {
            let at = span(&keys);
            if buffers(&name).is_some() {
                self.wrong(at, format!("`{name}` is a buffer; `tensor_maps` needs a name of its own"));
            }
            let Some((map, wrong)) = keys.value.spec(KeySpan(at)) else { continue };
            if let Some(wrong) = wrong {
                self.wrong(at, format!("tensor map `{name}` {wrong}"));
            }
            self.known(map.place_of("buffer").0, "tensor_maps", &map.buffer, buffers);
            out.insert(name, map);
        }
        out
    }

    fn steps(
        &mut self,
        list: Vec<Spanned<StepKeys>>,
        names: &dyn Fn(&str) -> Option<ScalarType>,
    ) -> Vec<Step> {
        list.into_iter().filter_map(|keys| self.step(keys, names)).collect()
    }

    fn step(
        &mut self,
        keys: Spanned<StepKeys>,
        buffers: &dyn Fn(&str) -> Option<ScalarType>,
    ) -> Option<Step> {
        let at = span(&keys);
        let StepKeys {
            fill,
            body,
            entry,
            grid,
            block,
            dynamic_shared,
            cluster,
            non_portable_cluster,
            stream,
            args,
        } = keys.value;
        let launches = entry.is_some() || grid.is_some() || block.is_some() || args.is_some();
        let only_launches = dynamic_shared.is_some()
            || stream.is_some()
            || cluster.is_some()
            || non_portable_cluster.is_some();
        match (fill, body) {
            (Some(fill), None) if !launches && !only_launches => {
                let fill = Fill { buffer: fill.buffer?, value: fill.value?, place: KeySpan(at) };
                self.known(at, "fill", &fill.buffer, buffers);
                Some(Step::Fill { fill })
            }
            (None, Some(body)) if !launches && !only_launches => self.repeated(at, body, buffers),
            (None, None) => {
                let given = [
                    ("entry", entry.is_some()),
                    ("grid", grid.is_some()),
                    ("block", block.is_some()),
                    ("args", args.is_some()),
                ];
                self.missing(at, &given);
                let entry = entry?;
                let place = KeySpan(span(&entry));
                let args = args?
                    .into_iter()
                    .map(|argument| Argument { place: KeySpan(span(&argument)), kind: argument.value })
                    .collect();
                Some(Step::Launch(LaunchSpec {
                    entry: entry.value,
                    grid: grid?,
                    block: block?,
                    dynamic_shared,
                    cluster: cluster.unwrap_or_default(),
                    non_portable_cluster: non_portable_cluster.unwrap_or_default(),
                    stream: stream.unwrap_or_default(),
                    args,
                    place,
                }))
            }
            _ => {
                self.wrong(at, "a step must be exactly one of: a launch, `fill`, `loop`");
                None
            }
        }
    }

    fn repeated(
        &mut self,
        at: Option<Span>,
        keys: LoopKeys,
        buffers: &dyn Fn(&str) -> Option<ScalarType>,
    ) -> Option<Step> {
        let LoopKeys { until, max_iterations, index, swap, launches } = keys;
        let until = until.and_then(|keys| {
            let until = Until { buffer: keys.buffer?, index: keys.index?, equals: keys.equals? };
            self.known(at, "until", &until.buffer, buffers);
            Some(until)
        });
        for pair in &swap {
            let types = [0, 1].map(|side| self.known(at, "swap", &pair[side], buffers));
            if let [Some(a), Some(b)] = types
                && (a != b || pair[0] == pair[1])
            {
                let message =
                    format!("`swap` needs two buffers of one type, not `{}` and `{}`", pair[0], pair[1]);
                self.wrong(at, message);
            }
        }
        let launches = self.steps(launches?, buffers);
        let body =
            LoopSpec { until, max_iterations: max_iterations?, index, swap, launches, place: KeySpan(at) };
        Some(Step::Loop { body })
    }

    fn known(
        &mut self,
        at: Option<Span>,
        key: &str,
        name: &str,
        buffers: &dyn Fn(&str) -> Option<ScalarType>,
    ) -> Option<ScalarType> {
        let ty = buffers(name);
        if ty.is_none() {
            self.wrong(at, format!("`{key}` names `{name}`, which is not a buffer of this workload"));
        }
        ty
    }

    fn expectation(
        &mut self,
        keys: Spanned<ExpectationKeys>,
        buffers: &dyn Fn(&str) -> Option<ScalarType>,
    ) -> Option<Expectation> {
        let at = span(&keys);
        let ExpectationKeys { buffer, reference, values, file, tolerance } = keys.value;
        let (buffer, tolerance) = (buffer?, tolerance?);
        let ty = self.known(at, "expect", &buffer, buffers);
        let given = [reference.is_some(), values.is_some(), file.is_some()];
        if given.iter().filter(|given| **given).count() != 1 {
            self.wrong(at, format!("`{buffer}` needs one of `reference`, `values`, `file`"));
        }
        if let Some(ty) = ty {
            for value in values.iter().flatten() {
                if let Err(reason) = HostBuffer::element(ty, *value) {
                    self.wrong(at, format!("`{buffer}`: {reason}"));
                }
            }
            if let Err(error) = check_tolerance(ty, tolerance.value) {
                self.complain(
                    span(&tolerance),
                    Diagnostic { message: format!("`{buffer}`: {}", error.message), ..error },
                );
            }
        }
        Some(Expectation { buffer, reference, values, file, tolerance: tolerance.value, place: KeySpan(at) })
    }
}

/// Whether the first contents can be made.
fn check_init(ty: ScalarType, init: &Init) -> Result<(), Diagnostic> {
    let error = |message: String| Diagnostic::error("init", message);
    let element = |value: Number| HostBuffer::element(ty, value).map(|_| ()).map_err(error);
    match init {
        Init::Random { min, max, .. } => {
            if !min.is_finite() || !max.is_finite() {
                return Err(error(format!("`min` {min} and `max` {max} must be finite numbers")));
            }
            if min > max {
                let found = error(format!("`min` {min} is greater than `max` {max}"));
                return Err(found.help("exchange the two"));
            }
            element(*min)?;
            element(*max)
        }
        Init::Formula { modulo: 0, .. } => {
            Err(error("`modulo` must be at least 1".into()).help("it is the period of the values"))
        }
        Init::Formula { scale, offset, .. } => {
            if !scale.is_finite() || !offset.is_finite() {
                return Err(error(format!("`scale` {scale} and `offset` {offset} must be finite numbers")));
            }
            if !ty.is_float() && (scale.integer().is_none() || offset.integer().is_none()) {
                let found =
                    error(format!("elements of .{} need integers as `scale` and `offset`", ty.name()));
                return Err(found.help("give the buffer a floating-point type, or write integers"));
            }
            Ok(())
        }
        Init::Values(values) => values.iter().try_for_each(|value| element(*value)),
        _ => Ok(()),
    }
}

/// Whether a tolerance tells results apart.
fn check_tolerance(ty: ScalarType, tolerance: Tolerance) -> Result<(), Diagnostic> {
    let error = |message: String| Diagnostic::error("tolerance", message);
    match tolerance {
        Tolerance::Near { abs, rel } => {
            for (name, value) in [("abs", abs), ("rel", rel)] {
                if !(value >= 0.0 && value.is_finite()) {
                    let found =
                        error(format!("`{name}` is {value}: a tolerance must be finite and at least 0"));
                    return Err(found.help("leave `expect` out where nothing is to be checked"));
                }
            }
            Ok(())
        }
        Tolerance::Ulp(_) if !ty.is_float() => {
            let found = error(format!("`ulp` is for floating-point elements, not .{}", ty.name()));
            Err(found.help("write `exact`, or `near` with `abs`"))
        }
        _ => Ok(()),
    }
}

impl WorkloadKeys {
    /// The workload.
    ///
    /// # Errors
    /// Everything that is wrong with it, with what was `found` of its keys.
    pub(super) fn spec(
        self,
        source: &Source,
        found: Vec<Diagnostic>,
    ) -> Result<WorkloadSpec, Vec<Diagnostic>> {
        let mut reader = Reader { source, errors: found };
        let key = |name: &str| crate::yaml::key_span(source, &[name]);
        if self.name.as_ref().is_some_and(|name| name.is_empty() || name.chars().any(char::is_control)) {
            reader.wrong(key("name"), "`name` must be a text without control characters");
        }
        if let Some(schedule) = &self.schedule
            && schedule.value == Schedule::Dependent
            && self.reason.is_none()
        {
            let message = "a workload whose results depend on the schedule must say why in `reason`";
            reader.wrong(span(schedule), message);
        }
        if self.variants.as_ref().is_some_and(Vec::is_empty) {
            reader.wrong(key("variants"), "`variants` is empty; a workload requires at least one variant");
        }
        let mut params = BTreeMap::new();
        for (name, value) in self.params {
            if !value.value.is_finite() {
                reader
                    .wrong(span(&value), format!("parameter `{name}` is {}: it must be finite", value.value));
            }
            params.insert(name, value.value);
        }
        let variants = self.variants.unwrap_or_default();
        let variants = variants.into_iter().filter_map(Reader::variant).collect();
        let types: BTreeMap<String, Option<ScalarType>> = self
            .buffers
            .iter()
            .flatten()
            .map(|(name, keys)| (name.clone(), keys.ty.as_ref().map(|ty| ty.value)))
            .collect();
        // A buffer without a type has its own message.
        let names = |name: &str| types.get(name).map(|ty| ty.unwrap_or(ScalarType::B8));
        let mut buffers = BTreeMap::new();
        for (name, keys) in self.buffers.into_iter().flatten() {
            if let Some(buffer) = reader.buffer(&name, keys) {
                buffers.insert(name, buffer);
            }
        }
        let mut variables = BTreeMap::new();
        for (name, VariableKeys { at, bytes, init }) in self.variables {
            let init_place = KeySpan(init.as_ref().and_then(span));
            let bytes_place = KeySpan(bytes.as_ref().and_then(span));
            if bytes.is_some() && ![HEAP, OUTPUT].contains(&name.as_str()) {
                let message = format!(
                    "`{name}`: `bytes` is for `{HEAP}` and `{OUTPUT}`; the program says how large others are"
                );
                reader.wrong(bytes_place.0, message);
            }
            let (bytes, init) = (bytes.map(|bytes| bytes.value), init.map(|init| init.value));
            variables.insert(name, VariableSpec { at, bytes, bytes_place, init, init_place });
        }
        let textures = reader.images("textures", self.textures, &names);
        let surfaces = reader.images("surfaces", self.surfaces, &names);
        if let Some((name, both)) = surfaces.iter().find(|(name, _)| textures.contains_key(*name)) {
            reader.wrong(both.place.0, format!("`{name}` is a texture; a surface needs a name of its own"));
        }
        let tensor_maps = reader.tensor_maps(self.tensor_maps, &names);
        let both = |name: &&String| textures.contains_key(*name) || surfaces.contains_key(*name);
        if let Some(name) = tensor_maps.keys().find(both) {
            let message = format!("`{name}` is a texture or surface; a tensor map needs a name of its own");
            reader.wrong(tensor_maps[name].place.0, message);
        }
        let launches = reader.steps(self.launches.unwrap_or_default(), &names);
        let expect = self.expect.into_iter().filter_map(|keys| reader.expectation(keys, &names)).collect();
        let Reader { mut errors, .. } = reader;
        errors.sort_by_key(|error| error.labels.first().map_or(0, |(at, _)| at.start));
        match (self.schema, self.name, self.description, self.schedule) {
            (Some(schema), Some(name), Some(description), Some(schedule)) if errors.is_empty() => {
                Ok(WorkloadSpec {
                    schema,
                    name,
                    description,
                    schedule: schedule.value,
                    reason: self.reason,
                    intended_races: self.intended_races,
                    termination: self.termination,
                    undefined_values: self.undefined_values,
                    params,
                    variants,
                    buffers,
                    variables,
                    textures,
                    surfaces,
                    tensor_maps,
                    l2: self.l2,
                    launches,
                    expect,
                    source: Some(source.clone()),
                })
            }
            _ => Err(errors),
        }
    }
}
