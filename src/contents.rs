//! What a run left in the device's memory: a digest of each buffer and of each variable, so that two reports
//! tell whether their runs came to the same results, checked by the workload or not.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use sim_core::context::Context;

use crate::digest::short;

/// Bytes that are read from the device at a time.
const CHUNK: u64 = 1 << 20;

/// Final contents of the device's memory, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// Buffers of the workload.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub buffers: BTreeMap<String, Content>,
    /// `.global` variables of the program.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, Content>,
}

/// Final contents of a buffer or a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Content {
    /// Size.
    pub bytes: u64,
    /// The first 64 bits of the SHA-256 of the bytes, in hexadecimal.
    pub digest: String,
}

impl Content {
    /// What the device holds at an address.
    pub fn of(context: &Context, address: u64, bytes: u64) -> Self {
        let mut hasher = Sha256::new();
        let mut chunk = vec![0; bytes.min(CHUNK) as usize];
        for at in (0..bytes).step_by(CHUNK as usize) {
            let part = &mut chunk[..(bytes - at).min(CHUNK) as usize];
            context.read(address + at, part);
            hasher.update(part);
        }
        Self { bytes, digest: short(&hasher.finalize()) }
    }
}

/// Digests by name, as a report has them, with what the program printed.
pub fn digests(report: &Value) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for (kind, one) in [("buffers", "buffer"), ("variables", "variable")] {
        for (name, content) in report["contents"][kind].as_object().into_iter().flatten() {
            out.insert(format!("{one} `{name}`"), content["digest"].as_str().unwrap_or_default().into());
        }
    }
    if let Some(printed) = report["printed"].as_str() {
        out.insert("printed text".into(), short(&Sha256::digest(printed)));
    }
    out
}

/// The names whose digests are not the same.
pub fn differing(was: &BTreeMap<String, String>, is: &BTreeMap<String, String>) -> Vec<String> {
    let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    names.into_iter().filter(|name| was.get(*name) != is.get(*name)).cloned().collect()
}
