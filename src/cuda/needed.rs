//! Which shared libraries a program asks for, read from its file before it runs.

use std::path::Path;

use object::LittleEndian;
use object::elf::DT_NEEDED;
use object::read::elf::ElfFile64;

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

/// The libraries that a 64-bit little-endian ELF file needs (`DT_NEEDED`); `None` where it is none.
fn libraries(bytes: &[u8]) -> Option<Vec<String>> {
    let file = ElfFile64::<LittleEndian>::parse(bytes).ok()?;
    let table = file.elf_dynamic_table().ok()?;
    let needed = table.iter().filter(|entry| entry.tag == DT_NEEDED);
    let names = needed.filter_map(|entry| table.string(entry).ok());
    Some(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
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
