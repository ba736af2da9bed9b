//! How every call enters: one lock around the device, no panic that crosses the interface, errors kept for
//! `cudaGetLastError`.

use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use crate::error::{Error, INITIALIZATION, UNKNOWN};
use crate::runtime::State;

static STATE: Mutex<State> = Mutex::new(State::new());

thread_local! {
    static LAST: Cell<i32> = const { Cell::new(0) };
}

/// The state, even if a thread panicked with it.
pub fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs what is queued when the process ends.
extern "C" fn at_exit() {
    keep("exit", || {
        lock().finish();
        Ok(())
    });
}

/// Sees to it that what is queued runs when the process ends.
pub fn until_exit() {
    static AT_EXIT: Once = Once::new();
    // SAFETY: the function may be called at any time.
    AT_EXIT.call_once(|| {
        let _ = unsafe { libc::atexit(at_exit) };
    });
}

/// Runs a call; gives its status. What went wrong is kept for [`last`].
pub fn enter(name: &str, body: impl FnOnce(&mut State) -> Result<(), Error>) -> i32 {
    until_exit();
    keep(name, || {
        let mut state = lock();
        state.driver.runtime_in_use = true;
        if state.is_forked() {
            return Err(INITIALIZATION);
        }
        if let Some(sticky) = state.sticky {
            return Err(sticky);
        }
        let result = body(&mut state);
        let_go(state);
        result
    })
}

/// Gives the lock back, then runs destructors of user objects that went.
pub fn let_go(mut state: MutexGuard<'static, State>) {
    let gone = std::mem::take(&mut state.gone);
    drop(state);
    for (destroy, data) in gone {
        // SAFETY: the program's function gets the program's data.
        unsafe { destroy(data as *mut c_void) };
    }
}

/// Runs what answers even after a fault; the state's lock is its own matter.
pub fn keep(name: &str, body: impl FnOnce() -> Result<(), Error>) -> i32 {
    let Err(error) = caught(name, body) else { return 0 };
    LAST.with(|last| last.set(error.0));
    error.0
}

/// Runs; a panic becomes an error.
///
/// # Errors
/// Those of what runs, or `UNKNOWN`.
pub fn caught(name: &str, body: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panic");
        eprintln!("warpsim: {name}: internal error: {message}");
        Err(UNKNOWN)
    })
}

/// The last error of this thread; `take` forgets it, unless the device cannot go on.
pub fn last(take: bool) -> i32 {
    if let Some(sticky) = lock().sticky {
        return sticky.0;
    }
    LAST.with(|last| if take { last.replace(0) } else { last.get() })
}

/// Functions of the C interface: names, parameters, and what they do with the state.
#[macro_export]
macro_rules! cuda {
    (@one $name:ident ($($arg:ident: $ty:ty),* $(,)?) $state:ident $body:block) => {
        #[doc = "As in CUDA's runtime API."]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> i32 {
            $crate::call::enter(stringify!($name), |$state: &mut $crate::runtime::State| $body)
        }
    };
    ($(fn $($name:ident)+ = $args:tt |$state:ident| $body:block)*) => {
        $($(cuda!(@one $name $args $state $body);)+)*
    };
}

/// Writes a result through a pointer of the caller; returns from the call if it is null.
#[macro_export]
macro_rules! out {
    ($at:expr, $value:expr) => {{
        let (at, value) = ($at, $value);
        // SAFETY: CUDA's manual asks of the caller that the pointer is valid for the result.
        unsafe { $crate::pointers::put(at, value) }?
    }};
}
