//! The device runtime: functions that compilers declare and leave to whoever links the program
//! (`vprintf`, `__assertfail`, `malloc`, `free`, `cudaGraphSetConditional`). They are PTX made of our own sources, which stands
//! behind the text of a module that needs it, so that they run, and cost, like any other code.

use crate::diagnostic::Source;
use crate::ptx::ast::Module as Ast;

/// A part of the runtime.
struct Part {
    functions: &'static [&'static str],
    /// With addresses of 64 and of 32 bits.
    texts: [&'static str; 2],
}

const PARTS: [Part; 3] = [
    Part {
        functions: &["vprintf", "__assertfail"],
        texts: [include_str!("library/output.64.ptx"), include_str!("library/output.32.ptx")],
    },
    Part {
        functions: &["malloc", "free"],
        texts: [include_str!("library/heap.64.ptx"), include_str!("library/heap.32.ptx")],
    },
    Part {
        functions: &["cudaGraphSetConditional"],
        texts: [include_str!("library/graph.64.ptx"), include_str!("library/graph.32.ptx")],
    },
];

/// Variables of the runtime that the host reads and writes.
pub mod variables {
    /// Begins the names of all of them.
    pub const PREFIX: &str = "__warpsim_";
    /// Bytes of records that printfs asked room for: u64.
    pub const OUTPUT_USED: &str = "__warpsim_output_used";
    /// Printfs that found none: u64.
    pub const OUTPUT_LOST: &str = "__warpsim_output_lost";
    /// The records: bytes of the record and of its arguments (u32 each), the address of the format
    /// (u64), the arguments at their own alignment.
    pub const OUTPUT: &str = "__warpsim_output";
    /// No variable: its address is the bytes of [`OUTPUT`].
    pub const OUTPUT_BYTES: &str = "__warpsim_output_bytes";
    /// Threads whose assertion failed: u64.
    pub const FAILED: &str = "__warpsim_failed";
    /// Of each of the first [`FAILURES_KEPT`] of them: addresses of message, file, function; line; thread and block; each
    /// the size of an address. The message is written last; without it an entry is not complete.
    pub const FAILURES: &str = "__warpsim_failures";
    /// Words of an entry of [`FAILURES`].
    pub const FAILURE_WORDS: usize = 10;
    /// Entries of [`FAILURES`].
    pub const FAILURES_KEPT: u64 = 64;
    /// The heap of `malloc`, in units of [`HEAP_UNIT`] bytes. A piece has a unit for its header, whose first word is
    /// [`HEAP_MARK`] with the size class in its low bits while the piece is allocated, then its bytes.
    pub const HEAP: &str = "__warpsim_heap";
    /// No variable: its address is the bytes of [`HEAP`].
    pub const HEAP_BYTES: &str = "__warpsim_heap_bytes";
    /// Units of the heap that were ever given out: u64.
    pub const HEAP_USED: &str = "__warpsim_heap_used";
    /// For each size class and lane: the unit of the first free piece, plus one, in the low half of a u64; the next
    /// one is the second word of its header.
    pub const HEAP_FREE: &str = "__warpsim_heap_free";
    /// Bytes of a unit.
    pub const HEAP_UNIT: u64 = 16;
    /// Size classes: pieces are of 2 to the power of their class units.
    pub const HEAP_CLASSES: u32 = 28;
    /// Marks the header of an allocated piece.
    pub const HEAP_MARK: u32 = 0x7761_0000;
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
