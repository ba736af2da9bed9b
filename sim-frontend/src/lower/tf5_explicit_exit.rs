//! Transformation 5: `ret` is the last instruction on every path, and in entries it is `exit`
//! (CS §5.1.3 step 5) [tf-5].

use crate::isa::{Root, entry_of};
use crate::program::OpClass;

/// The class of a `ret` of an entry or a function.
pub fn class_of_return(entry: bool) -> OpClass {
    if entry { OpClass::Exit } else { OpClass::Return }
}

/// The name of the instruction that ends a function without one.
pub fn implicit_end(entry: bool) -> &'static str {
    entry_of(if entry { Root::Exit } else { Root::Ret }).name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tf_5_entries_exit_and_functions_return() {
        assert_eq!((class_of_return(true), implicit_end(true)), (OpClass::Exit, "exit"));
        assert_eq!((class_of_return(false), implicit_end(false)), (OpClass::Return, "ret"));
    }
}
