//! Integers of 64 bits of which only the low word is read. NVIDIA's assembler works on words: the upper one goes where nobody reads
//! it, and its register with it. So it is with addresses of shared, local and constant memory, of which it reads the low
//! word (LDS, LDL and LDC have registers of 32 bits for them), and with what `cvt` cuts. What an operation gives in its low word depends on the low words of its
//! operands alone, but for a shift to the right by 32 or more, which is one of the upper word of a product.

use super::ir::{Func, Inst, Operand, PredOperand, Reg, Width};
use super::liveness::Lists;
use super::select::low;
use super::tf4_access_sizes;
use super::work::count;
use crate::form::{Form, Half};
use crate::isa::Root;
use crate::program::{Extra, OpClass, Text};
use sim_memory::vocabulary::{ScalarType, StateSpace};

/// Makes values narrow; returns how many instructions give 32 bits instead of 64.
pub fn narrow(func: &mut Func) -> u32 {
    if func.injected_by_hand || !func.regs.contains(&Width::Pair) {
        return 0;
    }
    // Whatever else reads the register.
    for inst in func.blocks.iter_mut().flat_map(|block| &mut block.insts) {
        if is_word_access(inst)
            && let Extra::Memory(facts) = &mut inst.extra
        {
            (facts.address_64, inst.opcode) = (false, None);
        }
    }
    let upper = high_words(func);
    let wide = wide(func);
    let cut = |reg: Reg| func.regs[reg as usize] == Width::Pair && !wide[reg as usize];
    let is_cut: Vec<bool> = (0..func.regs.len() as Reg).map(cut).collect();
    if !is_cut.contains(&true) {
        return upper;
    }
    let of = |operand: &Operand| matches!(operand, Operand::Reg(reg) if is_cut[*reg as usize]);
    let params = parameters(func);
    let mut made = upper;
    for inst in func.blocks.iter_mut().flat_map(|block| block.all_mut()) {
        count(1);
        if of(&inst.dst[0]) {
            made += u32::from(give_word(inst, params));
        } else if reads_low_word(inst, 0) && of(&inst.src[0]) {
            take_word(inst);
        }
    }
    for (width, cut) in func.regs.iter_mut().zip(is_cut) {
        if cut {
            *width = Width::Word;
        }
    }
    made
}

/// By register: its upper word is read, or written by what gives no low word alone.
fn wide(func: &Func) -> Vec<bool> {
    let pair = |operand: &Operand| match operand {
        Operand::Reg(reg) if func.regs[*reg as usize] == Width::Pair => Some(*reg),
        _ => None,
    };
    let mut wide = vec![false; func.regs.len()];
    let mut open: Vec<Reg> = func.fixed().into_iter().flatten().collect();
    // From the register that an operation gives to those whose low words it takes for that.
    let mut takes: Vec<(u32, u32)> = Vec::new();
    for inst in func.blocks.iter().flat_map(|block| block.all()) {
        count(1);
        let word = word(inst, parameters(func));
        for operand in inst.destinations() {
            open.extend(pair(operand).filter(|_| word.is_none()));
        }
        for (slot, operand) in inst.sources().enumerate() {
            let Some(reg) = pair(operand) else { continue };
            if reads_low_word(inst, slot) {
                continue;
            }
            match pair(&inst.dst[0]).filter(|_| word.is_some()) {
                Some(gives) => takes.push((gives, reg)),
                None => open.push(reg),
            }
        }
    }
    let takes = Lists::new(func.regs.len(), &takes);
    while let Some(reg) = open.pop() {
        count(1);
        if !std::mem::replace(&mut wide[reg as usize], true) {
            open.extend(takes.of(reg as usize));
        }
    }
    wide
}

/// Bytes of the parameters that a function loads from constant memory.
fn parameters(func: &Func) -> u32 {
    if func.entry { func.param_bytes } else { 0 }
}

/// An access whose address has 32 bits.
fn is_word_access(inst: &Inst) -> bool {
    let access = matches!(inst.class, OpClass::Load | OpClass::Store | OpClass::Atomic);
    match &inst.extra {
        Extra::Memory(facts) => {
            let word = matches!(facts.space, StateSpace::Shared | StateSpace::Local | StateSpace::Const);
            access && word && !facts.cluster
        }
        _ => false,
    }
}

/// An operand of 64 bits of which an instruction reads the low word, whatever it gives.
fn reads_low_word(inst: &Inst, slot: usize) -> bool {
    slot == 0 && (is_word_access(inst) || cuts(inst))
}

/// A conversion of integers that reads no upper word.
fn cuts(inst: &Inst) -> bool {
    let Form { root, dst, ty, mods, .. } = &inst.form;
    let whole = |ty: &ScalarType| ty.is_integer() && !matches!(ty, ScalarType::U16x2 | ScalarType::S16x2);
    inst.class == OpClass::Data
        && *root == Root::Cvt
        && whole(dst)
        && whole(ty)
        && !(mods.sat || mods.pack)
        && (dst.bits() <= 32 || ty.bits() <= 32)
}

/// The type of the low word of one of 64 bits.
fn word_of(ty: ScalarType) -> Option<ScalarType> {
    match ty {
        ScalarType::B64 => Some(ScalarType::B32),
        ScalarType::U64 => Some(ScalarType::U32),
        ScalarType::S64 => Some(ScalarType::S32),
        _ => None,
    }
}

/// The form of an instruction that gives the low word of its result alone, and its name; `None` where there is none. `params`: bytes
/// of the parameters that can be loaded so.
fn word(inst: &Inst, params: u32) -> Option<(Form, &'static str)> {
    if let Extra::Memory(facts) = &inst.extra {
        // What lies beyond them is told where it is loaded.
        let within = inst.imm >= 0 && inst.imm.saturating_add(8) <= i64::from(params);
        let whole = inst.class == OpClass::LoadParam && within && facts.vector == 1;
        let whole = whole && (facts.element_bytes, facts.reg_bits) == (8, 64);
        let mut form = Form::plain(Root::Ld, ScalarType::B32);
        form.mods.space = inst.form.mods.space;
        return whole.then_some((form, "ld.param"));
    }
    let mods = &inst.form.mods;
    let beside = [&inst.dst[1..], &inst.src[3..]].concat().iter().any(|operand| *operand != Operand::None);
    if inst.class != OpClass::Data || beside || inst.pdst.iter().any(|p| *p != PredOperand::None) {
        return None;
    }
    let known =
        inst.src.iter().all(|operand| !matches!(operand, Operand::Special(_) | Operand::Function(..)));
    if mods.cc || mods.sat || !known {
        return None;
    }
    let same = |name| {
        let mut form = inst.form;
        (form.ty, form.dst) = (word_of(form.ty)?, word_of(form.dst)?);
        (form.dst_reg, form.src_reg) = (32, 32);
        Some((form, name))
    };
    let plain = |root, ty, name| Some((Form::plain(root, ty), name));
    let product = |root, name| match mods.half {
        Some(Half::Lo) if inst.form.ty.bits() == 64 => Some((low(root), name)),
        Some(Half::Wide) if inst.form.dst.bits() == 64 => Some((low(root), name)),
        _ => None,
    };
    match inst.form.root {
        Root::Mov if inst.src[1] == Operand::None => same("mov of a low word"),
        Root::Add => same("add of low words"),
        Root::Sub => same("sub of low words"),
        Root::Neg => same("neg of a low word"),
        Root::And => same("and of low words"),
        Root::Or => same("or of low words"),
        Root::Xor => same("xor of low words"),
        Root::Not => same("not of a low word"),
        Root::Shl => same("shl of a low word"),
        Root::Selp => same("selp of low words"),
        Root::Cvta if matches!(inst.form.ty, ScalarType::U64) => same("cvta of a low word"),
        Root::Mul => product(Root::Mul, "mul of low words"),
        Root::Mad => product(Root::Mad, "mad of low words"),
        Root::Cvt if cuts(inst) && inst.form.dst.bits() >= 32 && inst.form.ty.bits() >= 32 => {
            plain(Root::Mov, ScalarType::B32, "mov of a low word")
        }
        // From or to less than a word.
        Root::Cvt if cuts(inst) => {
            let Form { dst, ty, src_reg, .. } = inst.form;
            let (dst, ty) = (word_of(dst).unwrap_or(dst), word_of(ty).unwrap_or(ty));
            Some((Form { dst, ty, dst_reg: 32, src_reg: src_reg.min(32), ..inst.form }, "cvt to a low word"))
        }
        _ => None,
    }
}

/// An instruction gives the low word of what it gave.
fn give_word(inst: &mut Inst, params: u32) -> bool {
    let Some((form, text)) = word(inst, params) else { return false };
    (inst.form, inst.opcode, inst.text) = (form, None, Text::Made(text));
    if let Extra::Memory(_) = inst.extra {
        inst.extra = Extra::Memory(tf4_access_sizes::facts(&form, StateSpace::Param, 32, false));
    }
    for operand in &mut inst.src {
        match operand {
            Operand::Const { bits, wide } if *wide => (*bits, *wide) = (*bits & u64::from(u32::MAX), false),
            Operand::Parameter { wide, .. } => *wide = false,
            _ => {}
        }
    }
    true
}

/// An instruction reads a word where it read the low one of two.
fn take_word(inst: &mut Inst) {
    inst.opcode = None;
    match &mut inst.extra {
        Extra::Memory(_) => {}
        _ if inst.form.dst.bits() >= 32 && inst.form.ty.bits() >= 32 && inst.form.dst_reg == 32 => {
            inst.form = Form::plain(Root::Mov, ScalarType::B32);
            inst.text = Text::Made("mov of a low word");
        }
        _ => {
            let form = &mut inst.form;
            (form.ty, form.src_reg) = (word_of(form.ty).unwrap_or(form.ty), 32);
        }
    }
}

/// Divisions by constants: what is shifted to the right by 32 or more is the upper word of a product. It is taken as such where the
/// product is made in the same block, nothing but the shift reads it, and nothing but conversions what is shifted; returns how many.
fn high_words(func: &mut Func) -> u32 {
    let shifts = |inst: &Inst| {
        let long = matches!(inst.form.ty, ScalarType::U64 | ScalarType::B64);
        let by = matches!(inst.src[1], Operand::Const { bits: 32..=63, .. });
        long && by && inst.class == OpClass::Data && inst.form.root == Root::Shr
    };
    if !func.blocks.iter().flat_map(|block| &block.insts).any(shifts) {
        return 0;
    }
    // By register: something reads its upper word, or it is written more than once.
    let mut stays = vec![false; func.regs.len()];
    let mut written = vec![false; func.regs.len()];
    let mut reads = vec![0u32; func.regs.len()];
    for reg in func.fixed().into_iter().flatten() {
        stays[reg as usize] = true;
    }
    for inst in func.blocks.iter().flat_map(|block| block.all()) {
        count(1);
        inst.for_writes(|reg| stays[reg as usize] |= std::mem::replace(&mut written[reg as usize], true));
        inst.for_reads(|reg| reads[reg as usize] += 1);
        for (slot, operand) in inst.sources().enumerate() {
            if let Operand::Reg(reg) = operand
                && !reads_low_word(inst, slot)
            {
                stays[*reg as usize] = true;
            }
        }
    }
    // By register: the block that wrote it last, and where in it.
    let mut last: Vec<(usize, usize)> = vec![(usize::MAX, 0); func.regs.len()];
    let mut words = vec![false; func.regs.len()];
    let mut made = 0;
    for b in 0..func.blocks.len() {
        let mut insts = std::mem::take(&mut func.blocks[b].insts);
        let mut before: Vec<(usize, Inst)> = Vec::new();
        for i in 0..insts.len() {
            count(1);
            let in_block =
                |reg: Reg| Some(last[reg as usize]).filter(|(block, _)| *block == b).map(|(_, at)| at);
            if shifts(&insts[i])
                && insts[i].guard == PredOperand::Const(true)
                && let (Operand::Reg(to), Operand::Reg(from)) = (insts[i].dst[0], insts[i].src[0])
                && !stays[to as usize]
                && reads[from as usize] == 1
                && let Some(at) = in_block(from)
                && is_product(&insts[at])
                // Its factors are still there.
                && insts[at].src[..2].iter().all(|operand| match operand {
                    Operand::Reg(reg) => in_block(*reg).is_none_or(|written| written < at),
                    _ => true,
                })
            {
                let upper = func.register(Width::Word, false);
                last.push((usize::MAX, 0));
                let mut product = insts[at].clone();
                product.form = low(Root::Mul);
                (product.form.ty, product.form.dst) = (insts[at].form.ty, insts[at].form.ty);
                product.form.mods.half = Some(Half::Hi);
                (product.opcode, product.text) = (None, Text::Made("mul.hi"));
                product.dst[0] = Operand::Reg(upper);
                before.push((i, product));
                let inst = &mut insts[i];
                (inst.form, inst.opcode) = (Form::plain(Root::Shr, ScalarType::U32), None);
                (inst.src[0], inst.text) = (Operand::Reg(upper), Text::Made("shr of an upper word"));
                if let Operand::Const { bits, .. } = &mut inst.src[1] {
                    *bits -= 32;
                }
                words[to as usize] = true;
                made += 1;
            }
            insts[i].for_writes(|reg| last[reg as usize] = (b, i));
        }
        let mut before = before.into_iter().peekable();
        let out = &mut func.blocks[b].insts;
        for (i, inst) in insts.into_iter().enumerate() {
            out.extend(before.next_if(|(at, _)| *at == i).map(|(_, made)| made));
            out.push(inst);
        }
    }
    for (width, word) in func.regs.iter_mut().zip(&words) {
        if *word {
            *width = Width::Word;
        }
    }
    for inst in func.blocks.iter_mut().flat_map(|block| block.all_mut()) {
        count(1);
        if reads_low_word(inst, 0)
            && let Operand::Reg(reg) = inst.src[0]
            && words.get(reg as usize) == Some(&true)
        {
            take_word(inst);
        }
    }
    made
}

/// `mul.wide.u32` on all threads.
fn is_product(inst: &Inst) -> bool {
    inst.class == OpClass::Data
        && inst.guard == PredOperand::Const(true)
        && (inst.form.root, inst.form.ty, inst.form.mods.half)
            == (Root::Mul, ScalarType::U32, Some(Half::Wide))
}

#[cfg(test)]
mod tests;
