//! Lanes: exact execution of data operations over the 32 lanes of a warp. Each operation is a
//! loop that the compiler vectorises; it is compiled once for each instruction set of the host
//! and chosen when the program is loaded. All of them give the same bits.

mod address;
mod approx;
mod bits;
pub mod bodies;
mod compare;
mod convert;
pub mod file;
mod float;
mod formats;
mod int;
mod mixed;
mod mov;
mod narrow;
#[cfg(test)]
mod oracle;
mod packed;
mod policy;
mod video;

use sim_frontend::form::Form;
use sim_frontend::isa::{Root, is_video};
use sim_frontend::program::Op;
use sim_memory::vocabulary::ScalarType;

pub use bodies::LaneFn;
use bodies::{Variants, lane};
pub(crate) use float::{direction, power};

use crate::instruction_set::InstructionSet;

/// The lane function that moves one word or two, whatever their type.
pub fn mov_words(words: u32, isa: InstructionSet) -> Option<LaneFn> {
    mov::words(words).map(|variants| variants[isa as usize])
}

/// The lane function of a form; `None` where it is no data operation that is executed.
pub fn resolve(form: &Form, isa: InstructionSet) -> Option<LaneFn> {
    use Root as R;
    let variants: Option<Variants> = match form.root {
        R::Mov => mov::resolve(form),
        // Nothing that a thread can see: no counters, no dependent grids, registers stay as they are.
        R::Pmevent | R::Griddepcontrol => lane!(|_: &mut file::LaneFile<'_>, _: &Op, _| {}),
        R::Createpolicy => policy::resolve(form),
        R::Cvt if formats::handles(form) => formats::resolve(form),
        R::Cvt if narrow::handles(form) => narrow::resolve(form),
        R::Cvt => convert::resolve(form),
        R::Cvta | R::Isspacep | R::Mapa | R::Getctarank => address::resolve(form),
        _ if is_video(form.root) => video::resolve(form),
        _ if mixed::handles(form) => mixed::resolve(form),
        _ if packed::handles(form) => packed::resolve(form),
        R::Setp | R::Set | R::Selp | R::Slct | R::Testp => compare::resolve(form),
        R::Sin | R::Cos | R::Lg2 | R::Ex2 | R::Rsqrt | R::Tanh => approx::resolve(form),
        R::And
        | R::Or
        | R::Xor
        | R::Not
        | R::Cnot
        | R::Shl
        | R::Shr
        | R::Shf
        | R::Lop3
        | R::Prmt
        | R::Popc
        | R::Clz
        | R::Bfind
        | R::Fns
        | R::Brev
        | R::Bfe
        | R::Bfi
        | R::Szext
        | R::Bmsk => bits::resolve(form),
        _ if matches!(form.ty, ScalarType::F32 | ScalarType::F64) => float::resolve(form),
        _ => int::resolve(form),
    };
    variants.map(|variants| variants[isa as usize])
}

/// What a lane function finds in the immediate of its operation, where a form has so many
/// modifiers that one function serves many forms.
pub fn immediate(form: &Form) -> Option<i64> {
    match form.root {
        Root::Cvt if formats::handles(form) => Some(formats::encode(form)),
        Root::Cvt if narrow::handles(form) => Some(narrow::encode(form)),
        Root::Cvt => Some(convert::encode(form)),
        Root::Createpolicy => Some(policy::encode(form)),
        _ if is_video(form.root) => Some(video::encode(form)),
        _ if mixed::handles(form) => Some(mixed::encode(form)),
        _ if packed::handles(form) => Some(packed::encode(form)),
        Root::Set | Root::Setp => Some(compare::encode(form)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
