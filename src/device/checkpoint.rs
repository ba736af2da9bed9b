//! Checkpoints of programs. The host's part of a program cannot be written down, but what the device did can: a checkpoint
//! is a log of runs, each with its launches and with what it left in memory, in L2 and of simulated time. A program that
//! goes on from it runs again from its start; a run that the log has is not simulated, and what it left is put back. Each
//! run is a line, written when all that it names has been: a log that is cut off holds the runs before.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sim_core::context::Context;
use sim_core::context::replay::{Left, Warmed};
use sim_core::error::SimError;
use sim_core::report::Time;
use sim_memory::device_memory::PAGE_BYTES;

use super::program::LaunchLine;
use super::recording::{line_bytes, lines};
use super::{Device, Kernel, Module, Run};
use crate::digest::hash;
use crate::files;
use crate::hex;
use crate::zstd;

/// The log of a checkpoint's folder.
pub const LOG: &str = "runs.jsonl";
/// The most bytes that a file of a checkpoint holds, uncompressed.
const LONGEST: u64 = 1 << 40;
/// Bytes that are compared at a time.
const PIECE: usize = 256;

/// A launch, as it is told from others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Launch {
    kernel: String,
    /// Digest of the module's text.
    module: String,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared: u32,
    stream: u32,
    functional: bool,
    cooperative: bool,
    #[serde(default)]
    cluster: Option<[u32; 3]>,
    #[serde(default)]
    non_portable_cluster: bool,
    /// The parameter block in hexadecimal.
    params: String,
}

/// A run of the device: launches that ran together, and what they left.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Logged {
    launches: Vec<Launch>,
    /// Digest of what the host wrote before it.
    inputs: u64,
    /// The file of the memory that changed: of each piece the address, the bytes and their contents.
    memory: Option<String>,
    /// The file of L2's lines.
    l2: Option<String>,
    /// The file of what warms L2.
    warm: Option<String>,
    /// Copies from the host that the next run knows of; all where a launch was timed, else those of this run.
    copies: Vec<(u64, u64)>,
    timed: bool,
    /// Core cycles, with those of launch latencies, and warp instructions.
    cycles: u64,
    instructions: u64,
    picoseconds: u64,
    printed: String,
    /// Core cycles at which the kernels ended.
    ends: Vec<u64>,
    lines: Vec<LaunchLine>,
}

/// A run that was put back.
pub struct Replayed {
    /// Number of its first launch.
    pub first: u64,
    /// Simulated time at which it began.
    pub start: Time,
    /// Core cycles within it at which its kernels ended.
    pub ends: Vec<u64>,
    /// What its kernels printed.
    pub printed: String,
    /// What was written down of its launches.
    pub lines: Vec<LaunchLine>,
}

/// What memory held when it was last looked at.
#[derive(Default)]
struct Seen(BTreeMap<u64, Vec<u8>>);

impl Seen {
    /// Looks again; gives the pieces that have changed, those next to each other as one.
    fn changed(&mut self, context: &Context) -> Vec<(u64, Vec<u8>)> {
        let mut out: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut now = vec![0; PAGE_BYTES as usize];
        for page in context.pages() {
            context.read(page, &mut now);
            let last = self.0.entry(page).or_insert_with(|| vec![0; PAGE_BYTES as usize]);
            if now == *last {
                continue;
            }
            for (at, (now, last)) in
                (page..).step_by(PIECE).zip(now.chunks(PIECE).zip(last.chunks_mut(PIECE)))
            {
                if now == last {
                    continue;
                }
                last.copy_from_slice(now);
                match out.last_mut() {
                    Some((start, bytes)) if *start + bytes.len() as u64 == at => bytes.extend_from_slice(now),
                    _ => out.push((at, now.to_vec())),
                }
            }
        }
        out
    }
}

/// The checkpoint of a program while it runs.
pub struct Log {
    folder: PathBuf,
    /// Runs that are not simulated again, the next one last.
    known: Vec<Logged>,
    /// Launches that were compared so far.
    launches: u64,
    /// Where further runs are written.
    file: Option<File>,
    seen: Seen,
    modules: BTreeMap<Module, String>,
    /// Before the run that goes on: copies from the host, and the digest of what it wrote.
    before: (usize, u64),
}

fn words(bytes: &[u8]) -> Result<Vec<u64>, String> {
    let (words, rest) = bytes.as_chunks::<8>();
    match rest {
        [] => Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect()),
        _ => Err(format!("{} bytes are no words", bytes.len())),
    }
}

/// A list of numbers with its length.
fn put(out: &mut Vec<u8>, numbers: &[u64]) {
    out.extend((numbers.len() as u64).to_le_bytes());
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn take<'w>(words: &mut &'w [u64], count: usize) -> Result<&'w [u64], String> {
    let (now, later) = words.split_at_checked(count).ok_or("it is cut off")?;
    *words = later;
    Ok(now)
}

fn take_list(words: &mut &[u64]) -> Result<Vec<u64>, String> {
    let length = take(words, 1)?[0];
    Ok(take(words, usize::try_from(length).map_err(|_| "it is cut off")?)?.to_vec())
}

fn warm_bytes(warm: &[Warmed]) -> Vec<u8> {
    let mut out = Vec::new();
    for Warmed { copies, starts, lines } in warm {
        out.extend(copies.to_le_bytes());
        put(&mut out, starts);
        put(&mut out, lines);
    }
    out
}

fn warm_of(bytes: &[u8]) -> Result<Vec<Warmed>, String> {
    let words = words(bytes)?;
    let mut rest = words.as_slice();
    let mut out = Vec::new();
    while !rest.is_empty() {
        let copies = take(&mut rest, 1)?[0];
        out.push(Warmed { copies, starts: take_list(&mut rest)?, lines: take_list(&mut rest)? });
    }
    Ok(out)
}

/// The runs of a checkpoint's log. A line that is cut off is no run; so many bytes are whole.
fn read(folder: &Path) -> Result<(Vec<Logged>, u64), String> {
    let path = folder.join(LOG);
    if !path.exists() {
        return Ok((Vec::new(), 0));
    }
    let text = std::fs::read(&path).map_err(|error| files::unreadable(&path, &error))?;
    let (mut runs, mut whole) = (Vec::new(), 0);
    for line in text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        runs.push(serde_json::from_slice(line).map_err(|error| format!("{}: {error}", path.display()))?);
        whole += line.len() as u64;
    }
    Ok((runs, whole))
}

impl Log {
    /// Opens a checkpoint: from its runs where `replays`, and further ones are added to it where `writes`.
    ///
    /// # Errors
    /// It cannot be read or written, in words.
    pub fn open(folder: &Path, replays: bool, writes: bool) -> Result<Self, String> {
        let (mut known, whole) = if replays { read(folder)? } else { (Vec::new(), 0) };
        known.reverse();
        let unwritable = |path: &Path| {
            let path = path.to_path_buf();
            move |error: std::io::Error| files::unwritable(&path, &error)
        };
        let file = writes.then(|| {
            let data = folder.join("data");
            std::fs::create_dir_all(&data).map_err(unwritable(&data))?;
            let path = folder.join(LOG);
            let file = OpenOptions::new().create(true).append(true).open(&path).map_err(unwritable(&path))?;
            // What a process that was killed had not written whole.
            file.set_len(whole).map_err(unwritable(&path))?;
            Ok::<_, String>(file)
        });
        Ok(Self {
            folder: folder.to_path_buf(),
            known,
            launches: 0,
            file: file.transpose()?,
            seen: Seen::default(),
            modules: BTreeMap::new(),
            before: (0, 0),
        })
    }

    /// The next run is one of the checkpoint's.
    pub fn replays(&self) -> bool {
        !self.known.is_empty()
    }

    /// Another device is in use: its memory is empty.
    pub fn restart(&mut self) {
        self.seen = Seen::default();
        self.modules.clear();
    }

    fn launch(&mut self, device: &Device, kernel: &Kernel) -> Launch {
        let module = self.modules.entry(kernel.module).or_insert_with(|| {
            hash(&[device.source(kernel.module).map_or(&[][..], |source| source.text.as_bytes())])
        });
        Launch {
            kernel: kernel.entry.clone(),
            module: module.clone(),
            grid: kernel.grid,
            block: kernel.block,
            dynamic_shared: kernel.dynamic_shared,
            stream: kernel.stream,
            functional: kernel.functional || device.configured.functional,
            cooperative: kernel.cooperative,
            cluster: kernel.cluster,
            non_portable_cluster: kernel.non_portable_cluster,
            params: hex::digits(&kernel.params),
        }
    }

    /// A file of bytes of the checkpoint, which is stored once.
    fn store(&self, bytes: &[u8]) -> Result<Option<String>, String> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let name = format!("{}-{}.zst", hash(&[bytes]), bytes.len());
        let path = self.folder.join("data").join(&name);
        if !path.is_file() {
            files::write_one_of_many(&path, &zstd::compress(bytes))
                .map_err(|error| files::unwritable(&path, &error))?;
        }
        Ok(Some(name))
    }

    fn stored(&self, name: Option<&String>) -> Result<Vec<u8>, String> {
        let Some(name) = name else { return Ok(Vec::new()) };
        let path = self.folder.join("data").join(name);
        let bytes = std::fs::read(&path).map_err(|error| files::unreadable(&path, &error))?;
        let bytes = zstd::decompress(&bytes, LONGEST).map_err(|why| format!("{}: {why}", path.display()))?;
        match *name == format!("{}-{}.zst", hash(&[&bytes]), bytes.len()) {
            true => Ok(bytes),
            false => Err(format!("{}: its contents are not those that its name says", path.display())),
        }
    }

    /// A run is about to begin.
    ///
    /// # Errors
    /// None.
    pub fn begin(&mut self, device: &mut Device) -> Result<(), SimError> {
        if self.file.is_some() {
            let context = device.context()?;
            self.seen.changed(context);
            self.before = (context.copied(), context.take_inputs());
        }
        Ok(())
    }

    /// A run has completed: it is written down.
    ///
    /// # Errors
    /// A file cannot be written, in words.
    pub fn end(
        &mut self,
        device: &mut Device,
        kernels: &[Kernel],
        run: &Run,
        lines: Vec<LaunchLine>,
    ) -> Result<(), String> {
        if self.file.is_none() {
            return Ok(());
        }
        let launches: Vec<Launch> = kernels.iter().map(|kernel| self.launch(device, kernel)).collect();
        let timed = launches.iter().any(|launch| !launch.functional);
        let context = device.context().map_err(|error| error.to_string())?;
        // What the host's part of the device runtime writes after a run is part of it.
        context.take_inputs();
        let mut memory = Vec::new();
        for (at, bytes) in self.seen.changed(context) {
            memory.extend(at.to_le_bytes());
            memory.extend((bytes.len() as u64).to_le_bytes());
            memory.extend(bytes);
        }
        let left = context.left(if timed { 0 } else { self.before.0 });
        let report = &run.report;
        let logged = Logged {
            launches,
            inputs: self.before.1,
            memory: self.store(&memory)?,
            // No lines are told from no slices.
            l2: match left.l2 {
                None => None,
                Some(lines) => Some(self.store(&line_bytes(&lines))?.unwrap_or_default()),
            },
            warm: self.store(&warm_bytes(&left.warm))?,
            copies: left.copies,
            timed,
            cycles: report.cycles + report.launch_cycles,
            instructions: report.kernels.iter().map(|kernel| kernel.warp_instructions).sum(),
            picoseconds: (report.time_us + report.launch_us).picoseconds(),
            printed: report.printed.clone(),
            ends: report.kernels.iter().map(|kernel| kernel.end_cycle).collect(),
            lines,
        };
        let text = serde_json::to_string(&logged).map_err(|error| error.to_string())? + "\n";
        let path = self.folder.join(LOG);
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(text.as_bytes()).map_err(|error| files::unwritable(&path, &error))
    }

    /// Puts back what the next run of the checkpoint left, in the place of the launches that are queued.
    ///
    /// # Errors
    /// They are not those of the checkpoint, or it cannot be read, in words.
    pub fn replay(&mut self, device: &mut Device, kernels: &[Kernel]) -> Result<Replayed, String> {
        let Some(logged) = self.known.pop() else {
            return Err("the checkpoint has no further run".to_string());
        };
        let here: Vec<Launch> = kernels.iter().map(|kernel| self.launch(device, kernel)).collect();
        for (i, (own, there)) in here.iter().zip(&logged.launches).enumerate() {
            if let Some(why) = difference(own, there) {
                return Err(format!(
                    "launch {} of {} differs from the checkpoint's: {why}",
                    self.launches + i as u64,
                    own.kernel
                ));
            }
        }
        let number = self.launches + here.len().min(logged.launches.len()) as u64;
        if let Some(own) = here.get(logged.launches.len()) {
            return Err(format!(
                "launch {number} of {} is not one that the checkpoint has run together with the launches before it",
                own.kernel
            ));
        }
        if let Some(there) = logged.launches.get(here.len()) {
            return Err(format!("launch {number} of {} of the checkpoint is missing", there.kernel));
        }
        let wrong = |error: SimError| error.to_string();
        let memory = self.stored(logged.memory.as_ref())?;
        let l2 = match logged.l2.as_deref() {
            None => None,
            Some("") => Some(Vec::new()),
            Some(name) => Some(lines(&self.stored(Some(&name.to_string()))?)?),
        };
        let warm = warm_of(&self.stored(logged.warm.as_ref())?)?;
        let context = device.context().map_err(wrong)?;
        if context.take_inputs() != logged.inputs {
            let kernel = here.first().map_or("", |launch| launch.kernel.as_str());
            return Err(format!(
                "launch {} of {kernel}: the host has written other data to the device before it than in the run that the checkpoint is of",
                self.launches
            ));
        }
        let known = if logged.timed { 0 } else { context.copied() };
        let mut rest = memory.as_slice();
        while let Some((head, body)) = rest.split_first_chunk::<16>() {
            let head = words(head)?;
            let (bytes, later) =
                body.split_at_checked(head[1] as usize).ok_or("the checkpoint's memory is cut off")?;
            context.put(head[0], bytes);
            rest = later;
        }
        context.replay(Left { copies: logged.copies, l2, warm }, known, logged.cycles, logged.instructions);
        self.launches += here.len() as u64;
        let (first, start) = (device.taken, device.time);
        device.taken += here.len() as u64;
        device.time = start + Time::from_picoseconds(logged.picoseconds);
        Ok(Replayed { first, start, ends: logged.ends, printed: logged.printed, lines: logged.lines })
    }
}

/// What tells a launch from the checkpoint's, the first thing that does.
fn difference(own: &Launch, there: &Launch) -> Option<String> {
    let [Ok(own), Ok(there)] = [own, there].map(serde_json::to_value) else { return None };
    let keys = own.as_object()?.keys();
    let mut different = keys.filter(|key| own[key.as_str()] != there[key.as_str()]);
    different.next().map(|key| {
        let what = if key == "module" { "the text of its module" } else { key.as_str() };
        format!("{what} is {}, and was {}", own[key.as_str()], there[key.as_str()])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_warms_l2_comes_back() {
        let warm = vec![
            Warmed { copies: 3, starts: vec![0, 2], lines: vec![128, 256, 512] },
            Warmed { copies: 4, starts: vec![0], lines: Vec::new() },
        ];
        let bytes = warm_bytes(&warm);
        assert_eq!(warm_of(&bytes), Ok(warm));
        assert!(warm_of(&bytes[..bytes.len() - 8]).is_err() && warm_of(&bytes[..9]).is_err());
    }

    #[test]
    fn the_first_thing_that_tells_launches_apart_is_said() {
        let launch = Launch {
            kernel: "k".into(),
            module: "m".into(),
            grid: [1; 3],
            block: [32, 1, 1],
            dynamic_shared: 0,
            stream: 0,
            functional: false,
            cooperative: false,
            cluster: None,
            non_portable_cluster: false,
            params: "00".into(),
        };
        assert_eq!(difference(&launch, &launch), None);
        let clusters = Launch { cluster: Some([2, 1, 1]), ..launch.clone() };
        assert_eq!(difference(&launch, &clusters), Some("cluster is null, and was [2,1,1]".into()));
        assert_eq!(difference(&clusters, &launch), Some("cluster is [2,1,1], and was null".into()));
        let wide = Launch { non_portable_cluster: true, ..launch.clone() };
        assert_eq!(difference(&wide, &launch), Some("non_portable_cluster is true, and was false".into()));
        let other = Launch { grid: [2, 1, 1], ..launch.clone() };
        assert_eq!(difference(&launch, &other), Some("grid is [1,1,1], and was [2,1,1]".into()));
    }
}
