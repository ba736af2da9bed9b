//! Completions of shells, manual pages, the documentation and the files that ship.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;

use crate::console::{status, unprinted};
use crate::{files, shipped};

/// Options of `completions`.
#[derive(Args, Clone, Debug)]
pub struct CompletionsArgs {
    /// Shell.
    pub shell: Shell,
}

/// Options of `man`.
#[derive(Args, Clone, Debug)]
pub struct ManArgs {
    /// Writes a page for each command to a folder, which is created.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Options of `docs`.
#[derive(Args, Clone, Debug)]
pub struct DocsArgs {
    /// Page, such as reference/chip. Default: lists the pages.
    pub page: Option<String>,
}

/// Prints the script that completes the command in a shell; gives the exit status.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "warpsim", &mut script);
    print(&script)
}

/// Prints the manual page of the command, or writes those of all its commands; gives the exit status.
pub fn man(args: &ManArgs, command: Command) -> u8 {
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        return match clap_mangen::Man::new(command).render(&mut page) {
            Ok(()) => print(&page),
            Err(error) => wrong(&format!("the page cannot be made: {}", files::reason(&error))),
        };
    };
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
    match written {
        Ok(()) => status::DONE,
        Err(error) => wrong(&files::unwritable(folder, &error)),
    }
}

/// Prints a page of the documentation, or lists the pages; gives the exit status.
pub fn docs(args: &DocsArgs) -> u8 {
    let pages = shipped::pages();
    let Some(name) = &args.page else {
        return print((pages.into_iter().collect::<Vec<_>>().join("\n") + "\n").as_bytes());
    };
    match shipped::page(name) {
        Some(page) => print(page.as_bytes()),
        None => wrong(&format!(
            "there is no page `{name}`; pages: {}",
            pages.into_iter().collect::<Vec<_>>().join(", ")
        )),
    }
}

/// Copies what ships to a folder; gives the exit status. Nothing that is there is replaced.
pub fn copy(to: &Path) -> u8 {
    let mut copied = 0;
    for (name, bytes) in shipped::files("") {
        let path = to.join(name);
        if path.exists() {
            return wrong(&files::unwritable(&path, &"it exists; name a new or empty folder"));
        }
        let folder = path.parent().unwrap_or(to);
        if let Err(error) =
            std::fs::create_dir_all(folder).and_then(|()| files::write_one_of_many(&path, bytes))
        {
            return wrong(&files::unwritable(&path, &error));
        }
        copied += 1;
    }
    println!("{copied} files in {}", to.display());
    status::DONE
}

fn print(text: &[u8]) -> u8 {
    match std::io::stdout().write_all(text).and_then(|()| std::io::stdout().flush()) {
        Ok(()) => status::DONE,
        Err(error) => unprinted(&error.to_string()),
    }
}

fn wrong(message: &str) -> u8 {
    eprintln!("error: {message}");
    status::BAD_INPUT
}
