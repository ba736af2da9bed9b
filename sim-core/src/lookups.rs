//! Lookups of textures and loads of surfaces under way: what each lane asked for, and the texels that have arrived.

use sim_frontend::program::{Op, STAGED_OPERANDS, TextureOp};
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

use crate::reconvergence::Lanes;
use crate::registers::{LaneRow, write_element, write_loaded};
use crate::texture::{Format, MAX_TAPS, Plan, Sampler, half_of};

/// Operands handed over to the next texture instruction, by place and lane.
pub type Staged = [[u64; WARP_LANES]; STAGED_OPERANDS];

/// No lookup.
pub const NO_LOOKUP: u32 = u32::MAX;

/// What a lane makes of its texels.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
#[allow(clippy::large_enum_variant, reason = "lookups are the usual case, and their list is used again")]
pub enum Asked {
    /// A lookup of a texture.
    Sampled {
        /// Its texels.
        plan: Plan,
        /// Their format.
        format: Format,
        /// How they are sampled.
        sampler: Sampler,
    },
    /// The bytes as they are, at an address; zeros where there is none.
    Raw(Option<u64>, u32),
}

impl Asked {
    /// The address of a texel.
    pub fn tap(&self, tap: usize) -> Option<u64> {
        match self {
            Self::Sampled { plan, .. } => plan.taps().get(tap).and_then(|tap| tap.address),
            Self::Raw(address, _) => address.filter(|_| tap == 0),
        }
    }

    /// Bytes of a texel.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::Sampled { format, .. } => format.bytes(),
            Self::Raw(_, bytes) => *bytes,
        }
    }

    /// Texels that it has at most.
    pub fn taps(&self) -> usize {
        match self {
            Self::Sampled { plan, .. } => plan.taps().len(),
            Self::Raw(..) => 1,
        }
    }
}

/// A lookup of a warp.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Lookup {
    lanes: LaneMask,
    /// By part of the access: the texel of each lane that it reads, and its bytes.
    parts: Vec<(u8, u8)>,
    asked: Vec<Option<Asked>>,
    texels: Vec<[[u8; 16]; MAX_TAPS]>,
}

/// The lookups of an SM that are under way.
#[derive(Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Lookups {
    list: Vec<Lookup>,
    free: Vec<u32>,
}

impl Lookups {
    /// Forgets all.
    pub fn reset(&mut self) {
        let Self { list, free } = self;
        list.clear();
        free.clear();
    }

    /// Begins a lookup of the lanes that ask for something; its number is used again after its end.
    pub fn begin(&mut self, asked: [Option<Asked>; WARP_LANES]) -> u32 {
        let Some(number) = self.free.pop() else {
            self.list.push(Lookup {
                lanes: 0,
                parts: Vec::new(),
                asked: Vec::from(asked),
                texels: vec![[[0; 16]; MAX_TAPS]; WARP_LANES],
            });
            return (self.list.len() - 1) as u32;
        };
        let lookup = &mut self.list[number as usize];
        lookup.lanes = 0;
        lookup.parts.clear();
        lookup.asked.clear();
        lookup.asked.extend(asked);
        number
    }

    /// One more part of it: texel `tap` of `bytes` bytes, for some lanes.
    pub fn part(&mut self, number: u32, tap: u8, bytes: u8, lanes: LaneMask) {
        let lookup = &mut self.list[number as usize];
        lookup.parts.push((tap, bytes));
        lookup.lanes |= lanes;
    }

    /// What a lane asks for.
    pub fn asked(&self, number: u32, lane: u32) -> Option<&Asked> {
        self.list.get(number as usize)?.asked.get(lane as usize)?.as_ref()
    }

    /// Lanes that wait for texels.
    pub fn lanes(&self, number: u32) -> LaneMask {
        self.list[number as usize].lanes
    }

    /// Bytes of each texel of a part.
    pub fn part_bytes(&self, number: u32, part: u8) -> usize {
        self.list[number as usize].parts[usize::from(part)].1.into()
    }

    /// A texel has arrived.
    pub fn arrived(&mut self, number: u32, part: u8, lane: u32, bytes: &[u8]) {
        let lookup = &mut self.list[number as usize];
        let (tap, _) = lookup.parts[usize::from(part)];
        lookup.texels[lane as usize][usize::from(tap)][..bytes.len()].copy_from_slice(bytes);
    }

    /// Writes the results of some lanes.
    pub fn write(&self, number: u32, rows: &mut [LaneRow], op: &Op, facts: &TextureOp, lanes: LaneMask) {
        let lookup = &self.list[number as usize];
        for lane in Lanes(lanes) {
            let texels = &lookup.texels[lane as usize];
            match &lookup.asked[lane as usize] {
                Some(Asked::Sampled { plan, format, sampler }) => {
                    write_channels(rows, op, facts, lane, plan.result(*format, sampler, texels));
                }
                Some(Asked::Raw(address, bytes)) => {
                    let found = if address.is_some() { texels[0] } else { [0; 16] };
                    write_loaded(rows, op, &facts.memory, lane, &found[..*bytes as usize]);
                }
                None => {}
            }
        }
    }

    /// It is over.
    pub fn end(&mut self, number: u32) {
        self.free.push(number);
    }
}

/// The channels of a lookup go to its destinations, as words or as halves.
fn write_channels(rows: &mut [LaneRow], op: &Op, facts: &TextureOp, lane: u32, channels: [u32; 4]) {
    let half = |channel: usize| u32::from(half_of(f32::from_bits(channels[channel])));
    for (i, row) in op.dst.iter().enumerate().filter(|(_, row)| row.is_some()) {
        let value = match facts.halves {
            0 => channels[i],
            1 => half(i),
            _ => half(2 * (i & 1)) | half(2 * (i & 1) + 1) << 16,
        };
        write_element(rows, *row, lane, value.into(), 32);
    }
}
