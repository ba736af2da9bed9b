//! Resolves the modifiers of an instruction to a [`Form`] by the grammar of its row.

use sim_memory::priority::Priority;
use sim_memory::vocabulary::{AtomicOp, CacheOp, ScalarType, Scope, Semantics, StateSpace};

use super::grammar::{Architectures, Grammar, Group, GroupKind, Legacy, OperandShape, Shape, grammars};
use super::table::{Entry, Root, TABLE, word_target};
use crate::form::{
    Accuracy, BarrierKind, Beyond, BoolOp, BulkWay, CmpOp, CopyStep, FloatTest, Form, Geometry, Half,
    ImageModifiers, ImageQuery, MbarrierStep, MipLevel, Modifiers, PolicyStep, PrmtMode, Reduction, Rounding,
    ShflMode, TensorMode, VideoSecondary, VoteMode, register_bits,
};
use crate::matrix::Matrix;
use crate::tensor_map::MapField;

/// A form with the shapes of its operands.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The form; register widths are those of the types.
    pub form: Form,
    /// Shapes of its operands.
    pub operands: &'static [OperandShape],
    /// It is executed, not only parsed and checked.
    pub executed: bool,
    /// Least target (major * 10 + minor).
    pub min_sm: u32,
    /// What later versions or targets ask for a modifier that says how to round.
    pub legacy: Option<Legacy>,
    /// Only targets with these features have it.
    pub architectures: Option<Architectures>,
    /// Least PTX ISA (major, minor).
    pub version: (u32, u32),
}

/// Every combination of modifiers that an executed form of a row accepts, where each optional
/// group is absent or any of its words: for tests and listings.
pub fn combinations(entry: &Entry) -> Vec<Vec<&'static str>> {
    grammars(entry.root).iter().filter(|grammar| grammar.executed).flat_map(spellings).collect()
}

/// Every combination of modifiers of one form.
pub(super) fn spellings(grammar: &Grammar) -> Vec<Vec<&'static str>> {
    let mut lists: Vec<Vec<&'static str>> = vec![Vec::new()];
    for group in &grammar.groups {
        let mut next = if group.kind == GroupKind::One { Vec::new() } else { lists.clone() };
        for list in &lists {
            next.extend(group.words.iter().map(|word| {
                let mut longer = list.clone();
                longer.push(word);
                longer
            }));
        }
        lists = next;
    }
    lists
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
    let list = grammars(entry.root);
    let mut furthest: (usize, Vec<&'static str>) = (0, Vec::new());
    // The assembler takes modifiers in any order, types in theirs; compilers make use of it
    // (`atom.or.acq_rel.cta.b32`). Where a modifier is part of the name it must follow it.
    let passes: &[Types] = match (papers, entry.root) {
        (true, _) => &[Types::Written, Types::Missing, Types::Other],
        (false, Root::Mul | Root::Mad | Root::Madc | Root::Mul24 | Root::Mad24 | Root::Shf) => &[],
        (false, _) => &[Types::Written],
    };
    let executed = || list.iter().filter(|grammar| grammar.executed);
    let in_order = executed().map(|grammar| (grammar, match_in_order(grammar, modifiers)));
    let any_order = passes.iter().flat_map(|types| {
        executed().map(move |grammar| (grammar, match_any_order(grammar, modifiers, *types)))
    });
    let parsed = || list.iter().filter(|grammar| !grammar.executed);
    let parsed_in_order = parsed().map(|grammar| (grammar, match_in_order(grammar, modifiers)));
    let listed = |grammar: &&Grammar| grammar.groups.iter().all(|group| group.kind != GroupKind::Any);
    let parsed_in_any = passes.iter().flat_map(|types| {
        parsed().filter(listed).map(move |grammar| (grammar, match_any_order(grammar, modifiers, *types)))
    });
    let parsed = parsed_in_order.chain(parsed_in_any);
    for (grammar, matched) in in_order.chain(any_order).chain(parsed) {
        match matched {
            Ok(()) => {
                let form = form(entry, grammar, modifiers);
                // Accesses of 256 bits are younger than the forms that name their elements.
                let wide = matches!(entry.root, Root::Ld | Root::St) && form.is_of_256_bits();
                return Ok(Resolved {
                    form,
                    operands: &grammar.operands,
                    executed: grammar.executed,
                    min_sm: modifiers
                        .iter()
                        .map(|word| word_target(entry.root, word))
                        .fold(entry.min_sm.max(grammar.min_sm), u32::max)
                        .max(if wide { 100 } else { 0 }),
                    legacy: grammar.legacy,
                    architectures: grammar.architectures,
                    version: grammar.version,
                });
            }
            // What is never executed is no advice, where there is better.
            Err(_) if !grammar.executed && entry.executed() => {}
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

/// True for the shape of a matrix, such as `m16n8k16`.
fn matrix_shape(word: &str) -> bool {
    let numbers = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let parts = word.strip_prefix('m').and_then(|rest| rest.split_once('n'));
    parts
        .and_then(|(m, rest)| Some((m, rest.split_once('k')?)))
        .is_some_and(|(m, (n, k))| numbers(m) && numbers(n) && numbers(k))
}

fn match_in_order(grammar: &Grammar, modifiers: &[&str]) -> Result<(), (usize, Vec<&'static str>)> {
    let mut at = 0;
    let mut wanted = Vec::new();
    for group in &grammar.groups {
        let fits =
            |word: &&str| group.words.contains(word) || group.words.contains(&"#shape") && matrix_shape(word);
        if group.kind == GroupKind::Any {
            while modifiers.get(at).is_some_and(fits) {
                at += 1;
            }
            wanted.extend(&group.words);
        } else if modifiers.get(at).is_some_and(fits) {
            at += 1;
            wanted.clear();
        } else {
            wanted.extend(&group.words);
            if group.kind == GroupKind::One {
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
    group.words.iter().any(|word| ScalarType::named(word).is_some_and(|ty| ty.bits() == 32))
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
                && ScalarType::named(word).is_some()
                && grammar.groups[*i].words.iter().all(|w| ScalarType::named(w).is_some())
        };
        let layout = |word: &&str| matches!(*word, "row" | "col");
        // Those of A and B: the first is A's.
        let next_layout = |i: &usize| !used[*i] && grammar.groups[*i].words.iter().all(layout);
        let found = if layout(word) && grammar.groups.iter().any(|group| group.words.iter().all(layout)) {
            (0..grammar.groups.len()).find(next_layout).filter(fits)
        } else {
            (0..grammar.groups.len()).find(fits)
        };
        let found = found.or_else(|| (0..grammar.groups.len()).find(loose));
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
        if group.kind == GroupKind::One && !used && !untyped {
            return Err((modifiers.len(), group.words.clone()));
        }
    }
    Ok(())
}

fn form(entry: &Entry, grammar: &Grammar, modifiers: &[&str]) -> Form {
    let mut mods = Modifiers::plain();
    let mut types = Vec::new();
    // Multicast addresses of one device are ordinary memory: a copy to them is a copy.
    let copies = entry.root == Root::Multimem && modifiers.first() == Some(&"cp");
    let root = if copies { Root::Cp } else { entry.root };
    for word in modifiers {
        match ScalarType::named(word) {
            Some(ty) => types.push(ty),
            None => apply(root, word, &mut mods),
        }
    }
    mods.matrix = Matrix::of(entry.root, modifiers);
    if mods.matrix.is_some() {
        // Types of fragments are no types of registers.
        types.clear();
    }
    if types.is_empty() && matches!(entry.root, Root::Isspacep) {
        types.push(ScalarType::B64);
    }
    // The third type of `cvt.pack` is that of c.
    if mods.pack && types.len() == 3 {
        types.pop();
    }
    // Two source types stand behind that of the result, except where that follows from them.
    match types.as_slice() {
        [_, a, _] => mods.a_type = Some(*a),
        [a, _] if matches!(entry.root, Root::Dp2a | Root::Dp4a) || is_video(entry.root) => {
            mods.a_type = Some(*a)
        }
        _ => {}
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
    // A conversion's type says more than the register that takes it.
    if entry.root != Root::Cvt
        && let Some(OperandShape { shape: Shape::Destination(Some(named)), .. }) = grammar.operands.first()
    {
        dst = *named;
    }
    Form { root, dst, ty, dst_reg: register_bits(dst), src_reg: register_bits(ty), mods }
}

/// The scalar and SIMD video instructions.
pub fn is_video(root: Root) -> bool {
    TABLE[root as usize].is_video()
}

/// What a modifier means on a root.
fn apply(root: Root, word: &str, m: &mut Modifiers) {
    if is_video(root) {
        match word {
            "add" => return m.video.secondary = Some(VideoSecondary::Add),
            "min" => return m.video.secondary = Some(VideoSecondary::Min),
            "max" => return m.video.secondary = Some(VideoSecondary::Max),
            "shr7" => return m.video.scale = 7,
            "shr15" => return m.video.scale = 15,
            "po" => return m.video.plus_one = true,
            _ => {}
        }
    }
    if root == Root::Cp {
        match word {
            "async" => return m.copy = Some(CopyStep::Copy),
            "commit_group" if m.copy == Some(CopyStep::Bulk) => return m.copy = Some(CopyStep::BulkCommit),
            "wait_group" if m.copy == Some(CopyStep::Bulk) => return m.copy = Some(CopyStep::BulkWait),
            "read" => return m.bulk_read = true,
            "1d" | "2d" | "3d" | "4d" | "5d" => return m.tensor = word.as_bytes()[0] - b'0',
            "im2col" | "im2col_no_offs" => return m.tensor_mode = TensorMode::Im2col,
            "im2col::w" => return m.tensor_mode = TensorMode::W,
            "im2col::w::128" => return m.tensor_mode = TensorMode::W128,
            "tile::gather4" | "tile::scatter4" => return m.tensor_mode = TensorMode::Four,
            "cta_group::2" => return m.pair = true,
            "cp_mask" => return m.byte_mask = true,
            "ignore_oob" => return m.ignore_beyond = true,
            "multicast::cluster" => return m.multicast = true,
            "bulk_group" => return m.bulk = Some(BulkWay::Store),
            "prefetch" => return m.bulk = Some(BulkWay::Prefetch),
            // The space that was named last is the source.
            "mbarrier::complete_tx::bytes" => {
                let global = m.space == Some(StateSpace::Global);
                return m.bulk = Some(if global { BulkWay::Load } else { BulkWay::Between });
            }
            "commit_group" => return m.copy = Some(CopyStep::CommitGroup),
            "wait_group" => return m.copy = Some(CopyStep::WaitGroup),
            "wait_all" => return m.copy = Some(CopyStep::WaitAll),
            "arrive" => return m.copy = Some(CopyStep::Arrive),
            "noinc" => return m.no_inc = true,
            "bulk" => return m.copy = Some(CopyStep::Bulk),
            _ => {}
        }
    }
    if root == Root::Fence && word == "tensormap::generic" {
        return m.map_proxy = true;
    }
    if root == Root::Tensormap {
        m.map_field = match word {
            "global_address" => Some(MapField::Address),
            "rank" => Some(MapField::Rank),
            "box_dim" => Some(MapField::Box),
            "global_dim" => Some(MapField::Dim),
            "global_stride" => Some(MapField::Stride),
            "element_stride" => Some(MapField::ElementStride),
            "elemtype" => Some(MapField::Type),
            "interleave_layout" => Some(MapField::Interleave),
            "swizzle_mode" => Some(MapField::Swizzle),
            "swizzle_atomicity" => Some(MapField::Atomicity),
            "fill_mode" => Some(MapField::Fill),
            _ => m.map_field,
        };
    }
    if root == Root::Mbarrier {
        match word {
            "init" => return m.mbarrier = Some(MbarrierStep::Init),
            "inval" => return m.mbarrier = Some(MbarrierStep::Inval),
            "arrive" => return m.mbarrier = Some(MbarrierStep::Arrive),
            "arrive_drop" => return m.mbarrier = Some(MbarrierStep::ArriveDrop),
            "test_wait" => return m.mbarrier = Some(MbarrierStep::TestWait),
            "try_wait" => return m.mbarrier = Some(MbarrierStep::TryWait),
            "pending_count" => return m.mbarrier = Some(MbarrierStep::PendingCount),
            "complete_tx" => return m.mbarrier = Some(MbarrierStep::CompleteTx),
            // Beside an arrival, or by itself.
            "expect_tx" if m.mbarrier.is_some() => return m.mbarrier_options.expect_tx = true,
            "expect_tx" => return m.mbarrier = Some(MbarrierStep::ExpectTx),
            "noComplete" => return m.mbarrier_options.no_complete = true,
            "parity" => return m.mbarrier_options.parity = true,
            _ => {}
        }
    }
    if root == Root::Barrier && m.scope == Some(Scope::Cluster) {
        match word {
            "arrive" => return m.cluster_wait = Some(false),
            "wait" => return m.cluster_wait = Some(true),
            _ => {}
        }
    }
    if image(root, word, &mut m.image) {
        return;
    }
    if word == "async" && matches!(root, Root::St | Root::Red) {
        return m.copy = Some(CopyStep::Store);
    }
    if matches!(root, Root::Createpolicy | Root::Ld | Root::St) {
        let priority = match word {
            "L2::evict_first" => Some(Priority::First),
            "L2::evict_last" => Some(Priority::Last),
            "L2::evict_normal" => Some(Priority::Normal),
            "L2::evict_unchanged" => Some(Priority::Unchanged),
            _ => None,
        };
        if priority.is_some() {
            let place = if m.l2_priority.is_none() { &mut m.l2_priority } else { &mut m.other_priority };
            return *place = priority;
        }
    }
    if root == Root::Createpolicy {
        match word {
            "fractional" => return m.policy = Some(PolicyStep::Fractional),
            "range" => return m.policy = Some(PolicyStep::Range),
            "cvt" => return m.policy = Some(PolicyStep::Convert),
            _ => {}
        }
    }
    let memory = matches!(
        root,
        Root::Ld | Root::St | Root::Atom | Root::Red | Root::Cp | Root::Prefetch | Root::Sured
    );
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
        "relu" => m.relu = true,
        "satfinite" => m.satfinite = true,
        "NaN" => m.propagate_nan = true,
        "abs" => m.abs = true,
        "xorsign" => m.xorsign_abs = true,
        "pack" => m.pack = true,
        "u4" => m.narrow = Some((4, false)),
        "s4" => m.narrow = Some((4, true)),
        "u2" => m.narrow = Some((2, false)),
        "s2" => m.narrow = Some((2, true)),
        "L2::cache_hint" => m.cache_hint = true,
        "L2::64B" | "L2::128B" | "L2::256B" => m.level_hint = true,
        "L1::no_allocate" => (m.level_hint, m.no_allocate) = (true, true),
        _ if word.starts_with("L1::") => m.level_hint = true,
        "rna" => m.rounding = Some(Rounding::Rna),
        "rs" => m.rounding = Some(Rounding::Rs),
        "scaled::n2::ue8m0" => m.scaled = true,
        "finite" => m.test = Some(FloatTest::Finite),
        "infinite" => m.test = Some(FloatTest::Infinite),
        "number" => m.test = Some(FloatTest::Number),
        "notanumber" => m.test = Some(FloatTest::NotANumber),
        "normal" => m.test = Some(FloatTest::Normal),
        "subnormal" => m.test = Some(FloatTest::Subnormal),
        "wrap" => m.wrap = true,
        "l" => m.left = true,
        "shiftamt" => m.shiftamt = true,
        "v2" => m.vector = 2,
        "v4" => m.vector = 4,
        "v8" => m.vector = 8,
        "oob" => m.out_of_bounds = true,
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
        "shared::cluster" => (m.space, m.shared_cluster) = (Some(StateSpace::Shared), true),
        "shared" | "shared::cta" => m.space = Some(StateSpace::Shared),
        "param" | "param::entry" | "param::func" => m.space = Some(StateSpace::Param),
        // Which level a hint is about.
        "L1" => m.cache = Some(CacheOp::Ca),
        "L2" => m.cache = Some(CacheOp::Cg),
        // `prefetch` and `applypriority`.
        "L2::evict_last" => (m.cache, m.l2_priority) = (Some(CacheOp::Cg), Some(Priority::Last)),
        "L2::evict_normal" => (m.cache, m.l2_priority) = (Some(CacheOp::Cg), Some(Priority::Normal)),
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

/// What a modifier means on a texture or surface instruction; false if it is none of those.
fn image(root: Root, word: &str, m: &mut ImageModifiers) -> bool {
    use ImageQuery as Q;
    if !matches!(
        root,
        Root::Tex
            | Root::Tld4
            | Root::Txq
            | Root::Istypep
            | Root::Suld
            | Root::Sust
            | Root::Sured
            | Root::Suq
    ) {
        return false;
    }
    match word {
        "1d" => m.geometry = Some(Geometry::One),
        "2d" => m.geometry = Some(Geometry::Two),
        "3d" => m.geometry = Some(Geometry::Three),
        "a1d" => m.geometry = Some(Geometry::OneArray),
        "a2d" => m.geometry = Some(Geometry::TwoArray),
        "2dms" => (m.geometry, m.samples) = (Some(Geometry::Two), true),
        "a2dms" => (m.geometry, m.samples) = (Some(Geometry::TwoArray), true),
        "cube" => m.geometry = Some(Geometry::Cube),
        "acube" => m.geometry = Some(Geometry::CubeArray),
        "base" => m.level = MipLevel::Base,
        "level" => m.level = MipLevel::Detail,
        "grad" => m.level = MipLevel::Gradient,
        "r" | "g" | "a" if root == Root::Tld4 => {
            m.component = u8::from(word == "g") + 3 * u8::from(word == "a")
        }
        "b" if root == Root::Tld4 => m.component = 2,
        "b" => m.formatted = false,
        "p" => m.formatted = true,
        "trap" => m.beyond = Some(Beyond::Trap),
        "clamp" => m.beyond = Some(Beyond::Clamp),
        "zero" => m.beyond = Some(Beyond::Zero),
        "width" => m.query = Some(Q::Width),
        "height" => m.query = Some(Q::Height),
        "depth" => m.query = Some(Q::Depth),
        "channel_data_type" => m.query = Some(Q::ChannelDataType),
        "channel_order" => m.query = Some(Q::ChannelOrder),
        "normalized_coords" => m.query = Some(Q::NormalizedCoords),
        "force_unnormalized_coords" => m.query = Some(Q::ForceUnnormalizedCoords),
        "filter_mode" => m.query = Some(Q::FilterMode),
        "addr_mode_0" => m.query = Some(Q::AddrMode(0)),
        "addr_mode_1" => m.query = Some(Q::AddrMode(1)),
        "addr_mode_2" => m.query = Some(Q::AddrMode(2)),
        "array_size" => m.query = Some(Q::ArraySize),
        "num_mipmap_levels" => m.query = Some(Q::NumMipmapLevels),
        "num_samples" => m.query = Some(Q::NumSamples),
        "memory_layout" => m.query = Some(Q::MemoryLayout),
        "texref" => m.query = Some(Q::IsTexture),
        "samplerref" => m.query = Some(Q::IsSampler),
        "surfref" => m.query = Some(Q::IsSurface),
        _ => return false,
    }
    true
}
