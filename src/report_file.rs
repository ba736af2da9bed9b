//! `report.json`: the results of a run as they are written, and the checks on files that are read.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use sim_core::error::{Fault, SimError};
use sim_core::report::DeviceReport;
use sim_frontend::workload::Params;

use crate::contents::Contents;
use crate::figures::Figures;
use crate::listing::Listing;
use crate::machine::Machine;

/// Version of the format of `report.json`.
pub const SCHEMA: u32 = 2;

/// `report.json`: simulated facts only.
#[derive(Serialize)]
pub struct Report {
    /// Version of this format.
    pub schema: u32,
    /// Name of the workload, or path of the .ptx file.
    pub workload: String,
    /// Name of the program of the workload.
    pub variant: String,
    /// Name of the chip.
    pub chip: String,
    /// The file of the chip, where it is none of those that ship.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chip_file: Option<String>,
    /// Why this chip was chosen, where none was named.
    #[serde(skip)]
    pub chosen: Option<String>,
    /// Policy with every parameter.
    pub policy: String,
    /// Warp scheduler of the SMs.
    pub scheduler: String,
    /// Run-time checks of the run, as `--check` names them.
    pub check: String,
    /// Parameters of the workload.
    pub params: Params,
    /// Arguments of the kernel as they were typed, where the workload is a `.ptx` file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// What the seeds of the workload were changed by.
    #[serde(skip_serializing_if = "sim_core::report::is_zero")]
    pub seed: u64,
    /// Values of the chip that differ from its file, by path.
    pub set: BTreeMap<String, String>,
    /// An instruction above the chip's compute capability ran.
    pub allow_newer_isa: bool,
    /// pass, fail, unchecked, or stopped.
    pub result: &'static str,
    /// The first difference from the expected results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
    /// What stopped the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// The final contents of the device's memory, where the run completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<Contents>,
    /// What the chip can do at most.
    pub machine: Machine,
    /// Figures of the device.
    #[serde(flatten, serialize_with = "known")]
    pub device: DeviceReport,
    /// The program's text, where lines are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listing: Option<Listing>,
}

/// The figures of a device as a report has them: those that sampling cannot give are left out.
fn known<S: Serializer>(device: &DeviceReport, serializer: S) -> Result<S::Ok, S::Error> {
    if !device.is_sampled() {
        return device.serialize(serializer);
    }
    let mut value = serde_json::to_value(device).map_err(serde::ser::Error::custom)?;
    if let Some(figures) = value.as_object_mut() {
        let unknown = [
            "issued",
            "paired",
            "warp_cycles",
            "warp_slots",
            "dispatch_wait_cycles",
            "by_sm",
            "tensor",
            "policy_entries",
            "policy_spilled_bytes",
        ];
        unknown.iter().for_each(|name| drop(figures.remove(*name)));
        for parts in ["stalls", "memory"] {
            figures.insert(parts.into(), Value::Object(Map::new()));
        }
    }
    value.serialize(serializer)
}

/// What stopped a run.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// A fault, check violation or deadlock.
    Fault(Box<Fault>),
    /// The limit of cycles.
    MaxCycles {
        /// The limit that was reached.
        limit: u64,
        /// A warp that was still running.
        place: Option<Box<sim_core::error::Location>>,
        /// Why it may never end.
        #[serde(skip_serializing_if = "Option::is_none")]
        suspicion: Option<String>,
    },
    /// The limit of warp instructions.
    MaxInstructions {
        /// The limit that was reached.
        limit: u64,
        /// A warp that was still running.
        place: Option<Box<sim_core::error::Location>>,
        /// Why it may never end.
        #[serde(skip_serializing_if = "Option::is_none")]
        suspicion: Option<String>,
    },
    /// The limit of the host's memory.
    MaxMemory {
        /// The limit in bytes.
        limit: u64,
    },
    /// Stopped by Ctrl-C.
    Interrupted,
}

impl Stopped {
    /// Why a run stopped.
    pub fn of(error: SimError) -> Self {
        match error {
            SimError::Stopped(fault) => Self::Fault(fault),
            SimError::MaxCycles { limit, place, suspicion } => Self::MaxCycles { limit, place, suspicion },
            SimError::MaxInstructions { limit, place, suspicion } => {
                Self::MaxInstructions { limit, place, suspicion }
            }
            SimError::MaxMemory { limit } => Self::MaxMemory { limit },
            SimError::Interrupted | SimError::Input(_) => Self::Interrupted,
        }
    }
}

/// Whether a file holds a report of a format that is known.
///
/// # Errors
/// It does not, in words that name the file and the key.
pub fn is_report(path: &Path, report: &Value) -> Result<(), String> {
    let wrong = |why: String| Err(format!("{}: {why}", path.display()));
    if let Some(schema) = report.get("schema").and_then(Value::as_u64).filter(|n| *n > u64::from(SCHEMA)) {
        return wrong(format!(
            "schema {schema}: this was written by a newer version; this one reads up to {SCHEMA}"
        ));
    }
    type Is = fn(&Value) -> bool;
    let keys: [(&str, Is, &str); 8] = [
        ("cycles", Value::is_u64, "whole number"),
        ("schema", Value::is_u64, "whole number"),
        ("workload", Value::is_string, "text"),
        ("chip", Value::is_string, "text"),
        ("policy", Value::is_string, "text"),
        ("result", Value::is_string, "text"),
        ("stalls", Value::is_object, "mapping"),
        ("memory", Value::is_object, "mapping"),
    ];
    for (key, is_right, kind) in keys {
        match report.get(key) {
            Some(value) if is_right(value) => {}
            Some(_) => return wrong(format!("this is not a report.json: its key `{key}` is not a {kind}")),
            None => return wrong(format!("this is not a report.json: it has no key `{key}`")),
        }
    }
    Figures::read(report)
        .map(drop)
        .map_err(|why| format!("{}: this is not a report.json: {why}", path.display()))
}
