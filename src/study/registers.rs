//! `warpsim study registers`: registers per thread of every kernel of the workloads, or of a table, beside those that NVIDIA's
//! assembler allocates.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sim_frontend::chip::{AssemblerSpec, ChipSpec, Needs};
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::load::{Assembler, Module};
use sim_frontend::program::ControlFlow;

use crate::cli::study::RegistersArgs;
use crate::configs;
use crate::console::{complain, status, table};
use crate::find::workload_folders;
use crate::shipped;
use crate::study::agreement::middle;

/// What `ptxas -v` of CUDA 12.9 says (`workloads/ptxas-registers.py`): file below `workloads`, entry, architecture it assembles for,
/// registers, bytes of spill stores.
const PTXAS: &str = include_str!("../../data/ptxas-registers.csv");

#[derive(Deserialize)]
struct Row {
    file: String,
    entry: String,
    arch: u32,
    registers: u32,
    spill_bytes: u32,
}

/// A kernel.
#[derive(Serialize)]
pub struct Compared {
    file: String,
    entry: String,
    arch: u32,
    /// The shipped chip of that architecture, or of the next one. Its assembler's passes are those of `ours`.
    chip: &'static str,
    ours: u32,
    /// Without the passes of the assembler.
    as_written: u32,
    ptxas: u32,
    spill_bytes: u32,
    /// (ours − ptxas) / ptxas.
    error_percent: f64,
    /// Warps that an SM of the chip holds in blocks of [`BLOCK`] threads: with our registers, and with ptxas's.
    warps: [u32; 2],
}

/// Threads of the blocks whose occupancy is compared.
const BLOCK: u32 = 256;

/// Prints the comparison; gives the exit status.
pub fn run(args: &RegistersArgs) -> u8 {
    let compared = match study(args.table.as_deref()) {
        Ok(compared) => compared,
        Err(errors) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&compared).unwrap_or_default());
        return status::DONE;
    }
    let mut out =
        table(&["kernel", "assembled for", "chip", "warpsim", "as written", "ptxas", "error", "warps an SM"]);
    for row in &compared {
        out.add_row([
            format!("{} {}", row.file, row.entry),
            format!("sm_{}", row.arch),
            row.chip.to_string(),
            row.ours.to_string(),
            row.as_written.to_string(),
            row.ptxas.to_string(),
            format!("{:+.0} %", row.error_percent),
            format!("{} / {}", row.warps[0], row.warps[1]),
        ]);
    }
    println!("{out}");
    println!("{}", by_architecture(&compared));
    println!("{}", summary(&compared));
    status::DONE
}

/// The median errors of each architecture.
fn by_architecture(compared: &[Compared]) -> comfy_table::Table {
    let mut errors: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for row in compared {
        errors.entry(row.arch).or_default().push(row.error_percent);
    }
    let mut out = table(&["assembled for", "kernels", "median absolute error", "median error"]);
    for (arch, errors) in errors {
        let sizes = errors.iter().map(|error| error.abs()).collect();
        out.add_row([
            format!("sm_{arch}"),
            errors.len().to_string(),
            format!("{:.1} %", middle(sizes)),
            format!("{:+.1} %", middle(errors)),
        ]);
    }
    out
}

/// The median error, how the errors lie around it, and for how many kernels occupancy is the same.
fn summary(compared: &[Compared]) -> String {
    let mut signed: Vec<f64> = compared.iter().map(|row| row.error_percent).collect();
    signed.sort_by(f64::total_cmp);
    let at = |list: &[f64], part: f64| list.get((list.len() as f64 * part) as usize).copied().unwrap_or(0.0);
    format!(
        "{} kernels: median absolute error {:.1} %, median error {:+.1} %, quartiles {:+.1} % and {:+.1} %; \
         as many warps an SM as with ptxas's registers in {:.0} % of them",
        compared.len(),
        middle(signed.iter().map(|error| error.abs()).collect()),
        middle(signed.clone()),
        at(&signed, 0.25),
        at(&signed, 0.75),
        same_occupancy(compared)
    )
}

/// Kernels of which an SM holds as many warps as with ptxas's registers, in percent of all.
fn same_occupancy(compared: &[Compared]) -> f64 {
    let same = compared.iter().filter(|row| row.warps[0] == row.warps[1]).count();
    100.0 * same as f64 / compared.len().max(1) as f64
}

/// Warps that an SM holds, in blocks of [`BLOCK`] threads without shared memory.
fn warps(chip: &ChipSpec, registers: u32) -> u32 {
    let needs = chip.block_needs(BLOCK, registers, 0);
    chip.occupancy(needs).0 * needs.warps
}

/// The rows of the study: of a table, or of the workloads.
///
/// # Errors
/// The table or a file that it names cannot be read, or lacks a kernel.
pub fn study(table: Option<&Path>) -> Result<Vec<Compared>, Vec<Diagnostic>> {
    let bad = |message: String| vec![Diagnostic::error("registers", message)];
    let mut modules: BTreeMap<String, Module> = BTreeMap::new();
    let mut chips: BTreeMap<u32, (&'static str, ChipSpec)> = BTreeMap::new();
    let mut out = Vec::new();
    let name = table.map_or_else(|| "data/ptxas-registers.csv".into(), |path| path.display().to_string());
    let text = match table {
        Some(path) => std::fs::read_to_string(path).map_err(|error| bad(format!("{name}: {error}")))?,
        None => PTXAS.to_string(),
    };
    for row in csv::Reader::from_reader(text.as_bytes()).deserialize() {
        let row: Row = row.map_err(|error| bad(format!("{name}: {error}")))?;
        if !modules.contains_key(&row.file) {
            let path = match table {
                Some(path) => path.with_file_name(&row.file),
                None => find(&row.file).ok_or_else(|| bad(format!("there is no workloads/{}", row.file)))?,
            };
            let module = Module::build(&configs::read(&path).map_err(|e| vec![e])?, false)?;
            modules.insert(row.file.clone(), module);
        }
        let Some(module) = modules.get(&row.file) else { continue };
        let (name, chip) = match chips.entry(row.arch) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let name = configs::chips_that_fit(&Needs::capability(row.arch)).into_iter().next();
                let name = name.ok_or_else(|| bad(format!("no chip is of sm_{} or later", row.arch)))?;
                new.insert((name, configs::chip(name, &[])?.0))
            }
        };
        let registers = |passes| {
            let assembler = Assembler { stack_bytes: 1024, registers: u32::MAX, passes };
            let made = module.program_for(&row.entry, &|_| Some(4096), ControlFlow::Injected, assembler)?;
            Ok::<_, Vec<Diagnostic>>(made.registers_per_thread)
        };
        let (ours, as_written) = (registers(chip.assembler)?, registers(AssemblerSpec::default())?);
        let error_percent = (f64::from(ours) / f64::from(row.registers.max(1)) - 1.0) * 100.0;
        out.push(Compared {
            file: row.file,
            entry: row.entry,
            arch: row.arch,
            chip: name,
            ours,
            as_written,
            ptxas: row.registers,
            spill_bytes: row.spill_bytes,
            error_percent,
            warps: [warps(chip, ours), warps(chip, row.registers)],
        });
    }
    Ok(out)
}

/// A file below the folder of workloads.
fn find(file: &str) -> Option<PathBuf> {
    let (folder, name) = file.rsplit_once('/')?;
    // Workloads of one program lie in a folder with it.
    let folders =
        workload_folders().into_iter().flat_map(|path| [path.parent().map(PathBuf::from), Some(path)]);
    folders
        .flatten()
        .filter(|path| path.ends_with(folder))
        .map(|path| path.join(name))
        .find(|path| path.exists() || shipped::read(path).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kernel of the workloads is compared, and none is far off without being known: the bound is
    /// what is true today, so that a change for the worse is seen.
    #[test]
    fn registers_are_near_those_of_the_assembler() {
        let compared = study(None).unwrap_or_else(|e| panic!("{}", e[0].render()));
        assert!(compared.len() > 800, "{}", compared.len());
        let median = middle(compared.iter().map(|row| row.error_percent.abs()).collect());
        assert!(median <= MEDIAN, "{}", summary(&compared));
        assert!(same_occupancy(&compared) >= SAME_OCCUPANCY, "{}", summary(&compared));
    }

    const MEDIAN: f64 = 8.0;
    const SAME_OCCUPANCY: f64 = 94.0;
}
