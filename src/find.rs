//! Where workloads are: a folder, a file, or a name in one of the known places.

use std::path::{Path, PathBuf};

use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::workload::WorkloadSpec;

use crate::configs::read;
use crate::shipped;

/// A workload and its folder.
pub struct Found {
    /// The workload.
    pub spec: WorkloadSpec,
    /// Its folder.
    pub folder: PathBuf,
}

/// Folders that hold workloads, in the order they are searched; then come those that ship.
fn roots() -> Vec<PathBuf> {
    let named = std::env::var_os("WARPSIM_WORKLOADS").map(PathBuf::from);
    named.into_iter().chain([PathBuf::from("workloads")]).collect()
}

/// Folders of workloads in `root`, and in folders that group some.
fn folders_in(root: &Path) -> Vec<PathBuf> {
    let inside = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.is_dir())
            .collect()
    };
    let is_workload = |path: &PathBuf| path.join("workload.yaml").is_file();
    let (mut folders, groups): (Vec<PathBuf>, Vec<PathBuf>) = inside(root).into_iter().partition(is_workload);
    folders.extend(groups.iter().flat_map(|group| inside(group)).filter(is_workload));
    folders.sort_by_key(|path| path.file_name().map(std::ffi::OsStr::to_os_string));
    folders
}

/// Folders of all workloads of the first root that has any, by name.
pub fn workload_folders() -> Vec<PathBuf> {
    let found = roots().iter().map(|root| folders_in(root)).find(|folders| !folders.is_empty());
    found.unwrap_or_else(shipped::workloads)
}

/// Finds and reads a workload.
pub fn find_workload(name: &str) -> Result<Found, Vec<Diagnostic>> {
    let path = Path::new(name);
    if path.extension().is_some_and(|extension| extension == "cu" || extension == "cuh") {
        let message = format!("{name} is CUDA source; warpsim requires PTX");
        let way = "compile it with `nvcc -ptx -lineinfo FILE.cu`, `clang --cuda-device-only -S` or NVRTC";
        return Err(vec![Diagnostic::error("workload", message).help(way)]);
    }
    let named = || {
        let folders = roots().into_iter().flat_map(|root| folders_in(&root)).chain(shipped::workloads());
        folders.into_iter().find(|p| p.file_name().is_some_and(|n| n == name))
    };
    let folder = if shipped::is_folder(path) {
        path.to_path_buf()
    } else if path.is_dir() {
        if !path.join("workload.yaml").exists()
            && let Some(hidden) = named()
        {
            let message = format!(
                "the folder `{name}` has no workload.yaml, and hides the workload of that name in {}",
                hidden.parent().unwrap_or(&hidden).display()
            );
            let way = "name the workload by its path, or run the command in another folder";
            return Err(vec![Diagnostic::error("workload", message).help(way)]);
        }
        path.to_path_buf()
    } else if path.exists() || shipped::read(path).is_some() {
        return load(path, path.parent().unwrap_or(Path::new(".")));
    } else {
        let Some(found) = named() else {
            let folders = workload_folders();
            let names: Vec<&str> = folders.iter().filter_map(|f| f.file_name()?.to_str()).collect();
            let message = format!("there is no workload `{name}`; available: {}", names.join(", "));
            return Err(vec![Diagnostic::error("workload", message).did_you_mean(name, names)]);
        };
        found
    };
    load(&folder.join("workload.yaml"), &folder)
}

fn load(file: &Path, folder: &Path) -> Result<Found, Vec<Diagnostic>> {
    let source = read(file).map_err(|e| vec![e])?;
    Ok(Found { spec: WorkloadSpec::load(&source)?, folder: folder.to_path_buf() })
}
