//! What a run did on the device, as files: another device, a GPU among them, can do it again and compare its memory.
//!
//! `run.json` has the buffers, the tensor maps, the variables and the steps in order; loops are unrolled as they ran.
//! Beside it lie the PTX and the bytes of the buffers before (`NAME.initial`) and after (`NAME.final`), where they are not
//! zeros or as before. Addresses in parameter blocks are named, since another device has others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sim_core::error::SimError;
use sim_core::tensor_map::{BYTES, TensorMap};
use sim_frontend::program::ParamInfo;
use sim_frontend::workload::{ArgumentKind, LaunchSpec};

use super::buffers::Layout;
use super::job::{Job, wrong};
use crate::device::Kernel;
use crate::files;
use crate::hex;

/// A folder that a run is written to.
pub struct Export {
    folder: PathBuf,
    /// Buffers by name: what `run.json` says of them, and their first contents.
    buffers: BTreeMap<String, (Value, Vec<u8>)>,
    /// Which buffer lies at an address: loops may exchange names.
    at: BTreeMap<u64, String>,
    maps: BTreeMap<String, Value>,
    variables: BTreeMap<String, Value>,
    steps: Vec<Value>,
}

impl Export {
    /// Begins with the program.
    ///
    /// # Errors
    /// The folder cannot be written, or the workload has what files of this kind do not have.
    pub fn new(folder: &Path, job: &Job) -> Result<Self, SimError> {
        if job.images().next().is_some() {
            return Err(wrong("--export: textures and surfaces cannot be exported"));
        }
        std::fs::create_dir_all(folder).map_err(|error| wrong(files::unwritable(folder, &error)))?;
        let export = Self {
            folder: folder.to_path_buf(),
            buffers: BTreeMap::new(),
            at: BTreeMap::new(),
            maps: BTreeMap::new(),
            variables: BTreeMap::new(),
            steps: Vec::new(),
        };
        export.write("program.ptx", job.ptx.text.as_bytes())?;
        Ok(export)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), SimError> {
        let path = self.folder.join(name);
        files::write(&path, bytes).map_err(|error| wrong(files::unwritable(&path, &error)))
    }

    /// A buffer with its first contents.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn buffer(
        &mut self,
        name: &str,
        layout: Layout,
        address: u64,
        bytes: Vec<u8>,
    ) -> Result<(), SimError> {
        let mut what = json!({"type": layout.ty.name(), "bytes": bytes.len()});
        if bytes.iter().any(|byte| *byte != 0) {
            let file = format!("{name}.initial");
            self.write(&file, &bytes)?;
            what["initial"] = file.into();
        }
        self.at.insert(address, name.to_string());
        self.buffers.insert(name.to_string(), (what, bytes));
        Ok(())
    }

    /// A variable that the workload gives contents.
    pub fn variable(&mut self, name: &str, bytes: &[u8]) {
        self.variables.insert(name.to_string(), hex::digits(bytes).into());
    }

    /// All elements of a buffer get a value.
    pub fn fill(&mut self, address: u64, element: &[u8]) {
        let buffer = self.at.get(&address);
        self.steps.push(json!({"fill": {"buffer": buffer, "element": hex::digits(element)}}));
    }

    /// A launch.
    pub fn launch(
        &mut self,
        spec: &LaunchSpec,
        params: &[ParamInfo],
        kernel: &Kernel,
        maps: &BTreeMap<String, TensorMap>,
        map_addresses: &BTreeMap<String, u64>,
    ) {
        let mut named = Vec::new();
        for (argument, param) in spec.args.iter().zip(params) {
            let (start, end) = (param.offset as usize, (param.offset + param.size) as usize);
            let mut names = Vec::new();
            names_of(&argument.kind, &mut names);
            let mut at = start;
            while at + 8 <= end {
                let (value, bytes) = match self.named(&kernel.params[at..end], &names, maps, map_addresses) {
                    Some((value, bytes)) => (Some(value), bytes),
                    None => (None, 8),
                };
                named.extend(value.map(|mut value| {
                    value["at"] = at.into();
                    value
                }));
                at += bytes;
            }
        }
        let cluster = kernel.cluster.map_or(Value::Null, Value::from_iter);
        self.steps.push(json!({"launch": {
            "entry": kernel.entry, "grid": kernel.grid, "block": kernel.block, "cluster": cluster,
            "dynamic_shared": kernel.dynamic_shared, "params": hex::digits(&kernel.params), "named": named,
            "offsets": params.iter().map(|param| param.offset).collect::<Vec<_>>(),
        }}));
    }

    /// What lies at the beginning of some bytes of parameters that hold addresses or maps of these names, and its bytes.
    fn named(
        &mut self,
        bytes: &[u8],
        names: &[&str],
        maps: &BTreeMap<String, TensorMap>,
        map_addresses: &BTreeMap<String, u64>,
    ) -> Option<(Value, usize)> {
        let (word, _) = bytes.split_first_chunk::<8>()?;
        let word = u64::from_le_bytes(*word);
        for name in names {
            if let Some(map) = maps.get(*name) {
                let by_address = map_addresses.get(*name) == Some(&word);
                if by_address || bytes.starts_with(&map.encode()) {
                    self.map(name, map);
                    return Some(match by_address {
                        true => (json!({"map_address": name}), 8),
                        false => (json!({"map": name}), BYTES),
                    });
                }
            }
        }
        if names.is_empty() {
            return None;
        }
        let (start, name) = self.at.range(..=word).next_back()?;
        let length = self.buffers.get(name)?.1.len() as u64;
        (word - start <= length).then(|| (json!({"buffer": name, "add": word - start}), 8))
    }

    fn map(&mut self, name: &str, map: &TensorMap) {
        let Some((address, buffer)) = self.at.range(..=map.address).next_back() else { return };
        let im2col = map.im2col.as_ref().map(|im2col| {
            json!({"lower": im2col.lower, "upper": im2col.upper, "channels": im2col.channels, "pixels": im2col.pixels})
        });
        let what = json!({
            "data_type": map.data_type, "buffer": buffer, "add": map.address - address, "sizes": map.sizes,
            "strides": map.strides, "box": map.box_sizes, "element_strides": map.element_strides,
            "interleave": map.interleave, "swizzle": map.swizzle, "atom": map.atom as u8,
            "promotion": map.promotion, "nan": map.nan, "im2col": im2col,
        });
        self.maps.insert(name.to_string(), what);
    }

    /// Ends with the contents of the buffers, as `read` gives them by name and address.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn finish(
        mut self,
        job: &Job,
        read: &mut dyn FnMut(u64, &mut [u8]) -> Result<(), SimError>,
    ) -> Result<(), SimError> {
        for (address, name) in std::mem::take(&mut self.at) {
            let Some((mut what, initial)) = self.buffers.remove(&name) else { continue };
            let mut bytes = vec![0; initial.len()];
            read(address, &mut bytes)?;
            if bytes != initial {
                let file = format!("{name}.final");
                self.write(&file, &bytes)?;
                what["final"] = file.into();
            }
            self.buffers.insert(name, (what, Vec::new()));
        }
        let buffers: BTreeMap<_, _> = self.buffers.iter().map(|(name, (what, _))| (name, what)).collect();
        let run = json!({
            "workload": job.spec.name, "params": job.params, "schedule": job.spec.schedule,
            "buffers": buffers, "maps": self.maps, "variables": self.variables, "steps": self.steps,
        });
        self.write("run.json", (serde_json::to_string_pretty(&run).unwrap_or_default() + "\n").as_bytes())
    }
}

/// Names of buffers and maps in an argument.
fn names_of<'a>(argument: &'a ArgumentKind, names: &mut Vec<&'a str>) {
    match argument {
        ArgumentKind::Pointer { buffer, .. } => names.push(buffer),
        ArgumentKind::Struct(fields) => fields.iter().for_each(|field| names_of(field, names)),
        ArgumentKind::Scalar { .. } | ArgumentKind::Bytes(_) => {}
    }
}
