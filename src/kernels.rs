//! Figures of the kernels of a CUDA program, by name and by launch.

use std::collections::BTreeMap;

use serde_json::Value;

/// A figure of all launches of a kernel.
pub struct KernelFigure {
    /// `kernels.NAME.FIGURE`.
    pub name: String,
    /// Its value.
    pub value: u64,
    /// Unit of the value.
    pub unit: &'static str,
    /// What it measures.
    pub doc: &'static str,
}

/// What of launches is summed by kernel: key of a report, unit, meaning.
const SUMMED: [(&str, &str, &str); 2] = [
    (
        "cycles",
        "core cycles",
        "cycles of the timed launches of the kernel, each from its first block's dispatch to its last block's end",
    ),
    (
        "warp_instructions",
        "instructions",
        "source instructions issued for a warp or a path of one, by all launches of the kernel",
    ),
];

/// The figures of the kernels of a program's report, by kernel in the order of first launches; none of a workload's.
pub fn of(report: &Value) -> Vec<KernelFigure> {
    let list = report["kernels"].as_array().filter(|_| report.get("command").is_some());
    let mut kernels: Vec<(&str, Vec<&Value>)> = Vec::new();
    for launch in list.into_iter().flatten() {
        let name = launch["name"].as_str().unwrap_or_default();
        match kernels.iter_mut().find(|(own, _)| *own == name) {
            Some((_, launches)) => launches.push(launch),
            None => kernels.push((name, vec![launch])),
        }
    }
    let figures = |(kernel, launches): (&str, Vec<&Value>)| {
        let figure = |key: &str, value, unit, doc| KernelFigure {
            name: format!("kernels.{kernel}.{key}"),
            value,
            unit,
            doc,
        };
        let count = figure("launches", launches.len() as u64, "launches", "launches of the kernel");
        let summed = SUMMED.map(|(key, unit, doc)| {
            figure(key, launches.iter().filter_map(|launch| launch[key].as_u64()).sum(), unit, doc)
        });
        std::iter::once(count).chain(summed).collect::<Vec<_>>()
    };
    kernels.into_iter().flat_map(figures).collect()
}

/// Launches with their numbers among those of their kernel, from 0, in the order of the launches.
fn numbered<T>(launches: impl IntoIterator<Item = (String, T)>) -> Vec<((String, usize), T)> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let number = |(name, launch): (String, T)| {
        let next = seen.entry(name.clone()).or_default();
        *next += 1;
        ((name, *next - 1), launch)
    };
    launches.into_iter().map(number).collect()
}

/// A launch by kernel and number: what one run and another one have of it.
pub type Pair<T> = ((String, usize), Option<T>, Option<T>);

/// Launches of two runs by kernel and number: in the order of the first run, then those that only the second has.
pub fn paired<T>(
    was: impl IntoIterator<Item = (String, T)>,
    is: impl IntoIterator<Item = (String, T)>,
) -> Vec<Pair<T>> {
    let mut pairs: Vec<Pair<T>> =
        numbered(was).into_iter().map(|(launch, was)| (launch, Some(was), None)).collect();
    let places: BTreeMap<(String, usize), usize> =
        pairs.iter().enumerate().map(|(at, (launch, ..))| (launch.clone(), at)).collect();
    for (launch, is) in numbered(is) {
        match places.get(&launch) {
            Some(&at) => pairs[at].2 = Some(is),
            None => pairs.push((launch, None, Some(is))),
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_are_summed_and_numbered_by_kernel() {
        let kernel = |name: &str, cycles: u64| serde_json::json!({"name": name, "cycles": cycles, "warp_instructions": 2});
        let mut report = serde_json::json!({"kernels": [kernel("b", 3), kernel("a", 4), kernel("b", 5)]});
        assert!(of(&report).is_empty(), "not a program");
        report["command"] = serde_json::json!(["./x"]);
        let found: Vec<_> = of(&report).iter().map(|f| (f.name.clone(), f.value)).collect();
        let wanted = [
            ("b.launches", 2),
            ("b.cycles", 8),
            ("b.warp_instructions", 4),
            ("a.launches", 1),
            ("a.cycles", 4),
        ];
        let wanted: Vec<_> = wanted.iter().map(|(name, value)| (format!("kernels.{name}"), *value)).collect();
        assert_eq!(found[..5], wanted[..]);
        let launches = ["b", "a", "b"].map(|name| (name.to_string(), ()));
        let names: Vec<_> =
            numbered(launches).into_iter().map(|((name, i), ())| format!("{name} {i}")).collect();
        assert_eq!(names, ["b 0", "a 0", "b 1"]);
        let run = |kernels: &[(&str, u32)]| {
            kernels.iter().map(|(name, n)| (name.to_string(), *n)).collect::<Vec<_>>()
        };
        let pairs = paired(run(&[("b", 1), ("a", 2), ("b", 3)]), run(&[("c", 4), ("b", 5), ("a", 6)]));
        let pair = |name: &str, number, was, is| ((name.to_string(), number), was, is);
        let wanted = [
            pair("b", 0, Some(1), Some(5)),
            pair("a", 0, Some(2), Some(6)),
            pair("b", 1, Some(3), None),
            pair("c", 0, None, Some(4)),
        ];
        assert_eq!(pairs, wanted);
    }
}
