//! Textures and surfaces (PTX ISA "Texture Instructions", "Surface Instructions"): what each lane asks for becomes
//! accesses to global memory, a texel of every lane at a time.

use sim_frontend::form::{Geometry, ImageQuery, MipLevel};
use sim_frontend::program::{
    Extra, Op, OpClass, Pc, STAGED_OPERANDS, TEXTURE_OPERANDS, TextureOp, TextureStep,
};
use sim_memory::vocabulary::{LaneMask, StateSpace, WARP_LANES};

use super::resident::{Resident, Step};
use crate::code::Code;
use crate::error::Violation;
use crate::lookups::{Asked, NO_LOOKUP};
use crate::reconvergence::{Lanes, Reconvergence};
use crate::registers::{read_element, write_element, write_pred};
use crate::texture::surface::{NoAddress, Place, formatted};
use crate::texture::{AddressMode, Bound, Filter, Image, Level, Lookup, MAX_TAPS, Sampler};
use crate::warp::Warp;

const RULE: &str = "texture";

/// An operand of a lane.
fn input(warp: &Warp, code: &Code, op: &Op, facts: &TextureOp, place: usize, lane: u32) -> u64 {
    match place.checked_sub(TEXTURE_OPERANDS) {
        None => {
            let bits = if facts.wide >> place & 1 == 1 { 64 } else { 32 };
            let row = op.src[1 + place];
            if row.is_some() { read_element(&warp.rows, &code.consts, row, lane, bits) } else { 0 }
        }
        Some(staged) => warp.staged.as_ref().map_or(0, |all| all[staged][lane as usize]),
    }
}

/// The operands of a lane in their order.
struct Operands<'w> {
    warp: &'w Warp,
    code: &'w Code,
    op: &'w Op,
    facts: &'w TextureOp,
    lane: u32,
    next: usize,
}

impl Operands<'_> {
    fn wide(&mut self) -> u64 {
        self.next += 1;
        input(self.warp, self.code, self.op, self.facts, self.next - 1, self.lane)
    }

    fn word(&mut self) -> u32 {
        self.wide() as u32
    }

    /// `count` words, the others 0.
    fn words(&mut self, count: usize) -> [u32; 3] {
        let mut out = [0; 3];
        out.iter_mut().take(count).for_each(|word| *word = self.word());
        out
    }

    fn layer(&mut self) -> u32 {
        if self.facts.geometry.layered() { self.word() } else { 0 }
    }
}

impl<P: Reconvergence> Resident<P> {
    /// Operands of the texture instruction that follows.
    pub(super) fn stage_operands(&mut self, code: &Code, w: usize, op: &Op, exec: LaneMask) {
        let Extra::TextureOperands(wide) = op.extra else { return };
        let warp = &mut self.warps[w];
        let mut staged = warp.staged.take().unwrap_or_else(|| Box::new([[0; WARP_LANES]; STAGED_OPERANDS]));
        for (slot, row) in op.src.iter().enumerate().filter(|(_, row)| row.is_some()) {
            let bits = if wide >> slot & 1 == 1 { 64 } else { 32 };
            for lane in Lanes(exec) {
                let value = read_element(&warp.rows, &code.consts, *row, lane, bits);
                staged[op.imm as usize + slot][lane as usize] = value;
            }
        }
        warp.staged = Some(staged);
    }

    /// One texture or surface instruction.
    #[inline(never)]
    pub(super) fn texture(
        &mut self,
        code: &Code,
        w: usize,
        pc: Pc,
        op: &Op,
        exec: LaneMask,
    ) -> Result<(), Violation> {
        self.requests.clear();
        self.outcome = Step::Done;
        let Extra::Texture(facts) = &op.extra else {
            return Err(Violation::new(RULE, exec, "internal error: a texture instruction has no operands"));
        };
        if exec == 0 {
            return Ok(());
        }
        match facts.step {
            TextureStep::Query(query) => self.query_image(code, w, op, facts, query, exec),
            TextureStep::Sample | TextureStep::Gather | TextureStep::Load => {
                let mut asked = [const { None }; WARP_LANES];
                for lane in Lanes(exec) {
                    let one = match facts.step {
                        TextureStep::Load => self.load_of(code, w, op, facts, lane),
                        _ => self.lookup_of(code, w, op, facts, lane),
                    };
                    asked[lane as usize] = Some(one?);
                }
                if op.pdst[0].is_some() {
                    // All of an image is resident.
                    write_pred(&mut self.warps[w].preds, op.pdst[0], exec, LaneMask::MAX);
                }
                self.look_up(w, pc, op, facts, exec, asked)
            }
            TextureStep::Store | TextureStep::Reduce => self.write_surface(code, w, pc, op, facts, exec),
        }
    }

    /// What a handle stands for.
    fn bound(&self, handle: u64, lane: u32) -> Result<&Bound, Violation> {
        self.world.textures.get(&handle).ok_or_else(|| {
            let reason = format!("no texture, surface or sampler is bound to handle {handle:#x}");
            Violation::new(RULE, 1 << lane, reason)
        })
    }

    /// The handle of a lane.
    fn handle(&self, code: &Code, w: usize, op: &Op, lane: u32) -> u64 {
        read_element(&self.warps[w].rows, &code.consts, op.src[0], lane, 64)
    }

    fn lookup_of(
        &self,
        code: &Code,
        w: usize,
        op: &Op,
        facts: &TextureOp,
        lane: u32,
    ) -> Result<Asked, Violation> {
        let handle = self.handle(code, w, op, lane);
        let Bound::Texture(image, own) = self.bound(handle, lane)? else {
            let reason = format!("handle {handle:#x} is no texture");
            return Err(Violation::new(RULE, 1 << lane, reason));
        };
        if facts.geometry.cube() && !image.cube {
            let reason = format!("the texture of handle {handle:#x} is no cubemap");
            return Err(Violation::new(RULE, 1 << lane, reason));
        }
        if facts.samples != (image.samples > 1) {
            let reason = match facts.samples {
                true => format!(
                    "the texture of handle {handle:#x} has one sample, .2dms and .a2dms read one of several"
                ),
                false => format!(
                    "the texture of handle {handle:#x} has {} samples, which .2dms and .a2dms read",
                    image.samples
                ),
            };
            return Err(Violation::new(RULE, 1 << lane, reason));
        }
        let mut operands = Operands { warp: &self.warps[w], code, op, facts, lane, next: 0 };
        let sample = if facts.samples { operands.word() } else { 0 };
        if sample >= image.samples {
            let reason = format!("sample {sample} of a texture of {} samples", image.samples);
            return Err(Violation::new(RULE, 1 << lane, reason));
        }
        let (mut geometry, mut layer) = (facts.geometry, operands.layer());
        if facts.samples {
            geometry = Geometry::TwoArray;
            layer = layer.min((image.layers / image.samples).saturating_sub(1)) * image.samples + sample;
        }
        let count = facts.geometry.coordinates();
        let coordinates = operands.words(count);
        let floats = |words: [u32; 3]| words.map(f32::from_bits);
        let level = match facts.level {
            MipLevel::Base => Level::Base,
            MipLevel::Detail => {
                let word = operands.word();
                Level::Detail(if facts.integer { word as i32 as f32 } else { f32::from_bits(word) })
            }
            MipLevel::Gradient => {
                let along_x = floats(operands.words(count));
                Level::Gradient(along_x, floats(operands.words(count)))
            }
        };
        // Four bits with a sign: -8 to 7.
        let signed = |word: u32| (word << 28) as i32 >> 28;
        let offset = if facts.offset { operands.words(facts.geometry.axes()).map(signed) } else { [0; 3] };
        let reference = facts.reference.then(|| f32::from_bits(operands.word()));
        let sampler = match facts.sampler {
            true => {
                let handle = operands.wide();
                self.bound(handle, lane)?.sampler().ok_or_else(|| {
                    Violation::new(RULE, 1 << lane, format!("handle {handle:#x} is no sampler"))
                })?
            }
            false => own,
        };
        let lookup = Lookup {
            geometry,
            coordinates,
            integer: facts.integer,
            layer,
            level,
            offset,
            reference,
            gather: (facts.step == TextureStep::Gather).then_some(facts.component),
        };
        let plan = lookup.plan(image, sampler);
        Ok(Asked::Sampled { plan, format: image.format, sampler: sampler.clone() })
    }

    /// The image of a surface.
    fn surface(&self, handle: u64, lane: u32) -> Result<&Image, Violation> {
        match self.bound(handle, lane)? {
            Bound::Surface(image) => Ok(image),
            _ => Err(Violation::new(RULE, 1 << lane, format!("handle {handle:#x} is no surface"))),
        }
    }

    /// The place that a lane accesses, and its address.
    fn place_of(
        image: &Image,
        facts: &TextureOp,
        operands: &mut Operands<'_>,
        bytes: u32,
    ) -> Result<Option<u64>, Violation> {
        let lane = operands.lane;
        let layer = operands.layer();
        let at = operands.words(facts.geometry.coordinates()).map(|word| word as i32);
        let place = Place { geometry: facts.geometry, at, layer, texels: facts.formatted };
        match place.address(image, bytes, facts.beyond) {
            Ok(address) => Ok(Some(address)),
            Err(NoAddress::Dropped) => Ok(None),
            Err(NoAddress::Outside) => {
                let coordinates: Vec<String> =
                    at.iter().take(facts.geometry.coordinates()).map(i32::to_string).collect();
                let unit = if facts.formatted { "x in texels" } else { "x in bytes" };
                let reason = format!(
                    "an access of {bytes} bytes at ({}) of layer {layer}, {unit}, is outside the surface of {} by {} by {} texels of {} bytes",
                    coordinates.join(", "),
                    image.extent.width,
                    image.extent.height,
                    image.extent.depth,
                    image.format.bytes()
                );
                Err(Violation::new(RULE, 1 << lane, reason))
            }
            Err(NoAddress::Misaligned) => {
                let reason = format!(
                    "x = {} of a surface access of {bytes} bytes is not a multiple of {bytes}",
                    at[0]
                );
                Err(Violation::new(RULE, 1 << lane, reason))
            }
        }
    }

    fn load_of(
        &self,
        code: &Code,
        w: usize,
        op: &Op,
        facts: &TextureOp,
        lane: u32,
    ) -> Result<Asked, Violation> {
        let image = self.surface(self.handle(code, w, op, lane), lane)?;
        let bytes = u32::from(facts.memory.element_bytes) * u32::from(facts.memory.vector);
        let mut operands = Operands { warp: &self.warps[w], code, op, facts, lane, next: 0 };
        Ok(Asked::Raw(Self::place_of(image, facts, &mut operands, bytes)?, bytes))
    }

    /// The accesses of a lookup: texel by texel, those of all lanes together.
    fn look_up(
        &mut self,
        w: usize,
        pc: Pc,
        op: &Op,
        facts: &TextureOp,
        exec: LaneMask,
        asked: [Option<Asked>; WARP_LANES],
    ) -> Result<(), Violation> {
        let number = self.lookups.begin(asked);
        let mut sizes = 0u32;
        let mut most = 0;
        for lane in Lanes(exec) {
            if let Some(asked) = self.lookups.asked(number, lane) {
                sizes |= asked.bytes();
                most = most.max(asked.taps());
            }
        }
        for size in [1, 2, 4, 8, 16].into_iter().filter(|size| sizes & size != 0) {
            for tap in 0..most.min(MAX_TAPS) {
                let mut addresses = [0; WARP_LANES];
                let mut lanes = 0;
                for lane in Lanes(exec) {
                    let asked = self.lookups.asked(number, lane).filter(|asked| asked.bytes() == size);
                    if let Some(address) = asked.and_then(|asked| asked.tap(tap)) {
                        addresses[lane as usize] = address;
                        lanes |= 1 << lane;
                    }
                }
                if lanes != 0 {
                    self.in_buffers(OpClass::Load, lanes, &addresses, size.into())?;
                    self.lookups.part(number, tap as u8, size as u8, lanes);
                    self.image_request(w, pc, lanes, &addresses, size);
                }
            }
        }
        let parts = self.requests.len() as u8;
        self.requests.number_parts(parts, number);
        // Lanes that read only the border have their result at once.
        let waiting = if parts == 0 { 0 } else { self.lookups.lanes(number) };
        self.lookups.write(number, &mut self.warps[w].rows, op, facts, exec & !waiting);
        if parts == 0 {
            self.lookups.end(number);
        } else {
            self.outcome = Step::Access;
        }
        Ok(())
    }

    fn image_request(
        &mut self,
        w: usize,
        pc: Pc,
        lanes: LaneMask,
        addresses: &[u64; WARP_LANES],
        bytes: u32,
    ) {
        let addresses = super::access::only(addresses, lanes);
        let request = self.requests.next();
        (request.warp, request.pc, request.space) = (w, pc, StateSpace::Global);
        (request.lanes, request.bytes) = (lanes, bytes);
        request.addresses = addresses;
        (request.part, request.parts) = (0, 1);
        request.lookup = NO_LOOKUP;
    }

    /// `sust`, `sured`.
    fn write_surface(
        &mut self,
        code: &Code,
        w: usize,
        pc: Pc,
        op: &Op,
        facts: &TextureOp,
        exec: LaneMask,
    ) -> Result<(), Violation> {
        let memory = &facts.memory;
        let elements = usize::from(memory.vector);
        let mut places = [None; WARP_LANES];
        let mut data = [[0u8; 16]; WARP_LANES];
        let mut operands_of = [[0u64; 2]; WARP_LANES];
        for lane in Lanes(exec) {
            let l = lane as usize;
            let image = self.surface(self.handle(code, w, op, lane), lane)?;
            let formatted_store = facts.formatted && facts.step == TextureStep::Store;
            let bytes = match facts.step {
                _ if formatted_store => image.format.bytes(),
                TextureStep::Store => u32::from(memory.element_bytes) * u32::from(memory.vector),
                _ => u32::from(memory.element_bytes),
            };
            let mut operands = Operands { warp: &self.warps[w], code, op, facts, lane, next: 0 };
            if let Some(address) = Self::place_of(image, facts, &mut operands, bytes)? {
                places[l] = Some((address, bytes));
            }
            if facts.step == TextureStep::Reduce {
                operands_of[l] = [operands.wide(), 0];
            } else if formatted_store {
                let mut channels = [0; 4];
                channels.iter_mut().take(elements).for_each(|channel| *channel = operands.word());
                data[l] = formatted(image.format, &channels);
            } else {
                let size = usize::from(memory.element_bytes);
                for i in 0..elements {
                    data[l][i * size..][..size].copy_from_slice(&operands.wide().to_le_bytes()[..size]);
                }
            }
        }
        for size in [1, 2, 4, 8, 16] {
            let mut addresses = [0; WARP_LANES];
            let mut lanes = 0;
            for lane in Lanes(exec) {
                if let Some((address, _)) = places[lane as usize].filter(|(_, bytes)| *bytes == size) {
                    addresses[lane as usize] = address;
                    lanes |= 1 << lane;
                }
            }
            if lanes != 0 {
                self.in_buffers(OpClass::Store, lanes, &addresses, size.into())?;
                self.image_request(w, pc, lanes, &addresses, size);
                let request = self.requests.last_mut();
                (request.data, request.operands) = (data, operands_of);
                self.outcome = Step::Access;
            }
        }
        Ok(())
    }

    /// `txq`, `suq`, `istypep`.
    fn query_image(
        &mut self,
        code: &Code,
        w: usize,
        op: &Op,
        facts: &TextureOp,
        query: ImageQuery,
        exec: LaneMask,
    ) -> Result<(), Violation> {
        use ImageQuery as Q;
        for lane in Lanes(exec) {
            let handle = self.handle(code, w, op, lane);
            if matches!(query, Q::IsTexture | Q::IsSampler | Q::IsSurface) {
                let holds = match (query, self.world.textures.get(&handle)) {
                    (Q::IsTexture, Some(Bound::Texture(..)))
                    | (Q::IsSampler, Some(Bound::Sampler(_)))
                    | (Q::IsSurface, Some(Bound::Surface(_))) => LaneMask::MAX,
                    _ => 0,
                };
                write_pred(&mut self.warps[w].preds, op.pdst[0], 1 << lane, holds);
                continue;
            }
            let level = if facts.level == MipLevel::Detail {
                input(&self.warps[w], code, op, facts, 0, lane) as u32
            } else {
                0
            };
            let bound = self.bound(handle, lane)?;
            let value = match (bound.image(), bound.sampler()) {
                (_, Some(sampler)) if of_sampler(query) => sampler_facts(sampler, query),
                (Some(image), _) => image_facts(image, query, level.min(image.levels - 1)),
                _ => {
                    return Err(Violation::new(
                        RULE,
                        1 << lane,
                        format!("handle {handle:#x} has no such attribute"),
                    ));
                }
            };
            if op.dst[0].is_some() {
                write_element(&mut self.warps[w].rows, op.dst[0], lane, value.into(), 32);
            }
        }
        Ok(())
    }
}

fn of_sampler(query: ImageQuery) -> bool {
    use ImageQuery as Q;
    matches!(query, Q::NormalizedCoords | Q::ForceUnnormalizedCoords | Q::FilterMode | Q::AddrMode(_))
}

fn sampler_facts(sampler: &Sampler, query: ImageQuery) -> u32 {
    match query {
        ImageQuery::NormalizedCoords => sampler.normalized.into(),
        ImageQuery::FilterMode => u32::from(sampler.filter == Filter::Linear),
        // In the order of the manual: wrap, mirror, clamp_ogl, clamp_to_edge, clamp_to_border.
        ImageQuery::AddrMode(axis) => match sampler.address[usize::from(axis)] {
            AddressMode::Wrap => 0,
            AddressMode::Mirror => 1,
            AddressMode::Clamp => 3,
            AddressMode::Border => 4,
        },
        _ => 0,
    }
}

fn image_facts(image: &Image, query: ImageQuery, level: u32) -> u32 {
    let extent = image.extent.level(level);
    let axes = image.dimensions;
    match query {
        ImageQuery::Width => extent.width,
        ImageQuery::Height if axes > 1 => extent.height,
        ImageQuery::Depth if axes > 2 => extent.depth,
        ImageQuery::ChannelDataType => image.format.channels.number(),
        ImageQuery::ChannelOrder => image.format.count.into(),
        ImageQuery::ArraySize if image.samples > 1 && image.layers == image.samples => 0,
        ImageQuery::ArraySize => image.layers / image.samples.max(1),
        ImageQuery::NumMipmapLevels => image.levels,
        ImageQuery::NumSamples => image.samples,
        _ => 0,
    }
}
