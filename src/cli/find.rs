//! Where workloads are: a folder, a file, or a name in one of the known places.

use std::path::{Path, PathBuf};

use sim_frontend::diagnostic::{Diagnostic, nearest};
use sim_frontend::workload::WorkloadSpec;

use crate::configs::read;

/// A workload and its folder.
pub struct Found {
    /// The workload.
    pub spec: WorkloadSpec,
    /// Its folder.
    pub folder: PathBuf,
}

/// Folders that hold workloads, in the order they are searched.
fn roots() -> Vec<PathBuf> {
    let mut roots = Vec::new();
    if let Some(path) = std::env::var_os("WARPSIM_WORKLOADS") {
        roots.push(PathBuf::from(path));
    }
    roots.push(PathBuf::from("workloads"));
    if let Ok(command) = std::env::current_exe() {
        roots.extend(command.ancestors().skip(1).take(4).map(|folder| folder.join("workloads")));
    }
    roots.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads"));
    roots
}

/// Folders of all workloads of the first root that has any, by name.
pub fn workload_folders() -> Vec<PathBuf> {
    for root in roots() {
        let Ok(entries) = std::fs::read_dir(&root) else { continue };
        let mut folders: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.join("workload.yaml").is_file())
            .collect();
        folders.sort();
        if !folders.is_empty() {
            return folders;
        }
    }
    Vec::new()
}

/// Finds and reads a workload.
pub fn find_workload(name: &str) -> Result<Found, Vec<Diagnostic>> {
    let path = Path::new(name);
    let folder = if path.is_dir() {
        path.to_path_buf()
    } else if path.is_file() {
        return load(path, path.parent().unwrap_or(Path::new(".")));
    } else {
        let Some(found) =
            roots().into_iter().map(|root| root.join(name)).find(|p| p.join("workload.yaml").is_file())
        else {
            let folders = workload_folders();
            let names: Vec<&str> = folders.iter().filter_map(|f| f.file_name()?.to_str()).collect();
            let mut error = Diagnostic::error(
                "workload",
                format!("there is no workload `{name}`; there are: {}", names.join(", ")),
            );
            if let Some(near) = nearest(name, names.iter().copied()) {
                error = error.help(format!("did you mean `{near}`?"));
            }
            return Err(vec![error]);
        };
        found
    };
    load(&folder.join("workload.yaml"), &folder)
}

fn load(file: &Path, folder: &Path) -> Result<Found, Vec<Diagnostic>> {
    let source = read(file).map_err(|e| vec![e])?;
    Ok(Found { spec: WorkloadSpec::load(&source)?, folder: folder.to_path_buf() })
}
