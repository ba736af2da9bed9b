//! Matrices in shared memory as `wgmma` describes them (PTX ISA "Asynchronous Warpgroup Level Matrix Shared Memory
//! Layout"): pieces of 16 bytes that neighbours along K or along M and N share, eight of which are a core matrix.

/// Bytes of a piece.
pub(crate) const PIECE_BYTES: usize = 16;

/// A matrix descriptor: where a matrix in shared memory begins, and how its pieces follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// The shared address of the first piece.
    pub(crate) start: u32,
    /// Leading dimension byte offset.
    pub(crate) leading: u32,
    /// Stride dimension byte offset.
    pub(crate) stride: u32,
    /// The rows of 128 bytes by which the pattern of the swizzle begins behind its alignment.
    base: u32,
    /// Address bits that the swizzle changes: none, one of 32 bytes, two of 64, three of 128.
    swizzle: u32,
}

impl Descriptor {
    /// From its bits.
    pub(crate) fn of(bits: u64) -> Self {
        let field = |first: u32| ((bits >> first & 0x3fff) as u32) << 4;
        Self {
            start: field(0),
            leading: field(16),
            stride: field(32),
            base: (bits >> 49 & 7) as u32,
            swizzle: [0, 3, 2, 1][(bits >> 62) as usize],
        }
    }

    /// The address of a piece of neighbours along K: of this row or column, and its number along K.
    #[inline]
    pub(crate) fn along_k(&self, row: u32, piece: u32) -> u64 {
        let wide = 1 << self.swizzle;
        let line = row % 8 * (16 * wide) + piece % wide * 16;
        self.swizzled(
            u64::from(self.start + line)
                + u64::from(row / 8) * u64::from(self.stride)
                + u64::from(piece / wide) * u64::from(self.leading),
        )
    }

    /// The address of a piece of neighbours along M or N: its number along these, and its place along K.
    #[inline]
    pub(crate) fn across_k(&self, piece: u32, k: u32) -> u64 {
        let wide = 1 << self.swizzle;
        // Without a swizzle the offsets change places.
        let [across, along] =
            if wide == 1 { [self.stride, self.leading] } else { [self.leading, self.stride] };
        let line = k % 8 * (16 * wide) + piece % wide * 16;
        self.swizzled(
            u64::from(self.start + line)
                + u64::from(piece / wide) * u64::from(across)
                + u64::from(k / 8) * u64::from(along),
        )
    }

    /// Address bits from 4 on change with those from 7 on, as counted from where the pattern begins.
    #[inline]
    fn swizzled(&self, at: u64) -> u64 {
        let mask = (1 << self.swizzle) - 1;
        at ^ ((at >> 7).wrapping_sub(self.base.into()) & mask) << 4
    }
}
