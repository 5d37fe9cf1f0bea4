//! `qanat video remove`.

use super::disk::{DiskArguments, failed, open_to_change};
use crate::say::done;
use clap::Args;
use serde_json::json;

/// Remove a film for good
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat video --disk films.img remove film")]
pub struct RemoveArguments {
    /// The film, as `list` names it
    film: String,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(disk: &DiskArguments, arguments: &RemoveArguments) -> Result<(), String> {
    let RemoveArguments { film, json } = arguments;
    let files = open_to_change(disk, None)?.remove_film(film).map_err(|error| failed(disk, error))?;
    done(*json, &json!({ "film": film, "files": files }), &format!("{film}: removed, {files} files"));
    Ok(())
}
