//! Zones read from files and compiled, with a bar that shows how far that is.

use crate::progress::progress_bar;
use qanat_dns::image::ZoneImage;
use qanat_dns::name::Name;
use qanat_dns::zone::parse::{Progress, read_file};
use qanat_dns::zone::{Problem, Zone};
use std::path::Path;

/// A name as it is typed.
pub fn parse_name(text: &str) -> Result<Name, String> {
    Name::absolute(text).map_err(|error| error.to_string())
}

/// Reads a zone with a bar that shows how far it is.
pub fn read(apex: &Name, path: &Path) -> Result<(Zone, Vec<Problem>), Vec<Problem>> {
    let bar = progress_bar("reading");
    let mut report = |progress: Progress| {
        bar.set_length(progress.bytes_total);
        bar.set_position(progress.bytes);
    };
    let outcome = read_file(apex, path, &mut report);
    bar.finish_and_clear();
    outcome.map_err(|error| error.0)
}

/// Compiles a zone.
pub fn compile(zone: &Zone) -> Result<ZoneImage, String> {
    let bar = progress_bar("compiling");
    bar.set_length(zone.record_count() as u64);
    let outcome = ZoneImage::compile(zone, &mut |records| bar.set_position(records));
    bar.finish_and_clear();
    outcome.map_err(|error| format!("{}: {error}", zone.apex()))
}
