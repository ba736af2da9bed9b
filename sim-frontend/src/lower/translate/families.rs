//! Families of registers and of variables of the frame: `%r<8>` declares `%r0` to `%r7` (PTX ISA
//! "Parameterized Variable Names").

use std::cell::Cell;

use sim_memory::vocabulary::{ScalarType, StateSpace};

use super::Local;
use crate::lower::ir::Reg;
use crate::lower::tf7_unique_names::Scopes;

/// A family: its members are consecutive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    pub(super) count: u32,
    pub(super) members: Members,
}

/// What the members of a family are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Members {
    /// Registers from the first on.
    Registers(Reg, ScalarType),
    /// Registers of 128 bits: two of 64 each.
    Wide(Reg),
    /// Vectors of so many registers.
    Vectors(Reg, u32, ScalarType),
    /// Variables of the frame: space, place of the first, bytes from one to the next, bytes of one.
    Variables(StateSpace, u64, u64, u64),
}

impl Family {
    /// What a member is.
    pub(super) fn member(&self, number: u32) -> Option<Local> {
        (number < self.count).then(|| match self.members {
            Members::Registers(first, ty) => Local::Reg(first + number, ty),
            Members::Wide(first) => Local::Wide(first + 2 * number),
            Members::Vectors(first, width, ty) => Local::Vector(first + number * width, width, ty),
            Members::Variables(space, first, stride, _) => {
                Local::Variable(space, first + u64::from(number) * stride)
            }
        })
    }
}

/// A prefix as a number, and what it means here.
type Recent = Option<(u64, Family)>;

/// The families that can be seen. Nearly every operand is a member of one of a few, so that what
/// was found last stands beside the scopes.
#[derive(Debug, Default)]
pub(super) struct Families<'a> {
    scopes: Scopes<'a, Family>,
    recent: [Cell<Recent>; 16],
}

impl<'a> Families<'a> {
    /// Opens a block.
    pub(super) fn open(&mut self) {
        self.scopes.open();
    }

    /// Closes the innermost block.
    pub(super) fn close(&mut self) {
        self.recent = Default::default();
        self.scopes.close();
    }

    /// Declares a family in the innermost block; gives it back if the prefix is taken there.
    pub(super) fn declare(&mut self, prefix: &'a str, family: Family) -> Result<(), Family> {
        self.recent = Default::default();
        self.scopes.declare(prefix, family)
    }

    /// The family of a prefix, if the innermost block declares it.
    pub(super) fn find_innermost(&self, prefix: &str) -> Option<&Family> {
        self.scopes.find_innermost(prefix)
    }

    /// The family of a prefix.
    pub(super) fn find(&self, prefix: &str) -> Option<Family> {
        let bytes = prefix.as_bytes();
        if bytes.len() > 8 {
            return self.scopes.find(prefix).copied();
        }
        // No name holds a zero byte, so that prefixes of different lengths differ.
        let key = bytes.iter().fold(0u64, |key, byte| key << 8 | u64::from(*byte));
        let slot = &self.recent[(key ^ key >> 8) as usize % self.recent.len()];
        match slot.get() {
            Some((known, family)) if known == key => Some(family),
            _ => {
                let found = self.scopes.find(prefix).copied();
                if let Some(family) = found {
                    slot.set(Some((key, family)));
                }
                found
            }
        }
    }
}

/// `%r3` as a member of the family `%r`: prefix and number.
pub(super) fn split_number(name: &str) -> Option<(&str, u32)> {
    let bytes = name.as_bytes();
    let digits = bytes.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let at = bytes.len() - digits;
    if !(1..=10).contains(&digits) || (bytes[at] == b'0' && digits > 1) {
        return None;
    }
    let number = bytes[at..].iter().fold(0u64, |number, digit| number * 10 + u64::from(digit - b'0'));
    Some((&name[..at], u32::try_from(number).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(first: Reg) -> Family {
        Family { count: 4, members: Members::Registers(first, ScalarType::B32) }
    }

    fn first(family: &Family) -> Reg {
        match family.members {
            Members::Registers(first, _) => first,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_inner_family_hides_an_outer_one_as_long_as_its_block() {
        let mut families = Families::default();
        let first = |families: &Families<'_>, prefix| {
            families.find(prefix).map(|family| super::tests::first(&family))
        };
        assert_eq!(first(&families, "%r"), None);
        families.declare("%r", family(0)).unwrap();
        assert_eq!(first(&families, "%r"), Some(0));
        families.open();
        assert_eq!(first(&families, "%r"), Some(0));
        families.declare("%r", family(4)).unwrap();
        assert_eq!(super::tests::first(&families.declare("%r", family(8)).unwrap_err()), 8);
        assert_eq!(first(&families, "%r"), Some(4));
        families.close();
        assert_eq!(first(&families, "%r"), Some(0));
    }

    #[test]
    fn prefixes_are_told_apart() {
        let names: Vec<String> = (b'a'..=b'z')
            .flat_map(|letter| [1, 2, 3, 7, 8, 9, 20].map(|n| char::from(letter).to_string().repeat(n)))
            .collect();
        let mut families = Families::default();
        for (i, name) in names.iter().enumerate() {
            families.declare(name, family(i as Reg)).unwrap();
        }
        for _ in 0..2 {
            for (i, name) in names.iter().enumerate() {
                assert_eq!(families.find(name).map(|family| first(&family)), Some(i as Reg), "{name}");
            }
        }
    }

    #[test]
    fn numbers_of_members() {
        assert_eq!(split_number("%r3"), Some(("%r", 3)));
        assert_eq!(split_number("%r0"), Some(("%r", 0)));
        assert_eq!(split_number("a1b23"), Some(("a1b", 23)));
        assert_eq!(split_number("%r4294967295"), Some(("%r", u32::MAX)));
        for name in ["", "%r", "%r03", "%r00", "%r4294967296", "%r99999999999"] {
            assert_eq!(split_number(name), None, "{name}");
        }
    }
}
