//! A bound on the memory of the host that the simulator takes, so that a program or a file that asks
//! for too much ends a run and not the host.

use std::alloc::{GlobalAlloc, Layout};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::console::status;
use crate::interrupt::STOP;

/// The code of diagnostics of input that takes more memory than this host has left: another may have it.
pub const TOO_LITTLE: &str = "host-memory";

/// Bytes that are allocated.
static USED: AtomicU64 = AtomicU64::new(0);
/// Bytes beyond which something is to be done.
static BOUND: AtomicU64 = AtomicU64::new(u64::MAX);
/// Bytes that the host has to spare.
static HOST: AtomicU64 = AtomicU64::new(0);
/// Bytes beyond which runs stop.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);
/// The limit was exceeded.
static EXCEEDED: AtomicBool = AtomicBool::new(false);
/// Simulations that go on.
static SIMULATIONS: AtomicUsize = AtomicUsize::new(0);

/// An allocator that counts what it gives.
pub struct Counted<A>(pub A);

/// Adds to what is used; false where nothing more can be given.
#[inline]
fn take(bytes: usize) -> bool {
    let bytes = bytes as u64;
    let used = USED.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
    used <= BOUND.load(Ordering::Relaxed) || over(used, bytes)
}

fn give(bytes: usize) {
    USED.fetch_sub(bytes as u64, Ordering::Relaxed);
}

/// Beyond the limit the runs are told to stop, and write down what is known. What crosses it is given, so
/// that nothing is lost: a list that grows asks for twice what it has. From there on a quarter more is left
/// for what is done before anybody sees that it is to stop; for what was simulated to be gathered, what the
/// host has to spare. Whoever asks for more than that, or for more than the limit at once, has no end where
/// it could be told so.
#[cold]
fn over(used: u64, bytes: u64) -> bool {
    let limit = LIMIT.load(Ordering::Relaxed);
    if bytes <= limit && !EXCEEDED.swap(true, Ordering::Relaxed) {
        let spare = if SIMULATIONS.load(Ordering::Relaxed) > 0 { HOST.load(Ordering::Relaxed) } else { 0 };
        BOUND.store(used.saturating_add(limit / 4).max(spare), Ordering::Relaxed);
        STOP.store(true, Ordering::Relaxed);
        return true;
    }
    // Another thread may have raised it just now.
    if used <= BOUND.load(Ordering::Relaxed) {
        return true;
    }
    // Nothing may be allocated from here on.
    BOUND.store(u64::MAX, Ordering::Relaxed);
    let mut message = [0u8; 160];
    let mut rest = &mut message[..];
    let _ = writeln!(
        rest,
        "error: out of memory: allocating {} KiB would exceed --max-memory ({} KiB)",
        bytes.div_ceil(1 << 10),
        limit >> 10
    );
    let left = rest.len();
    let _ = std::io::stderr().write_all(&message[..160 - left]);
    std::process::exit(status::FAULT.into())
}

// SAFETY: every call is handed to the allocator within; counters are all that is added.
#[allow(unsafe_code, reason = "what is allocated is counted where it is allocated")]
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counted<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps what `alloc` asks for.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps what `alloc_zeroed` asks for.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        give(layout.size());
        // SAFETY: `at` came from here with this layout.
        unsafe { self.0.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !take(size) {
            return std::ptr::null_mut();
        }
        give(layout.size());
        // SAFETY: `at` came from here with this layout.
        unsafe { self.0.realloc(at, layout, size) }
    }
}

/// Sets the limit to what the host has to spare.
pub fn limit_by_host() {
    let bytes = default_limit();
    HOST.store(bytes, Ordering::Relaxed);
    limit(bytes);
}

/// Sets the limit in bytes.
pub fn limit(bytes: u64) {
    LIMIT.store(bytes, Ordering::Relaxed);
    BOUND.store(bytes, Ordering::Relaxed);
}

/// A simulation that goes on. When the last one has ended, or stopped, what is known is compared and written
/// down, whatever that takes.
pub struct Simulating(());

impl Simulating {
    /// Begins the scope of a run.
    pub fn begin() -> Self {
        if SIMULATIONS.fetch_add(1, Ordering::Relaxed) == 0 && exceeded().is_none() {
            BOUND.store(LIMIT.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        Self(())
    }
}

impl Drop for Simulating {
    fn drop(&mut self) {
        if SIMULATIONS.fetch_sub(1, Ordering::Relaxed) == 1 {
            BOUND.store(u64::MAX, Ordering::Relaxed);
        }
    }
}

/// The limit in bytes, where it was exceeded.
pub fn exceeded() -> Option<u64> {
    EXCEEDED.load(Ordering::Relaxed).then(|| LIMIT.load(Ordering::Relaxed))
}

/// Runs may go on in a process that has told what it knows of those that were stopped.
pub fn forget_exceeded() {
    EXCEEDED.store(false, Ordering::Relaxed);
}

/// Bytes that can be taken before the limit is reached.
pub fn left() -> u64 {
    LIMIT.load(Ordering::Relaxed).saturating_sub(USED.load(Ordering::Relaxed))
}

/// Three quarters of the host's memory, or of what its control groups or Slurm leave the process; 12 GiB where
/// nothing is known.
fn default_limit() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let host = read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
    });
    let own = read("/proc/self/cgroup").unwrap_or_default();
    let groups = groups(&own).into_iter().filter_map(|path| read(&path)?.trim().parse::<u64>().ok());
    let slurm = std::env::var("SLURM_MEM_PER_NODE").ok().and_then(|mib| mib.parse::<u64>().ok());
    // Slurm writes 0 for all that there is.
    let slurm = slurm.filter(|mib| *mib > 0).and_then(|mib| mib.checked_mul(1 << 20));
    let whole = groups.chain(host).chain(slurm).min().unwrap_or(16 << 30);
    whole / 4 * 3
}

/// The files that say what the control groups of a process may have, of which `/proc/self/cgroup` has the names: of each
/// group and those that it is in.
fn groups(own: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in own.lines() {
        let mut words = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (words.next(), words.next()) else { continue };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|one| one == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let mut group = group.trim_end_matches('/');
        loop {
            files.push(format!("{root}{group}/{name}"));
            let Some((outer, _)) = group.rsplit_once('/') else { break };
            group = outer;
        }
    }
    files
}

/// A size as options take it.
///
/// # Errors
/// It is none.
pub fn size(text: &str) -> Result<u64, String> {
    if text == "unlimited" {
        return Ok(u64::MAX);
    }
    let wrong = || format!("`{text}` is not a size: bytes, or a number with K, M, G or T, or `unlimited`");
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_uppercase().trim_end_matches("IB") {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong()),
    };
    digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift)).filter(|n| *n > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!((size("3K"), size("2M"), size("1GiB")), (Ok(3 << 10), Ok(2 << 20), Ok(1 << 30)));
        assert_eq!(size("unlimited"), Ok(u64::MAX));
        for wrong in ["", "0", "-1", "G", "1.5G", "12X", "99999999999T", "1 G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_of_control_groups_are_those_of_all_around_a_process() {
        assert_eq!(
            groups("0::/system.slice/job_7\n"),
            ["/system.slice/job_7", "/system.slice", ""]
                .map(|group| format!("/sys/fs/cgroup{group}/memory.max"))
        );
        let old = groups("5:cpu,memory:/a\n4:cpuset:/b\n0::/\n");
        let of = |group: &str| format!("/sys/fs/cgroup/memory{group}/memory.limit_in_bytes");
        assert_eq!(old, [of("/a"), of(""), "/sys/fs/cgroup/memory.max".to_string()]);
        assert!(groups("").is_empty());
    }

    #[test]
    fn the_default_is_less_than_the_host_has() {
        let default = default_limit();
        assert!((1 << 28..u64::MAX / 2).contains(&default), "{default}");
    }
}
