//! Transformation 4: memory operations carry the size of their access (CS §5.1.3 step 4)
//! [tf-4]: bytes and elements, how a loaded value fills its register, cache operator,
//! semantics and scope.

use sim_memory::priority::Policy;
use sim_memory::vocabulary::{CacheOp, Scope, Semantics, StateSpace};

use crate::form::Form;
use crate::isa::Root;
use crate::program::MemoryOp;

/// The facts of a load, store, atomic or reduction.
pub fn facts(form: &Form, space: StateSpace, reg_bits: u8, address_64: bool) -> MemoryOp {
    let load = form.root == Root::Ld;
    // What takes no line of L1 goes past it.
    let cache = form.mods.cache.unwrap_or(match load {
        true if form.mods.no_allocate => CacheOp::Cg,
        true => CacheOp::Ca,
        false => CacheOp::Wb,
    });
    let strong = form.mods.semantics != Semantics::Weak;
    MemoryOp {
        space,
        cache,
        semantics: form.mods.semantics,
        scope: form.mods.scope.unwrap_or(if strong { Scope::Sys } else { Scope::Cta }),
        element_bytes: form.ty.bytes() as u8,
        vector: form.mods.vector.max(1),
        signed: form.ty.is_signed(),
        reg_bits,
        address_64,
        scale: 0,
        alignment: (form.ty.bytes() * u32::from(form.mods.vector.max(1))).next_power_of_two() as u8,
        atomic: form.mods.atomic.map(|op| (op, form.ty)),
        hint: None,
        policy: form.mods.l2_priority.map_or(Policy::None, Policy::Fixed),
        cluster: form.mods.shared_cluster || space == StateSpace::Generic,
        of_warp: false,
        combined: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{entry, resolve};

    #[test]
    fn tf_4_sizes_come_from_types() {
        let of = |text: &str| {
            let mut words = text.split('.');
            let row = words.next().and_then(entry).expect("a root");
            let form = resolve(row, &words.collect::<Vec<_>>(), false).expect("a form").form;
            facts(&form, StateSpace::Global, 32, true)
        };
        let v = of("ld.global.v4.u16");
        assert_eq!((v.element_bytes, v.vector, v.signed, v.cache), (2, 4, false, CacheOp::Ca));
        assert!(of("ld.global.s8").signed);
        assert_eq!(of("st.global.f64").cache, CacheOp::Wb);
        assert_eq!(of("ld.volatile.global.u32").semantics, Semantics::Volatile);
        assert!(of("atom.global.add.u32").atomic.is_some());
    }
}
