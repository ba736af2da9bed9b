//! Chips and cost tables that ship with the command, and files of the user.

use std::path::Path;

use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::{Diagnostic, Source};
use sim_frontend::isa_cost::IsaCosts;
use sim_frontend::ptx::parser::{MAX_BYTES, too_large};
use sim_frontend::yaml::with_value;
use sim_memory::dram::{DramTimings, STANDARDS};
use sim_memory::programs::{ProgramSet, TEXTS};

/// Shipped chip files by name.
pub const CHIPS: &[(&str, &str)] = &[
    ("gtx480", include_str!("../configs/chips/gtx480.yaml")),
    ("qv100", include_str!("../configs/chips/qv100.yaml")),
    ("v100", include_str!("../configs/chips/v100.yaml")),
    ("rtx2080ti", include_str!("../configs/chips/rtx2080ti.yaml")),
    ("a100", include_str!("../configs/chips/a100.yaml")),
    ("gh200", include_str!("../configs/chips/gh200.yaml")),
];

/// Shipped cost tables by name.
const ISAS: &[(&str, &str)] = &[
    ("2.0", include_str!("../configs/isa/2.0.yaml")),
    ("7.0", include_str!("../configs/isa/7.0.yaml")),
    ("7.5", include_str!("../configs/isa/7.5.yaml")),
    ("8.0", include_str!("../configs/isa/8.0.yaml")),
    ("9.0", include_str!("../configs/isa/9.0.yaml")),
];

/// Reads a text file.
pub fn read(path: &Path) -> Result<Source, Diagnostic> {
    let name = path.display().to_string();
    let unreadable = |error| Diagnostic::error("file", format!("{name} cannot be read: {error}"));
    let length = std::fs::metadata(path).map_err(unreadable)?.len();
    if length > MAX_BYTES as u64 {
        return Err(too_large(&name, length));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
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

/// A chip by name or file with its cost table; `set` changes values by their paths.
pub fn chip(name: &str, set: &[(&str, &str)]) -> Result<(ChipSpec, IsaCosts), Vec<Diagnostic>> {
    let source = match CHIPS.iter().find(|(shipped, _)| *shipped == name) {
        Some((_, text)) => Source::new(&format!("{name}.yaml"), text),
        None if Path::new(name).exists() => read(Path::new(name)).map_err(|e| vec![e])?,
        None => {
            let names: Vec<&str> = CHIPS.iter().map(|(name, _)| *name).collect();
            let message = format!("there is no chip or chip file `{name}`; chips: {}", names.join(", "));
            return Err(vec![Diagnostic::error("chip", message)]);
        }
    };
    let mut source = source;
    for (path, value) in set {
        source = with_value(&source, path, value).map_err(|e| vec![e])?;
    }
    let mut chip = ChipSpec::load(&source)?;
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    memory_programs(&mut chip, folder)?;
    dram_standard(&mut chip, folder)?;
    let isa = match ISAS.iter().find(|(shipped, _)| *shipped == chip.isa) {
        Some((name, text)) => Source::new(&format!("isa/{name}.yaml"), text),
        None => {
            let beside = Path::new(name).parent().unwrap_or(Path::new("")).join(&chip.isa);
            read(&beside).map_err(|e| vec![e])?
        }
    };
    Ok((chip, IsaCosts::load(&isa)?))
}

/// Reads the memory programs a chip names, from its folder, and checks all of its programs.
fn memory_programs(chip: &mut ChipSpec, folder: &Path) -> Result<(), Vec<Diagnostic>> {
    for choice in chip.memory.programs.values_mut() {
        let path = folder.join(&choice.name);
        if !TEXTS.iter().any(|(name, _)| *name == choice.name) && path.exists() {
            choice.text = Some(read(&path).map_err(|e| vec![e])?.text.to_string());
        }
    }
    match ProgramSet::with(chip.memory.protocol, &chip.memory.programs) {
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
