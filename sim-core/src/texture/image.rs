//! Where the texels of an image lie.

/// What a channel of a texel holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub enum Channels {
    /// Unsigned integers of 8, 16 or 32 bits.
    Unsigned(u8),
    /// Signed integers of 8, 16 or 32 bits.
    Signed(u8),
    /// Floating-point numbers of 16 or 32 bits.
    Float(u8),
}

/// Types of channels with their numbers in CUDA's driver API (`CUarray_format`), which queries give too.
const CHANNELS: [(u32, Channels); 8] = [
    (1, Channels::Unsigned(8)),
    (2, Channels::Unsigned(16)),
    (3, Channels::Unsigned(32)),
    (8, Channels::Signed(8)),
    (9, Channels::Signed(16)),
    (10, Channels::Signed(32)),
    (16, Channels::Float(16)),
    (32, Channels::Float(32)),
];

impl Channels {
    /// Those of a `CUarray_format`.
    pub fn of_number(number: u32) -> Option<Self> {
        CHANNELS.iter().find(|(own, _)| *own == number).map(|(_, channels)| *channels)
    }

    /// Their `CUarray_format`; 0, which is none, of a width that no format has.
    pub fn number(self) -> u32 {
        CHANNELS.iter().find(|(_, channels)| *channels == self).map_or(0, |(number, _)| *number)
    }
}

/// The format of a texel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Format {
    /// Type of each channel.
    pub channels: Channels,
    /// Channels: 1, 2 or 4.
    pub count: u8,
}

impl Format {
    /// A format, if there is one of `count` channels of this type.
    pub fn new(channels: Channels, count: u8) -> Option<Self> {
        let bits = match channels {
            Channels::Unsigned(bits) | Channels::Signed(bits) => matches!(bits, 8 | 16 | 32),
            Channels::Float(bits) => matches!(bits, 16 | 32),
        };
        (bits && matches!(count, 1 | 2 | 4)).then_some(Self { channels, count })
    }

    /// Bytes of a channel.
    pub fn channel_bytes(self) -> u32 {
        match self.channels {
            Channels::Unsigned(bits) | Channels::Signed(bits) | Channels::Float(bits) => u32::from(bits) / 8,
        }
    }

    /// Bytes of a texel: 1 to 16, a power of two.
    pub fn bytes(self) -> u32 {
        self.channel_bytes() * u32::from(self.count)
    }
}

/// Width, height and depth in texels; 1 in the dimensions that an image does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Texels of a row.
    pub width: u32,
    /// Rows of a slice.
    pub height: u32,
    /// Slices of a 3-D image.
    pub depth: u32,
}

impl Extent {
    /// That of a mip level.
    pub fn level(self, level: u32) -> Self {
        let half = |n: u32| (n >> level.min(31)).max(1);
        Self { width: half(self.width), height: half(self.height), depth: half(self.depth) }
    }

    /// Levels of a complete mip chain.
    pub fn levels(self) -> u32 {
        32 - self.width.max(self.height).max(self.depth).max(1).leading_zeros()
    }
}

/// How the texels of an image are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// A buffer: texel after texel. Lookups beyond its end read zeros.
    Buffer,
    /// Rows of a buffer, this many bytes apart.
    Pitched(u64),
    /// An array: blocks of rows side by side, so that neighbours in every direction are close.
    Array,
}

/// An image in device memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Address of the first byte.
    pub address: u64,
    /// Format of the texels.
    pub format: Format,
    /// Size of level 0.
    pub extent: Extent,
    /// Dimensions of an element of it: 1, 2 or 3.
    pub dimensions: u8,
    /// Layers; of cubemaps the faces of all cubes; 0 if it is not layered.
    pub layers: u32,
    /// Each six layers are the faces of a cube.
    pub cube: bool,
    /// Mip levels, 1 at least.
    pub levels: u32,
    /// Samples of a texel, 1 at least; where there are several, each is a layer, and those of a layer lie together.
    pub samples: u32,
    /// How it is laid out.
    pub storage: Storage,
}

/// Bytes and rows of the smallest block of an array ("group of bytes").
const GOB_BYTES: u64 = 64;
const GOB_ROWS: u64 = 8;
/// Most of them that are stacked in a block.
const BLOCK_GOBS: u64 = 16;

/// The place of a byte in a block of 64 bytes by 8 rows. 32 bytes of it, a sector, hold two rows of 16 bytes. The
/// order is that of NVIDIA's block linear layout since Fermi, as Mesa's nouveau driver and the technical reference
/// manual of Tegra X1 have it.
fn in_gob(x: u64, y: u64) -> u64 {
    (x / 32) * 256 + (y / 2) * 64 + (x % 32 / 16) * 32 + (y % 2) * 16 + x % 16
}

/// Blocks of a slice of an array.
#[derive(Clone, Copy)]
struct Blocks {
    across: u64,
    down: u64,
    /// Groups of rows stacked in a block.
    gobs: u64,
}

impl Blocks {
    fn of(row_bytes: u64, rows: u64) -> Self {
        let gobs = rows.div_ceil(GOB_ROWS).next_power_of_two().min(BLOCK_GOBS);
        Self { across: row_bytes.div_ceil(GOB_BYTES), down: rows.div_ceil(GOB_ROWS * gobs), gobs }
    }

    fn bytes(self) -> u64 {
        self.across * self.down * self.gobs * GOB_BYTES * GOB_ROWS
    }

    fn place(self, x: u64, y: u64) -> u64 {
        let (row, across) = (y / GOB_ROWS, x / GOB_BYTES);
        let gob = (row / self.gobs * self.across + across) * self.gobs + row % self.gobs;
        gob * GOB_BYTES * GOB_ROWS + in_gob(x % GOB_BYTES, y % GOB_ROWS)
    }
}

impl Image {
    /// A buffer of texels.
    pub fn buffer(address: u64, format: Format, width: u32) -> Self {
        let extent = Extent { width, height: 1, depth: 1 };
        Self { storage: Storage::Buffer, ..Self::array(address, format, extent, 1) }
    }

    /// A two-dimensional image whose rows are `pitch` bytes apart.
    pub fn pitched(address: u64, format: Format, width: u32, height: u32, pitch: u64) -> Self {
        let extent = Extent { width, height, depth: 1 };
        Self { storage: Storage::Pitched(pitch), ..Self::array(address, format, extent, 2) }
    }

    /// An array without layers and with one level.
    pub fn array(address: u64, format: Format, extent: Extent, dimensions: u8) -> Self {
        Self {
            address,
            format,
            extent,
            dimensions,
            layers: 0,
            cube: false,
            levels: 1,
            samples: 1,
            storage: Storage::Array,
        }
    }

    /// Slices of a level: of depth, or layers.
    pub fn slices(&self, level: u32) -> u32 {
        if self.layers > 0 { self.layers } else { self.extent.level(level).depth }
    }

    /// Bytes of a row of texels of a level.
    fn row_bytes(&self, level: u32) -> u64 {
        u64::from(self.extent.level(level).width) * u64::from(self.format.bytes())
    }

    /// Bytes of a slice of a level.
    pub fn slice_bytes(&self, level: u32) -> u64 {
        let rows = u64::from(self.extent.level(level).height);
        match self.storage {
            Storage::Buffer => self.row_bytes(level),
            Storage::Pitched(pitch) => pitch * rows,
            Storage::Array if self.dimensions == 1 => self.row_bytes(level).next_multiple_of(GOB_BYTES),
            Storage::Array => Blocks::of(self.row_bytes(level), rows).bytes(),
        }
    }

    /// Bytes that it takes, all levels and layers.
    pub fn bytes(&self) -> u64 {
        (0..self.levels).map(|level| self.slice_bytes(level) * u64::from(self.slices(level))).sum()
    }

    /// The same, or `None` where they are more than 2^48: what an image of any numbers takes.
    pub fn checked_bytes(&self) -> Option<u64> {
        let Extent { width, height, depth } = self.extent;
        let slices = u128::from(self.layers.max(depth));
        let most = u128::from(width) * u128::from(height.max(8)) * slices * 16 * 4;
        (most < 1 << 60).then(|| self.bytes()).filter(|bytes| *bytes < 1 << 48)
    }

    /// The address of a byte of a row. The place must be within the level.
    pub fn address_of(&self, level: u32, slice: u32, x_bytes: u64, y: u32) -> u64 {
        let before: u64 = (0..level).map(|l| self.slice_bytes(l) * u64::from(self.slices(l))).sum();
        let start = self.address + before + self.slice_bytes(level) * u64::from(slice);
        start
            + match self.storage {
                Storage::Buffer => x_bytes,
                Storage::Pitched(pitch) => u64::from(y) * pitch + x_bytes,
                Storage::Array if self.dimensions == 1 => x_bytes,
                Storage::Array => {
                    let rows = u64::from(self.extent.level(level).height);
                    Blocks::of(self.row_bytes(level), rows).place(x_bytes, y.into())
                }
            }
    }

    /// The pieces of `bytes` bytes from `x_bytes` on in a row: address and length of each, in order. Bytes of a piece
    /// lie side by side.
    pub fn pieces(&self, level: u32, slice: u32, x_bytes: u64, y: u32, bytes: u64) -> Vec<(u64, u64)> {
        let whole = match self.storage {
            Storage::Array if self.dimensions > 1 => 16,
            _ => u64::MAX,
        };
        let (mut at, end) = (x_bytes, x_bytes.saturating_add(bytes));
        let mut out = Vec::new();
        while at < end {
            let most = if whole == u64::MAX { end - at } else { whole - at % whole };
            let length = most.min(end - at);
            out.push((self.address_of(level, slice, at, y), length));
            at += length;
        }
        out
    }
}
