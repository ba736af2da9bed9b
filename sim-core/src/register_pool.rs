//! Registers that warps of a block have given back (PTX ISA "setmaxnreg"), for others of it to take.

/// The registers of a block's threads by warp, and those that no warp has, each number being of one thread of a warp.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct RegisterPool {
    free: u32,
    counts: Vec<u16>,
}

impl RegisterPool {
    /// That of a block whose `warps` warps begin with `registers` a thread.
    pub fn new(warps: usize, registers: u32) -> Self {
        Self { free: 0, counts: vec![Self::granted(registers); warps] }
    }

    /// What a thread has that begins with so many registers: they are given out in eights.
    pub fn granted(registers: u32) -> u16 {
        registers.min(256).next_multiple_of(8) as u16
    }

    /// The registers of a warp's threads.
    pub fn of(&self, warp: usize) -> u16 {
        self.counts.get(warp).copied().unwrap_or(0)
    }

    /// Registers that nobody has.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// What it has is enough for a warp to have `count` registers a thread.
    pub fn has(&self, warp: usize, count: u16) -> bool {
        u32::from(count) <= u32::from(self.of(warp)) + self.free
    }

    /// A warp has `count` registers a thread from here on; false where there are not so many.
    pub fn set(&mut self, warp: usize, count: u16) -> bool {
        let Some(own) = self.counts.get_mut(warp) else { return false };
        let Some(left) = (self.free + u32::from(*own)).checked_sub(count.into()) else { return false };
        (*own, self.free) = (count, left);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_neither_made_nor_lost() {
        let mut pool = RegisterPool::new(3, 165);
        let all = |pool: &RegisterPool| pool.free() + (0..3).map(|w| u32::from(pool.of(w))).sum::<u32>();
        assert_eq!(all(&pool), 3 * 168);
        assert!(!pool.has(1, 176) && !pool.set(1, 176));
        assert!(pool.set(0, 24));
        assert_eq!((pool.of(0), pool.free()), (24, 144));
        assert!(pool.has(1, 240) && pool.set(1, 240) && !pool.has(2, 248) && pool.set(2, 240));
        assert_eq!((pool.free(), all(&pool)), (0, 3 * 168));
        assert!(!pool.set(3, 24), "there is no such warp");
    }
}
