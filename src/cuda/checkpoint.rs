//! The folder of a checkpoint, before a program runs: what it is of, and whether that is what is asked for now.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sim_frontend::diagnostic::Diagnostic;

use super::CudaRun;
use crate::device::checkpoint::LOG;
use crate::files;

/// Version of the format of checkpoints.
const SCHEMA: u32 = 1;
/// What a checkpoint is of.
const HEADER: &str = "checkpoint.json";

/// A checkpoint that a program runs with.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Its folder.
    pub folder: PathBuf,
    /// Its runs are not simulated again.
    pub from: bool,
    /// Further runs are added to it.
    pub keep: bool,
}

impl Checkpoint {
    /// The checkpoint that the options `--checkpoint` and `--from` ask for, where they do.
    ///
    /// # Errors
    /// There is none to go on from, one is there already, or it is of something else; with the way out.
    pub fn of(
        run: &CudaRun,
        sections: bool,
        keep: Option<&Path>,
        from: Option<&Path>,
    ) -> Result<Option<Self>, Diagnostic> {
        let Some(folder) = from.or(keep) else { return Ok(None) };
        let wrong = |message: String| Diagnostic::error("checkpoint", message);
        let options = &run.configured().options;
        if options.memory_model || options.sanitize.any() {
            let message =
                format!("a checkpoint does not hold what --check {} has seen", options.check_name());
            return Err(wrong(message).help("run the program with --check off, safety or full"));
        }
        if let (Some(from), Some(keep)) = (from, keep)
            && from != keep
        {
            let help = format!("--from {0} --checkpoint {0} adds the further runs to it", from.display());
            return Err(wrong("--from and --checkpoint name two folders".to_string()).help(help));
        }
        let header = header(run, sections);
        let path = folder.join(HEADER);
        if from.is_some() {
            let there: Value = files::read_json(&path).map_err(wrong)?;
            fits(folder, &header, &there)?;
        } else {
            if folder.join(LOG).exists() {
                let help = format!(
                    "--from {0} --checkpoint {0} goes on from it; or name another folder",
                    folder.display()
                );
                return Err(wrong(format!("{} holds a checkpoint already", folder.display())).help(help));
            }
            let unwritable = |error: std::io::Error| wrong(files::unwritable(folder, &error));
            std::fs::create_dir_all(folder).map_err(unwritable)?;
            let text = serde_json::to_string_pretty(&header).unwrap_or_default() + "\n";
            files::write(&path, text.as_bytes()).map_err(unwritable)?;
        }
        let folder = folder.canonicalize().map_err(|error| wrong(files::unreadable(folder, &error)))?;
        Ok(Some(Self { folder, from: from.is_some(), keep: keep.is_some() }))
    }
}

/// What decides about the runs of a program beside the program itself. Limits and threads do not.
fn header(run: &CudaRun, sections: bool) -> Value {
    let device = &run.device;
    json!({
        "schema": SCHEMA,
        "simulator": run.simulator(),
        "chip": device.chip,
        "config": run.configured().config(),
        "policy": device.policy,
        "scheduler": device.scheduler,
        "set": device.set,
        "check": device.check,
        "functional": device.functional,
        "allow_newer_isa": device.allow_newer_isa,
        "time": run.command.time,
        "warm": run.command.warm,
        "profile": device.profile,
        "sections": sections,
    })
}

/// Whether what is asked for is what a checkpoint is of.
fn fits(folder: &Path, header: &Value, there: &Value) -> Result<(), Diagnostic> {
    let wrong = |message: String| Diagnostic::error("checkpoint", format!("{}: {message}", folder.display()));
    for (key, own) in header.as_object().into_iter().flatten() {
        let was = there.get(key).unwrap_or(&Value::Null);
        // Sections that are not asked for are left out.
        if own == was || key == "sections" && *own == json!(false) {
            continue;
        }
        return Err(match key.as_str() {
            "sections" => wrong("it was written without --out, and has no reports of launches".to_string())
                .help("leave --out out, or write it again with --out"),
            "simulator" => wrong(format!("it was written by another simulator, {was}; this is {own}"))
                .help("write it again by --checkpoint"),
            key => wrong(format!("it was written with another `{key}`, {was}; now it is {own}")),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_checkpoint_is_not_of_is_said() {
        let header = json!({"policy": "mimd", "sections": false, "simulator": "a"});
        let folder = Path::new("c");
        assert!(fits(folder, &header, &header).is_ok());
        let with = |key: &str, value: Value| {
            let mut other = header.clone();
            other[key] = value;
            other
        };
        assert!(fits(folder, &header, &with("sections", json!(true))).is_ok());
        let said = |own: &Value, there: &Value| fits(folder, own, there).expect_err("another").message;
        assert_eq!(
            said(&header, &with("policy", json!("x"))),
            "c: it was written with another `policy`, \"x\"; now it is \"mimd\""
        );
        assert!(said(&header, &with("simulator", json!("b"))).contains("another simulator"));
        assert!(said(&with("sections", json!(true)), &header).contains("without --out"));
    }
}
