use super::*;
use crate::form::{CmpOp, Half};
use sim_memory::vocabulary::ScalarType;

fn form(text: &str) -> crate::form::Form {
    let mut words = text.split('.');
    let entry = entry(words.next().unwrap_or("")).unwrap_or_else(|| panic!("{text}"));
    let modifiers: Vec<&str> = words.collect();
    resolve(entry, &modifiers, false).unwrap_or_else(|e| panic!("{text}: {e:?}")).form
}

#[test]
fn the_table_is_in_the_order_of_its_roots_and_names_are_unique() {
    for (i, row) in TABLE.iter().enumerate() {
        assert_eq!(row.root as usize, i);
        assert_eq!(entry(row.name).map(|e| e.root), Some(row.root), "{} stands twice", row.name);
        assert!(row.doc.ends_with('.'), "{}", row.name);
    }
}

#[test]
fn every_combination_of_every_row_resolves_to_its_own_form() {
    let mut count = 0;
    for row in TABLE.iter().filter(|row| row.executed()) {
        for modifiers in combinations(row) {
            let resolved = resolve(row, &modifiers, false);
            assert!(resolved.is_ok(), "{} {modifiers:?}", row.name);
            count += 1;
        }
    }
    assert!(count > 3000, "{count}");
}

#[test]
fn forms_that_compilers_emit() {
    let wide = form("mul.wide.s32");
    assert_eq!((wide.dst, wide.ty, wide.mods.half), (ScalarType::S64, ScalarType::S32, Some(Half::Wide)));
    let cvt = form("cvt.rzi.s32.f32");
    assert_eq!((cvt.dst, cvt.ty), (ScalarType::S32, ScalarType::F32));
    assert_eq!(form("setp.lo.u32").mods.cmp, Some(CmpOp::Lo));
    for text in [
        "ld.global.nc.v4.f32",
        "ld.volatile.shared.u32",
        "ld.acquire.gpu.u32",
        "ld.param.u64",
        "atom.global.add.u32",
        "atom.or.acq_rel.cta.b32",
        "add.cc.u32",
        "madc.hi.cc.u32",
        "bar.red.or.pred",
        "barrier.sync",
        "vote.sync.ballot.b32",
        "vote.ballot.sync.b32",
        "shfl.sync.bfly.b32",
        "cvta.to.global.u64",
        "cvta.shared.u64",
        "prmt.b32",
        "div.approx.ftz.f32",
        "red.and.release.cta.b32",
        "membar.gl",
        "bra.uni",
        "bfind.shiftamt.u32",
        "call.uni",
        "set.lt.ftz.u32.f32",
        "cvt.sat.f32.f32",
        "cvt.rn.f16.f32",
        "redux.sync.add.s32",
        "bar.warp.sync",
        "fma.rm.f32",
    ] {
        form(text);
    }
}

#[test]
fn wrong_modifiers_are_named() {
    let row = entry("add").expect("add");
    assert_eq!(resolve(row, &["q32"], false).map(|_| ()).expect_err("no type").0, Some(0));
    let (at, wanted) = resolve(row, &["rn"], false).map(|_| ()).expect_err("no type");
    assert_eq!(at, None);
    assert!(wanted.contains(".f32") && wanted.contains(".ftz"), "{wanted}");
}

#[test]
fn the_papers_order_does_not_matter() {
    let row = entry("setp").expect("setp");
    assert_eq!(resolve(row, &["u32", "eq"], true).map(|r| r.form.ty), Ok(ScalarType::U32));
    assert_eq!(resolve(row, &["eq"], true).map(|r| r.form.ty), Ok(ScalarType::B32));
    // The assembler takes modifiers in any order; only the papers leave types out.
    assert_eq!(resolve(row, &["u32", "eq"], false).map(|r| r.form.ty), Ok(ScalarType::U32));
    assert!(resolve(row, &["eq"], false).is_err());
}
