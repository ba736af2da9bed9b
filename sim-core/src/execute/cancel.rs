//! `clusterlaunchcontrol.try_cancel`: the block scheduler is asked to cancel the launch of a cluster of the same grid that
//! has not begun. Its answer is written to shared memory, and counted there, as the bytes of a bulk copy are.

use sim_frontend::program::{BulkOp, Op, Pc};
use sim_memory::vocabulary::{LaneMask, StateSpace, WARP_LANES};

use super::asynchronous::shared_addresses;
use super::observe_cluster::Followed;
use super::resident::Resident;
use crate::bulk::{Job, PIECE, Piece, Way};
use crate::copies::{Bulk, BulkTo, Over};
use crate::error::Violation;
use crate::grid::Kernel;
use crate::reconvergence::{Lanes, Reconvergence};

/// The 16 bytes of an answer, as `query_cancel` reads them: the first block of the cluster whose launch was cancelled, by
/// axis, and the highest bit; 0 where none was.
fn answer(cancelled: Option<[u32; 3]>) -> [u8; 16] {
    let mut bytes = [0; 16];
    if let Some(first) = cancelled {
        for (word, index) in bytes.chunks_exact_mut(4).zip(first) {
            word.copy_from_slice(&index.to_le_bytes());
        }
        bytes[15] = 0x80;
    }
    bytes
}

impl<P: Reconvergence> Resident<P> {
    /// A request for each thread.
    pub(super) fn begin_cancel(
        &mut self,
        kernel: &Kernel,
        (w, pc): (usize, Pc),
        op: &Op,
        facts: &BulkOp,
        everywhere: bool,
        exec: LaneMask,
    ) -> Result<(), Violation> {
        let (code, warp) = (&*kernel.code, &self.warps[w]);
        let mut places = shared_addresses(warp, code, op.src[1], facts.to);
        let mut objects = shared_addresses(warp, code, op.src[3], facts.object);
        let space = match facts.memory.space {
            StateSpace::Generic => StateSpace::Generic,
            _ => StateSpace::Shared,
        };
        self.to_shared(w, space, PIECE.into(), exec, &mut places)?;
        self.to_shared(w, space, 8, exec, &mut objects)?;
        let (own, blocks) = self.own_rank(w);
        let ranks = if everywhere { u32::MAX >> (32 - blocks.clamp(1, 32)) } else { 1 << own };
        for lane in Lanes(exec) {
            let (to, object) = (places[lane as usize] as u32, objects[lane as usize] as u32);
            let by = (w, lane, pc);
            let (bytes, reduces, parity, ticket) = (PIECE, false, None, None);
            self.observe_bulk(ranks, Followed { by, to, bytes, object, parity, reduces, ticket });
            let pieces = vec![Piece { far: to.into(), near: to }];
            self.push_job(kernel, by, facts.way, ranks, (object, PIECE), pieces);
        }
        Ok(())
    }

    /// The block scheduler has answered: it cancelled the launch of the cluster whose first block has this index, or none.
    ///
    /// # Errors
    /// What is wrong with the mbarrier object.
    pub fn answered(&mut self, job: &Job, cancelled: Option<[u32; 3]>) -> Result<(), Violation> {
        let Way::Cancel(ranks) = job.way else { return Ok(()) };
        let w = job.origin.slot;
        let to = job.pieces.first().map_or(0, |piece| piece.near);
        let bulk = Bulk {
            lane: job.lane,
            object: job.object.into(),
            bytes: PIECE,
            pc: job.origin.pc,
            to: BulkTo::Ranks(ranks),
            parity: None,
        };
        let landed = Some(Box::new([answer(cancelled); WARP_LANES]));
        self.changes += 1;
        self.part_is_over(w, Over { bulk, lanes: 1, to: [[to.into(), PIECE.into()]; WARP_LANES], landed })?;
        self.warps[w].copies_mut().let_go(None);
        Ok(())
    }
}
