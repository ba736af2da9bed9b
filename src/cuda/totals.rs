//! The counters of a program's runs, summed.

use serde_json::{Map, Number, Value};

use crate::device::Configured;
use crate::device::program::LaunchLine;
use crate::figures::Figures;
use crate::findings;
use crate::machine::Machine;

/// The counters of launches, each run of the device once.
pub fn sum<'l>(launches: impl Iterator<Item = &'l LaunchLine>) -> Figures {
    let mut total = Figures::none();
    for figures in launches.filter_map(|launch| launch.figures.as_deref()) {
        total.add(figures);
    }
    total
}

/// Counters as `report.json` has them, with what the chip can do.
pub fn values(figures: &Figures, configured: &Configured) -> Map<String, Value> {
    let mut value = whole(serde_json::to_value(figures).unwrap_or_default());
    let chip = &configured.chip;
    let Some(map) = value.as_object_mut() else { return Map::new() };
    map.insert("machine".into(), serde_json::to_value(Machine::of(chip)).unwrap_or_default());
    map.insert("sms".into(), chip.limits.num_processors.into());
    map.insert("schedulers".into(), chip.sm.schedulers.into());
    std::mem::take(map)
}

/// What bounds the launches whose counters these are; empty where nothing was timed.
pub fn bound(figures: &Figures, configured: &Configured) -> &'static str {
    findings::answer(&Value::Object(values(figures, configured))).bound
}

/// The greatest integer up to which all are exact as floating-point numbers.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Counts are integers, as in the report of a run; what is not known is left out.
fn whole(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            let exact = number.as_f64().filter(|value| value.fract() == 0.0 && (0.0..EXACT).contains(value));
            Value::Number(exact.map_or(number, |value| Number::from(value as u64)))
        }
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, whole(value)))
            .collect(),
        other => other,
    }
}
