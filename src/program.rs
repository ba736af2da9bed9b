//! How this program is started again, and the file that the simulator is in. A process that has loaded the library, as
//! Python has, says so.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

struct Program {
    words: Vec<OsString>,
    file: PathBuf,
}

static PROGRAM: OnceLock<Program> = OnceLock::new();

/// The words that start the command, and the file that the simulator is in, where that is no program of its own.
pub fn is(words: Vec<OsString>, file: PathBuf) {
    // It stays what was said first.
    let _ = PROGRAM.set(Program { words, file });
}

/// The words that start the command.
///
/// # Errors
/// The system does not say which program this is.
pub fn words() -> io::Result<Vec<OsString>> {
    match PROGRAM.get() {
        Some(program) => Ok(program.words.clone()),
        None => Ok(vec![std::env::current_exe()?.into_os_string()]),
    }
}

/// The command, to be started.
///
/// # Errors
/// As [`words`].
pub fn command() -> io::Result<Command> {
    let mut words = words()?.into_iter();
    let first = words.next().ok_or_else(|| io::Error::other("no program is named"))?;
    let mut command = Command::new(first);
    command.args(words);
    Ok(command)
}

/// The file that the simulator is in.
///
/// # Errors
/// As [`words`].
pub fn file() -> io::Result<PathBuf> {
    match PROGRAM.get() {
        Some(program) => Ok(program.file.clone()),
        None => std::env::current_exe(),
    }
}
