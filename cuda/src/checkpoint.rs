//! The checkpoint of a program: opened with its device.

use std::fs::OpenOptions;

use warpsim::device::Device;
use warpsim::device::checkpoint::Log;
use warpsim::device::program::ProgramRequest;

use crate::error::{Error, INITIALIZATION};

/// Opens the checkpoint that a request names, at the first device of the process; at a further one it goes on.
///
/// # Errors
/// It cannot be opened, or another process of the program has it; said on stderr.
pub fn open(log: &mut Option<Log>, request: &ProgramRequest, device: &mut Device) -> Result<(), Error> {
    let Some(folder) = &request.checkpoint else { return Ok(()) };
    let followed = device.context().map(sim_core::context::Context::follow_writes);
    followed.map_err(|_| INITIALIZATION)?;
    if let Some(log) = log {
        log.restart();
        return Ok(());
    }
    let said = |why: String| {
        eprintln!("warpsim: {why}");
        INITIALIZATION
    };
    if let Some(shared) = &request.folder {
        let mark = shared.join("checkpoint-in-use");
        OpenOptions::new().write(true).create_new(true).open(mark).map_err(|_| {
            said(
                "a checkpoint is of one process, and another process of the program has used the device"
                    .to_string(),
            )
        })?;
    }
    *log = Some(Log::open(folder, request.from, request.keep).map_err(said)?);
    Ok(())
}
