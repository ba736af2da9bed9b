//! Files that ship within the command: workloads, sweeps, chips, documentation. Their paths begin with [`ROOT`], and are
//! read as those of other files are.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// The folder that they seem to lie in.
pub const ROOT: &str = "<warpsim>";

/// All of them by their paths below [`ROOT`], sorted.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// The name of a file in the table, where a path is one of a file that ships.
fn name(path: &Path) -> Option<String> {
    let below = path.strip_prefix(ROOT).ok()?;
    let mut words: Vec<&str> = Vec::new();
    for part in below.components() {
        match part {
            Component::Normal(word) => words.push(word.to_str()?),
            Component::ParentDir => drop(words.pop()?),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(words.join("/"))
}

/// The contents of a file that ships.
pub fn read(path: &Path) -> Option<&'static [u8]> {
    let name = name(path)?;
    let at = FILES.binary_search_by(|(known, _)| (*known).cmp(&name)).ok()?;
    Some(FILES[at].1)
}

/// Whether a path is that of a folder of files that ship.
pub fn is_folder(path: &Path) -> bool {
    name(path).is_some_and(|name| FILES.iter().any(|(file, _)| below(file, &name).is_some()))
}

/// What of a file's name lies below a folder.
fn below<'f>(file: &'f str, folder: &str) -> Option<&'f str> {
    match folder {
        "" => Some(file),
        _ => file.strip_prefix(folder)?.strip_prefix('/'),
    }
}

/// The files below a folder, by their names below it.
pub fn files(folder: &str) -> impl Iterator<Item = (&'static str, &'static [u8])> {
    FILES.iter().filter_map(move |(file, bytes)| Some((below(file, folder)?, *bytes)))
}

/// The path of a file that ships.
pub fn path(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

/// Folders of the workloads that ship, sorted by the names of the workloads.
pub fn workloads() -> Vec<PathBuf> {
    let specs = files("workloads").filter_map(|(file, _)| file.strip_suffix("/workload.yaml"));
    // As deep as folders are searched: a workload, or one of a group.
    let folders = specs.filter(|folder| folder.matches('/').count() <= 1);
    let mut folders: Vec<PathBuf> = folders.map(|folder| path("workloads").join(folder)).collect();
    folders.sort_by_key(|path| path.file_name().map(std::ffi::OsStr::to_os_string));
    folders
}

/// Pages of the documentation, by name: `reference/chip`.
pub fn pages() -> BTreeSet<&'static str> {
    files("docs").filter_map(|(file, _)| file.strip_suffix(".md")).filter(|page| *page != "SUMMARY").collect()
}

/// A page of the documentation, by its name or that of its file.
pub fn page(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix("docs/").unwrap_or(name);
    let name = name.strip_suffix(".md").unwrap_or(name);
    std::str::from_utf8(read(&path(&format!("docs/{name}.md")))?).ok()
}

/// A file of a name, or the one that ships where there is none such.
pub fn or_shipped(file: &Path, folder: &str) -> PathBuf {
    let own = || Some(path(folder).join(file.file_name()?));
    match file.exists() || file.components().count() != 1 {
        true => file.to_path_buf(),
        false => own().filter(|path| read(path).is_some()).unwrap_or_else(|| file.to_path_buf()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_their_paths() {
        let mut sorted = FILES.to_vec();
        sorted.sort();
        assert!(sorted == FILES && FILES.len() > 300, "{}", FILES.len());
        let vecadd = path("workloads/vecadd/workload.yaml");
        let on_disk = std::fs::read("workloads/vecadd/workload.yaml").expect("there");
        assert_eq!(read(&vecadd), Some(&on_disk[..]));
        assert_eq!(read(&path("workloads/sgemm/../vecadd/./workload.yaml")), read(&vecadd));
        for wrong in ["workloads", "workloads/vecad", "../workloads/vecadd/workload.yaml", "/etc/passwd"] {
            assert_eq!(read(&path(wrong)), None, "{wrong}");
        }
        assert_eq!(read(Path::new("workloads/vecadd/workload.yaml")), None, "one of the disk");
        assert!(is_folder(&path("workloads/vecadd")) && is_folder(&path("workloads")));
        assert!(!is_folder(&path("workloads/vecad")) && !is_folder(Path::new("workloads")));
    }

    #[test]
    fn all_workloads_sweeps_and_pages_ship() {
        let names: BTreeSet<String> = workloads()
            .iter()
            .filter_map(|folder| Some(folder.file_name()?.to_string_lossy().into_owned()))
            .collect();
        assert!(names.len() > 60, "{}", names.len());
        assert!(names.contains("vecadd") && names.contains("nested_if"), "{names:?}");
        assert_eq!(
            or_shipped(Path::new("generations.yaml"), "configs/sweeps"),
            path("configs/sweeps/generations.yaml")
        );
        for own in ["Cargo.toml", "none.yaml", "none/generations.yaml"] {
            assert_eq!(or_shipped(Path::new(own), "configs/sweeps"), Path::new(own));
        }
        assert!(pages().contains("reference/chip") && page("docs/reference/chip.md").is_some());
        assert_eq!(page("reference/chip"), page("docs/reference/chip.md"));
        assert_eq!(page("none"), None);
    }
}
