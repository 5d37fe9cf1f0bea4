//! `qanat video list`.

use super::disk::{DiskArguments, open};
use crate::disk::size;
use crate::live::grouped;
use crate::say::sayln;
use clap::Args;
use serde_json::json;

/// Say which films there are, with their files and bytes, and what is free
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat video --disk films.img list
  qanat video --disk films.img list --json   for programs")]
pub struct ListArguments {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(disk: &DiskArguments, arguments: &ListArguments) -> Result<(), String> {
    let session = open(disk)?;
    let (films, free) = (session.films(), session.free_bytes());
    if arguments.json {
        sayln!("{}", json!({ "films": films, "free_bytes": free }));
        return Ok(());
    }
    let width = films.iter().map(|film| film.name.len()).max().unwrap_or(0);
    for film in &films {
        let manifests = match (film.has_hls, film.has_dash) {
            (true, true) => "HLS, DASH",
            (true, false) => "HLS",
            (false, true) => "DASH",
            (false, false) => "no manifest that the page knows",
        };
        sayln!(
            "{:width$}  {:>10}  {:>7} files  {manifests}",
            film.name,
            size::text(film.bytes),
            grouped(film.files as u64)
        );
    }
    sayln!("{} films, {} free", films.len(), size::text(free));
    Ok(())
}
