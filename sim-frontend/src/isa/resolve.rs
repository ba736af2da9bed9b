//! Resolves the modifiers of an instruction to a [`Form`] by the grammar of its row.

use std::collections::HashMap;
use std::sync::OnceLock;

use sim_memory::vocabulary::{AtomicOp, CacheOp, ScalarType, Scope, Semantics, StateSpace};

use super::{Entry, Root, TABLE};
use crate::form::{
    Accuracy, BarrierKind, BoolOp, CmpOp, Form, Half, Modifiers, PrmtMode, Reduction, Rounding, ShflMode,
    VoteMode,
};
use crate::ptx::parser::scalar_type;

/// What may stand in a place of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A destination register; its type where it is not the form's.
    Destination(Option<ScalarType>),
    /// A predicate destination.
    PredicateDestination,
    /// A register or constant; its type where it is not the form's. The Boolean says that it has
    /// the type of the result.
    Source(Option<ScalarType>, bool),
    /// A predicate.
    Predicate,
    /// `[…]`.
    Address,
    /// A register, constant or vector.
    Vector,
    /// A label or symbol.
    Label,
    /// Anything, any number of times.
    Anything,
}

/// One operand of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandShape {
    /// What stands here.
    pub shape: Shape,
    /// A second, predicate destination may follow after `|`.
    pub pair: bool,
    /// It may be left out.
    pub optional: bool,
}

#[derive(Clone, Debug)]
struct Group {
    required: bool,
    words: Vec<&'static str>,
}

#[derive(Clone, Debug)]
struct Grammar {
    groups: Vec<Group>,
    operands: Vec<OperandShape>,
}

/// A form with the shapes of its operands.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The form; register widths are those of the types.
    pub form: Form,
    /// Its operands.
    pub operands: &'static [OperandShape],
}

fn grammars() -> &'static HashMap<Root, Vec<Grammar>> {
    static GRAMMARS: OnceLock<HashMap<Root, Vec<Grammar>>> = OnceLock::new();
    GRAMMARS.get_or_init(|| {
        TABLE
            .iter()
            .map(|entry| (entry.root, entry.forms.iter().map(|form| grammar(form)).collect()))
            .collect()
    })
}

/// Parses a row's form. The rows are constants; a test reads them all.
fn grammar(text: &'static str) -> Grammar {
    let (modifiers, operands) = text.split_once("->").unwrap_or((text, ""));
    let mut groups = Vec::new();
    let mut rest = modifiers.trim();
    while let Some(open) = rest.chars().next() {
        let close = if open == '{' { '}' } else { ']' };
        let end = rest.find(close).unwrap_or(rest.len() - 1);
        groups.push(Group { required: open == '{', words: rest[1..end].split(' ').collect() });
        rest = rest[end + 1..].trim_start();
    }
    let operands = operands
        .split_whitespace()
        .map(|word| {
            let optional = word.starts_with('(');
            let word = word.trim_matches(['(', ')']);
            let (word, pair) = word.strip_suffix("|q").map_or((word, false), |w| (w, true));
            let (kind, ty) = word.split_once(':').map_or((word, None), |(k, t)| (k, Some(t)));
            let dst = ty == Some("dst");
            let ty = ty.and_then(scalar_type);
            let shape = match kind {
                "d" => Shape::Destination(ty),
                "q" => Shape::PredicateDestination,
                "p" => Shape::Predicate,
                "m" => Shape::Address,
                "v" => Shape::Vector,
                "L" => Shape::Label,
                "*" => Shape::Anything,
                _ => Shape::Source(ty, dst),
            };
            OperandShape { shape, pair, optional }
        })
        .collect();
    Grammar { groups, operands }
}

/// Every combination of modifiers a row accepts where each optional group is absent or any of
/// its words: for tests and listings.
pub fn combinations(entry: &Entry) -> Vec<Vec<&'static str>> {
    let mut out = Vec::new();
    for grammar in &grammars()[&entry.root] {
        let mut lists: Vec<Vec<&'static str>> = vec![Vec::new()];
        for group in &grammar.groups {
            let mut next = if group.required { Vec::new() } else { lists.clone() };
            for list in &lists {
                next.extend(group.words.iter().map(|word| {
                    let mut longer = list.clone();
                    longer.push(word);
                    longer
                }));
            }
            lists = next;
        }
        out.extend(lists);
    }
    out
}

/// Resolves modifiers to a form.
///
/// # Errors
/// The position of the first modifier that no form accepts there, or `None` where one is
/// missing, with what would be accepted.
pub fn resolve(
    entry: &'static Entry,
    modifiers: &[&str],
    papers: bool,
) -> Result<Resolved, (Option<usize>, String)> {
    let list = &grammars()[&entry.root];
    let mut furthest: (usize, Vec<&'static str>) = (0, Vec::new());
    // Compilers also write `atom.or.acq_rel.cta.b32`.
    let passes: &[Types] = match (papers, entry.root) {
        (true, _) => &[Types::Written, Types::Missing, Types::Other],
        (false, Root::Atom | Root::Red) => &[Types::Written],
        _ => &[],
    };
    let in_order = list.iter().map(|grammar| (grammar, match_in_order(grammar, modifiers)));
    let any_order = passes.iter().flat_map(|types| {
        list.iter().map(move |grammar| (grammar, match_any_order(grammar, modifiers, *types)))
    });
    for (grammar, matched) in in_order.chain(any_order) {
        match matched {
            Ok(()) => {
                return Ok(Resolved { form: form(entry, grammar, modifiers), operands: &grammar.operands });
            }
            Err((at, wanted)) if at > furthest.0 || furthest.1.is_empty() => furthest = (at, wanted),
            Err((at, wanted)) if at == furthest.0 => furthest.1.extend(wanted),
            Err(_) => {}
        }
    }
    let (at, mut wanted) = furthest;
    wanted.sort_unstable();
    wanted.dedup();
    let wanted: Vec<String> = wanted.iter().map(|word| format!(".{word}")).collect();
    Err(((at < modifiers.len()).then_some(at), wanted.join(", ")))
}

fn match_in_order(grammar: &Grammar, modifiers: &[&str]) -> Result<(), (usize, Vec<&'static str>)> {
    let mut at = 0;
    let mut wanted = Vec::new();
    for group in &grammar.groups {
        if modifiers.get(at).is_some_and(|word| group.words.contains(word)) {
            at += 1;
            wanted.clear();
        } else {
            wanted.extend(&group.words);
            if group.required {
                return Err((at, wanted));
            }
        }
    }
    if at == modifiers.len() { Ok(()) } else { Err((at, wanted)) }
}

/// How closely types must be those of a form, where the order of modifiers is free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Types {
    /// As the form has them.
    Written,
    /// The papers leave them out: 32-bit ones are meant.
    Missing,
    /// The papers do not care which types an operation has.
    Other,
}

/// True for a group of types with a 32-bit one among them.
fn has_word_type(group: &Group) -> bool {
    group.words.iter().any(|word| scalar_type(word).is_some_and(|ty| ty.bits() == 32))
}

/// Modifiers in any order.
fn match_any_order(
    grammar: &Grammar,
    modifiers: &[&str],
    types: Types,
) -> Result<(), (usize, Vec<&'static str>)> {
    let mut used = vec![false; grammar.groups.len()];
    for (at, word) in modifiers.iter().enumerate() {
        let fits = |i: &usize| !used[*i] && grammar.groups[*i].words.contains(word);
        let loose = |i: &usize| {
            types == Types::Other
                && !used[*i]
                && scalar_type(word).is_some()
                && grammar.groups[*i].words.iter().all(|w| scalar_type(w).is_some())
        };
        let found = (0..grammar.groups.len()).find(fits).or_else(|| (0..grammar.groups.len()).find(loose));
        match found {
            Some(i) => used[i] = true,
            None => {
                let open = grammar.groups.iter().zip(&used).filter(|(_, used)| !**used);
                return Err((at, open.flat_map(|(g, _)| g.words.clone()).collect()));
            }
        }
    }
    for (group, used) in grammar.groups.iter().zip(used) {
        let untyped = types != Types::Written && (has_word_type(group) || group.words.contains(&"lo"));
        if group.required && !used && !untyped {
            return Err((modifiers.len(), group.words.clone()));
        }
    }
    Ok(())
}

/// Bits of the register that holds a value of a type.
pub fn register_bits(ty: ScalarType) -> u8 {
    match ty.bits() {
        0..=16 => 16,
        17..=32 => 32,
        _ => 64,
    }
}

fn form(entry: &Entry, grammar: &Grammar, modifiers: &[&str]) -> Form {
    let mut mods = Modifiers { vector: 1, ..Modifiers::default() };
    let mut types = Vec::new();
    for word in modifiers {
        match scalar_type(word) {
            Some(ty) => types.push(ty),
            None => apply(entry.root, word, &mut mods),
        }
    }
    if types.is_empty() && matches!(entry.root, Root::Isspacep) {
        types.push(ScalarType::B64);
    }
    let ty = types.last().copied().unwrap_or(ScalarType::B32);
    let mut dst = types.first().copied().unwrap_or(ScalarType::B32);
    if types.is_empty() && matches!(entry.root, Root::Mul | Root::Mad) && mods.half.is_none() {
        mods.half = Some(Half::Lo);
    }
    if mods.half == Some(Half::Wide) {
        dst = match ty {
            ScalarType::U16 => ScalarType::U32,
            ScalarType::S16 => ScalarType::S32,
            ScalarType::U32 => ScalarType::U64,
            _ => ScalarType::S64,
        };
    }
    if let Some(OperandShape { shape: Shape::Destination(Some(named)), .. }) = grammar.operands.first() {
        dst = *named;
    }
    Form { root: entry.root, dst, ty, dst_reg: register_bits(dst), src_reg: register_bits(ty), mods }
}

/// What a modifier means on a root.
fn apply(root: Root, word: &str, m: &mut Modifiers) {
    let memory = matches!(root, Root::Ld | Root::St | Root::Atom | Root::Red | Root::Prefetch);
    match word {
        "rn" => m.rounding = Some(Rounding::Rn),
        "rz" => m.rounding = Some(Rounding::Rz),
        "rm" => m.rounding = Some(Rounding::Rm),
        "rp" => m.rounding = Some(Rounding::Rp),
        "rni" => m.rounding = Some(Rounding::Rni),
        "rzi" => m.rounding = Some(Rounding::Rzi),
        "rmi" => m.rounding = Some(Rounding::Rmi),
        "rpi" => m.rounding = Some(Rounding::Rpi),
        "ftz" => m.ftz = true,
        "sat" => m.sat = true,
        "approx" => m.accuracy = Some(Accuracy::Approx),
        "full" => m.accuracy = Some(Accuracy::Full),
        "cc" => m.cc = true,
        "uni" if root == Root::Vote => m.vote = Some(VoteMode::Uni),
        "uni" => m.uni = true,
        "sync" if matches!(root, Root::Bar | Root::Barrier) => {
            if m.barrier.is_none() {
                m.barrier = Some(BarrierKind::Sync);
            }
        }
        "sync" => m.sync = true,
        "warp" => m.barrier = Some(BarrierKind::WarpSync),
        "arrive" => m.barrier = Some(BarrierKind::Arrive),
        "red" => m.barrier = Some(BarrierKind::Red),
        "wrap" => m.wrap = true,
        "l" => m.left = true,
        "shiftamt" => m.shiftamt = true,
        "v2" => m.vector = 2,
        "v4" => m.vector = 4,
        "to" => m.to = true,
        "nc" => m.non_coherent = true,
        "lo" if matches!(root, Root::Setp | Root::Set) => m.cmp = Some(CmpOp::Lo),
        "hi" if matches!(root, Root::Setp | Root::Set) => m.cmp = Some(CmpOp::Hi),
        "lo" => m.half = Some(Half::Lo),
        "hi" => m.half = Some(Half::Hi),
        "wide" => m.half = Some(Half::Wide),
        "const" => m.space = Some(StateSpace::Const),
        "global" => m.space = Some(StateSpace::Global),
        "local" => m.space = Some(StateSpace::Local),
        "shared" | "shared::cta" => m.space = Some(StateSpace::Shared),
        "param" => m.space = Some(StateSpace::Param),
        // Which level a hint is about.
        "L1" => m.cache = Some(CacheOp::Ca),
        "L2" | "L2::evict_last" | "L2::evict_normal" => m.cache = Some(CacheOp::Cg),
        "ca" => m.cache = Some(CacheOp::Ca),
        "cg" => m.cache = Some(CacheOp::Cg),
        "cs" => m.cache = Some(CacheOp::Cs),
        "lu" => m.cache = Some(CacheOp::Lu),
        "cv" => m.cache = Some(CacheOp::Cv),
        "wb" => m.cache = Some(CacheOp::Wb),
        "wt" => m.cache = Some(CacheOp::Wt),
        "weak" => m.semantics = Semantics::Weak,
        "volatile" => m.semantics = Semantics::Volatile,
        "relaxed" => m.semantics = Semantics::Relaxed,
        "acquire" => m.semantics = Semantics::Acquire,
        "release" => m.semantics = Semantics::Release,
        "acq_rel" => m.semantics = Semantics::AcqRel,
        "sc" => m.semantics = Semantics::Sc,
        "cta" if !matches!(root, Root::Bar | Root::Barrier) => m.scope = Some(Scope::Cta),
        "cluster" => m.scope = Some(Scope::Cluster),
        "gpu" | "gl" => m.scope = Some(Scope::Gpu),
        "sys" => m.scope = Some(Scope::Sys),
        "and" | "or" | "xor" if memory => {
            m.atomic = Some(match word {
                "and" => AtomicOp::And,
                "or" => AtomicOp::Or,
                _ => AtomicOp::Xor,
            });
        }
        "and" | "or" | "xor" if matches!(root, Root::Bar | Root::Barrier | Root::Redux) => {
            m.reduction = Some(match word {
                "and" => Reduction::And,
                "or" => Reduction::Or,
                _ => Reduction::Xor,
            });
        }
        "and" => m.bool_op = Some(BoolOp::And),
        "or" => m.bool_op = Some(BoolOp::Or),
        "xor" => m.bool_op = Some(BoolOp::Xor),
        "popc" => m.reduction = Some(Reduction::Popc),
        "exch" => m.atomic = Some(AtomicOp::Exch),
        "cas" => m.atomic = Some(AtomicOp::Cas),
        "inc" => m.atomic = Some(AtomicOp::Inc),
        "dec" => m.atomic = Some(AtomicOp::Dec),
        "add" | "min" | "max" if root == Root::Redux => {
            m.reduction = Some(match word {
                "add" => Reduction::Add,
                "min" => Reduction::Min,
                _ => Reduction::Max,
            });
        }
        "add" => m.atomic = Some(AtomicOp::Add),
        "min" => m.atomic = Some(AtomicOp::Min),
        "max" => m.atomic = Some(AtomicOp::Max),
        "all" if root == Root::Match => m.match_all = true,
        "all" => m.vote = Some(VoteMode::All),
        "any" if root == Root::Vote => m.vote = Some(VoteMode::Any),
        "ballot" => m.vote = Some(VoteMode::Ballot),
        "up" => m.shfl = Some(ShflMode::Up),
        "down" => m.shfl = Some(ShflMode::Down),
        "bfly" => m.shfl = Some(ShflMode::Bfly),
        "idx" if root == Root::Shfl => m.shfl = Some(ShflMode::Idx),
        "f4e" => m.prmt = Some(PrmtMode::F4e),
        "b4e" => m.prmt = Some(PrmtMode::B4e),
        "rc8" => m.prmt = Some(PrmtMode::Rc8),
        "ecl" => m.prmt = Some(PrmtMode::Ecl),
        "ecr" => m.prmt = Some(PrmtMode::Ecr),
        "rc16" => m.prmt = Some(PrmtMode::Rc16),
        _ => {
            const COMPARISONS: [(&str, CmpOp); 16] = [
                ("eq", CmpOp::Eq),
                ("ne", CmpOp::Ne),
                ("lt", CmpOp::Lt),
                ("le", CmpOp::Le),
                ("gt", CmpOp::Gt),
                ("ge", CmpOp::Ge),
                ("ls", CmpOp::Ls),
                ("hs", CmpOp::Hs),
                ("equ", CmpOp::Equ),
                ("neu", CmpOp::Neu),
                ("ltu", CmpOp::Ltu),
                ("leu", CmpOp::Leu),
                ("gtu", CmpOp::Gtu),
                ("geu", CmpOp::Geu),
                ("num", CmpOp::Num),
                ("nan", CmpOp::Nan),
            ];
            if let Some((_, cmp)) = COMPARISONS.iter().find(|(name, _)| *name == word) {
                m.cmp = Some(*cmp);
            }
        }
    }
}
