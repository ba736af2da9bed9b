//! Options of the compiler that the driver has for PTX, as far as they say something here: where logs go.

use std::ffi::c_void;

use crate::error::Error;
use crate::pointers;

/// `CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES` and `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`, each behind its buffer's number.
const INFO_SIZE: i32 = 4;
const ERROR: i32 = 5;
const ERROR_SIZE: i32 = 6;

/// Where the caller wants to read what went wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jit {
    buffer: usize,
    room: usize,
    /// Where the numbers of bytes go that were written: of information, of errors.
    written: [usize; 2],
}

impl Jit {
    /// Reads `count` options.
    ///
    /// # Errors
    /// A pointer is null.
    ///
    /// # Safety
    /// `options` and `values` must lead to as many.
    pub unsafe fn of(count: u32, options: *const i32, values: *const *mut c_void) -> Result<Self, Error> {
        let mut out = Self::default();
        for i in 0..count as usize {
            let value_at = values.wrapping_add(i);
            // SAFETY: the caller's promise.
            let (option, value) =
                unsafe { (pointers::get(options.wrapping_add(i))?, pointers::get(value_at)?) };
            match option {
                INFO_SIZE => out.written[0] = value_at as usize,
                ERROR => out.buffer = value as usize,
                ERROR_SIZE => (out.room, out.written[1]) = (value as usize & 0xffff_ffff, value_at as usize),
                // Targets, optimisation and debugging change no result.
                _ => {}
            }
        }
        Ok(out)
    }

    /// Writes what went wrong, or nothing.
    pub fn tell(&self, wrong: Option<&str>) {
        let text = wrong.unwrap_or("").as_bytes();
        let n = text.len().min(self.room.saturating_sub(1));
        if self.buffer != 0 && self.room > 0 {
            // SAFETY: CUDA's manual asks for a buffer of the size that the options say.
            let place = unsafe { pointers::bytes_mut(self.buffer as *mut u8, n + 1) };
            place[..n].copy_from_slice(&text[..n]);
            place[n] = 0;
        }
        for (at, size) in self.written.into_iter().zip([0, n]) {
            if at != 0 {
                // SAFETY: it is the place of an option's value, which the caller may read when the call is over.
                let _ = unsafe { pointers::put(at as *mut usize, size) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_wrong_comes_into_the_callers_buffer() {
        let mut buffer = [1u8; 8];
        let options = [3, INFO_SIZE, ERROR, ERROR_SIZE];
        let mut values =
            [std::ptr::null_mut(), 64 as *mut c_void, buffer.as_mut_ptr().cast(), 8 as *mut c_void];
        // SAFETY: four options.
        let jit = unsafe { Jit::of(4, options.as_ptr(), values.as_mut_ptr().cast_const()) }.expect("options");
        jit.tell(Some("a long line"));
        assert_eq!((&buffer, values[1] as usize, values[3] as usize), (b"a long \0", 0, 7));
        jit.tell(None);
        assert_eq!((buffer[0], values[3] as usize), (0, 0));
    }
}
