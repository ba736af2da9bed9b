//! `study microbenchmarks`: our figures beside published measurements, with the error. What is
//! measured, and what was published, is data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::{Diagnostic, Source};

use super::{Progress, jobs, told};
use crate::cli::run::request_of;
use crate::cli::study::MicrobenchmarkArgs;
use crate::console::{complain, status, table};
use crate::request::Setting;
use crate::run::measure;
use crate::simulate::Outcome;

const DATA: &str = include_str!("../../data/microbenchmarks.yaml");

/// The file of measurements.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// What the short names of sources mean.
    sources: BTreeMap<String, String>,
    measurements: Vec<Measurement>,
}

/// One thing that can be measured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Measurement {
    name: String,
    /// The part of the model that it shows.
    part: String,
    unit: String,
    /// Arguments of `warpsim run`, without the chip.
    run: String,
    /// How the figure is made, where a chip says nothing else.
    #[serde(default)]
    value: Option<Value>,
    published: Vec<Published>,
}

/// How a run's outcome becomes a figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Value {
    /// An element of the buffer `cycles`, divided.
    Cycles {
        #[serde(default)]
        index: usize,
        per: f64,
    },
    /// The largest of these parameters `n` for which the time of a step is still that of the
    /// first, each with a run of its own, in KiB of `n * stride`: not longer by more than `within` per cent (10 where none is
    /// written).
    Knee {
        n: Vec<u64>,
        stride: u64,
        per: f64,
        #[serde(default = "tenth")]
        within: f64,
    },
    /// Cycles that a step takes more with the second of these parameters `n` than with the first.
    Rise { n: [u64; 2], per: f64 },
    /// Cycles that each further way costs, over runs with these `ways`; they must lie on a line.
    Slope { ways: Vec<u32>, per: f64 },
    /// Gigabytes a second of a whole run, launch included, as a host would time it; or per cent of
    /// what the data buses can move.
    Bandwidth {
        bytes: f64,
        #[serde(default)]
        of_peak: bool,
    },
    /// Operations a core cycle: what a run of twice `rounds` does more, by the time it takes more.
    Rate { rounds: u32, operations: f64 },
    /// Cycles that an SM takes for each further block, between a run of `few` and one of `many` `blocks`.
    Replacement { few: u32, many: u32 },
}

fn tenth() -> f64 {
    10.0
}

/// A published figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    chip: String,
    /// Without one, ours is printed alone.
    #[serde(default)]
    value: Option<f64>,
    /// Changes to the run, as further arguments.
    #[serde(default)]
    run: Option<String>,
    /// How the figure is made for this chip.
    #[serde(default)]
    how: Option<Value>,
    /// Ours must lie within so many per cent.
    #[serde(default)]
    within: Option<f64>,
    /// Ours must lie between these.
    #[serde(default)]
    between: Option<[f64; 2]>,
    #[serde(default)]
    source: Option<String>,
}

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    measurement: String,
    /// The part of the model that it shows.
    part: String,
    chip: String,
    unit: String,
    ours: Option<f64>,
    published: Option<f64>,
    /// Per cent of the published figure.
    error: Option<f64>,
    /// What must hold.
    gate: Option<String>,
    holds: Option<bool>,
    source: Option<String>,
    command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// The measurements that ship.
fn file() -> Result<File, Vec<Diagnostic>> {
    sim_frontend::yaml::read(&Source::new("data/microbenchmarks.yaml", DATA)).map_err(|error| vec![error])
}

/// The parts of a chip's model with a figure that must lie within a tolerance of one measured on hardware, and those that are
/// compared with one besides, each in the order of the file.
///
/// # Errors
/// What is wrong with the measurements.
#[cfg(test)]
pub(crate) fn parts(chip: &str) -> Result<(Vec<String>, Vec<String>), Vec<Diagnostic>> {
    let file = file()?;
    let (mut held, mut compared): (Vec<String>, Vec<String>) = Default::default();
    for measurement in &file.measurements {
        let on_hardware =
            |p: &&Published| p.chip == chip && p.value.is_some() && p.source.as_deref() != Some("chip");
        for published in measurement.published.iter().filter(on_hardware) {
            let list = if published.within.is_some() { &mut held } else { &mut compared };
            if !list.contains(&measurement.part) {
                list.push(measurement.part.clone());
            }
        }
    }
    compared.retain(|part| !held.contains(part));
    Ok((held, compared))
}

/// The rows of the study.
///
/// # Errors
/// There are no measurements for a chip.
pub fn study(args: &MicrobenchmarkArgs, progress: Progress<'_>) -> Result<Vec<Row>, Vec<Diagnostic>> {
    let file = file()?;
    let wanted: Vec<(&Measurement, &Published)> = file
        .measurements
        .iter()
        .flat_map(|measurement| measurement.published.iter().map(move |published| (measurement, published)))
        .filter(|(_, p)| args.chip.is_empty() || args.chip.contains(&p.chip))
        .filter(|(_, p)| !args.gated || p.within.is_some() || p.between.is_some())
        .collect();
    let measured =
        |chip: &&String| file.measurements.iter().any(|m| m.published.iter().any(|p| p.chip == **chip));
    if let Some(unknown) = args.chip.iter().find(|chip| !measured(chip)) {
        let chips = crate::configs::CHIPS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let message = format!("there are no measurements for `{unknown}`; chips: {chips}");
        return Err(vec![Diagnostic::error("study", message)]);
    }
    Ok(told(&wanted, jobs(args.jobs), progress, |(measurement, published)| row(measurement, published)))
}

/// Runs the command.
pub fn run(args: &MicrobenchmarkArgs) -> u8 {
    let studied = file().and_then(|file| Ok((study(args, &|_, _| {})?, file)));
    let (rows, file) = match studied {
        Ok(studied) => studied,
        Err(errors) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows).unwrap_or_default());
    } else {
        show(&rows, &file.sources);
    }
    let bad = rows.iter().any(|row| row.holds == Some(false) || row.failure.is_some());
    if bad { status::DIFFERS } else { status::DONE }
}

fn row(measurement: &Measurement, published: &Published) -> Row {
    let words = format!(
        "{} --chip {} {}",
        measurement.run,
        published.chip,
        published.run.as_deref().unwrap_or_default()
    );
    let how = published.how.as_ref().or(measurement.value.as_ref());
    let found = how.map_or_else(
        || Err(format!("data/microbenchmarks.yaml does not say how `{}` is measured", measurement.name)),
        |how| figure(how, words.trim()),
    );
    let (ours, failure) = match found {
        Ok(figure) => (Some(figure), None),
        Err(why) => (None, Some(why)),
    };
    let error = ours.zip(published.value).map(|(ours, theirs)| (ours / theirs - 1.0) * 100.0);
    let gate = match (published.within, published.between) {
        (Some(within), _) => Some(format!("±{within} %")),
        (_, Some([low, high])) => Some(format!("{low} to {high}")),
        _ => None,
    };
    let holds = match (published.within, published.between) {
        (Some(within), _) => Some(error.is_some_and(|error| error.abs() <= within + 1e-9)),
        (_, Some([low, high])) => Some(ours.is_some_and(|ours| (low..=high).contains(&ours))),
        _ => None,
    };
    Row {
        measurement: measurement.name.clone(),
        part: measurement.part.clone(),
        chip: published.chip.clone(),
        unit: measurement.unit.clone(),
        ours,
        published: published.value,
        error,
        gate,
        holds,
        source: published.source.clone(),
        command: format!("warpsim run {}", words.trim()),
        failure,
    }
}

fn show(rows: &[Row], sources: &BTreeMap<String, String>) {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.1}"));
    let mut out = table(&["measurement", "chip", "unit", "warpsim", "published", "error", "gate", ""]);
    for row in rows {
        let verdict = match (row.holds, &row.failure) {
            (_, Some(why)) => why.clone(),
            (Some(true), _) => "holds".to_string(),
            (Some(false), _) => "FAILS".to_string(),
            (None, _) => String::new(),
        };
        let published = match &row.source {
            Some(source) => format!("{} [{source}]", number(row.published)),
            None => number(row.published),
        };
        out.add_row([
            row.measurement.as_str(),
            &row.chip,
            &row.unit,
            &number(row.ours),
            &published,
            &row.error.map_or(String::new(), |error| format!("{error:+.1} %")),
            row.gate.as_deref().unwrap_or_default(),
            &verdict,
        ]);
    }
    println!("{out}");
    let used = |name: &str| rows.iter().any(|row| row.source.as_deref() == Some(name));
    for (name, text) in sources.iter().filter(|(name, _)| used(name)) {
        println!("[{name}] {text}");
    }
    let gated = rows.iter().filter(|row| row.holds.is_some()).count();
    let held = rows.iter().filter(|row| row.holds == Some(true)).count();
    println!("{held} of {gated} rows with a tolerance are within it");
}

/// The run of a line of the data, with values changed and a buffer's contents kept.
fn outcome(
    words: &str,
    more: &[(&str, u64)],
    keep: Option<&str>,
) -> Result<(Outcome, std::sync::Arc<ChipSpec>), String> {
    let words: Vec<String> = words.split_whitespace().map(str::to_string).collect();
    let measured = request_of(&words).and_then(|mut request| {
        let more =
            more.iter().map(|(key, value)| Setting { key: (*key).to_string(), value: value.to_string() });
        request.set.extend(more);
        request.keep.extend(keep.map(str::to_string));
        measure(request)
    });
    measured.map_err(|errors| errors.first().map_or(String::new(), |error| error.message.clone()))
}

/// An element of the buffer `cycles` of a run.
fn cycles(words: &str, more: &[(&str, u64)], index: usize) -> Result<f64, String> {
    let (outcome, _) = outcome(words, more, Some("cycles"))?;
    let buffer = outcome.buffers.get("cycles").and_then(|buffer| buffer.as_u64());
    let all = buffer.ok_or("there is no buffer `cycles` of u64")?;
    all.get(index).map(|cycles| *cycles as f64).ok_or_else(|| format!("`cycles` has no element {index}"))
}

fn figure(how: &Value, words: &str) -> Result<f64, String> {
    match how {
        Value::Cycles { index, per } => Ok(cycles(words, &[], *index)? / per),
        Value::Knee { n, stride, per, within } => knee(words, n, *stride, *per, *within),
        Value::Rise { n: [few, many], per } => Ok((chase(words, *many)? - chase(words, *few)?) / per),
        Value::Slope { ways, per } => slope(words, ways, *per),
        Value::Bandwidth { bytes, of_peak } => {
            let (outcome, chip) = outcome(words, &[], None)?;
            // As hosts measure it: with the launch.
            let cycles = outcome.report.cycles + outcome.report.launch_cycles;
            let seconds = cycles as f64 / (chip.clocks().core_khz as f64 * 1e3);
            let unit = if *of_peak { chip.dram_bandwidth() / 100.0 } else { 1e9 };
            Ok(bytes / seconds / unit)
        }
        Value::Rate { rounds, operations } => {
            let run = |rounds: u32| outcome(words, &[("rounds", rounds.into())], None);
            let ((one, _), (two, _)) = (run(*rounds)?, run(2 * rounds)?);
            let more = two.report.cycles.saturating_sub(one.report.cycles) as f64;
            Ok(operations / more)
        }
        Value::Replacement { few, many } => {
            let run = |blocks: u32| outcome(words, &[("blocks", blocks.into())], None);
            let ((few_run, chip), (many_run, _)) = (run(*few)?, run(*many)?);
            let more = many_run.report.cycles as f64 - few_run.report.cycles as f64;
            Ok(more * f64::from(chip.limits.num_processors) / f64::from(many - few))
        }
    }
}

/// Cycles of a chase over a ring of `n`, walked once before.
fn chase(words: &str, n: u64) -> Result<f64, String> {
    cycles(words, &[("n", n), ("warm", n.next_multiple_of(8))], 0)
}

fn knee(words: &str, ns: &[u64], stride: u64, per: f64, within: f64) -> Result<f64, String> {
    let mut first = None;
    let mut last = None;
    for n in ns {
        let steps = chase(words, *n)? / per;
        let least = *first.get_or_insert(steps);
        if steps > least * (1.0 + within / 100.0) {
            break;
        }
        last = Some(n * stride);
    }
    if last == ns.last().map(|n| n * stride) {
        return Err("no footprint is slower than the first".into());
    }
    last.map(|bytes| bytes as f64 / 1024.0).ok_or_else(|| "no footprints".into())
}

fn slope(words: &str, ways: &[u32], per: f64) -> Result<f64, String> {
    let mut points = Vec::new();
    for way in ways {
        points.push((f64::from(*way), cycles(words, &[("ways", u64::from(*way))], 0)? / per));
    }
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Err("no ways".into()) };
    let slope = (last.1 - first.1) / (last.0 - first.0);
    for (way, cycles) in &points {
        let line = first.1 + slope * (way - first.0);
        if (cycles - line).abs() > 0.02 * line {
            return Err(format!("{way} ways take {cycles:.1} cycles; the fitted line predicts {line:.1}"));
        }
    }
    Ok(slope)
}
