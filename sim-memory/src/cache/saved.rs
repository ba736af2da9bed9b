//! The state of a cache as it is written: of lines that hold nothing only that they do.

use std::io::{Error, Read, Result, Write};

use borsh::{BorshDeserialize, BorshSerialize};

use super::{Cache, INIT, Line, short};
use crate::line::{LINE_BYTES, LineData};

impl BorshSerialize for Cache {
    fn serialize<W: Write>(&self, writer: &mut W) -> Result<()> {
        let Self { tags: _, lines, data, order, classed, dirty_sets, dirty_lines, held, stats, .. } = self;
        let Self { most_dirty, equal_clean, write_allocate, ways, sets, .. } = self;
        let Self { index, by_sets, fold, changes, stores, .. } = self;
        let held_lines = || (0..).zip(lines).zip(data).filter(|((_, line), _)| **line != INIT);
        (lines.len() as u64, held_lines().count() as u64).serialize(writer)?;
        for ((i, line), data) in held_lines() {
            let i: u64 = i;
            (i, line, data).serialize(writer)?;
        }
        (order, classed, dirty_sets, dirty_lines, held).serialize(writer)?;
        (most_dirty, equal_clean, write_allocate, ways, sets, index, by_sets, fold).serialize(writer)?;
        (stats, changes, stores).serialize(writer)
    }
}

impl BorshDeserialize for Cache {
    fn deserialize_reader<R: Read>(reader: &mut R) -> Result<Self> {
        let (count, held_lines) = <(u64, u64)>::deserialize_reader(reader)?;
        let mut lines = vec![INIT; count as usize];
        let mut data = vec![[0; LINE_BYTES as usize]; count as usize];
        for _ in 0..held_lines {
            let (i, line, bytes) = <(u64, Line, LineData)>::deserialize_reader(reader)?;
            let at = lines.get_mut(i as usize).zip(data.get_mut(i as usize));
            let (own_line, own_bytes) = at.ok_or_else(|| Error::other("a line is beyond its cache"))?;
            (*own_line, *own_bytes) = (line, bytes);
        }
        let tags = lines.iter().map(|line| short(line.tag)).collect();
        let (order, classed, dirty_sets, dirty_lines, held) = BorshDeserialize::deserialize_reader(reader)?;
        let (most_dirty, equal_clean, write_allocate, ways, sets, index, by_sets, fold) =
            BorshDeserialize::deserialize_reader(reader)?;
        let (stats, changes, stores) = BorshDeserialize::deserialize_reader(reader)?;
        Ok(Self {
            tags,
            lines,
            data,
            order,
            classed,
            dirty_sets,
            dirty_lines,
            held,
            most_dirty,
            equal_clean,
            write_allocate,
            ways,
            sets,
            index,
            by_sets,
            fold,
            stats,
            changes,
            stores,
        })
    }
}
