//! `cp.async` and `mbarrier`: what shared memory takes part in without a thread's registers.

use crate::program::{TensorOp, Text};
use sim_memory::vocabulary::{CacheOp, ScalarType, Scope, Semantics, StateSpace};

use super::Translator;
use super::memory::Address;
use crate::form::{BulkWay, CopyStep, MbarrierStep, TensorMode};
use crate::isa::Root;
use crate::lower::ir::{Inst, Operand};
use crate::lower::tf1_validate::OperandSize;
use crate::lower::tf3_stack::made;
use crate::lower::tf4_access_sizes;
use crate::program::{
    AsyncStore, BulkBytes, BulkOp, CopyOp, Extra, MbarrierOp, MbarrierPlace, MemoryOp, OpClass, SharedAddress,
};
use crate::ptx::ast::{Instruction, Operand as AstOperand, OperandKind};

impl<'a> Translator<'_, 'a> {
    pub(super) fn asynchronous(&mut self, mut inst: Inst, ast: &Instruction<'a>) {
        inst.class = OpClass::Copy;
        let step = inst.form.mods.copy.unwrap_or(CopyStep::Copy);
        match (step, ast.operands.as_slice()) {
            (CopyStep::Copy, [to, from, size, rest @ ..]) => self.copy(inst, ast, [to, from, size], rest),
            (CopyStep::Bulk, _) if inst.form.mods.tensor > 0 => self.tensor_copy(inst, ast),
            (CopyStep::Bulk, _) => self.bulk(inst, ast),
            (CopyStep::BulkCommit, []) => {
                inst.extra = Extra::BulkCommit;
                self.push(inst);
            }
            (CopyStep::BulkWait, [newest]) => {
                let Some(newest) = self.constant(newest) else { return };
                inst.extra = Extra::BulkWait(newest.min(u8::MAX.into()) as u8, inst.form.mods.bulk_read);
                self.push(inst);
            }
            (CopyStep::CommitGroup | CopyStep::WaitAll, []) => {
                inst.extra = match step {
                    CopyStep::CommitGroup => Extra::CopyCommit,
                    _ => Extra::CopyWait(None),
                };
                self.push(inst);
            }
            (CopyStep::WaitGroup, [newest]) => {
                let Some(newest) = self.constant(newest) else { return };
                // Nobody has as many groups under way as the most that is told apart.
                inst.extra = Extra::CopyWait(Some(newest.min(u8::MAX.into()) as u8));
                self.push(inst);
            }
            (CopyStep::Arrive, [object]) => {
                if let Some(place) = self.object(&mut inst, object) {
                    inst.extra = Extra::CopyArrive(place, inst.form.mods.no_inc);
                    self.push(inst);
                }
            }
            (CopyStep::Store, _) => self.store_async(inst, ast),
            (CopyStep::Copy, _) if inst.form.mods.cache_hint => self.count(ast, "4 or 5"),
            (CopyStep::Copy, _) => self.count(ast, "3 or 4"),
            (CopyStep::WaitGroup | CopyStep::Arrive | CopyStep::BulkWait, _) => self.count(ast, 1),
            (CopyStep::CommitGroup | CopyStep::WaitAll | CopyStep::BulkCommit, _) => self.count(ast, 0),
        }
    }

    /// `st.async [to], b, [object]` and `red.async`. Four elements are two stores of two: there is one source too few for them
    /// and the object, and each store counts its own bytes.
    pub(super) fn store_async(&mut self, mut inst: Inst, ast: &Instruction<'a>) {
        let [to, data, object] = ast.operands.as_slice() else { return self.count(ast, 3) };
        inst.class = OpClass::Copy;
        let elements = inst.form.mods.vector.max(1);
        let data = self.as_list(data);
        let parts: &[AstOperand<'a>] = match &data.kind {
            OperandKind::Vector(parts) => parts,
            _ => std::slice::from_ref(&data),
        };
        if parts.len() != usize::from(elements) {
            let message = format!("expected {elements} elements");
            return self.error(data.span, "vector", message);
        }
        let values: Vec<Operand> =
            parts.iter().map(|part| self.source(part, inst.form.ty, OperandSize::Exact)).collect();
        let Some(address) = self.address(to) else { return };
        self.lies_in(&address, to, StateSpace::Shared);
        (inst.src[0], inst.imm) = (address.base, address.offset);
        let Some(object) = self.beside(&mut inst.src[4], object) else { return };
        // Without a space the addresses are generic.
        let space = match address.space {
            Some(_) => StateSpace::Shared,
            None => inst.form.mods.space.unwrap_or(StateSpace::Generic),
        };
        let bits = crate::form::register_bits(inst.form.ty).max(32);
        let mut memory = tf4_access_sizes::facts(&inst.form, space, bits, address.wide);
        memory.cluster = true;
        for (part, two) in values.chunks(2).enumerate() {
            let mut inst = inst.clone();
            memory.vector = two.len() as u8;
            inst.src[1..3].fill(Operand::None);
            inst.src[1..=two.len()].copy_from_slice(two);
            inst.imm += (part * 2 * usize::from(memory.element_bytes)) as i64;
            inst.extra = Extra::StoreAsync(AsyncStore { memory, object });
            self.push(inst);
        }
    }

    /// `cp.async [to], [from], size {, read | , ignored} {, policy}`.
    fn copy(
        &mut self,
        mut inst: Inst,
        ast: &Instruction<'a>,
        [to, from, size]: [&AstOperand<'a>; 3],
        mut rest: &[AstOperand<'a>],
    ) {
        let mods = inst.form.mods;
        if mods.cache_hint {
            let [others @ .., policy] = rest else { return self.count(ast, "4 or 5") };
            self.source(policy, ScalarType::B64, OperandSize::Exact);
            rest = others;
        }
        match rest {
            [] => {}
            [read] if self.is_predicate(read) => inst.psrc[0] = self.predicate(read),
            [read] => inst.src[2] = self.source(read, ScalarType::U32, OperandSize::Exact),
            _ if mods.cache_hint => return self.count(ast, "4 or 5"),
            _ => return self.count(ast, "3 or 4"),
        }
        let Some(bytes) = self.constant(size) else { return };
        let sizes: &[u64] = if mods.cache == Some(CacheOp::Cg) { &[16] } else { &[4, 8, 16] };
        if !sizes.contains(&bytes) {
            let message = match sizes {
                [16] => format!("cp-size of `cp.async.cg` must be 16, not {bytes}"),
                _ => format!("cp-size of `cp.async` must be 4, 8 or 16, not {bytes}"),
            };
            return self.error(size.span, "operands", message);
        }
        if let Operand::Const { bits, .. } = inst.src[2]
            && bits > bytes
        {
            return self.error(ast.span, "operands", format!("src-size {bits} exceeds cp-size {bytes}"));
        }
        let (Some(mut memory), Some(to)) =
            (self.copied_from(&mut inst, from), self.beside(&mut inst.src[1], to))
        else {
            return;
        };
        memory.element_bytes = bytes as u8;
        inst.extra = Extra::Copy(CopyOp { memory, to, loads_before: 0 });
        self.push(inst);
    }

    /// `cp.async.bulk` and `cp.reduce.async.bulk`: `[to], [from], size, [object] {, mask} {, policy}`, to global memory
    /// without an object, a prefetch without a destination either.
    fn bulk(&mut self, mut inst: Inst, ast: &Instruction<'a>) {
        let mods = inst.form.mods;
        let Some(way) = mods.bulk else { return };
        let mut rest = ast.operands.as_slice();
        let wanted = match way {
            BulkWay::Load => 4 + usize::from(mods.multicast) + 2 * usize::from(mods.ignore_beyond),
            BulkWay::Between => 4,
            BulkWay::Store => 3 + usize::from(mods.byte_mask),
            BulkWay::Prefetch => 2,
            // `clusterlaunchcontrol` makes it.
            BulkWay::Cancel { .. } => return,
        };
        if rest.len() != wanted + usize::from(mods.cache_hint) {
            return self.count(ast, wanted + usize::from(mods.cache_hint));
        }
        let mut bytes = BulkBytes::All;
        if let (true, [others @ .., mask]) = (mods.byte_mask, rest) {
            inst.src[3] = self.source(mask, ScalarType::B16, OperandSize::Exact);
            (rest, bytes) = (others, BulkBytes::Masked);
        }
        if let (true, [others @ .., policy]) = (mods.cache_hint, rest) {
            self.source(policy, ScalarType::B64, OperandSize::Exact);
            rest = others;
        }
        let none = SharedAddress { offset: 0, wide: false };
        let (memory, to, object) = match (way, rest) {
            (BulkWay::Load, [to, from, size, left, right, object]) if mods.ignore_beyond => {
                inst.src[2] = self.source(size, ScalarType::U32, OperandSize::Exact);
                bytes = BulkBytes::MayBeBeyond;
                // Both numbers are handed over together.
                let both = self.fresh(ScalarType::B64);
                let mut pack = made(&inst, OpClass::Data, Root::Mov, ScalarType::B64);
                pack.text = Text::Made("bytes that the copy that follows ignores");
                (pack.form.ty, pack.form.src_reg, pack.form.mods.vector) = (ScalarType::B32, 32, 2);
                for (slot, ignored) in [left, right].into_iter().enumerate() {
                    pack.src[slot] = self.source(ignored, ScalarType::U32, OperandSize::Exact);
                }
                (pack.dst[0], inst.src[4]) = (Operand::Reg(both), Operand::Reg(both));
                self.push(pack);
                let from = self.copied_from(&mut inst, from);
                let to = self.beside(&mut inst.src[1], to);
                (from, to, self.beside(&mut inst.src[3], object))
            }
            (BulkWay::Load, [to, from, size, object, mask @ ..]) => {
                inst.src[2] = self.source(size, ScalarType::U32, OperandSize::Exact);
                if let [mask] = mask {
                    inst.src[4] = self.source(mask, ScalarType::B16, OperandSize::Exact);
                }
                let from = self.copied_from(&mut inst, from);
                let to = self.beside(&mut inst.src[1], to);
                (from, to, self.beside(&mut inst.src[3], object))
            }
            (BulkWay::Between, [to, from, size, object]) => {
                inst.src[2] = self.source(size, ScalarType::U32, OperandSize::Exact);
                let to = self.beside(&mut inst.src[1], to);
                let object = self.beside(&mut inst.src[3], object);
                let Some(address) = self.address(from) else { return };
                self.lies_in(&address, from, StateSpace::Shared);
                (inst.src[0], inst.imm) = (address.base, address.offset);
                let memory = tf4_access_sizes::facts(&inst.form, StateSpace::Shared, 32, address.wide);
                (Some(memory), to, object)
            }
            (BulkWay::Store, [to, from, size]) => {
                inst.src[2] = self.source(size, ScalarType::U32, OperandSize::Exact);
                let memory = self.copied_from(&mut inst, to);
                (memory, self.beside(&mut inst.src[1], from), Some(none))
            }
            (_, [from, size]) => {
                inst.src[2] = self.source(size, ScalarType::U32, OperandSize::Exact);
                (self.copied_from(&mut inst, from), Some(none), Some(none))
            }
            _ => return,
        };
        let (Some(mut memory), Some(to), Some(object)) = (memory, to, object) else { return };
        // Bulk copies go past L1; reductions are made of their elements.
        memory.cache = CacheOp::Cg;
        if memory.atomic.is_none() {
            memory.element_bytes = 16;
        }
        inst.extra = Extra::Bulk(BulkOp { way, memory, to, object, bytes });
        self.push(inst);
    }

    /// `cp.async.bulk.tensor`: `[to], [map, {coordinates}], [object] {, mask} {, policy}`, to global memory `[map,
    /// {coordinates}], [from] {, policy}`, a prefetch of a place only.
    fn tensor_copy(&mut self, mut inst: Inst, ast: &Instruction<'a>) {
        let mods = inst.form.mods;
        let Some(way) = mods.bulk else { return };
        let mut rest = ast.operands.as_slice();
        let mode = mods.tensor_mode;
        let of_pixels = !matches!(mode, TensorMode::Tile | TensorMode::Four);
        let has_offsets = of_pixels && way != BulkWay::Store;
        let wanted = usize::from(has_offsets)
            + match way {
                BulkWay::Load => 3 + usize::from(mods.multicast),
                BulkWay::Store => 2,
                _ => 1,
            };
        if rest.len() != wanted + usize::from(mods.cache_hint) {
            return self.count(ast, wanted + usize::from(mods.cache_hint));
        }
        if let (true, [others @ .., policy]) = (mods.cache_hint, rest) {
            self.source(policy, ScalarType::B64, OperandSize::Exact);
            rest = others;
        }
        let none = SharedAddress { offset: 0, wide: false };
        let mut offsets = None;
        let (place, to, object) = match (way, rest) {
            (BulkWay::Load, [to, place, object, more @ ..]) => {
                let mut mask = more;
                if let (true, [first, others @ ..]) = (has_offsets, more) {
                    (offsets, mask) = (Some(first), others);
                }
                if let [mask] = mask {
                    inst.src[4] = self.source(mask, ScalarType::B16, OperandSize::Exact);
                }
                let to = self.beside(&mut inst.src[1], to);
                (place, to, self.beside(&mut inst.src[3], object))
            }
            (BulkWay::Store, [place, from]) => (place, self.beside(&mut inst.src[1], from), Some(none)),
            (_, [place, more @ ..]) => {
                offsets = more.first();
                (place, Some(none), Some(none))
            }
            _ => return,
        };
        let (Some(to), Some(object)) = (to, object) else { return };
        let wrong = "expected a tensor map and its coordinates: `[%rd1, {%r1, %r2}]`";
        let OperandKind::Texture(list) = &place.kind else {
            return self.error(place.span, "operands", wrong);
        };
        let [map, coordinates] = list.as_slice() else {
            return self.error(place.span, "operands", wrong);
        };
        let coordinates = self.as_list(coordinates);
        let parts: &[AstOperand<'a>] = match &coordinates.kind {
            OperandKind::Vector(parts) => parts,
            _ => std::slice::from_ref(&coordinates),
        };
        // A column and four rows.
        let wanted = if mode == TensorMode::Four { 5 } else { mods.tensor };
        if parts.len() != usize::from(wanted) {
            let given = parts.len();
            let message = match mode {
                TensorMode::Four => format!("four rows have a column and four coordinates, not {given}"),
                _ => format!("a tensor of {wanted} dimensions has as many coordinates, not {given}"),
            };
            return self.error(coordinates.span, "vector", message);
        }
        inst.src[0] = self.source(map, ScalarType::B64, OperandSize::Exact);
        let mut stage = made(&inst, OpClass::TextureOperands, Root::Mov, ScalarType::B32);
        stage.text = Text::Made("coordinates of the copy that follows");
        stage.extra = Extra::TextureOperands(0);
        for (slot, part) in parts.iter().enumerate() {
            stage.src[slot] = self.source(part, ScalarType::S32, OperandSize::Exact);
        }
        if let Some(offsets) = offsets {
            let mut behind = stage.clone();
            behind.imm = mods.tensor.into();
            if !self.im2col_offsets(&mut behind, offsets, (mods.tensor, mode)) {
                return;
            }
            self.push(stage);
            self.push(behind);
        } else {
            self.push(stage);
        }
        let mut memory = tf4_access_sizes::facts(&inst.form, StateSpace::Global, 32, true);
        (memory.element_bytes, memory.cache) = (16, CacheOp::Cg);
        let (rank, pair) = (mods.tensor, mods.pair);
        inst.extra = Extra::Tensor(TensorOp { way, rank, mode, pair, memory, to, object });
        self.push(inst);
    }

    /// The offsets of a copy in im2col mode, one for each dimension between channels and images; in its modes along W, the
    /// pixels of the halo and an offset.
    fn im2col_offsets(
        &mut self,
        stage: &mut Inst,
        offsets: &AstOperand<'a>,
        (rank, mode): (u8, TensorMode),
    ) -> bool {
        let list = self.as_list(offsets);
        let parts: &[AstOperand<'a>] = match &list.kind {
            OperandKind::Vector(parts) => parts,
            _ => std::slice::from_ref(&list),
        };
        let wanted = if mode == TensorMode::Im2col { usize::from(rank) - 2 } else { 2 };
        if parts.len() != wanted {
            let given = parts.len();
            let message = match mode {
                TensorMode::Im2col => {
                    format!("im2col mode of {rank} dimensions has {wanted} offsets, not {given}")
                }
                _ => format!("im2col mode along W has a halo and an offset, not {given} operands"),
            };
            self.error(list.span, "vector", message);
            return false;
        }
        stage.src = [Operand::None; 5];
        for (slot, part) in parts.iter().enumerate() {
            stage.src[slot] = self.source(part, ScalarType::U16, OperandSize::Exact);
        }
        true
    }

    /// The global address of a copy, and the access to it.
    fn copied_from(&mut self, inst: &mut Inst, from: &AstOperand<'a>) -> Option<MemoryOp> {
        let address = self.address(from)?;
        self.lies_in(&address, from, StateSpace::Global);
        (inst.src[0], inst.imm) = (address.base, address.offset);
        Some(tf4_access_sizes::facts(&inst.form, StateSpace::Global, 32, address.wide))
    }

    /// A shared address beside it, whose base is another source.
    pub(super) fn beside(&mut self, base: &mut Operand, operand: &AstOperand<'a>) -> Option<SharedAddress> {
        let address = self.address(operand)?;
        self.lies_in(&address, operand, StateSpace::Shared);
        *base = address.base;
        let Ok(offset) = i32::try_from(address.offset) else {
            self.error(operand.span, "address", "the offset does not fit in 32 bits");
            return None;
        };
        Some(SharedAddress { offset, wide: address.wide })
    }

    /// A variable that an address names lies in the space the instruction works on.
    pub(super) fn lies_in(&mut self, address: &Address, operand: &AstOperand<'a>, space: StateSpace) {
        if let Some(found) = address.space.filter(|found| *found != space) {
            let message =
                format!("the variable is in .{found:?}; this operand must be an address in .{space:?}")
                    .to_lowercase();
            self.error(operand.span, "space", message);
        }
    }

    fn is_predicate(&self, operand: &AstOperand<'a>) -> bool {
        match operand.kind {
            OperandKind::Not(_) => true,
            OperandKind::Name(name) => {
                matches!(self.lookup(name), Some(super::Local::Reg(_, ScalarType::Pred)))
            }
            _ => false,
        }
    }

    pub(super) fn constant(&mut self, operand: &AstOperand<'a>) -> Option<u64> {
        match self.source(operand, ScalarType::U32, OperandSize::Exact) {
            Operand::Const { bits, .. } => Some(bits),
            _ => {
                self.error(operand.span, "operand", "expected an integer constant");
                None
            }
        }
    }

    /// `mbarrier`: the operands of each kind.
    pub(super) fn mbarrier(&mut self, mut inst: Inst, ast: &Instruction<'a>) {
        use MbarrierStep as M;
        inst.class = OpClass::Mbarrier;
        let mods = inst.form.mods;
        let options = mods.mbarrier_options;
        // Arrivals that are no bytes and may complete the phase: one, where no number is given.
        let one = !options.expect_tx && !options.no_complete;
        let Some(step) = mods.mbarrier else { return };
        let given = ast.operands.as_slice();
        // The result, the object, the operand with its type.
        let (result, object, operand) = match (step, given) {
            (M::Inval, [object]) => (None, Some(object), None),
            (M::Init | M::ExpectTx | M::CompleteTx, [object, count]) => (None, Some(object), Some(count)),
            (M::PendingCount, [result, state]) => (Some(result), None, Some(state)),
            (M::Arrive | M::ArriveDrop, [result, object]) if one => (Some(result), Some(object), None),
            (M::Arrive | M::ArriveDrop, [result, object, count]) => (Some(result), Some(object), Some(count)),
            (M::TestWait, [result, object, state]) => (Some(result), Some(object), Some(state)),
            (M::TryWait, [result, object, state, hint @ ..]) if hint.len() <= 1 => {
                if let [hint] = hint {
                    self.source(hint, ScalarType::U32, OperandSize::Exact);
                }
                (Some(result), Some(object), Some(state))
            }
            (M::Inval, _) => return self.count(ast, 1),
            (M::Init | M::ExpectTx | M::CompleteTx | M::PendingCount, _) => return self.count(ast, 2),
            (M::Arrive | M::ArriveDrop, _) if one => return self.count(ast, "2 or 3"),
            (M::TryWait, _) => return self.count(ast, "3 or 4"),
            _ => return self.count(ast, 3),
        };
        let state = step == M::PendingCount || matches!(step, M::TestWait | M::TryWait) && !options.parity;
        match (step, result) {
            (M::TestWait | M::TryWait, Some(result)) => inst.pdst[0] = self.predicate_destination(result),
            (M::PendingCount, Some(result)) => {
                inst.dst[0] = self.destination(result, ScalarType::B32, OperandSize::Exact);
            }
            (_, Some(result)) => {
                inst.dst[0] = self.destination(result, ScalarType::B64, OperandSize::Exact);
                if mods.shared_cluster && inst.dst[0] != Operand::None {
                    let message = "an mbarrier operation on .shared::cluster returns no state; the destination must be the sink symbol `_`";
                    return self.error(result.span, "operands", message);
                }
            }
            _ => {}
        }
        let counts = one && matches!(step, M::Arrive | M::ArriveDrop);
        if let (true, Some(count)) = (counts, operand) {
            inst.min_sm = inst.min_sm.max(90);
            if let Some(target) = self.cx.module.target_sm().filter(|target| *target < 90) {
                let message = format!(
                    "a count operand without .noComplete requires .target sm_90 or higher; the module has .target sm_{target}"
                );
                return self.error(count.span, "target", message);
            }
        }
        if let Some(operand) = operand {
            let ty = if state { ScalarType::B64 } else { ScalarType::U32 };
            inst.src[1] = self.source(operand, ty, OperandSize::Exact);
        }
        let place = match object.map(|object| self.object(&mut inst, object)) {
            Some(None) => return,
            place => place.flatten(),
        };
        inst.extra = Extra::Mbarrier(MbarrierOp {
            step,
            place,
            options,
            operand_bits: if state { 64 } else { 32 },
            releases: matches!(step, M::Arrive | M::ArriveDrop) && mods.semantics != Semantics::Relaxed,
            repeats: false,
            cluster: mods.scope == Some(Scope::Cluster),
        });
        self.push(inst);
    }

    /// The address of an object.
    fn object(&mut self, inst: &mut Inst, object: &AstOperand<'a>) -> Option<MbarrierPlace> {
        let address = self.address(object)?;
        inst.src[0] = address.base;
        inst.imm = address.offset;
        if address.space.is_some() {
            self.lies_in(&address, object, StateSpace::Shared);
        }
        // A variable named directly tells its space.
        let space = address.space.or(inst.form.mods.space).unwrap_or(StateSpace::Generic);
        Some(MbarrierPlace { space, address_64: address.wide })
    }
}
