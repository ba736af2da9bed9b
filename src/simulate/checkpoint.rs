//! Checkpoints of a run: its state every so many core cycles, in one file that takes the place of the one before when it is
//! whole. A run that goes on from it prepares everything as at first, and takes the state over where it was saved.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim_core::options::{Save, State};
use sim_frontend::diagnostic::Diagnostic;

use crate::digest::hash;
use crate::{files, zstd};

/// Version of the format of the file.
const SCHEMA: u32 = 1;
/// The file of a checkpoint's folder.
const FILE: &str = "run.state";
/// The most bytes that the file holds, and that the state has.
const LONGEST: u64 = 1 << 40;

/// A checkpoint that is asked for.
#[derive(Clone, Debug)]
pub struct CheckpointRequest {
    /// Its folder.
    pub folder: PathBuf,
    /// Core cycles of a timed run from one state to the next.
    pub every: u64,
    /// The run goes on from the state that is there.
    pub resume: bool,
}

/// The first line of the file; the state follows, compressed.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Header {
    schema: u32,
    /// What is simulated, and by what.
    of: Value,
    /// Timed runs before the one whose state it is, and core cycle within that.
    run: u32,
    cycle: u64,
    /// For each time that a loop of launches asked whether it is over: the answer.
    answers: Vec<bool>,
    /// Bytes of the state, and their digest.
    bytes: u64,
    digest: String,
}

/// A checkpoint that a run has.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    every: u64,
    of: Value,
    from: Option<(Header, Vec<u8>)>,
    answers: Arc<Mutex<Vec<bool>>>,
}

/// What the headers of all formats have.
#[derive(Deserialize)]
struct Format {
    schema: u32,
}

impl Checkpoint {
    /// The checkpoint of a run; `of` says what decides about it.
    ///
    /// # Errors
    /// There is one that is not to be gone on from, it is of something else, or it is damaged; with the way out.
    pub fn new(request: &CheckpointRequest, of: Value) -> Result<Self, Diagnostic> {
        let CheckpointRequest { folder, every, resume } = request;
        let path = folder.join(FILE);
        let from = match (*resume, path.exists()) {
            (true, true) => Some(read(&path, &of)?),
            (false, true) => {
                let message = format!("{} holds a checkpoint already", folder.display());
                let help = "--resume goes on from it; to begin again, name another folder or remove this one";
                return Err(wrong(message).help(help));
            }
            (_, false) => None,
        };
        let unwritable = |error: std::io::Error| wrong(files::unwritable(folder, &error));
        std::fs::create_dir_all(folder).map_err(unwritable)?;
        files::probe(&path).map_err(wrong)?;
        Ok(Self { path, every: *every, of, from, answers: Arc::default() })
    }

    /// Where the run goes on: timed runs before, and core cycle.
    pub fn from(&self) -> Option<(u32, u64)> {
        self.from.as_ref().map(|(header, _)| (header.run, header.cycle))
    }

    /// The state that the run takes over.
    pub(super) fn state(&self) -> Option<&[u8]> {
        self.from.as_ref().map(|(_, state)| state.as_slice())
    }

    /// Notes whether a loop of launches is over: as `ask` finds, or where the state is still to be taken over, as it was
    /// found then.
    pub(super) fn answer<E>(&self, resuming: bool, ask: impl FnOnce() -> Result<bool, E>) -> Result<bool, E> {
        let mut answers = lock(&self.answers);
        let known = self.from.as_ref().filter(|_| resuming);
        let known = known.and_then(|(header, _)| header.answers.get(answers.len()).copied());
        let answer = known.map_or_else(ask, Ok)?;
        answers.push(answer);
        Ok(answer)
    }

    /// Who saves the states. A state that cannot be written is told, and the run goes on.
    pub(super) fn save(&self) -> Save {
        let (path, of, answers) = (self.path.clone(), self.of.clone(), Arc::clone(&self.answers));
        let write = move |state: std::io::Result<State>| {
            let written = state.and_then(|state| write(&path, &of, lock(&answers).clone(), &state));
            if let Err(error) = written {
                eprintln!("warning: the state of the run is not saved: {}", files::unwritable(&path, &error));
            }
        };
        Save { every: self.every, write: Arc::new(write) }
    }
}

fn lock(answers: &Mutex<Vec<bool>>) -> MutexGuard<'_, Vec<bool>> {
    answers.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wrong(message: String) -> Diagnostic {
    Diagnostic::error("checkpoint", message)
}

fn write(path: &Path, of: &Value, answers: Vec<bool>, state: &State) -> std::io::Result<()> {
    let State { run, cycle, bytes } = state;
    let header = Header {
        schema: SCHEMA,
        of: of.clone(),
        run: *run,
        cycle: *cycle,
        answers,
        bytes: bytes.len() as u64,
        digest: hash(&[bytes]),
    };
    let mut file = serde_json::to_vec(&header)?;
    file.push(b'\n');
    file.extend(zstd::compress(bytes));
    files::write(path, &file)
}

/// The header and the state of a file.
fn read(path: &Path, of: &Value) -> Result<(Header, Vec<u8>), Diagnostic> {
    let said = |why: &str| wrong(files::unreadable(path, &why));
    let file = files::read_own(path, LONGEST).map_err(|error| wrong(files::unreadable(path, &error)))?;
    let damaged = || said("it is no checkpoint, or is damaged").help("remove it, and the run begins again");
    let end = file.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
    let (first, rest) = (&file[..end], &file[end + 1..]);
    let format: Format = serde_json::from_slice(first).map_err(|_| damaged())?;
    if format.schema != SCHEMA {
        let why = format!("it has format {}, and this version reads format {SCHEMA}", format.schema);
        return Err(said(&why).help("go on with the version that wrote it, or remove it"));
    }
    let header: Header = serde_json::from_slice(first).map_err(|_| damaged())?;
    fits(path, of, &header.of)?;
    let state = zstd::decompress(rest, header.bytes.min(LONGEST)).map_err(|_| damaged())?;
    match hash(&[&state]) == header.digest {
        true => Ok((header, state)),
        false => Err(damaged()),
    }
}

/// Whether a checkpoint is one of this run.
fn fits(path: &Path, of: &Value, was: &Value) -> Result<(), Diagnostic> {
    for (key, own) in of.as_object().into_iter().flatten() {
        let was = was.get(key).unwrap_or(&Value::Null);
        if own == was {
            continue;
        }
        let message = match key.as_str() {
            "simulator" => format!("it was written by another simulator, {was}; this is {own}"),
            key => format!("it is of another run: `{key}` was {was}, now it is {own}"),
        };
        let help = "give the options it was written with, or name another folder";
        return Err(wrong(files::unreadable(path, &message)).help(help));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(folder: &Path, resume: bool) -> CheckpointRequest {
        CheckpointRequest { folder: folder.to_path_buf(), every: 100, resume }
    }

    #[test]
    fn what_is_written_comes_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let of = json!({"simulator": "a", "policy": "mimd"});
        let first = Checkpoint::new(&request(folder.path(), true), of.clone()).expect("none there yet");
        assert_eq!((first.from(), first.state()), (None, None));
        // What is asked is noted; before the state is taken over there is nothing to go by.
        assert_eq!(first.answer(true, || Ok::<_, ()>(false)), Ok(false));
        assert_eq!(first.answer(false, || Ok::<_, ()>(true)), Ok(true));
        let bytes: Vec<u8> = (0..100_000u64).map(|i| ((i * i) >> 7) as u8).collect();
        (first.save().write)(Ok(State { run: 3, cycle: 700, bytes: bytes.clone() }));
        let again = Checkpoint::new(&request(folder.path(), true), of.clone()).expect("the same run");
        assert_eq!((again.from(), again.state()), (Some((3, 700)), Some(&bytes[..])));
        assert_eq!(again.answer(true, || Err(())), Ok(false));
        assert_eq!(again.answer(true, || Err(())), Ok(true));
        assert_eq!(again.answer(true, || Err(())), Err(()));
        assert_eq!(again.answer(false, || Ok::<_, ()>(false)), Ok(false));
        let said = |resume, of: Value| {
            Checkpoint::new(&request(folder.path(), resume), of).expect_err("not to be read").message
        };
        assert!(said(false, of.clone()).contains("holds a checkpoint already"));
        assert!(said(true, json!({"policy": "pdom_stack"})).contains("`policy` was \"mimd\""));
        assert!(said(true, json!({"simulator": "b"})).contains("another simulator, \"a\""));
        // Every byte counts, and so does every one that is missing.
        let path = folder.path().join(FILE);
        let file = std::fs::read(&path).expect("it is there");
        for at in [0, file.len() / 2, file.len() - 1] {
            let mut other = file.clone();
            other[at] ^= 0x10;
            std::fs::write(&path, &other).expect("a file");
            let message = said(true, of.clone());
            assert!(message.contains("damaged") || message.contains("another run"), "{at}: {message}");
            std::fs::write(&path, &file[..at]).expect("a file");
            assert!(said(true, of.clone()).contains("damaged"));
        }
        let newer = String::from_utf8_lossy(&file).replacen("\"schema\":1", "\"schema\":9", 1);
        std::fs::write(&path, newer).expect("a file");
        assert!(said(true, of).contains("format 9"));
    }
}
