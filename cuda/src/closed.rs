//! Libraries that are machine code: their kernels cannot run here.

use warpsim::device::program::closed_library;

/// The first of the closed libraries among the files that a process has mapped, as `/proc/self/maps` lists them: its
/// file and its name.
fn among(maps: &str) -> Option<(&str, &'static str)> {
    maps.lines().find_map(|line| {
        let path = line.split_once('/').map(|(_, path)| path)?;
        let file = path.rsplit('/').next()?;
        Some((file, closed_library(file)?))
    })
}

/// Why the program cannot run, where it has loaded a closed library.
pub fn loaded() -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let (file, name) = among(&maps)?;
    Some(format!(
        "the program has loaded {file}: {name} is machine code without PTX, which cannot be simulated; build the program \
         with kernels in source in its place"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_libraries_are_found_by_name() {
        let maps = "7f00-7f01 r-xp 0 08:01 5 /usr/lib/libc.so.6\n7f02-7f03 r-xp 0 0:0 0\n\
            7f04-7f05 r-xp 0 08:01 6 /opt/cuda/lib64/libcublasLt.so.13.0.0\n";
        assert_eq!(among(maps), Some(("libcublasLt.so.13.0.0", "cuBLAS")));
        assert_eq!(among("7f00-7f01 r-xp 0 08:01 5 /usr/lib/libm.so.6\n"), None);
        assert_eq!(loaded(), None, "these tests load none");
    }
}
