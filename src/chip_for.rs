//! Which chip runs a program, where none is named, and which chips could.

use sim_frontend::chip::{ChipSpec, Needs};
use sim_frontend::diagnostic::{Diagnostic, Source};
use sim_frontend::load::target_of;
use sim_frontend::workload::{Variant, WorkloadSpec};

use crate::configs;
use crate::request::Request;

/// Words that name the shipped chips that fit.
pub fn fitting(needs: &Needs) -> String {
    let sm = needs.capability;
    match configs::chips_that_fit(needs).as_slice() {
        [] if configs::chips_that_fit(&Needs::capability(sm)).is_empty() => {
            format!("no shipped chip has compute capability {}.{}", sm / 10, sm % 10)
        }
        [] => "no shipped chip allows it".to_string(),
        chips => format!("shipped chips that can run it: --chip {}", chips.join(", ")),
    }
}

/// Where the chip lacks something, the way out names the chips that have it.
pub fn naming_chips(errors: Vec<Diagnostic>) -> Vec<Diagnostic> {
    // Many instructions of a kernel may need the same.
    let mut known: Option<(Needs, String)> = None;
    let mut words = |needs: &Needs| match &known {
        Some((same, words)) if same == needs => words.clone(),
        _ => known.insert((needs.clone(), fitting(needs))).1.clone(),
    };
    let named = |error: Diagnostic| {
        let Some(chips) = error.needs.as_deref().map(&mut words) else { return error };
        let help = error.help.as_ref().map_or(chips.clone(), |help| format!("{help}; {chips}"));
        error.help(help)
    };
    errors.into_iter().map(named).collect()
}

/// The chip where nothing says which.
const USUAL: &str = "gtx480";

/// The chip that is named, or the one that follows from the program, and then why: the smallest shipped one
/// of the class of the newest program that a shipped chip runs.
pub fn chip_for(request: &Request, spec: &WorkloadSpec) -> Result<(String, Option<String>), Vec<Diagnostic>> {
    if let Some(chip) = &request.chip {
        return Ok((chip.clone(), None));
    }
    let mut programs: Vec<u32> = match request.variant.as_deref() {
        // An unknown name is said with the others, when the variant is looked for.
        Some(name) => spec.variants.iter().filter(|variant| variant.name == name).map(Variant::sm).collect(),
        None => spec.variants.iter().map(Variant::sm).collect(),
    };
    programs.sort_unstable();
    chip_of(&programs, request.allow_newer_isa)
}

/// The chip that follows from the target of a PTX file; the usual one where no shipped chip runs it.
pub fn chip_of_program(source: &Source) -> String {
    let target = target_of(source).map(|(word, _)| word.to_string()).unwrap_or_default();
    let variant = Variant { name: String::new(), file: String::new(), compiler: String::new(), target };
    chip_of(&[variant.sm()], true).map_or(USUAL.to_string(), |(chip, _)| chip)
}

/// The chip that follows from the classes of programs in ascending order, and why.
fn chip_of(programs: &[u32], allow_newer_isa: bool) -> Result<(String, Option<String>), Vec<Diagnostic>> {
    let usual = |why: &str| Ok((USUAL.to_string(), Some(why.to_string())));
    let Some(newest) = programs.last().filter(|sm| **sm > 0) else {
        return usual("the program names no target");
    };
    let smallest = |sm: &u32| Some((*configs::chips_that_fit(&Needs::capability(*sm)).first()?, *sm));
    match programs.iter().rev().find_map(smallest) {
        Some((chip, sm)) => Ok((chip.to_string(), Some(format!("the smallest shipped chip for sm_{sm}")))),
        None if allow_newer_isa => usual(&format!("no shipped chip is for sm_{newest}")),
        None => Err(vec![
            Diagnostic::error("chip", format!("no shipped chip runs sm_{newest}"))
                .help(
                "--chip NAME --allow-newer-isa runs it on an older chip; `warpsim isa` lists which instructions are executed",
            ),
        ]),
    }
}

/// Refuses a chip whose parts take more of the host's memory than there is.
pub fn fits_host(chip: &ChipSpec, left: u64) -> Result<(), Vec<Diagnostic>> {
    let needed = chip.host_bytes();
    if needed <= left {
        return Ok(());
    }
    let message = format!(
        "{}: its SMs and partitions need about {} MiB of host memory; {} MiB are left within --max-memory",
        chip.name,
        needed >> 20,
        left >> 20
    );
    let help = "use fewer SMs or partitions, smaller caches, or a larger --max-memory";
    Err(vec![Diagnostic::error(crate::memory::TOO_LITTLE, message).help(help)])
}

/// Refuses PTX whose `.target` is above the chip, as CUDA does: code for sm_XX runs from compute capability
/// X.X on, for sm_XXa there alone, for sm_XXf in the rest of its family.
pub fn fits_target(ptx: &Source, chip: &ChipSpec) -> Result<(), Diagnostic> {
    let Some((word, place)) = target_of(ptx) else { return Ok(()) };
    let digits = word.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
    let (Ok(target), own) = (digits.parse::<u32>(), chip.capability()) else { return Ok(()) };
    let (runs, where_else) = match word.chars().last() {
        Some('a') => (own == target, " exactly"),
        Some('f') => (own >= target && own / 10 == target / 10, " or later of the same family"),
        _ => (own >= target, " or higher"),
    };
    if runs {
        return Ok(());
    }
    let message = format!(
        "the module targets {word}, which requires compute capability {}.{}{where_else}; {} has {}",
        target / 10,
        target % 10,
        chip.name,
        chip.compute_capability
    );
    Err(Diagnostic::error("target", message)
        .at(place, "")
        .help(format!("--allow-newer-isa runs it anyway; {}", fitting(&Needs::capability(target))))
        .in_source(ptx))
}
