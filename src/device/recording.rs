//! A launch of a program written down as a workload: the memory, the arguments and what L2 holds before it, and what
//! the memory holds after it. Contents are compressed and stored once, whichever launches share them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use sim_core::context::parts::Part;
use sim_core::error::SimError;
use sim_frontend::load::target_of;
use sim_frontend::workload::UndefinedValues;
use sim_memory::address_space::CONST_BASE;
use sim_memory::cache::{CachedLine, Class};

use super::{Device, Kernel};
use crate::digest::hash;
use crate::files;
use crate::hex;
use crate::zstd;

/// A range of memory with its contents.
struct Range {
    name: String,
    at: u64,
    bytes: Vec<u8>,
}

/// What a launch begins with.
pub struct Recording {
    kernel: Kernel,
    buffers: Vec<Range>,
    variables: Vec<Range>,
    l2: Vec<CachedLine>,
}

/// Eviction classes by their number in a file of [`lines`].
const CLASSES: [Class; 3] = [Class::Normal, Class::First, Class::Last];

/// Bytes of a line in a file of [`lines`].
const LINE: usize = 32;

/// The lines of a file as a workload's `l2` names it: of each the address, the mask of valid bytes in two words, and the
/// number of its eviction class (0 normal, 1 first, 2 last), as 64-bit little-endian numbers.
///
/// # Errors
/// It is none.
pub fn lines(bytes: &[u8]) -> Result<Vec<CachedLine>, String> {
    if !bytes.len().is_multiple_of(LINE) {
        return Err(format!("{} bytes are no lines of {LINE} bytes", bytes.len()));
    }
    let (words, _) = bytes.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let line = |words: &[u64]| {
        let class = usize::try_from(words[3]).ok().and_then(|number| CLASSES.get(number));
        Ok(CachedLine {
            line: words[0] / 128 * 128,
            valid: u128::from(words[1]) | u128::from(words[2]) << 64,
            class: *class.ok_or_else(|| format!("{} is no eviction class: 0, 1 or 2", words[3]))?,
        })
    };
    words.chunks_exact(LINE / 8).map(line).collect()
}

/// The bytes of a file of [`lines`].
pub(super) fn line_bytes(lines: &[CachedLine]) -> Vec<u8> {
    let words = |line: &CachedLine| {
        let class = CLASSES.iter().position(|class| *class == line.class).unwrap_or_default();
        [line.line, line.valid as u64, (line.valid >> 64) as u64, class as u64]
    };
    lines.iter().flat_map(words).flat_map(u64::to_le_bytes).collect()
}

impl Device {
    /// What a launch begins with. Nothing may be queued.
    ///
    /// # Errors
    /// None.
    pub fn recording(&mut self, kernel: &Kernel) -> Result<Recording, SimError> {
        let context = self.context()?;
        let l2 = context.l2();
        let variables: Vec<(String, u64, u64)> = context
            .all_variables(kernel.module.0)
            .map(|(name, at, bytes)| (name.to_string(), at, bytes))
            .collect();
        let is_variable = |at: u64| variables.iter().any(|(_, own, _)| *own == at);
        let others: Vec<(u64, u64)> = context
            .allocations()
            .map(|allocation| (allocation.range.start, allocation.range.end - allocation.range.start))
            .filter(|(at, bytes)| *at < CONST_BASE && *bytes > 0 && !is_variable(*at))
            .collect();
        let range = |name: String, at: u64, bytes: u64| {
            let mut contents = vec![0; bytes as usize];
            context.read(at, &mut contents);
            Range { name, at, bytes: contents }
        };
        let buffers = others.iter().enumerate().map(|(i, (at, bytes))| range(format!("b{i}"), *at, *bytes));
        let buffers = buffers.collect();
        let variables = variables.iter().map(|(name, at, bytes)| range(name.clone(), *at, *bytes)).collect();
        Ok(Recording { kernel: kernel.clone(), buffers, variables, l2 })
    }
}

/// Writes the files of a folder of recordings.
struct Folder<'f> {
    root: &'f Path,
    /// By contents, what a workload calls its file.
    known: BTreeMap<String, String>,
}

impl Folder<'_> {
    /// What `init` and `file` say of contents.
    fn file(&mut self, bytes: &[u8]) -> Result<String, String> {
        let key = format!("{}-{}", hash(&[bytes]), bytes.len());
        if let Some(name) = self.known.get(&key) {
            return Ok(name.clone());
        }
        let path = self.root.join("data").join(format!("{key}.zst"));
        if !path.is_file() {
            put(&path, &zstd::compress(bytes))?;
        }
        let name = format!("../data/{key}.zst");
        self.known.insert(key, name.clone());
        Ok(name)
    }

    fn init(&mut self, bytes: &[u8]) -> Result<String, String> {
        match bytes.iter().all(|byte| *byte == 0) {
            true => Ok("zeros".to_string()),
            false => Ok(format!("{{file: {}}}", quoted(&self.file(bytes)?))),
        }
    }
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| files::unwritable(folder, &error))?;
    }
    files::write(path, bytes).map_err(|error| files::unwritable(path, &error))
}

/// A text as YAML and JSON have it.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

impl Recording {
    /// Writes the launch, which has run, as `root/NUMBER-KERNEL/workload.yaml`; gives that path.
    ///
    /// # Errors
    /// A file cannot be written, in words.
    pub fn write(self, device: &mut Device, root: &Path, number: u64) -> Result<PathBuf, String> {
        if self.kernel.cooperative {
            return Err(format!("{} is launched cooperatively, which workloads are not", self.kernel.entry));
        }
        let unreadable = |error: SimError| error.to_string();
        let Some(source) = device.source(self.kernel.module).cloned() else {
            return Err("the module of a launch is not there".to_string());
        };
        let short: String =
            self.kernel.entry.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(40).collect();
        let name = format!("{number:04}-{short}");
        let target = target_of(&source).map_or("sm_10", |(word, _)| word).to_string();
        let ptx = format!("{}.ptx", hash(&[source.text.as_bytes()]));
        let data = root.join("data").join(&ptx);
        if !data.is_file() {
            put(&data, source.text.as_bytes())?;
        }
        let mut folder = Folder { root, known: BTreeMap::new() };
        let mut text = format!(
            "schema: 1\nname: {}\ndescription: {}\nschedule: dependent\nreason: recorded from a program; nothing is \
             known of it\nvariants:\n- {{name: recorded, file: {}, compiler: \"\", target: {target}}}\nbuffers:\n",
            quoted(&name),
            quoted(&format!("Launch {number} of a program, of {}.", self.kernel.entry)),
            quoted(&format!("../data/{ptx}"))
        );
        if self.buffers.is_empty() {
            text.truncate(text.len() - 1);
            text.push_str(" {}\n");
        }
        for Range { name, at, bytes } in &self.buffers {
            let init = folder.init(bytes)?;
            let _ = writeln!(text, "  {name}: {{type: u8, length: {}, at: {at}, init: {init}}}", bytes.len());
        }
        if !self.variables.is_empty() {
            text.push_str("variables:\n");
        }
        for Range { name, at, bytes } in &self.variables {
            let init = folder.init(bytes)?;
            let at = at.checked_sub(CONST_BASE).unwrap_or(*at);
            let size = Part::of(name).map_or(String::new(), |_| format!("bytes: {}, ", bytes.len()));
            let _ = writeln!(text, "  {}: {{at: {at}, {size}init: {init}}}", quoted(name));
        }
        let l2 = folder.file(&line_bytes(&self.l2))?;
        let Kernel { grid, block, dynamic_shared, cluster, non_portable_cluster, .. } = &self.kernel;
        let mut cluster = cluster.map_or(String::new(), |cluster| format!(", cluster: {cluster:?}"));
        // A kernel may give the size itself.
        if *non_portable_cluster {
            cluster += ", non_portable_cluster: true";
        }
        if device.configured().options.undefined == UndefinedValues::Zero {
            text.push_str("undefined_values: zero\n");
        }
        let arguments = self.arguments(device);
        let _ = writeln!(
            text,
            "l2: {}\nlaunches:\n- {{entry: {}, grid: {grid:?}, block: {block:?}, dynamic_shared: {dynamic_shared}{cluster}, args: [{}]}}",
            quoted(&l2),
            quoted(&self.kernel.entry),
            arguments.join(", ")
        );
        let mut expect = String::new();
        for Range { name, at, bytes } in &self.buffers {
            let mut after = vec![0; bytes.len()];
            device.read(*at, &mut after).map_err(unreadable)?;
            if after != *bytes {
                let file = folder.file(&after)?;
                let _ = writeln!(expect, "- {{buffer: {name}, file: {}, tolerance: exact}}", quoted(&file));
            }
        }
        if !expect.is_empty() {
            let _ = write!(text, "expect:\n{expect}");
        }
        let path = root.join(name).join("workload.yaml");
        put(&path, text.as_bytes())?;
        Ok(path)
    }

    /// The arguments: places in buffers as such, all others as bytes.
    fn arguments(&self, device: &mut Device) -> Vec<String> {
        let info = device.entry(self.kernel.module, &self.kernel.entry);
        let params = info.map(|info| info.params).unwrap_or_default();
        let argument = |bytes: &[u8]| {
            let address = <[u8; 8]>::try_from(bytes).map(u64::from_le_bytes).ok();
            let of = |range: &&Range| {
                address.is_some_and(|at| (range.at..range.at + range.bytes.len() as u64).contains(&at))
            };
            match (address, self.buffers.iter().find(of)) {
                (Some(at), Some(range)) if at == range.at => range.name.clone(),
                (Some(at), Some(range)) => format!("{} + {}", range.name, at - range.at),
                _ => format!("{{bytes: {}}}", quoted(&hex::digits(bytes))),
            }
        };
        let bytes = |at: u32, size: u32| {
            self.kernel.params.get(at as usize..(at + size) as usize).unwrap_or_default()
        };
        params.iter().map(|param| argument(bytes(param.offset, param.size))).collect()
    }
}
