//! Fat binaries: what nvcc puts into a program for the device. Only their PTX can run here. The layout is that of
//! ZLUDA's `dark_api` (`fatbin.rs`), which is public.

use crate::pointers;

/// How the wrapper of a fat binary begins.
pub const WRAPPER: u32 = 0x4662_43B1;
/// How the container of a fat binary begins.
pub const CONTAINER: u32 = 0xBA55_ED50;
const PTX: u16 = 1;
const ELF: u16 = 2;
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
/// The most bytes that a PTX text may have.
const LONGEST: u64 = 1 << 30;

/// A file of a fat binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// 1: PTX, 2: machine code.
    pub kind: u16,
    /// Compute capability as major * 10 + minor.
    pub sm: u32,
    /// How it is compressed.
    flags: u64,
    /// Bytes when it is not.
    size: u64,
    /// As it is stored; kept of PTX only.
    stored: Vec<u8>,
}

impl File {
    /// A PTX text by itself; its target is checked when it is loaded.
    pub fn ptx(text: &[u8]) -> Self {
        Self { kind: PTX, sm: 0, flags: 0, size: text.len() as u64, stored: text.to_vec() }
    }

    /// Machine code for a compute capability.
    pub fn machine_code(sm: u32) -> Self {
        Self { kind: ELF, sm, flags: 0, size: 0, stored: Vec::new() }
    }

    /// Its name within a module.
    pub fn named(&self, module: &str) -> String {
        if self.sm == 0 { format!("{module}.ptx") } else { format!("{module}.sm_{}.ptx", self.sm) }
    }

    /// The text of a PTX file.
    ///
    /// # Errors
    /// It cannot be decompressed, in words.
    pub fn text(&self) -> Result<String, String> {
        if self.size > LONGEST {
            return Err(format!("a PTX text of {} bytes", self.size));
        }
        let mut bytes = Vec::new();
        if self.flags & LZ4 != 0 {
            bytes.resize(self.size as usize, 0);
            let n = lz4_flex::block::decompress_into(&self.stored, &mut bytes)
                .map_err(|error| format!("LZ4: {error}"))?;
            bytes.truncate(n);
        } else if self.flags & ZSTD != 0 {
            bytes = warpsim::zstd::decompress(&self.stored, LONGEST)?;
        } else {
            bytes.extend_from_slice(&self.stored);
        }
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(end);
        String::from_utf8(bytes).map_err(|error| format!("PTX that is no text: {error}"))
    }
}

/// The number of `N` bytes at an offset.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<u64, String> {
    let found = at.checked_add(N).and_then(|end| bytes.get(at..end));
    let found = found.ok_or_else(|| format!("a fat binary ends within its {N} bytes at {at}"))?;
    Ok(found.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// The files of a container.
///
/// # Errors
/// What is wrong with it.
pub fn files(container: &[u8]) -> Result<Vec<File>, String> {
    let magic = number::<4>(container, 0)?;
    if magic != u64::from(CONTAINER) {
        return Err(format!("a fat binary begins with {magic:#x}, not {CONTAINER:#x}"));
    }
    let header = number::<2>(container, 6)? as usize;
    let size = number::<8>(container, 8)?;
    let end = (header as u64).saturating_add(size).min(container.len() as u64) as usize;
    let (mut at, mut out) = (header, Vec::new());
    while at < end {
        let kind = number::<2>(container, at)? as u16;
        let own_header = number::<4>(container, at + 4)?;
        let payload = number::<4>(container, at + 8)?;
        let compressed = number::<4>(container, at + 16)?;
        let sm = number::<4>(container, at + 28)? as u32;
        let flags = number::<8>(container, at + 40)?;
        let uncompressed = number::<8>(container, at + 56)?;
        if own_header < 64 {
            return Err(format!("a file of a fat binary has a header of {own_header} bytes"));
        }
        let is_packed = flags & (LZ4 | ZSTD) != 0;
        let stored = if is_packed && compressed > 0 { compressed } else { payload };
        let begin = at as u64 + own_header;
        let stored = begin.checked_add(stored).and_then(|end| container.get(begin as usize..end as usize));
        let stored = stored.ok_or("a file of a fat binary is longer than what is there")?;
        out.push(File {
            kind,
            sm,
            flags,
            size: if is_packed { uncompressed } else { stored.len() as u64 },
            stored: if kind == PTX { stored.to_vec() } else { Vec::new() },
        });
        at = (begin + payload.max(compressed)) as usize;
    }
    Ok(out)
}

/// The files of a container at an address.
///
/// # Errors
/// What is wrong with it.
///
/// # Safety
/// `data` must lead to a container that has the size that its header says.
pub unsafe fn container(data: *const u8) -> Result<Vec<File>, String> {
    let null = || "a fat binary is a null pointer".to_string();
    // SAFETY: the caller's promise; a container begins with 16 bytes.
    let start: [u8; 16] = unsafe { pointers::get(data.cast()) }.map_err(|_| null())?;
    let whole = number::<2>(&start, 6)?.saturating_add(number::<8>(&start, 8)?);
    // SAFETY: the caller's promise.
    files(unsafe { pointers::bytes(data, whole as usize) })
}

/// The most translation units of a program.
const MOST_UNITS: usize = 1 << 16;

/// The files of a fat binary behind a wrapper, as programs register it: those of each translation unit. Of a program
/// compiled with `-rdc=true` the wrapper holds what the units were before nvcc linked their machine code.
///
/// # Errors
/// What is wrong with it.
///
/// # Safety
/// `wrapper` must lead to what nvcc registers: a wrapper whose containers have the sizes that their headers say.
pub unsafe fn registered(wrapper: *const u8) -> Result<Vec<Vec<File>>, String> {
    let null = || "a fat binary is a null pointer".to_string();
    // SAFETY: the caller's promise; a wrapper has 24 bytes.
    let head: [u8; 24] = unsafe { pointers::get(wrapper.cast()) }.map_err(|_| null())?;
    let magic = number::<4>(&head, 0)?;
    if magic != u64::from(WRAPPER) {
        return Err(format!("the wrapper of a fat binary begins with {magic:#x}, not {WRAPPER:#x}"));
    }
    let data = number::<8>(&head, 8)? as *const u8;
    let units = number::<8>(&head, 16)? as *const *const u8;
    if number::<4>(&head, 4)? != 2 || units.is_null() {
        // SAFETY: the caller's promise.
        return Ok(vec![unsafe { container(data) }?]);
    }
    let mut out = Vec::new();
    for i in 0..MOST_UNITS {
        // SAFETY: the caller's promise; the list ends with a null pointer.
        let unit = unsafe { pointers::get(units.wrapping_add(i)) }.map_err(|_| null())?;
        if unit.is_null() {
            break;
        }
        // SAFETY: the caller's promise.
        out.push(unsafe { container(unit) }?);
    }
    Ok(out)
}

/// A PTX text is that of CUDA's device runtime (`libcudadevrt`), which nvcc links with `-rdc=true`: its names say so.
pub fn is_device_runtime(text: &str) -> bool {
    text.contains("_cuda_device_runtime_cu_")
}

/// The compute capability that a PTX text names as its target.
pub fn target(text: &str) -> u32 {
    let rest = text.split_once(".target").and_then(|(_, rest)| rest.split_once("sm_"));
    let digits = rest.map_or("", |(_, rest)| rest);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

/// The newest PTX that a chip runs; any, where newer ones are allowed.
///
/// # Errors
/// There is none: what there is, and what to compile with.
pub fn newest<'f>(
    files: &'f [File],
    module: &str,
    capability: u32,
    allow_newer: bool,
) -> Result<&'f File, String> {
    let ptx = || files.iter().filter(|file| file.kind == PTX);
    if let Some(file) = ptx().filter(|file| file.sm <= capability).max_by_key(|file| file.sm) {
        return Ok(file);
    }
    if let Some(file) = ptx().min_by_key(|file| file.sm) {
        if allow_newer {
            return Ok(file);
        }
        return Err(format!(
            "{module}: its PTX is for compute capability {} and above, the chip has {}: compile with -gencode \
             arch=compute_{capability},code=compute_{capability}, simulate a newer chip (--chip), or allow it \
             (--allow-newer-isa)",
            shown(file.sm),
            shown(capability)
        ));
    }
    let machine: Vec<String> =
        files.iter().filter(|file| file.kind == ELF).map(|file| format!("sm_{}", file.sm)).collect();
    Err(format!(
        "{module}: it has no PTX, only machine code for {}: compile with -gencode \
         arch=compute_{capability},code=compute_{capability}",
        if machine.is_empty() { "no architecture".to_string() } else { machine.join(", ") }
    ))
}

fn shown(sm: u32) -> String {
    format!("{}.{}", sm / 10, sm % 10)
}

/// Fat binaries for tests: PTX files by compute capability, compressed in a way.
#[doc(hidden)]
pub mod make {
    use super::{CONTAINER, LZ4};

    /// How a file is stored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Packing {
        /// As it is.
        Plain,
        /// LZ4 blocks.
        Lz4,
        /// zstd.
        Zstd,
    }

    /// A container of files: kind, compute capability, contents.
    pub fn container(files: &[(u16, u32, &[u8])], packing: Packing) -> Vec<u8> {
        let mut body = Vec::new();
        for (kind, sm, contents) in files {
            let (stored, flags) = match packing {
                Packing::Plain => (contents.to_vec(), 0),
                Packing::Lz4 => (lz4_flex::block::compress(contents), LZ4),
                Packing::Zstd => {
                    let level = ruzstd::encoding::CompressionLevel::Uncompressed;
                    (ruzstd::encoding::compress_to_vec(*contents, level), super::ZSTD)
                }
            };
            let payload = stored.len().next_multiple_of(8);
            body.extend(kind.to_le_bytes());
            body.extend(0x101u16.to_le_bytes());
            for word in
                [64, payload as u32, 0, if flags == 0 { 0 } else { stored.len() as u32 }, 0, 0, *sm, 64, 0]
            {
                body.extend(word.to_le_bytes());
            }
            for long in [flags | 0x11, 0, if flags == 0 { 0 } else { contents.len() as u64 }] {
                body.extend(long.to_le_bytes());
            }
            body.extend(&stored);
            body.resize(body.len() + payload - stored.len(), 0);
        }
        let mut out = CONTAINER.to_le_bytes().to_vec();
        out.extend(1u16.to_le_bytes());
        out.extend(16u16.to_le_bytes());
        out.extend((body.len() as u64).to_le_bytes());
        out.extend(body);
        out
    }

    /// The wrapper of a container, which must outlive it.
    pub fn wrapper(container: &[u8]) -> [u64; 3] {
        [u64::from(super::WRAPPER) | 1 << 32, container.as_ptr() as u64, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::make::{Packing, container, wrapper};
    use super::*;

    #[test]
    fn ptx_comes_back_however_it_is_packed() {
        let text = "// PTX\n".repeat(300);
        for packing in [Packing::Plain, Packing::Lz4, Packing::Zstd] {
            let zeros = format!("{text}\0\0");
            let fat =
                container(&[(ELF, 80, b"\x7fELF"), (PTX, 75, zeros.as_bytes()), (PTX, 52, b"old")], packing);
            let wrapper = wrapper(&fat);
            // SAFETY: the wrapper is that of a container which lives.
            let found = unsafe { registered(wrapper.as_ptr().cast()) }.unwrap_or_else(|e| panic!("{e}"));
            let [found] = found.as_slice() else { panic!("{found:?}") };
            assert_eq!(found.iter().map(|f| (f.kind, f.sm)).collect::<Vec<_>>(), [(2, 80), (1, 75), (1, 52)]);
            let newest = |sm| newest(found, "m", sm, false).and_then(File::text);
            assert_eq!(
                (newest(75), newest(90), newest(70)),
                (Ok(text.clone()), Ok(text.clone()), Ok("old".into()))
            );
        }
    }

    #[test]
    fn units_of_a_linked_program_stay_apart() {
        let linked = container(&[(ELF, 75, b"\x7fELF")], Packing::Plain);
        let units = ["one", "two"].map(|text| container(&[(PTX, 75, text.as_bytes())], Packing::Lz4));
        let list = [units[0].as_ptr(), units[1].as_ptr(), std::ptr::null()];
        let wrapper =
            [wrapper(&linked)[0] & 0xffff_ffff | 2 << 32, linked.as_ptr() as u64, list.as_ptr() as u64];
        // SAFETY: the wrapper and its containers live.
        let found = unsafe { registered(wrapper.as_ptr().cast()) }.unwrap_or_else(|e| panic!("{e}"));
        let texts: Vec<_> =
            found.iter().map(|files| newest(files, "m", 75, false).and_then(File::text)).collect();
        assert_eq!(texts, [Ok("one".to_string()), Ok("two".to_string())]);
    }

    #[test]
    fn what_is_missing_is_said_with_the_flag_that_makes_it() {
        let fat = container(&[(ELF, 80, b"\x7fELF"), (ELF, 90, b"\x7fELF")], Packing::Plain);
        let found = files(&fat).expect("a container");
        let error = newest(&found, "prog", 75, false).expect_err("no PTX");
        assert!(
            error.contains("sm_80, sm_90") && error.contains("-gencode arch=compute_75,code=compute_75"),
            "{error}"
        );
        let fat = container(&[(PTX, 90, b"new")], Packing::Plain);
        let found = files(&fat).expect("a container");
        assert!(newest(&found, "prog", 75, false).expect_err("newer").contains("9.0"));
        assert_eq!(newest(&found, "prog", 75, true).and_then(File::text), Ok("new".into()));
    }

    #[test]
    fn broken_containers_are_errors() {
        let fat = container(&[(PTX, 75, b"some text")], Packing::Lz4);
        for length in 0..fat.len() {
            let mut cut = fat[..length].to_vec();
            let _ = files(&cut);
            if length > 70 {
                cut.clone_from(&fat);
                cut[length - 1] ^= 0x55;
                let _ = files(&cut).map(|files| files.iter().map(File::text).collect::<Vec<_>>());
            }
        }
        assert_eq!((target(".version 7.0\n.target sm_120a, debug\n"), target("")), (120, 0));
        assert!(files(b"nothing of the kind").is_err());
        let null = std::ptr::null();
        // SAFETY: null is refused.
        assert!(unsafe { registered(null) }.is_err());
        let other = [1u64; 3];
        // SAFETY: 24 bytes are there.
        assert!(unsafe { registered(other.as_ptr().cast()) }.expect_err("no wrapper").contains("0x1"));
    }
}
