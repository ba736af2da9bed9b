//! The device runtime: functions that compilers declare and leave to whoever links the program
//! (`vprintf`, `__assertfail`, `malloc`, `free`). They are PTX made of our own sources, which stands
//! behind the text of a module that needs it, so that they run, and cost, like any other code.

use crate::diagnostic::Source;
use crate::ptx::ast::Module as Ast;

/// A part of the runtime.
struct Part {
    functions: &'static [&'static str],
    /// With addresses of 64 and of 32 bits.
    texts: [&'static str; 2],
}

const PARTS: [Part; 2] = [
    Part {
        functions: &["vprintf", "__assertfail"],
        texts: [include_str!("library/output.64.ptx"), include_str!("library/output.32.ptx")],
    },
    Part {
        functions: &["malloc", "free"],
        texts: [include_str!("library/heap.64.ptx"), include_str!("library/heap.32.ptx")],
    },
];

/// Variables of the runtime that the host reads and writes.
pub mod variables {
    /// Bytes of records that printfs asked room for: u32.
    pub const OUTPUT_USED: &str = "__warpsim_output_used";
    /// Printfs that found none: u32.
    pub const OUTPUT_LOST: &str = "__warpsim_output_lost";
    /// The records: bytes of the record and of its arguments (u32 each), the address of the format
    /// (u64), the arguments at their own alignment.
    pub const OUTPUT: &str = "__warpsim_output";
    /// Whether an assertion failed: u32.
    pub const FAILED: &str = "__warpsim_failed";
    /// Addresses of message, file, function; line; thread and block; each the size of an address.
    pub const FAILURE: &str = "__warpsim_failure";
}

/// The module's text with the parts of the runtime that it declares and does not define.
pub(super) fn link(source: &Source, ast: &Ast<'_>, address_bits: u32) -> Option<Source> {
    let defines = |name: &str| ast.functions.iter().any(|f| f.name == name && f.body.is_some());
    let declares = |name: &str| ast.functions.iter().any(|f| f.name == name && f.body.is_none());
    let needed = |part: &&Part| {
        part.functions.iter().any(|name| declares(name) && !defines(name))
            && !part.functions.iter().any(|name| defines(name))
    };
    let texts: Vec<&str> =
        PARTS.iter().filter(needed).map(|part| code(part.texts[usize::from(address_bits == 32)])).collect();
    (!texts.is_empty()).then(|| source.with_library(&texts.concat()))
}

/// A text without its `.version`, `.target` and `.address_size`, which are the module's.
fn code(text: &'static str) -> &'static str {
    let size = text.find(".address_size").unwrap_or(0);
    text[size..].find('\n').map_or("", |end| &text[size + end..])
}
