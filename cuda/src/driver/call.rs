//! How every call of the driver API enters, and which context a thread has.

use std::cell::RefCell;

use crate::call::{caught, let_go, lock, until_exit};
use crate::driver::state::{Context, Owned};
use crate::error::{
    CONTEXT_DESTROYED, Error, INITIALIZATION, INVALID_CONFIGURATION, INVALID_CONTEXT, INVALID_DEVICE,
};
use crate::runtime::State;

thread_local! {
    static CURRENT: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// What a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// `cuInit`.
    Driver,
    /// A current context.
    Context,
}

/// A function by its name.
#[derive(Debug)]
pub struct Entry {
    /// As it is exported.
    pub name: &'static str,
    /// It.
    pub function: *const (),
}

// SAFETY: the pointer is that of a function, which does not change.
unsafe impl Sync for Entry {}

/// Runs a call; gives its status.
pub fn enter(name: &str, need: Need, body: impl FnOnce(&mut State) -> Result<(), Error>) -> i32 {
    until_exit();
    let mut within = false;
    let result = caught(name, || {
        let mut state = lock();
        within = state.driver.runtime_within;
        if state.is_forked() {
            return Err(INITIALIZATION);
        }
        if need != Need::Nothing && !state.driver.initialized && !state.driver.runtime_in_use {
            return Err(INITIALIZATION);
        }
        if need == Need::Context {
            current(&mut state)?;
            if let Some(sticky) = state.sticky {
                return Err(sticky);
            }
        }
        let result = body(&mut state);
        let_go(state);
        result
    });
    match result {
        Ok(()) => 0,
        // CUDA's static runtime passes this on as it is; that of the driver API would tell it less.
        Err(INVALID_CONFIGURATION) if within => INVALID_CONFIGURATION.0,
        Err(error) => status(error),
    }
}

/// The status of the driver API for an error; those of the runtime API alone become what they are in it.
pub fn status(error: Error) -> i32 {
    match error.0 {
        // Configurations, pitches, directions.
        9 | 12 | 21 | 52 => 1,
        // Kernels and variables.
        98 => 400,
        13 => 500,
        code => code,
    }
}

/// The handle of the primary context; it is made at the first use.
///
/// # Errors
/// There is no such device.
pub fn primary(state: &mut State, device: i32) -> Result<usize, Error> {
    if device != 0 {
        return Err(INVALID_DEVICE);
    }
    if state.driver.primary == 0 {
        state.driver.primary = made(state, state.driver.primary_flags);
    }
    Ok(state.driver.primary)
}

/// Makes a context.
pub fn made(state: &mut State, flags: u32) -> usize {
    let handle = state.handle();
    state.driver.made += 1;
    let id = state.driver.made;
    state.driver.contexts.insert(handle, Context { id, flags });
    handle
}

/// The context of this thread.
///
/// # Errors
/// There is none, or it was destroyed.
pub fn current(state: &mut State) -> Result<usize, Error> {
    match CURRENT.with(|stack| stack.borrow().last().copied()) {
        Some(0) => Err(INVALID_CONTEXT),
        Some(handle) if state.driver.contexts.contains_key(&handle) => Ok(handle),
        Some(_) => Err(CONTEXT_DESTROYED),
        // The runtime API uses the primary one.
        None if state.driver.runtime_in_use => primary(state, 0),
        None => Err(INVALID_CONTEXT),
    }
}

/// Remembers that something belongs to the current context.
///
/// # Errors
/// There is none.
pub fn own(state: &mut State, handle: usize, what: Owned) -> Result<(), Error> {
    let context = current(state)?;
    state.driver.owned.insert(handle, (context, what));
    Ok(())
}

/// Changes the contexts of this thread, the current one last.
pub fn stack<R>(change: impl FnOnce(&mut Vec<usize>) -> R) -> R {
    CURRENT.with(|stack| change(&mut stack.borrow_mut()))
}

/// Functions of the driver API: what each needs (`nothing`, `driver`, `context`), names, parameters, and what they do
/// with the state. They are listed by name.
#[macro_export]
macro_rules! driver {
    (@need nothing) => { $crate::driver::call::Need::Nothing };
    (@need driver) => { $crate::driver::call::Need::Driver };
    (@need context) => { $crate::driver::call::Need::Context };
    (@one $need:ident $name:ident ($($arg:ident: $ty:ty),* $(,)?) $state:ident $body:block) => {
        #[doc = "As in CUDA's driver API."]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> i32 {
            let need = driver!(@need $need);
            $crate::driver::call::enter(stringify!($name), need, |$state: &mut $crate::runtime::State| $body)
        }
    };
    ($list:ident [$($other:ident)*] $($need:ident $($name:ident)+ = $args:tt |$state:ident| $body:block)*) => {
        $($(driver!(@one $need $name $args $state $body);)+)*

        /// Functions of this file by name.
        pub static $list: &[$crate::driver::call::Entry] = &[
            $($(
                $crate::driver::call::Entry { name: stringify!($name), function: $name as *const () },
            )+)*
            $($crate::driver::call::Entry { name: stringify!($other), function: $other as *const () },)*
        ];
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{INVALID_FUNCTION, INVALID_SYMBOL, NOT_SUPPORTED};

    #[test]
    fn errors_of_the_runtime_become_those_of_the_driver() {
        let all = [INVALID_CONFIGURATION, INVALID_FUNCTION, INVALID_SYMBOL, NOT_SUPPORTED];
        assert_eq!(all.map(status), [1, 400, 500, 801]);
    }
}
