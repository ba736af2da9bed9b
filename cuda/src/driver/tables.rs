//! The tables of functions that CUDA's static runtime asks for by UUID (`cuGetExportTable`). They are undocumented;
//! UUIDs, slots and arguments are those that ZLUDA lists (`dark_api/src/lib.rs`, which is public), and what runtimes
//! asked of this library. A slot that is not known has a function that says so and fails.

use std::ffi::c_void;
use std::sync::LazyLock;

use crate::driver::call::{Need, current, enter, primary};
use crate::driver::device::{VERSION, value};
use crate::driver::integrity::{Facts, answer};
use crate::driver::state::Destructor;
use crate::error::{Error, INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED};
use crate::pointers;
use crate::properties::uuid;

/// What a program can do where something is missing.
const WAY_OUT: &str = "link the program with `-cudart shared`";

/// What is known of a table.
struct Known {
    uuid: u128,
    name: &'static str,
    /// Slots, of which the first has their size in bytes where `sized`.
    slots: usize,
    sized: bool,
}

const KNOWN: [Known; 10] = [
    Known {
        uuid: 0x6bd5_fb6c_5bf4_e74a_8987_d939_12fd_9df9,
        name: "runtime interface",
        slots: 13,
        sized: true,
    },
    Known { uuid: 0x42d8_5a81_23f6_cb47_8298_f6e7_8a3a_ecdc, name: "tools' storage", slots: 4, sized: true },
    Known { uuid: 0xa094_798c_2e74_2e74_93f2_0800_200c_0a66, name: "tools' hooks", slots: 7, sized: true },
    Known {
        uuid: 0xc693_336e_1121_df11_a8c3_68f3_55d8_9593,
        name: "context storage",
        slots: 4,
        sized: false,
    },
    Known {
        uuid: 0x0ca5_0b8c_1004_929a_89a7_d0df_10e7_7286,
        name: "context creation",
        slots: 2,
        sized: true,
    },
    Known { uuid: 0x195b_cbf4_d67d_024a_acc5_1d29_cea6_31ae, name: "heap", slots: 3, sized: true },
    Known { uuid: 0xb105_41e1_f7c7_c74a_9f64_f223_be99_f1e2, name: "device", slots: 26, sized: true },
    Known { uuid: 0xd408_2055_bde6_704b_8d34_ba12_3c66_e1f2, name: "integrity", slots: 3, sized: true },
    Known { uuid: 0x263e_8860_7cd2_6143_92f6_bbd5_006d_fa7e, name: "context checks", slots: 4, sized: true },
    Known {
        uuid: 0x2131_8c60_9714_3248_8ca6_41ff_7324_c8f2,
        name: "context identity",
        slots: 95,
        sized: true,
    },
];

/// Tables that runtimes of CUDA 13 ask for and do without.
const OPTIONAL: [u128; 1] = [0xf8cf_f951_2146_8b4e_b9e2_fb46_9e7c_0dd9];

/// Places in `KNOWN`.
const RUNTIME: usize = 0;
const HOOKS: usize = 2;
const STORAGE: usize = 3;
const INTEGRITY: usize = 7;
const CHECKS: usize = 8;

/// A UUID as it is written.
fn shown(uuid: u128) -> String {
    let digits = format!("{uuid:032x}");
    [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)].map(|(from, to)| &digits[from..to]).join("-")
}

/// What a slot has that is not known.
extern "C" fn unknown<const TABLE: usize, const SLOT: usize>() -> i32 {
    let Known { uuid, name, .. } = &KNOWN[TABLE];
    eprintln!(
        "warpsim: CUDA's static runtime called slot {SLOT} of the driver's table {} ({name}), which is not supported: \
         {WAY_OUT}",
        shown(*uuid)
    );
    NOT_SUPPORTED.0
}

/// The functions of a table in the order of its slots.
macro_rules! unknown {
    ($table:ident: $($slot:literal)*) => { [$(unknown::<$table, $slot> as *const ()),*] };
}

fn all_unknown<const TABLE: usize>() -> [*const (); 96] {
    unknown!(TABLE: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36
        37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74
        75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95)
}

/// Pointers that do not change.
struct Slots(Vec<*const ()>);

// SAFETY: they are functions and numbers.
unsafe impl Send for Slots {}
// SAFETY: as above.
unsafe impl Sync for Slots {}

fn made<const TABLE: usize>(own: &[(usize, *const ())]) -> Slots {
    let known = &KNOWN[TABLE];
    let mut slots = all_unknown::<TABLE>()[..known.slots].to_vec();
    if known.sized {
        slots[0] = std::ptr::without_provenance(known.slots * size_of::<usize>());
    }
    own.iter().for_each(|(slot, function)| slots[*slot] = *function);
    Slots(slots)
}

static TABLES: LazyLock<[Slots; KNOWN.len()]> = LazyLock::new(|| {
    [
        made::<RUNTIME>(&[
            (2, primary_context as *const ()),
            (7, nothing as *const ()),
            (12, nothing as *const ()),
        ]),
        made::<1>(&[]),
        made::<HOOKS>(&[(2, buffer::<0> as *const ()), (6, buffer::<1> as *const ())]),
        made::<STORAGE>(&[(0, put as *const ()), (1, delete as *const ()), (2, get as *const ())]),
        made::<4>(&[]),
        made::<5>(&[]),
        made::<6>(&[]),
        made::<INTEGRITY>(&[(1, integrity as *const ())]),
        made::<CHECKS>(&[(2, context_check as *const ()), (3, nothing as *const ())]),
        made::<9>(&[]),
    ]
});

/// Succeeds: there is nothing to do, or to find.
extern "C" fn nothing() -> i32 {
    0
}

/// The primary context of a device.
unsafe extern "C" fn primary_context(at: *mut usize, device: i32) -> i32 {
    enter("the primary context", Need::Nothing, |state| {
        let context = primary(state, device)?;
        out!(at, context);
        Ok(())
    })
}

/// A buffer that tools read; nothing here does.
unsafe extern "C" fn buffer<const N: usize>(at: *mut *mut c_void, bytes: *mut usize) {
    // What is written to it is not looked at.
    static BUFFERS: [[std::sync::atomic::AtomicU8; 4096]; 2] =
        [const { [const { std::sync::atomic::AtomicU8::new(0) }; 4096] }; 2];
    // SAFETY: the runtime passes places for both.
    unsafe {
        let _ = pointers::put(at, BUFFERS[N].as_ptr().cast_mut().cast());
        let _ = pointers::put(bytes, if N == 0 { 1024 } else { 14 });
    }
}

/// The context that a handle stands for; null is the current one.
fn context_of(state: &mut crate::runtime::State, context: usize) -> Result<usize, Error> {
    if context == 0 { current(state) } else { Ok(context) }
}

/// Keeps a value for a context and a key.
unsafe extern "C" fn put(context: usize, key: usize, value: usize, gone: Option<Destructor>) -> i32 {
    enter("context storage", Need::Nothing, |state| {
        let context = context_of(state, context)?;
        state.driver.storage.insert((context, key), (value, gone));
        Ok(())
    })
}

unsafe extern "C" fn delete(context: usize, key: usize) -> i32 {
    enter("context storage", Need::Nothing, |state| {
        let context = context_of(state, context)?;
        state.driver.storage.remove(&(context, key));
        Ok(())
    })
}

unsafe extern "C" fn get(at: *mut usize, context: usize, key: usize) -> i32 {
    enter("context storage", Need::Nothing, |state| {
        let context = context_of(state, context)?;
        let (value, _) = *state.driver.storage.get(&(context, key)).ok_or(INVALID_HANDLE)?;
        out!(at, value);
        Ok(())
    })
}

unsafe extern "C" fn context_check(_context: usize, result: *mut u32, _detail: *mut *const c_void) -> i32 {
    enter("context check", Need::Nothing, |_| {
        out!(result, 0);
        Ok(())
    })
}

/// The answer to the static runtime's self-test.
unsafe extern "C" fn integrity(version: u32, seconds: u64, at: *mut [u8; 16]) -> i32 {
    enter("integrity", Need::Nothing, |state| {
        state.driver.runtime_within = true;
        let numbers = [50, 33, 34].map(|number| value(state, number, 0).unwrap_or(0));
        let identity = (uuid(state.runtime()?.device.chip()), numbers);
        let table = |table: usize| TABLES[table].0.as_ptr() as u64;
        let facts = Facts {
            driver: VERSION as u32,
            version,
            process: std::process::id(),
            // SAFETY: it has no conditions.
            thread: unsafe { libc::pthread_self() } as u32,
            addresses: [table(RUNTIME), table(INTEGRITY), TABLES[INTEGRITY].0[1] as u64],
            seconds,
        };
        out!(at, answer(&facts, &[identity]));
        Ok(())
    })
}

driver! {
    ENTRIES []

    nothing cuGetExportTable = (at: *mut *const c_void, id: *const [u8; 16]) |_state| {
        // SAFETY: CUDA's static runtime passes a UUID.
        let uuid = u128::from_be_bytes(unsafe { pointers::get(id) }?);
        let Some(found) = KNOWN.iter().position(|known| known.uuid == uuid) else {
            out!(at, std::ptr::null());
            if OPTIONAL.contains(&uuid) {
                return Err(INVALID_VALUE);
            }
            eprintln!(
                "warpsim: CUDA's static runtime asks for the driver's table {}, which is not known; if the program does \
                 not work, {WAY_OUT}",
                shown(uuid)
            );
            return Err(INVALID_VALUE);
        };
        out!(at, TABLES[found].0.as_ptr().cast());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_their_sizes_and_a_function_in_every_slot() {
        for (known, table) in KNOWN.iter().zip(TABLES.iter()) {
            assert_eq!(table.0.len(), known.slots);
            assert_eq!(known.sized, table.0[0].addr() == known.slots * 8, "{}", known.name);
            assert!(table.0.iter().all(|slot| !slot.is_null()));
        }
        assert_eq!(shown(KNOWN[0].uuid), "6bd5fb6c-5bf4-e74a-8987-d93912fd9df9");
        // SAFETY: a slot without arguments.
        let function: extern "C" fn() -> i32 = unsafe { std::mem::transmute(TABLES[RUNTIME].0[3]) };
        assert_eq!(function(), NOT_SUPPORTED.0);
    }

    #[test]
    fn tables_that_are_not_known_are_refused() {
        let mut at = std::ptr::null();
        let unknown = [1u8; 16];
        // SAFETY: the places are valid.
        assert_eq!(unsafe { cuGetExportTable(&raw mut at, &raw const unknown) }, INVALID_VALUE.0);
        let known = KNOWN[STORAGE].uuid.to_be_bytes();
        // SAFETY: as above.
        assert_eq!(unsafe { cuGetExportTable(&raw mut at, &raw const known) }, 0);
        assert_eq!(at.addr(), TABLES[STORAGE].0.as_ptr().addr());
    }
}
