//! Files that are read only where they are files, and written whole or not at all.

use std::collections::BTreeSet;
use std::fs::{File, FileType, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use tempfile::NamedTempFile;

use crate::shipped;

/// What the name of a file that is being written ends with.
pub const PARTIAL: &str = ".partial";
/// A file that is being written, and that nobody has locked, is left behind once it is this old.
const STALE: Duration = Duration::from_secs(60);

/// Reads a file of at most `most` bytes. Devices and pipes, which may never end, are not read.
///
/// # Errors
/// It cannot be read, is no regular file, or is longer.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    if let Some(bytes) = shipped::read(path) {
        return Ok(bytes.to_vec());
    }
    regular(&std::fs::metadata(path)?)?;
    is_read(path)?;
    read_own(path, most)
}

/// Reads a file that the same command writes again, such as the state of a run.
///
/// # Errors
/// As [`read`].
pub fn read_own(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // A pipe is told before it is opened: that waits for somebody who writes to it.
    regular(&std::fs::metadata(path)?)?;
    let file = File::open(path)?;
    regular(&file.metadata()?)?;
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("it is longer than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// The files that this process has read, and those that it is to write: an output must be neither one of its
/// inputs nor another of its outputs.
#[derive(Default)]
struct Uses {
    inputs: BTreeSet<PathBuf>,
    outputs: BTreeSet<PathBuf>,
}

static USES: Mutex<Uses> = Mutex::new(Uses { inputs: BTreeSet::new(), outputs: BTreeSet::new() });

fn uses() -> MutexGuard<'static, Uses> {
    USES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The one name of a file that may have several. One that is not there yet has that of its folder; none where
/// that is not there either.
fn real(path: &Path) -> Option<PathBuf> {
    let in_folder = || Some(std::fs::canonicalize(folder_of(path)).ok()?.join(path.file_name()?));
    std::fs::canonicalize(path).ok().or_else(in_folder)
}

/// Notes an input.
fn is_read(path: &Path) -> io::Result<()> {
    let Some(real) = real(path) else { return Ok(()) };
    let mut uses = uses();
    if uses.outputs.contains(&real) {
        return Err(io::Error::other("it is an output of the same command"));
    }
    uses.inputs.insert(real);
    Ok(())
}

/// Notes a file that is written at the end.
///
/// # Errors
/// The same command reads it, or has another output of the same name; in words that name the file.
pub fn claim(path: &Path) -> Result<(), String> {
    // What is written to a pipe or a device takes nobody's place.
    if std::fs::metadata(path).is_ok_and(|facts| !facts.is_file()) {
        return Ok(());
    }
    not_read(path).map_err(|error| unwritable(path, &error))?;
    if real(path).is_none_or(|real| uses().outputs.insert(real)) {
        return Ok(());
    }
    Err(unwritable(path, &"two outputs of the same command have this name"))
}

fn not_read(path: &Path) -> io::Result<()> {
    match real(path) {
        Some(real) if uses().inputs.contains(&real) => {
            Err(io::Error::other("it is an input of the same command"))
        }
        _ => Ok(()),
    }
}

/// Bytes of a report or a table that are read at most.
pub const MOST_OF_A_RESULT: u64 = 1 << 30;

/// Reads the text of a report, a table or another result.
///
/// # Errors
/// As [`read`], or it is not UTF-8; in words that name the file.
pub fn read_text(path: &Path) -> Result<String, String> {
    let bytes = read(path, MOST_OF_A_RESULT).map_err(|error| unreadable(path, &error))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        unreadable(path, &format!("byte {at} is not UTF-8"))
    })
}

/// Reads a result as JSON.
///
/// # Errors
/// As [`read_text`], or it is not what is wanted; in words that name the file and the place.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let text = read_text(path)?;
    serde_json::from_str(&text).map_err(|error| {
        let words = error.to_string();
        // The library puts the place behind the reason.
        let reason = words.rsplit_once(" at line ").map_or(words.as_str(), |(reason, _)| reason);
        let kind = if error.is_data() { "" } else { "invalid JSON: " };
        format!("{}:{}:{}: {kind}{reason}", path.display(), error.line(), error.column())
    })
}

/// The words of an error without the number that the system has for it.
pub fn reason(error: &dyn std::fmt::Display) -> String {
    let words = error.to_string();
    words.split(" (os error ").next().unwrap_or_default().to_string()
}

/// That a file cannot be read, in words.
pub fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{} cannot be read: {}", path.display(), reason(error))
}

/// Whether a file, if there is one, is one that may be read.
///
/// # Errors
/// It is a device, a pipe or a folder.
pub fn is_regular(path: &Path) -> Result<(), String> {
    match std::fs::metadata(path) {
        Ok(facts) => regular(&facts).map_err(|error| unreadable(path, &error)),
        Err(_) => Ok(()),
    }
}

fn regular(facts: &Metadata) -> io::Result<()> {
    match facts.is_file() {
        true => Ok(()),
        false => Err(io::Error::other(format!("it is {}, not a regular file", kind(facts.file_type())))),
    }
}

#[cfg(unix)]
fn kind(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "of an unknown kind",
    }
}

#[cfg(not(unix))]
fn kind(kind: FileType) -> &'static str {
    if kind.is_dir() { "a directory" } else { "of an unknown kind" }
}

/// A file that gets its name when all of it is on the disk. Until then, and where writing fails, the
/// name stands for what it stood for before.
pub struct Output {
    to: To,
}

enum To {
    /// A file beside the one that is meant.
    Beside(NamedTempFile, PathBuf),
    /// A pipe or a device: there is nothing to put in its place.
    Through(File),
}

impl Output {
    /// Begins a file.
    ///
    /// # Errors
    /// Nothing can be written there.
    pub fn create(path: &Path) -> io::Result<Self> {
        let output = Self::begin(path)?;
        if matches!(output.to, To::Beside(..)) {
            not_read(path)?;
        }
        if let (To::Beside(_, path), Some(name)) = (&output.to, path.file_name()) {
            let prefix = format!(".{}.", name.to_string_lossy());
            remove_stale(folder_of(path), |other| other.starts_with(&prefix) && is_partial(other));
        }
        Ok(output)
    }

    fn begin(path: &Path) -> io::Result<Self> {
        // What a link leads to is written, not the link.
        let path = match path.symlink_metadata() {
            Ok(facts) if facts.is_symlink() => std::fs::canonicalize(path).unwrap_or_else(|_| path.into()),
            _ => path.to_path_buf(),
        };
        let old = std::fs::metadata(&path).ok();
        if let Some(old) = &old {
            if old.is_dir() {
                return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
            }
            if !old.is_file() {
                return Ok(Self { to: To::Through(File::options().write(true).open(&path)?) });
            }
            if old.permissions().readonly() {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is write-protected"));
            }
        }
        let folder = folder_of(&path);
        let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
        let prefix = format!(".{}.", name.to_string_lossy());
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(PARTIAL);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // As a new file has them: the process's mask takes away what is to be taken.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder.tempfile_in(folder)?;
        if let Some(old) = old {
            let _ = file.as_file().set_permissions(old.permissions());
        }
        // Who finds the file and no lock knows that its writer is gone.
        let _ = file.as_file().try_lock();
        Ok(Self { to: To::Beside(file, path) })
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// It cannot be brought to the disk, or not be given its name.
    pub fn finish(self) -> io::Result<()> {
        match self.to {
            To::Beside(file, path) => {
                file.as_file().sync_all()?;
                // From now on it may be read.
                real(&path).map(|real| uses().outputs.remove(&real));
                file.persist(path).map(|_| ()).map_err(|error| error.error)
            }
            To::Through(mut file) => file.flush(),
        }
    }

    /// The path at which the file is until it is finished, for those who write by name; none where it is
    /// a pipe or a device.
    pub fn path(&self) -> Option<&Path> {
        match &self.to {
            To::Beside(file, _) => Some(file.path()),
            To::Through(_) => None,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Beside(file, _) => file.write(bytes),
            To::Through(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Beside(file, _) => file.flush(),
            To::Through(file) => file.flush(),
        }
    }
}

/// Writes a file whole.
///
/// # Errors
/// It cannot be written; the name stands for what it stood for before.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = Output::create(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// The same in a folder of many files, from which [`remove_stale`] has already taken what was left.
///
/// # Errors
/// As [`write`].
pub fn write_one_of_many(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = Output::begin(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// Whether a file can be written there, in one line: found out before the work whose result it is to hold.
/// From then on it is an output of this process.
///
/// # Errors
/// It cannot, or it is an input or another output.
pub fn probe(path: &Path) -> Result<(), String> {
    // A pipe or a device is not opened: that may be noticed at its other end.
    if std::fs::metadata(path).is_ok_and(|facts| !facts.is_file() && !facts.is_dir()) {
        return Ok(());
    }
    Output::create(path).map_err(|error| unwritable(path, &error))?;
    claim(path)
}

/// That a file cannot be written, in words.
pub fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{} cannot be written: {}", path.display(), reason(error))
}

/// Removes files of a folder whose writer did not live to name them.
pub fn remove_stale(folder: &Path, is_one: impl Fn(&str) -> bool) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(&is_one) {
            continue;
        }
        // What is no file is no writer's, and opening it may wait.
        let facts = entry.metadata().ok().filter(Metadata::is_file);
        let old = facts.and_then(|facts| facts.modified().ok());
        let old = old.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > STALE);
        let free = || File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        if old && free() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// A file of a folder that is being written under its name.
pub fn is_partial(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(PARTIAL)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("there").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_file_is_whole_or_as_it_was() {
        let folder = tempfile::tempdir().expect("made");
        let path = folder.path().join("a");
        write(&path, b"old").expect("written");
        let mut file = Output::create(&path).expect("begun");
        file.write_all(b"half").expect("written");
        assert_eq!(std::fs::read(&path).expect("there"), b"old");
        drop(file);
        assert_eq!(names(folder.path()), ["a"]);
        write(&path, b"new").expect("written");
        assert_eq!(read(&path, 3).expect("there"), b"new");
        assert_eq!(read(&path, 2).expect_err("longer").to_string(), "it is longer than 2 bytes");
        assert_eq!(names(folder.path()), ["a"]);
        assert!(probe(&folder.path().join("none").join("a")).is_err());
        assert!(probe(folder.path()).expect_err("a directory").contains("it is a directory"));
        assert_eq!(probe(&folder.path().join("b")), Ok(()));
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn what_a_killed_writer_left_goes_and_what_is_being_written_stays() {
        let folder = tempfile::tempdir().expect("made");
        let path = folder.path().join("a");
        let held = Output::create(&path).expect("begun");
        let left = folder.path().join(".a.xyz.partial");
        let fresh = folder.path().join(".a.abc.partial");
        for file in [&left, &fresh] {
            std::fs::write(file, "half").expect("written");
        }
        let old = std::time::SystemTime::now() - 2 * STALE;
        for file in [left.as_path(), held.path().expect("a file")] {
            File::options().write(true).open(file).expect("there").set_modified(old).expect("set");
        }
        write(&path, b"new").expect("written");
        assert!(!left.exists() && fresh.exists() && held.path().is_some_and(Path::exists));
    }

    #[cfg(unix)]
    #[test]
    fn files_have_the_permissions_of_any_other_and_keep_theirs() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("made");
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        let (plain, path) = (folder.path().join("plain"), folder.path().join("a"));
        std::fs::write(&plain, "").expect("written");
        write(&path, b"1").expect("written");
        assert_eq!(mode(&path), mode(&plain));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("set");
        write(&path, b"2").expect("written");
        assert_eq!(mode(&path), 0o640);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("made");
        write(&link, b"3").expect("written");
        assert!(link.is_symlink() && std::fs::read(&path).expect("there") == b"3");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o440)).expect("set");
        assert!(write(&path, b"4").expect_err("protected").to_string().contains("write-protected"));
    }

    #[cfg(unix)]
    #[test]
    fn devices_and_directories_are_not_read() {
        let reason = |path: &str| read(Path::new(path), 10).expect_err("no file").to_string();
        assert_eq!(reason("/dev/zero"), "it is a device, not a regular file");
        assert_eq!(reason("/"), "it is a directory, not a regular file");
        assert!(probe(Path::new("/dev/null")).is_ok() && write(Path::new("/dev/null"), b"x").is_ok());
    }
}
