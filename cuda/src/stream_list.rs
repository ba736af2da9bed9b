//! The streams of a program, and which launches may run together.

use std::collections::BTreeMap;
use std::ffi::c_void;

use crate::error::{Error, INVALID_HANDLE};

/// Handle of the legacy default stream, beside null.
const LEGACY: usize = 1;
/// Handle of a thread's default stream.
const PER_THREAD: usize = 2;
/// `cudaStreamNonBlocking`.
pub const NON_BLOCKING: u32 = 1;

/// A stream of the program.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Its number on the device.
    pub number: u32,
    /// As it was created.
    pub flags: u32,
    /// As it was created.
    pub priority: i32,
}

/// All streams.
#[derive(Debug, Default)]
pub struct Streams {
    list: BTreeMap<usize, Stream>,
    created: u32,
    /// Attributes by the number of the stream and their own.
    pub attributes: BTreeMap<(u32, i32), [u32; 16]>,
}

impl Streams {
    /// Adds a stream with a handle.
    pub fn add(&mut self, handle: usize, flags: u32, priority: i32) {
        self.created += 1;
        // 0 and 1 are the default streams.
        self.list.insert(handle, Stream { number: self.created + 1, flags, priority });
    }

    /// Forgets a stream.
    pub fn remove(&mut self, handle: *mut c_void) -> Option<Stream> {
        let gone = self.list.remove(&(handle as usize))?;
        self.attributes.retain(|(number, _), _| *number != gone.number);
        Some(gone)
    }

    /// Changes the priority of a stream; a default stream has none.
    ///
    /// # Errors
    /// There is no such stream.
    pub fn set_priority(&mut self, handle: *mut c_void, priority: i32) -> Result<(), Error> {
        if let Some(stream) = self.list.get_mut(&(handle as usize)) {
            stream.priority = priority.clamp(-5, 0);
        }
        self.find(handle).map(drop)
    }

    /// The stream of a handle.
    ///
    /// # Errors
    /// It is none.
    pub fn find(&self, handle: *mut c_void) -> Result<Stream, Error> {
        match handle as usize {
            0 | LEGACY => Ok(Stream { number: 0, flags: 0, priority: 0 }),
            PER_THREAD => Ok(Stream { number: 1, flags: 0, priority: 0 }),
            other => self.list.get(&other).copied().ok_or(INVALID_HANDLE),
        }
    }

    fn is_non_blocking(&self, number: u32) -> bool {
        self.list.values().any(|stream| stream.number == number && stream.flags & NON_BLOCKING != 0)
    }

    /// Whether a launch on a stream can be queued behind others without waiting for them: launches of one stream run
    /// one at a time where no other stream is in use, and the default stream waits for the others as they do for it.
    pub fn run_beside(&self, stream: u32, queued: impl Iterator<Item = u32>) -> bool {
        let mut others = false;
        let mut same = false;
        for other in queued {
            same |= other == stream;
            let waits = |a: u32, b: u32| a == 0 && b != 0 && !self.is_non_blocking(b);
            if waits(stream, other) || waits(other, stream) {
                return false;
            }
            others |= other != stream;
        }
        !same || others || self.list.len() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_run_together_only_on_streams_that_do_not_wait_for_each_other() {
        let mut streams = Streams::default();
        let beside =
            |streams: &Streams, stream, queued: &[u32]| streams.run_beside(stream, queued.iter().copied());
        assert!(beside(&streams, 0, &[]));
        assert!(!beside(&streams, 0, &[0]), "one at a time");
        for (handle, number, flags) in [(16, 2, 0), (32, 3, NON_BLOCKING)] {
            streams.list.insert(handle, Stream { number, flags, priority: 0 });
        }
        assert!(beside(&streams, 2, &[3, 2]) && beside(&streams, 2, &[2]));
        assert!(!beside(&streams, 0, &[2]) && !beside(&streams, 2, &[0]), "the default stream waits");
        assert!(beside(&streams, 0, &[3]) && beside(&streams, 3, &[0]), "but not for this one");
    }
}
