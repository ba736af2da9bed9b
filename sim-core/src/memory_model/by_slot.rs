//! What is known of the warps of SMs, by their slots.

/// Something of warps, by SM and slot.
#[derive(Clone, Debug)]
pub struct BySlot<T>(Vec<Vec<Option<Box<T>>>>);

impl<T> Default for BySlot<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> BySlot<T> {
    /// What a slot has.
    pub fn get(&self, sm: u32, slot: u32) -> Option<&T> {
        self.0.get(sm as usize)?.get(slot as usize)?.as_deref()
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, sm: u32, slot: u32) -> Option<&mut T> {
        self.0.get_mut(sm as usize)?.get_mut(slot as usize)?.as_deref_mut()
    }

    /// The place of a slot.
    pub fn room(&mut self, (sm, slot): (u32, u32)) -> &mut Option<Box<T>> {
        let (sm, slot) = (sm as usize, slot as usize);
        if self.0.len() <= sm {
            self.0.resize_with(sm + 1, Vec::new);
        }
        if self.0[sm].len() <= slot {
            self.0[sm].resize_with(slot + 1, || None);
        }
        &mut self.0[sm][slot]
    }

    /// A slot has something new.
    pub fn insert(&mut self, at: (u32, u32), new: T) {
        *self.room(at) = Some(Box::new(new));
    }

    /// What a slot had.
    pub fn remove(&mut self, (sm, slot): (u32, u32)) -> Option<Box<T>> {
        self.0.get_mut(sm as usize)?.get_mut(slot as usize)?.take()
    }

    /// The slots that have one, in order.
    pub fn slots(&self) -> Vec<(u32, u32)> {
        let of = |(sm, slots): (usize, &Vec<Option<Box<T>>>)| {
            let used = slots.iter().enumerate().filter(|(_, slot)| slot.is_some());
            used.map(|(slot, _)| (sm as u32, slot as u32)).collect::<Vec<_>>()
        };
        self.0.iter().enumerate().flat_map(of).collect()
    }
}
