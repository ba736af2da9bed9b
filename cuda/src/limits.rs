//! Limits of the device (`cudaLimit`): what programs set and read. Where the simulator has a size of its own, it says so.

use sim_core::context::parts::{Part, PartRefused};
use sim_frontend::chip::ChipSpec;

use crate::error::{Error, INVALID_VALUE, MEMORY_ALLOCATION, UNSUPPORTED_LIMIT};
use crate::runtime::State;

/// The `cudaLimit`s of a device: what `cudaDeviceGetLimit` gives, by number.
#[derive(Clone, Copy, Debug)]
pub struct Limits([usize; LIMITS.len()]);

impl Default for Limits {
    fn default() -> Self {
        Self(LIMITS.map(|limit| limit.initial))
    }
}

/// A limit.
struct Limit {
    name: &'static str,
    initial: usize,
    /// What a larger value does not change: the bytes that there are.
    most: Option<(usize, &'static str)>,
    /// The least compute capability.
    since: u32,
}

impl Limit {
    /// The size of a part of the device runtime.
    const fn of(name: &'static str, part: Part) -> Self {
        Self { name, initial: part.initial() as usize, most: None, since: 0 }
    }
}

/// The part whose size a limit is.
fn part(number: i32) -> Option<Part> {
    match number {
        1 => Some(Part::Output),
        2 => Some(Part::Heap),
        _ => None,
    }
}

/// By number. The stack of a thread lies in its local memory, and needs no limit.
const LIMITS: [Limit; 7] = [
    Limit { name: "cudaLimitStackSize", initial: 8 << 10, most: None, since: 0 },
    Limit::of("cudaLimitPrintfFifoSize", Part::Output),
    Limit::of("cudaLimitMallocHeapSize", Part::Heap),
    Limit { name: "cudaLimitDevRuntimeSyncDepth", initial: 0, most: None, since: u32::MAX },
    Limit { name: "cudaLimitDevRuntimePendingLaunchCount", initial: 2048, most: None, since: 35 },
    Limit { name: "cudaLimitMaxL2FetchGranularity", initial: 64, most: None, since: 0 },
    Limit {
        name: "cudaLimitPersistingL2CacheSize",
        initial: 0,
        most: Some((0, "no lines of L2 are set aside")),
        since: 80,
    },
];

impl Limits {
    /// The place of a limit that the chip has.
    fn place(number: i32, capability: u32) -> Result<usize, Error> {
        let place =
            usize::try_from(number).ok().filter(|place| *place < LIMITS.len()).ok_or(INVALID_VALUE)?;
        if capability < LIMITS[place].since { Err(UNSUPPORTED_LIMIT) } else { Ok(place) }
    }

    /// The value of a limit.
    ///
    /// # Errors
    /// It is none, or the chip has none.
    pub fn get(&self, number: i32, capability: u32) -> Result<usize, Error> {
        Ok(self.0[Self::place(number, capability)?])
    }

    /// Sets a limit; says so where it changes nothing.
    ///
    /// # Errors
    /// As [`get`](Self::get); it is more than there can be.
    pub fn set(&mut self, number: i32, value: usize, chip: &ChipSpec) -> Result<(), Error> {
        let place = Self::place(number, chip.capability())?;
        let Limit { name, most, .. } = LIMITS[place];
        let all = match place {
            0 => Some((chip.limits.local_mem_size, "the local memory of a thread")),
            1 | 2 => Some((chip.limits.global_mem_size, "the memory of the device")),
            _ => None,
        };
        if let Some((all, what)) = all.filter(|(all, _)| value as u64 > *all) {
            eprintln!("warpsim: {name} cannot be {value} bytes: {what} has {all}");
            return Err(UNSUPPORTED_LIMIT);
        }
        if let Some((most, then)) = most
            && value > most
        {
            eprintln!("warpsim: {name} is set to {value} bytes, but there are {most}: {then}");
        }
        self.0[place] = value;
        Ok(())
    }
}

/// Puts the value of a limit at `value`.
///
/// # Errors
/// As [`Limits::get`]; there is no place for it.
pub fn tell(state: &mut State, value: *mut usize, number: i32) -> Result<(), Error> {
    let runtime = state.runtime()?;
    out!(value, runtime.limits.get(number, runtime.device.chip().capability())?);
    Ok(())
}

/// Sets a limit.
///
/// # Errors
/// As [`Limits::set`]; the heap of `malloc` is in use, or there is no memory for it.
pub fn set(state: &mut State, number: i32, value: usize) -> Result<(), Error> {
    let part = part(number);
    if part.is_some() {
        state.synchronize()?;
    }
    let runtime = state.runtime()?;
    let before = runtime.limits;
    runtime.limits.set(number, value, runtime.device.chip())?;
    let Some(part) = part else { return Ok(()) };
    let context = runtime.device.context().map_err(|_| INVALID_VALUE)?;
    context.set_part_bytes(part, value as u64).map_err(|refused| {
        runtime.limits = before;
        match refused {
            // As CUDA has it once a kernel that allocates was launched.
            PartRefused::Used => INVALID_VALUE,
            PartRefused::Memory => MEMORY_ALLOCATION,
        }
    })
}

#[cfg(test)]
mod tests {
    use sim_frontend::diagnostic::Source;

    use super::*;

    #[test]
    fn limits_are_kept_and_those_that_a_chip_lacks_refused() {
        let source = Source::new("gtx480", include_str!("../../configs/chips/gtx480.yaml"));
        let chip = ChipSpec::load(&source).expect("a chip");
        let mut limits = Limits::default();
        for (number, value) in [(0, 32 << 10), (1, 16 << 20), (2, 128 << 20), (5, 128)] {
            assert_eq!(limits.set(number, value, &chip), Ok(()), "{number}");
            assert_eq!(limits.get(number, 20), Ok(value), "{number}");
        }
        for (number, value) in [(0, 1 << 30), (2, 1 << 40), (3, 2), (4, 2), (6, 1)] {
            assert_eq!(limits.set(number, value, &chip), Err(UNSUPPORTED_LIMIT), "{number}");
        }
        assert_eq!(limits.get(0, 20), Ok(32 << 10), "what is refused changes nothing");
        assert_eq!((limits.get(7, 90), limits.get(-1, 90)), (Err(INVALID_VALUE), Err(INVALID_VALUE)));
        assert_eq!(
            (limits.get(4, 75), limits.get(6, 80), limits.get(6, 75)),
            (Ok(2048), Ok(0), Err(UNSUPPORTED_LIMIT))
        );
    }
}
