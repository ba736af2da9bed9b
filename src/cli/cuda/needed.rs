//! Which shared libraries a program asks for, read from its file before it runs.

use std::path::Path;

use crate::device::program::closed_library;
use crate::files;

/// The most bytes of a program that are read.
const LONGEST: u64 = 1 << 30;

/// A closed library that a program is linked with: file and name.
pub fn closed(program: &Path) -> Option<(String, &'static str)> {
    let bytes = files::read(program, LONGEST).ok()?;
    let libraries = libraries(&bytes).unwrap_or_default();
    libraries.into_iter().find_map(|library| {
        let name = closed_library(&library)?;
        Some((library, name))
    })
}

fn number(bytes: &[u8], at: u64, size: usize) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let found = bytes.get(at..at.checked_add(size)?)?;
    Some(found.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// The `DT_NEEDED` entries of a 64-bit little-endian ELF file (System V ABI, chapter 5); `None` where it is none.
fn libraries(bytes: &[u8]) -> Option<Vec<String>> {
    if bytes.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, size, count) = (number(bytes, 32, 8)?, number(bytes, 54, 2)?, number(bytes, 56, 2)?);
    let headers: Vec<[u64; 4]> = (0..count)
        .filter_map(|i| {
            let at = table.checked_add(i * size)?;
            let field = |offset| number(bytes, at + offset, 8);
            // Kind, place in the file, address, bytes in the file.
            Some([number(bytes, at, 4)?, field(8)?, field(16)?, field(32)?])
        })
        .collect();
    let dynamic = headers.iter().find(|header| header[0] == 2)?;
    let entries: Vec<(u64, u64)> = (0..dynamic[3] / 16)
        .map_while(|i| {
            let at = dynamic[1].checked_add(i * 16)?;
            Some((number(bytes, at, 8)?, number(bytes, at + 8, 8)?))
        })
        .take_while(|(tag, _)| *tag != 0)
        .collect();
    let strings = entries.iter().find(|(tag, _)| *tag == 5)?.1;
    let load = headers.iter().find(|header| {
        header[0] == 1 && (header[2]..header[2].saturating_add(header[3])).contains(&strings)
    })?;
    let strings = strings - load[2] + load[1];
    let text = |offset: u64| {
        let from = usize::try_from(strings.checked_add(offset)?).ok()?;
        let rest = bytes.get(from..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    Some(entries.iter().filter(|(tag, _)| *tag == 1).filter_map(|(_, offset)| text(*offset)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_a_program_are_read_from_its_file() {
        let own = std::env::current_exe().expect("this test");
        let bytes = std::fs::read(&own).expect("readable");
        let libraries = libraries(&bytes).expect("an ELF file");
        assert!(libraries.iter().any(|library| library.starts_with("libc.so")), "{libraries:?}");
        assert_eq!(closed(&own), None);
        for length in [0, 6, 40, 64, 200, 1000] {
            let _ = super::libraries(&bytes[..length]);
        }
        // The same program with another library of a name as long.
        let folder = tempfile::tempdir().expect("a folder");
        let other = folder.path().join("program");
        let at = bytes.windows(10).position(|bytes| bytes == b"libc.so.6\0").expect("its name");
        let renamed = [&bytes[..at], b"libnpp.so", &bytes[at + 9..]].concat();
        std::fs::write(&other, renamed).expect("written");
        assert_eq!(closed(&other), Some(("libnpp.so".to_string(), "NPP")));
    }
}
