//! Shared libraries by the names under which programs look for CUDA's runtime, driver and linker. Each has nothing but its name, the
//! version that programs ask for (`cudaMalloc@libcudart.so.13`), and the library that has the functions as what it
//! needs. A linker puts one version on a symbol; symbols without a version stand for any where another library has the
//! version. (System V ABI, "Dynamic Linking"; Linux Standard Base, "Symbol Versioning".)

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Names of the runtime by version of CUDA, and of the driver; each is the name of its symbols' version too. What looks a
/// function up in one (`dlsym`) finds it in the library that it needs.
pub const NAMES: [&str; 4] = ["libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13", "libcuda.so.1"];

/// Names of NVIDIA's linker library by version of CUDA. Python packages look for it beside themselves unless it is loaded
/// already: these are preloaded.
pub const LINKERS: [&str; 2] = ["libnvJitLink.so.12", "libnvJitLink.so.13"];

/// Writes a library for each name to a folder.
///
/// # Errors
/// A file cannot be written.
pub fn write_all(folder: &Path, library: &Path) -> io::Result<()> {
    NAMES
        .iter()
        .chain(&LINKERS)
        .try_for_each(|name| std::fs::write(folder.join(name), image(name, library.as_os_str().as_bytes())))
}

/// The hash of a name (System V ABI, "Hash Table").
fn hash(name: &str) -> u32 {
    name.bytes().fold(0u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    })
}

/// Numbers in the order of a file.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn halves(&mut self, values: &[u16]) -> &mut Self {
        values.iter().for_each(|value| self.0.extend(value.to_le_bytes()));
        self
    }

    fn words(&mut self, values: &[u32]) -> &mut Self {
        values.iter().for_each(|value| self.0.extend(value.to_le_bytes()));
        self
    }

    fn longs(&mut self, values: &[u64]) -> &mut Self {
        values.iter().for_each(|value| self.0.extend(value.to_le_bytes()));
        self
    }

    /// Aligns; gives the offset.
    fn place(&mut self) -> u64 {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self.0.len() as u64
    }
}

/// Bytes of the file header and of a program header.
const HEADERS: [u64; 2] = [64, 56];

/// The file of a library.
fn image(name: &str, library: &[u8]) -> Vec<u8> {
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let mut strings = vec![0];
    let mut string = |text: &[u8]| {
        let at = strings.len() as u32;
        strings.extend_from_slice(text);
        strings.push(0);
        at
    };
    let (own, needed) = (string(name.as_bytes()), string(library));
    let mut out = Bytes::default();
    out.0.resize((HEADERS[0] + 3 * HEADERS[1]) as usize, 0);
    let symbols = out.place();
    out.longs(&[0; 3]);
    let table = out.place();
    out.words(&[1, 1, 0, 0]);
    let versions = out.place();
    out.halves(&[0]);
    let definitions = out.place();
    // Version 1 is the library itself, 2 the one of its symbols.
    for (flags, index, next) in [(1, 1, 28), (0, 2, 0)] {
        out.halves(&[1, flags, index, 1]).words(&[hash(name), 20, next]).words(&[own, 0]);
    }
    let texts = out.place();
    out.0.extend_from_slice(&strings);
    let dynamic = out.place();
    let entries: [[u64; 2]; 11] = [
        [14, own.into()],           // SONAME
        [1, needed.into()],         // NEEDED
        [4, table],                 // HASH
        [5, texts],                 // STRTAB
        [6, symbols],               // SYMTAB
        [10, strings.len() as u64], // STRSZ
        [11, 24],                   // SYMENT
        [0x6fff_fffc, definitions], // VERDEF
        [0x6fff_fffd, 2],           // VERDEFNUM
        [0x6fff_fff0, versions],    // VERSYM
        [0, 0],                     // NULL
    ];
    out.longs(entries.as_flattened());
    let end = out.0.len() as u64;
    let mut head = Bytes(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec());
    // A shared object without sections, and its program headers.
    head.halves(&[3, machine]).words(&[1]).longs(&[0, HEADERS[0], 0]).words(&[0]);
    head.halves(&[HEADERS[0] as u16, HEADERS[1] as u16, 3, 64, 0, 0]);
    let read_write = 6;
    // LOAD, DYNAMIC, and a stack without execution.
    for (kind, at, bytes, align) in
        [(1, 0, end, 0x1000), (2, dynamic, end - dynamic, 8), (0x6474_e551, 0, 0, 16)]
    {
        head.words(&[kind, read_write]).longs(&[at, at, at, bytes, bytes, align]);
    }
    out.0[..head.0.len()].copy_from_slice(&head.0);
    out.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hash_as_the_loader_hashes_them() {
        // From `readelf -V` of programs: the hash of GLIBC_2.2.5.
        assert_eq!(hash("GLIBC_2.2.5"), 0x0969_1a75);
    }

    #[test]
    fn libraries_have_the_size_that_their_headers_say() {
        for name in NAMES {
            let image = image(name, b"/lib/x.so");
            let long = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().expect("eight bytes"));
            assert!(image.starts_with(b"\x7fELF"));
            assert_eq!((long(64 + 32), long(64 + 40)), (image.len() as u64, image.len() as u64));
            let dynamic = long(64 + 56 + 8) as usize;
            assert_eq!((long(dynamic), image.len() - dynamic), (14, 11 * 16));
            let text = image.windows(name.len()).filter(|part| *part == name.as_bytes()).count();
            assert_eq!(text, 1);
        }
    }
}
