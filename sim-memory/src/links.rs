//! What the saved state of a component names and does not hold: specifications, programs, and memory that all components share. It
//! is there before the state is read, and each component is linked with it again.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::io::{Error, Read, Result, Write};

use rustc_hash::FxHashMap;

thread_local! {
    /// One value of each type, while a state is written or read.
    static LINKS: RefCell<FxHashMap<TypeId, Box<dyn Any>>> = RefCell::default();
}

/// Values by type.
#[derive(Default)]
pub struct Links(FxHashMap<TypeId, Box<dyn Any>>);

impl Links {
    /// Adds the value of a type, or replaces it.
    pub fn add<T: 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Box::new(value));
    }

    /// Calls `act`, within which [`linked`] gives these values.
    pub fn during<R>(self, act: impl FnOnce() -> R) -> R {
        /// Puts back what was there, even where `act` panics.
        struct Back(FxHashMap<TypeId, Box<dyn Any>>);
        impl Drop for Back {
            fn drop(&mut self) {
                LINKS.set(std::mem::take(&mut self.0));
            }
        }
        let _back = Back(LINKS.replace(self.0));
        act()
    }
}

/// What `find` makes of the value of a type.
///
/// # Errors
/// There is none of that type, or `find` has nothing.
pub fn of<T: 'static, R>(find: impl FnOnce(&T) -> Option<R>) -> Result<R> {
    let found = LINKS.with_borrow(|links| {
        let value = links.get(&TypeId::of::<T>())?.downcast_ref::<T>()?;
        find(value)
    });
    found.ok_or_else(|| {
        Error::other(format!("the state names a {} that is not there", std::any::type_name::<T>()))
    })
}

/// Writes nothing: the value is linked when the state is read.
///
/// # Errors
/// None.
pub fn named<T, W: Write>(_: &T, _: &mut W) -> Result<()> {
    Ok(())
}

/// The value of a type, as [`Links`] has it.
///
/// # Errors
/// There is none.
pub fn linked<T: Clone + 'static, R: Read>(_: &mut R) -> Result<T> {
    of(|value: &T| Some(value.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_there_while_they_are_needed() {
        let links = |value: u32| {
            let mut links = Links::default();
            links.add(value);
            links
        };
        let read = || linked::<u32, _>(&mut std::io::empty()).ok();
        assert_eq!(read(), None);
        links(7).during(|| {
            assert_eq!(read(), Some(7));
            links(8).during(|| assert_eq!(read(), Some(8)));
            assert_eq!(read(), Some(7));
            assert!(linked::<u64, _>(&mut std::io::empty()).is_err());
        });
        assert_eq!(read(), None);
    }
}
