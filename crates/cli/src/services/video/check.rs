//! `qanat video check`.

use super::disk::{DiskArguments, failed, open};
use crate::disk::size;
use crate::live::grouped;
use crate::progress::progress_bar;
use crate::say::sayln;
use clap::Args;
use qanat_video::offline::checking::Report;
use serde_json::json;

/// Read all films wholly, and say whether they are what was written, and whether their manifests name what is there
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat video --disk films.img check
  qanat video --disk films.img check --json   for programs
Nothing is written. Exit code 1 if anything is wrong.")]
pub struct CheckArguments {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(disk: &DiskArguments, arguments: &CheckArguments) -> Result<(), String> {
    let mut session = open(disk)?;
    let bar = progress_bar("reading the films");
    let report = session.check(|read, all| {
        bar.set_length(all);
        bar.set_position(read);
    });
    bar.finish_and_clear();
    let Report { files, bytes, findings, wrong } = &report.map_err(|error| failed(disk, error))?;
    if arguments.json {
        sayln!(
            "{}",
            json!({ "is_whole": *wrong == 0, "files": files, "bytes": bytes, "wrong": wrong, "findings": findings })
        );
    } else {
        findings.iter().for_each(|finding| sayln!("{finding}"));
        sayln!("{} files, {} read", grouped(*files as u64), size::text(*bytes));
    }
    match wrong {
        0 if arguments.json => Ok(()),
        0 => {
            sayln!("all is what was written");
            Ok(())
        }
        wrong => Err(failed(disk, format_args!("{wrong} things are wrong; remove the films and add them again"))),
    }
}
