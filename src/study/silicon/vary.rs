//! What the agreement with hardware depends on: the comparison once more without each part of the model (ablation), or with
//! each key of a chip changed (sensitivity).

use serde::{Deserialize, Serialize};
use sim_frontend::diagnostic::{Diagnostic, Source};

use super::measurements::wrong;
use super::{Key, Row, study};
use crate::cli::study::SiliconArgs;
use crate::configs::ChipFile;
use crate::console::{status, table};
use crate::interrupt::interrupted;
use crate::known::Known;
use crate::request::Setting;
use crate::study::agreement::Agreement;

const DATA: &str = include_str!("../../../data/mechanisms.yaml");

/// The file of what is varied.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Version of the format: 1.
    schema: u32,
    mechanisms: Vec<Mechanism>,
    /// Keys of chips.
    parameters: Vec<String>,
}

/// A part of the model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mechanism {
    name: String,
    /// What switches it off, `PATH=VALUE`.
    without: Vec<String>,
}

/// A chip with something changed.
struct Variant {
    name: String,
    set: Vec<String>,
}

/// By how much the cycles of a kernel change.
#[derive(Clone, Debug, Serialize)]
struct Change {
    program: String,
    kernel: String,
    machine: String,
    /// Of a workload, the number of the launch among all of its run.
    #[serde(skip_serializing_if = "Option::is_none")]
    launch: Option<usize>,
    /// Per cent of the cycles with nothing changed.
    change: f64,
}

/// What a change of a chip does to the comparison.
#[derive(Debug, Serialize)]
struct Effect {
    name: String,
    chip: String,
    set: Vec<String>,
    /// Agreement of the kernels that could be compared both ways, as the chip is.
    before: Agreement,
    /// With the change.
    after: Agreement,
    /// Mean over them of the absolute change of cycles, in per cent.
    mean_change: f64,
    /// The kernels whose cycles change, those that change most first.
    kernels: Vec<Change>,
}

/// Whether what is varied can be, before anything runs.
///
/// # Errors
/// The factor is none.
pub(super) fn check(args: &SiliconArgs) -> Result<(), Vec<Diagnostic>> {
    if args.sensitivity && !(args.by.is_finite() && args.by > 0.0 && args.by != 1.0) {
        return Err(wrong(format!("--by takes a factor greater than 0 and other than 1, not {}", args.by)));
    }
    Ok(())
}

/// Prints the effects of all variations beside the comparison of `rows`; gives the exit status.
///
/// # Errors
/// What is asked for does not fit together.
pub(super) fn run(args: &SiliconArgs, rows: &[Row], failures: &[String]) -> Result<u8, Vec<Diagnostic>> {
    let file: File =
        sim_frontend::yaml::read(&Source::new("data/mechanisms.yaml", DATA)).map_err(|e| vec![e])?;
    if file.schema != 1 {
        return Err(wrong(format!("data/mechanisms.yaml: schema {} is not known", file.schema)));
    }
    let mut chips: Vec<&str> = rows.iter().map(|row| row.chip.as_str()).collect();
    chips.sort_unstable();
    chips.dedup();
    let known = Known::default();
    let (mut effects, mut left_out) = (Vec::new(), failures.to_vec());
    for chip in chips {
        let base: Vec<&Row> = rows.iter().filter(|row| row.chip == chip).collect();
        let variants = match args.sensitivity {
            true => changed(chip, args, &file.parameters)?,
            false => file
                .mechanisms
                .iter()
                .map(|m| Ok(Variant { name: m.name.clone(), set: m.without.clone() }))
                .collect(),
        };
        for variant in variants {
            if interrupted() {
                break;
            }
            let effect = variant.and_then(|variant| effect(chip, &variant, args, &base, &known));
            if interrupted() {
                // Some of its runs may have been stopped.
                break;
            }
            match effect {
                Ok((effect, failed)) => {
                    let new = failed.into_iter().filter(|text| !failures.contains(text));
                    left_out.extend(new.map(|text| format!("{chip}, {}: {text}", effect.name)));
                    eprintln!(
                        "{chip}, {}: mean absolute error {:.1} to {:.1} %",
                        effect.name, effect.before.mean_absolute_error, effect.after.mean_absolute_error
                    );
                    effects.push(effect);
                }
                Err(why) => left_out.push(format!("{chip}, {why}")),
            }
        }
    }
    show(args, rows, effects, &left_out);
    Ok(if interrupted() { status::INTERRUPTED } else { status::DONE })
}

/// A chip with each key changed by the factor; why not where that cannot be.
///
/// # Errors
/// The chip's file cannot be read.
fn changed(
    chip: &str,
    args: &SiliconArgs,
    shipped: &[String],
) -> Result<Vec<Result<Variant, String>>, Vec<Diagnostic>> {
    let file = ChipFile::read(chip)?;
    let keys = if args.parameter.is_empty() { shipped } else { &args.parameter };
    let one = |key: &String| {
        let set = args.set.iter().rev().find_map(|text| text.strip_prefix(key.as_str())?.strip_prefix('='));
        let old = set.or_else(|| file.value(key)).ok_or_else(|| format!("{key}: there is no such key"))?;
        let new = scaled(old, args.by).ok_or_else(|| format!("{key}: `{old}` is no number to multiply"))?;
        Ok(Variant { name: format!("{key} {old} to {new}"), set: vec![format!("{key}={new}")] })
    };
    Ok(keys.iter().map(one).collect())
}

/// A number times a factor; a whole one stays whole and changes by one at least. None of 0, and of what is no number.
fn scaled(old: &str, by: f64) -> Option<String> {
    if let Ok(whole) = old.parse::<u64>() {
        let new = (whole as f64 * by).round() as u64;
        let new = match new == whole {
            true if by > 1.0 => whole.checked_add(1)?,
            true => whole.checked_sub(1)?,
            false => new,
        };
        return (whole != 0).then(|| new.to_string());
    }
    let number = old.parse::<f64>().ok().filter(|number| number.is_finite() && *number != 0.0)?;
    // Without the digits that the product of two decimal numbers in binary has beyond those written.
    Some(((number * by * 1e6).round() / 1e6).to_string()).filter(|new| new != "0" && new != old)
}

/// The comparison with a variant of a chip, and what went wrong with single rows.
///
/// # Errors
/// Why there is none.
fn effect(
    chip: &str,
    variant: &Variant,
    args: &SiliconArgs,
    base: &[&Row],
    known: &Known,
) -> Result<(Effect, Vec<String>), String> {
    let bad = |errors: Vec<Diagnostic>| {
        let first = errors.first().map_or_else(String::new, |error| error.message.clone());
        format!("{}: {first}", variant.name)
    };
    let set: Vec<String> = args.set.iter().chain(&variant.set).cloned().collect();
    let parsed: Result<Vec<Setting>, Diagnostic> = set.iter().map(|text| Setting::parse(text)).collect();
    let parsed = parsed.map_err(|error| bad(vec![error]))?;
    let pairs: Vec<(&str, &str)> = parsed.iter().map(|s| (s.key.as_str(), s.value.as_str())).collect();
    let spec = |set: &[(&str, &str)]| known.chip(chip, set).map(|chip| chip.spec).map_err(bad);
    if spec(&pairs)? == spec(&pairs[..args.set.len()])? {
        return Err(format!("{}: the chip has it so", variant.name));
    }
    let args = SiliconArgs { chip: vec![chip.to_string()], set, ..args.clone() };
    let (rows, failures) = study(&args, &|_, _| {}).map_err(bad)?;
    let mut pairs: Vec<(&Row, &Row)> = Vec::new();
    let mut rest: Vec<&Row> = rows.iter().collect();
    for old in base {
        if let Some(at) = rest.iter().position(|new| old.key() == new.key()) {
            pairs.push((old, rest.swap_remove(at)));
        }
    }
    if pairs.is_empty() {
        let first = failures.first().map_or("no kernel was compared", String::as_str);
        return Err(format!("{}: {first}", variant.name));
    }
    Ok((Effect::of(chip, variant, &pairs), failures))
}

impl Change {
    /// Which row it is of.
    fn key(&self) -> Key<'_> {
        (&self.program, &self.kernel, &self.machine, self.launch)
    }
}

impl Effect {
    /// Of pairs of a row as the chip is, and with the variant.
    fn of(chip: &str, variant: &Variant, pairs: &[(&Row, &Row)]) -> Self {
        let measured = pairs.iter().map(|(old, _)| old.silicon.cycles);
        let before: Vec<(f64, f64)> = pairs.iter().map(|(old, _)| old.cycles).zip(measured.clone()).collect();
        let after: Vec<(f64, f64)> = pairs.iter().map(|(_, new)| new.cycles).zip(measured).collect();
        let change = |(old, new): &(&Row, &Row)| Change {
            program: old.program.clone(),
            kernel: old.kernel.clone(),
            machine: old.machine.clone(),
            launch: old.launch,
            change: 100.0 * (new.cycles / old.cycles - 1.0),
        };
        let mut kernels: Vec<Change> = pairs.iter().map(change).collect();
        let mean_change = kernels.iter().map(|k| k.change.abs()).sum::<f64>() / pairs.len().max(1) as f64;
        kernels.retain(|kernel| kernel.change != 0.0);
        kernels.sort_by(|a, b| b.change.abs().total_cmp(&a.change.abs()));
        Self {
            name: variant.name.clone(),
            chip: chip.to_string(),
            set: variant.set.clone(),
            before: Agreement::of(&before),
            after: Agreement::of(&after),
            mean_change,
            kernels,
        }
    }
}

fn show(args: &SiliconArgs, rows: &[Row], mut effects: Vec<Effect>, left_out: &[String]) {
    for text in left_out {
        eprintln!("not compared: {text}");
    }
    // What matters most first.
    effects.sort_by(|a, b| b.mean_change.total_cmp(&a.mean_change));
    if args.json {
        let value = serde_json::json!({ "rows": rows, "effects": effects, "not_compared": left_out });
        println!("{}", serde_json::to_string_pretty(&value).unwrap_or_default());
        return;
    }
    let mut out = table(&[
        if args.sensitivity { "key changed" } else { "without" },
        "chip",
        "kernels",
        "mean absolute error",
        "median",
        "geometric mean ratio",
        "mean change of cycles",
        "most",
    ]);
    for effect in &effects {
        let Effect { name, chip, before, after, mean_change, kernels, .. } = effect;
        let most = kernels.first().map_or("-".to_string(), |most| {
            format!("{:+.1} % {} ({})", most.change, most.kernel, most.program)
        });
        out.add_row([
            name.clone(),
            chip.clone(),
            before.count.to_string(),
            format!("{:.1} to {:.1} %", before.mean_absolute_error, after.mean_absolute_error),
            format!("{:.1} to {:.1} %", before.median_absolute_error, after.median_absolute_error),
            format!("{:.2} to {:.2}", before.geometric_mean_ratio, after.geometric_mean_ratio),
            format!("{mean_change:.1} %"),
            most,
        ]);
    }
    println!("{out}");
    if args.sensitivity {
        println!("{}", by_kernel(rows, &effects));
    }
}

/// Keys that a kernel's row of the table names at the most.
const MOST: usize = 3;

/// For each kernel, the keys that its cycles depend on most.
fn by_kernel(rows: &[Row], effects: &[Effect]) -> String {
    let mut out = table(&["program", "kernel", "launch", "machine", "error", "changes most with"]);
    for row in rows {
        let own = |effect: &Effect| {
            let change = effect.kernels.iter().find(|change| change.key() == row.key())?.change;
            Some((change, effect.set.join(" ")))
        };
        let mut keys: Vec<(f64, String)> = effects.iter().filter_map(own).collect();
        keys.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
        let told: Vec<String> =
            keys.iter().take(MOST).map(|(change, key)| format!("{key} {change:+.1} %")).collect();
        out.add_row([
            row.program.clone(),
            row.kernel.clone(),
            row.launch.map_or("all".to_string(), |launch| launch.to_string()),
            row.machine.clone(),
            format!("{:+.1} %", 100.0 * (row.ratio - 1.0)),
            told.join(", "),
        ]);
    }
    out.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> File {
        sim_frontend::yaml::read(&Source::new("data/mechanisms.yaml", DATA)).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Every part can be switched off, and every key changed, on a chip at the least that was measured; what it does is
    /// another chip.
    #[test]
    fn what_is_varied_is_there() {
        let (file, known) = (file(), Known::default());
        let args = args(&["--sensitivity"]);
        let other = |chip: &str, set: &[String]| {
            let set: Vec<Setting> = set.iter().map(|s| Setting::parse(s).expect("a setting")).collect();
            let set: Vec<(&str, &str)> = set.iter().map(|s| (s.key.as_str(), s.value.as_str())).collect();
            let spec = |set: &[(&str, &str)]| known.chip(chip, set).map(|chip| chip.spec);
            spec(&set).is_ok_and(|changed| changed != spec(&[]).expect("the chip is right"))
        };
        for Mechanism { name, without } in &file.mechanisms {
            assert!(other("h100", without) || other("qv100", without), "{name}");
        }
        for chip in ["h100", "qv100"] {
            let changed = changed(chip, &args, &file.parameters).expect("a chip");
            assert_eq!(changed.len(), file.parameters.len());
            for (variant, key) in changed.iter().zip(&file.parameters) {
                match variant {
                    Ok(variant) => assert!(other(chip, &variant.set), "{chip} {:?}", variant.set),
                    Err(why) => assert!(chip == "qv100" && why.starts_with(key.as_str()), "{why}"),
                }
            }
        }
    }

    #[test]
    fn numbers_are_scaled() {
        let of = |old, by| scaled(old, by);
        assert_eq!(of("100", 1.25).as_deref(), Some("125"));
        assert_eq!(of("1", 1.25).as_deref(), Some("2"));
        assert_eq!(of("1", 0.9).as_deref(), Some("0"));
        assert_eq!(of("3", 0.5).as_deref(), Some("2"));
        assert_eq!(of("18446744073709551615", 1.25), None);
        assert_eq!(of("1.5", 2.0).as_deref(), Some("3"));
        assert_eq!(of("1.39", 1.25).as_deref(), Some("1.7375"));
        assert_eq!((of("0", 1.25), of("null", 1.25), of("words", 2.0)), (None, None, None));
    }

    fn args(words: &[&str]) -> SiliconArgs {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            args: SiliconArgs,
        }
        Line::parse_from(["silicon", "--workloads"].iter().chain(words)).args
    }

    /// A launch is compared with itself without a part: the error is that of the definition, and what the chip has already is said.
    #[test]
    fn a_part_is_switched_off() {
        let only = args(&["--only", "^reduce$", "--chip", "h100", "--set", "memory.l2.hit_latency=300"]);
        let (rows, failures) = study(&only, &|_, _| {}).expect("it was measured");
        assert!(failures.is_empty() && !rows.is_empty(), "{failures:?}");
        let (base, known) = (rows.iter().collect::<Vec<_>>(), Known::default());
        let without = |set: &str| {
            let variant = Variant { name: "a part".into(), set: vec![set.into()] };
            effect("h100", &variant, &only, &base, &known)
        };
        let (found, failed) = without("memory.l2.hit_latency=600").expect("it can be");
        assert!(failed.is_empty(), "{failed:?}");
        assert_eq!((found.before.count, found.kernels.len()), (rows.len(), rows.len()));
        assert!(found.kernels.iter().all(|kernel| kernel.change > 0.0), "{found:?}");
        let (old, new) = (found.before.geometric_mean_ratio, found.after.geometric_mean_ratio);
        let one = 1.0 + found.kernels[0].change / 100.0;
        assert!(rows.len() > 1 || (new / old - one).abs() < 1e-9, "{found:?}");
        assert!(without("memory.l2.hit_latency=300").expect_err("nothing changes").ends_with("has it so"));
        assert!(without("memory.l2.hit=3").expect_err("no key").contains("no key"));
        assert!(without("memory.l2.ways=0").expect_err("not a value").contains("ways"));
    }
}
