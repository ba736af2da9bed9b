//! Chips and cost tables that ship with the command, and files of the user.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use sim_frontend::chip::{ChipSpec, Needs};
use sim_frontend::diagnostic::{Diagnostic, Source};
use sim_frontend::isa_cost::IsaCosts;
use sim_frontend::ptx::parser::{MAX_BYTES, too_large};
use sim_frontend::yaml::tree::Tree;
use sim_frontend::yaml::{Overlaid, check_depth, value_of, with_value};
use sim_memory::dram::{DramTimings, STANDARDS};
use sim_memory::programs::{ProgramSet, TEXTS};

use crate::files;
use crate::shipped;

/// Shipped chip files by name.
pub const CHIPS: &[(&str, &str)] = &[
    ("8800gtx", include_str!("../configs/chips/8800gtx.yaml")),
    ("gtx280", include_str!("../configs/chips/gtx280.yaml")),
    ("gtx480", include_str!("../configs/chips/gtx480.yaml")),
    ("gtx560ti", include_str!("../configs/chips/gtx560ti.yaml")),
    ("gtx680", include_str!("../configs/chips/gtx680.yaml")),
    ("gtx980", include_str!("../configs/chips/gtx980.yaml")),
    ("gtx1080ti", include_str!("../configs/chips/gtx1080ti.yaml")),
    ("v100", include_str!("../configs/chips/v100.yaml")),
    ("qv100", include_str!("../configs/chips/qv100.yaml")),
    ("titanv", include_str!("../configs/chips/titanv.yaml")),
    ("rtx2080ti", include_str!("../configs/chips/rtx2080ti.yaml")),
    ("a100", include_str!("../configs/chips/a100.yaml")),
    ("rtx3080", include_str!("../configs/chips/rtx3080.yaml")),
    ("rtx3080ti", include_str!("../configs/chips/rtx3080ti.yaml")),
    ("rtx4070", include_str!("../configs/chips/rtx4070.yaml")),
    ("rtx4090", include_str!("../configs/chips/rtx4090.yaml")),
    ("h100", include_str!("../configs/chips/h100.yaml")),
    ("gh200", include_str!("../configs/chips/gh200.yaml")),
    ("h200", include_str!("../configs/chips/h200.yaml")),
    ("b200", include_str!("../configs/chips/b200.yaml")),
    ("rtx5090", include_str!("../configs/chips/rtx5090.yaml")),
];

/// Shipped cost tables by name.
const ISAS: &[(&str, &str)] = &[
    ("1.0", include_str!("../configs/isa/1.0.yaml")),
    ("1.3", include_str!("../configs/isa/1.3.yaml")),
    ("2.0", include_str!("../configs/isa/2.0.yaml")),
    ("2.1", include_str!("../configs/isa/2.1.yaml")),
    ("3.0", include_str!("../configs/isa/3.0.yaml")),
    ("5.2", include_str!("../configs/isa/5.2.yaml")),
    ("6.1", include_str!("../configs/isa/6.1.yaml")),
    ("7.0", include_str!("../configs/isa/7.0.yaml")),
    ("7.5", include_str!("../configs/isa/7.5.yaml")),
    ("8.0", include_str!("../configs/isa/8.0.yaml")),
    ("8.6", include_str!("../configs/isa/8.6.yaml")),
    ("8.9", include_str!("../configs/isa/8.9.yaml")),
    ("9.0", include_str!("../configs/isa/9.0.yaml")),
    ("10.0", include_str!("../configs/isa/10.0.yaml")),
    ("12.0", include_str!("../configs/isa/12.0.yaml")),
];

/// Reads a text file.
pub fn read(path: &Path) -> Result<Source, Diagnostic> {
    let name = path.display().to_string();
    let unreadable = |error: std::io::Error| Diagnostic::error("file", files::unreadable(path, &error));
    let length = match shipped::read(path) {
        Some(bytes) => bytes.len() as u64,
        None => std::fs::metadata(path).map_err(unreadable)?.len(),
    };
    if length > MAX_BYTES as u64 {
        return Err(too_large(&name, length));
    }
    let bytes = files::read(path, MAX_BYTES as u64).map_err(unreadable)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source::new(&name, &text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let source = Source::new(&name, &text);
            let (line, column) = source.position(at as u32);
            Err(Diagnostic::error("file", format!("{name}:{line}:{column}: the text is not UTF-8 here")))
        }
    }
}

/// Whether a chip of this name ships; others are files.
pub fn ships(name: &str) -> bool {
    CHIPS.iter().any(|(shipped, _)| *shipped == name)
}

/// The text of a chip file with all that it extends.
struct ChipText {
    source: Source,
    /// What lies on what, the innermost first.
    overlaid: Vec<Overlaid>,
}

/// Reads a chip by name or file; `open` are the chips that extend it.
fn chip_text(name: &str, open: &mut Vec<String>) -> Result<ChipText, Diagnostic> {
    let source = match CHIPS.iter().find(|(shipped, _)| *shipped == name) {
        Some((_, text)) => Source::new(&format!("{name}.yaml"), text),
        None if Path::new(name).exists() => read(Path::new(name))?,
        None => {
            let names: Vec<&str> = CHIPS.iter().map(|(name, _)| *name).collect();
            let message = format!("there is no chip or chip file `{name}`; chips: {}", names.join(", "));
            return Err(Diagnostic::error("chip", message).did_you_mean(name, names));
        }
    };
    check_depth(&source)?;
    let Some((base, place)) = value_of(&source, &["extends"]) else {
        return Ok(ChipText { source, overlaid: Vec::new() });
    };
    let wrong = |message: String| Diagnostic::error("extends", message).at(place, "").in_source(&source);
    open.push(name.to_string());
    // A file is looked for beside the one that names it.
    let beside = Path::new(name).parent().unwrap_or(Path::new("")).join(base);
    let base = if ships(base) { base.to_string() } else { beside.display().to_string() };
    if open.contains(&base) {
        return Err(wrong(format!("circular `extends`: {}", open.join(", "))));
    }
    let inner = chip_text(&base, open).map_err(|error| match error.source {
        Some(_) => error,
        None => Diagnostic { help: error.help.clone(), ..wrong(error.message) },
    })?;
    let mut overlaid = inner.overlaid;
    let outer = Overlaid::new(&inner.source, &source, "extends")?;
    let source = outer.merged.clone();
    overlaid.push(outer);
    Ok(ChipText { source, overlaid })
}

/// A chip by name or file with its cost table; `set` changes values by their paths.
pub fn chip(name: &str, set: &[(&str, &str)]) -> Result<(ChipSpec, Arc<IsaCosts>), Vec<Diagnostic>> {
    ChipFile::read(name)?.chip(set)
}

/// A chip's file with all that it extends, which may be asked for many chips.
pub struct ChipFile {
    name: String,
    text: ChipText,
    /// Made when a second chip is asked for.
    tree: OnceLock<Option<Tree>>,
    asked: AtomicBool,
}

impl ChipFile {
    /// Reads a chip by name or file.
    ///
    /// # Errors
    /// What is wrong with the files.
    pub fn read(name: &str) -> Result<Self, Vec<Diagnostic>> {
        let text = chip_text(name, &mut Vec::new()).map_err(|e| vec![e])?;
        Ok(Self { name: name.into(), text, tree: OnceLock::new(), asked: AtomicBool::new(false) })
    }

    /// The text of the value of a key by its path; none where the chip has no such key.
    pub fn value(&self, path: &str) -> Option<&str> {
        let parts: Vec<&str> = path.split('.').collect();
        value_of(&self.text.source, &parts).map(|(value, _)| value)
    }

    /// The chip with its cost table; `set` changes values by their paths.
    ///
    /// # Errors
    /// What is wrong with the chip.
    pub fn chip(&self, set: &[(&str, &str)]) -> Result<(ChipSpec, Arc<IsaCosts>), Vec<Diagnostic>> {
        let changed = || {
            self.asked.swap(true, Ordering::Relaxed).then_some(())?;
            let tree = self.tree.get_or_init(|| Tree::of::<ChipSpec>(&self.text.source));
            ChipSpec::with(tree.as_ref()?, set)
        };
        let mut chip = match changed() {
            Some(chip) => chip,
            None => self.spec(set)?,
        };
        let folder = Path::new(&self.name).parent().unwrap_or(Path::new(""));
        memory_programs(&mut chip, folder)?;
        dram_standard(&mut chip, folder)?;
        let costs = match ISAS.iter().find(|(shipped, _)| *shipped == chip.isa) {
            Some((name, text)) => shipped_costs(name, text)?,
            None => Arc::new(IsaCosts::load(&read(&folder.join(&chip.isa)).map_err(|e| vec![e])?)?),
        };
        Ok((chip, costs))
    }

    /// The chip by its text.
    fn spec(&self, set: &[(&str, &str)]) -> Result<ChipSpec, Vec<Diagnostic>> {
        let mut source = self.text.source.clone();
        for (path, value) in set {
            source = with_value(&source, path, value).map_err(|e| vec![e])?;
        }
        let blame =
            |error| self.text.overlaid.iter().rev().fold(error, |error, overlaid| overlaid.blame(error));
        ChipSpec::load(&source).map_err(|errors| match set {
            [] => errors.into_iter().map(blame).collect(),
            _ => errors,
        })
    }
}

/// A shipped cost table, which is read once.
fn shipped_costs(name: &'static str, text: &str) -> Result<Arc<IsaCosts>, Vec<Diagnostic>> {
    static READ: LazyLock<Mutex<HashMap<&str, Arc<IsaCosts>>>> = LazyLock::new(Mutex::default);
    let known = READ.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
    if let Some(costs) = known {
        return Ok(costs);
    }
    let costs = Arc::new(IsaCosts::load(&Source::new(&format!("isa/{name}.yaml"), text))?);
    READ.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::clone(&costs));
    Ok(costs)
}

/// Shipped chips that have what is needed, the smallest first: by compute capability, then SMs, then in the order of [`CHIPS`].
pub fn chips_that_fit(needs: &Needs) -> Vec<&'static str> {
    static SHIPPED: LazyLock<Vec<(&str, ChipSpec)>> = LazyLock::new(|| {
        CHIPS.iter().filter_map(|(name, _)| Some((*name, chip(name, &[]).ok()?.0))).collect()
    });
    let mut fit: Vec<((u32, u32), &str)> = SHIPPED
        .iter()
        .filter_map(|(name, spec)| {
            let size = (spec.capability(), spec.limits.num_processors);
            spec.has(needs).then_some((size, *name))
        })
        .collect();
    fit.sort_by_key(|(size, _)| *size);
    fit.into_iter().map(|(_, name)| name).collect()
}

/// Reads the memory programs a chip names, from its folder, and checks all of its programs.
fn memory_programs(chip: &mut ChipSpec, folder: &Path) -> Result<(), Vec<Diagnostic>> {
    for choice in chip.memory.programs.values_mut() {
        let path = folder.join(&choice.name);
        if !TEXTS.iter().any(|(name, _)| *name == choice.name) && path.exists() {
            choice.text = Some(read(&path).map_err(|e| vec![e])?.text.to_string());
        }
    }
    match ProgramSet::for_chip(chip.memory.protocol, &chip.memory.programs, chip.capability()) {
        Ok(_) => Ok(()),
        Err(error) => Err(vec![Diagnostic::error("memory-program", error.to_string())]),
    }
}

/// Reads the DRAM standard a chip names, from its folder, and checks the chip's figures against it.
fn dram_standard(chip: &mut ChipSpec, folder: &Path) -> Result<(), Vec<Diagnostic>> {
    let choice = &mut chip.memory.dram.standard;
    let path = folder.join(&choice.name);
    if !STANDARDS.iter().any(|(name, _)| *name == choice.name) && path.exists() {
        choice.text = Some(read(&path).map_err(|e| vec![e])?.text.to_string());
    }
    match DramTimings::of(&chip.memory.dram) {
        Ok(_) => Ok(()),
        Err(error) => Err(vec![Diagnostic::error("chip", format!("memory.dram: {error}"))]),
    }
}

#[cfg(test)]
mod tests;
