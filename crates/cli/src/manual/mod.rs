//! `qanat manual`: a page of the manual for each command, of what `--help` says.

mod markdown;
mod roff;

use crate::say::done;
use clap::{Args, Command};
use markdown::{page_name, shown};
use serde_json::json;
use std::path::PathBuf;

/// Write a page of the manual for each command
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat manual --to /tmp/manual                 qanat-web.1, qanat-load-http.1 and the others
  man /tmp/manual/qanat-web.1
  qanat manual --markdown --to /tmp/pages       qanat-web.md and the others
`make install` writes them where `man qanat-web` finds them. qanat(1) and qanatd(8) are written by hand.")]
pub struct Arguments {
    /// Directory where they are written; it is made if it is not there
    #[arg(long, value_name = "DIRECTORY")]
    to: PathBuf,
    /// Write them in Markdown, as `make book` has them
    #[arg(long)]
    markdown: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Writes them. `program`: this program's commands and options.
pub fn run(arguments: &Arguments, program: Command) -> Result<(), String> {
    let program = program.disable_help_subcommand(true);
    let to = &arguments.to;
    std::fs::create_dir_all(to).map_err(|error| format!("{}: {error}", to.display()))?;
    let mut pages = Vec::new();
    below(&built(program), arguments, &mut pages)?;
    let text = format!("{}: {} pages", to.display(), pages.len());
    done(arguments.json, &json!({ "directory": to, "pages": pages }), &text);
    Ok(())
}

/// With the whole name of each command in it.
fn built(mut program: Command) -> Command {
    program.build();
    program
}

/// Writes a page for each command below one. What processes of ours start is nobody's to type.
fn below(command: &Command, arguments: &Arguments, pages: &mut Vec<PathBuf>) -> Result<(), String> {
    for command in shown(command) {
        let page = write(command, arguments)?;
        pages.push(page);
        below(command, arguments, pages)?;
    }
    Ok(())
}

/// Writes one, and says where it is.
fn write(command: &Command, arguments: &Arguments) -> Result<PathBuf, String> {
    let (suffix, text) = if arguments.markdown {
        (markdown::SUFFIX, markdown::page_of(command).into_bytes())
    } else {
        (roff::SUFFIX, roff::page_of(command).map_err(|error| error.to_string())?)
    };
    let page = arguments.to.join(format!("{}.{suffix}", page_name(command)));
    std::fs::write(&page, text).map_err(|error| format!("{}: {error}", page.display()))?;
    Ok(page)
}
