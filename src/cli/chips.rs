//! `warpsim chips`: the chips there are, and what tells two of them apart.

use clap::{Args, Subcommand};
use serde_json::Value;
use sim_frontend::chip::ChipSpec;
use sim_frontend::isa;
use sim_frontend::isa_cost::IsaCosts;

use crate::configs;
use crate::console::{complain, status, table};

/// Commands of `chips`.
#[derive(Subcommand)]
pub enum ChipsCommand {
    /// Shows the parameters and instruction costs that differ between two chips.
    Diff(ChipsDiffArgs),
}

/// Options of `chips diff`.
#[derive(Args, Clone, Debug)]
pub struct ChipsDiffArgs {
    /// First chip: a name or a file.
    pub a: String,
    /// Second chip.
    pub b: String,
    /// Prints a JSON list instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Operations whose costs are compared.
const OPERATIONS: [&str; 41] = [
    "add.s32",
    "mul.lo.s32",
    "mul.hi.s32",
    "mul.wide.s32",
    "mad.lo.s32",
    "mul24.lo.s32",
    "div.s32",
    "add.s64",
    "mul.lo.s64",
    "div.s64",
    "and.b32",
    "shl.b32",
    "popc.b32",
    "clz.b32",
    "brev.b32",
    "bfe.u32",
    "setp.lt.s32",
    "selp.b32",
    "cvt.rn.f32.s32",
    "cvt.f64.f32",
    "add.f32",
    "fma.rn.f32",
    "div.rn.f32",
    "div.approx.f32",
    "rcp.rn.f32",
    "rcp.approx.f32",
    "sqrt.rn.f32",
    "sqrt.approx.f32",
    "rsqrt.approx.f32",
    "sin.approx.f32",
    "ex2.approx.f32",
    "lg2.approx.f32",
    "add.f64",
    "fma.rn.f64",
    "div.rn.f64",
    "ld.global.u32",
    "st.global.u32",
    "atom.global.add.u32",
    "bar.sync",
    "bra",
    "shfl.sync.idx.b32",
];

/// Lists the chips; gives the exit status.
pub fn list() -> u8 {
    let mut out = table(&["chip", "cc", "SMs", "core MHz", "GB/s", "description"]);
    for (name, _) in configs::CHIPS {
        match configs::chip(name, &[]) {
            Ok((chip, _)) => {
                out.add_row([
                    chip.name.clone(),
                    chip.compute_capability.clone(),
                    chip.limits.num_processors.to_string(),
                    chip.clocks.core_mhz.to_string(),
                    format!("{:.0}", chip.dram_bandwidth() / 1e9),
                    chip.description.clone(),
                ]);
            }
            Err(errors) => {
                complain(&errors);
                return status::BAD_INPUT;
            }
        }
    }
    println!("{out}");
    status::DONE
}

/// A key whose values differ; none where a chip does not have it.
#[derive(serde::Serialize)]
struct Difference {
    key: String,
    a: Option<String>,
    b: Option<String>,
}

/// Prints what differs between two chips: values by their keys, then costs.
pub fn diff(args: &ChipsDiffArgs) -> u8 {
    let (a, b) = match (configs::chip(&args.a, &[]), configs::chip(&args.b, &[])) {
        (Ok(a), Ok(b)) => (a, b),
        (a, b) => {
            [a.err(), b.err()].into_iter().flatten().for_each(|errors| complain(&errors));
            return status::BAD_INPUT;
        }
    };
    let mut differences = compare(&values(&a.0), &values(&b.0));
    differences.extend(compare(&costs(&a.1), &costs(&b.1)));
    if args.json {
        println!("{}", serde_json::to_string_pretty(&differences).unwrap_or_default());
        return status::DONE;
    }
    if differences.is_empty() {
        println!(
            "{} and {} have the same parameters, and the same costs of the {} compared instructions",
            a.0.name,
            b.0.name,
            OPERATIONS.len()
        );
        return status::DONE;
    }
    let mut out = table(&["key", &a.0.name, &b.0.name]);
    for Difference { key, a, b } in &differences {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "–".to_string());
        out.add_row([key.clone(), text(a), text(b)]);
    }
    println!("{out}");
    println!(
        "{} {}; costs are unit, latency, initiation interval, machine operations",
        differences.len(),
        if differences.len() == 1 { "key differs" } else { "keys differ" }
    );
    status::DONE
}

/// The values of a chip by their paths, in the order of the file format.
fn values(chip: &ChipSpec) -> Vec<(String, String)> {
    fn flatten(path: &str, value: &Value, out: &mut Vec<(String, String)>) {
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    flatten(&path, inner, out);
                }
            }
            Value::Null => {}
            Value::String(text) => out.push((path.to_string(), text.clone())),
            other => out.push((path.to_string(), other.to_string())),
        }
    }
    let mut out = Vec::new();
    flatten("", &serde_json::to_value(chip).unwrap_or_default(), &mut out);
    out
}

fn costs(costs: &IsaCosts) -> Vec<(String, String)> {
    let cost = |name: &str| {
        let mut words = name.split('.');
        let row = words.next().and_then(isa::entry)?;
        let form = isa::resolve(row, &words.collect::<Vec<_>>(), false).ok()?.form;
        let cost = costs.cost(&form);
        let unit = format!("{:?}", cost.unit).to_lowercase();
        let text = format!("{unit}, {}, {}, {}", cost.latency, cost.initiation, cost.machine_operations);
        Some((format!("cost of {name}"), text))
    };
    OPERATIONS.iter().filter_map(|name| cost(name)).collect()
}

/// The keys whose values differ: those of `a` in its order, then those that only `b` has.
fn compare(a: &[(String, String)], b: &[(String, String)]) -> Vec<Difference> {
    let of =
        |list: &[(String, String)], key: &str| list.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
    let shared = a.iter().filter(|(key, value)| of(b, key).as_ref() != Some(value));
    let shared =
        shared.map(|(key, value)| Difference { key: key.clone(), a: Some(value.clone()), b: of(b, key) });
    let only_b = b.iter().filter(|(key, _)| of(a, key).is_none());
    let only_b = only_b.map(|(key, value)| Difference { key: key.clone(), a: None, b: Some(value.clone()) });
    shared.chain(only_b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_the_list_is_one() {
        let (_, found) = configs::chip("gtx480", &[]).unwrap_or_else(|e| panic!("{}", e[0].render()));
        assert_eq!(costs(&found).len(), OPERATIONS.len());
    }

    #[test]
    fn chips_differ_in_what_their_files_say() {
        let load = |name: &str| configs::chip(name, &[]).unwrap_or_else(|e| panic!("{}", e[0].render()));
        let ((v100, costs_v), (h100, costs_h)) = (load("v100"), load("h100"));
        assert!(compare(&values(&v100), &values(&v100)).is_empty());
        let found = compare(&values(&v100), &values(&h100));
        let of = |key: &str| {
            let found = found.iter().find(|d| d.key == key).unwrap_or_else(|| panic!("{key}"));
            (found.a.clone(), found.b.clone())
        };
        let pair = |a: &str, b: &str| (Some(a.to_string()), Some(b.to_string()));
        assert_eq!(of("limits.NumProcessors"), pair("80", "132"));
        assert_eq!(of("memory.l1.hit_latency"), pair("28", "32"));
        assert_eq!(of("sm.shared_reserved"), pair("0", "1024"));
        assert!(found.iter().all(|d| d.key != "limits.WarpSize"));
        // What one of them does not have.
        let (gtx980, _) = load("gtx980");
        let found = compare(&values(&gtx980), &values(&v100));
        let unified = found.iter().find(|d| d.key == "memory.unified.size_bytes").expect("v100 has it");
        assert_eq!((&unified.a, unified.b.as_deref()), (&None, Some("131072")));
        let found = compare(&costs(&costs_v), &costs(&costs_h));
        assert!(found.iter().any(|d| d.key == "cost of add.f32"));
    }
}
