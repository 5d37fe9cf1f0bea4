//! `qanat dns check`: what is wrong with a zone, and what to do about it.

use super::reading::{compile, parse_name, read};
use crate::columns::fitted;
use crate::live::grouped;
use crate::say::sayln;
use clap::Args;
use qanat_dns::image::ZoneImage;
use qanat_dns::name::Name;
use qanat_dns::zone::parse::guess_apex;
use qanat_dns::zone::{Problem, Zone, check};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Read a zone, and say what is wrong with it
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat dns check example.com.zone                    the zone's name is the SOA record's
  qanat dns check db.example --name example.com       or given, where the file leaves it open
Exit code 1 if the zone cannot be served; warnings alone are no failure.")]
pub struct CheckArguments {
    /// Master file
    file: PathBuf,
    /// The zone's name, if the file does not say
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    name: Option<Name>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(arguments: &CheckArguments) -> Result<(), String> {
    let path = &arguments.file;
    let apex = match &arguments.name {
        Some(name) => name.clone(),
        None => guess_apex(path).ok_or_else(|| {
            format!("{}: there is no telling which zone it is; give its name with --name", path.display())
        })?,
    };
    let started = Instant::now();
    let (zone, mut problems) = match read(&apex, path) {
        Ok(outcome) => outcome,
        Err(problems) => {
            print_check(arguments, &apex, None, &problems);
            return Err(format!("{}: the zone {apex} cannot be served", path.display()));
        }
    };
    let reading = started.elapsed();
    problems.extend(check::check(&zone));
    let started = Instant::now();
    let image = compile(&zone)?;
    let figures = CheckFigures { reading, compiling: started.elapsed(), zone: &zone, image: &image };
    print_check(arguments, &apex, Some(&figures), &problems);
    Ok(())
}

struct CheckFigures<'a> {
    reading: Duration,
    compiling: Duration,
    zone: &'a Zone,
    image: &'a ZoneImage,
}

fn print_check(arguments: &CheckArguments, apex: &Name, figures: Option<&CheckFigures<'_>>, problems: &[Problem]) {
    if arguments.json {
        let problems: Vec<serde_json::Value> = problems
            .iter()
            .map(|problem| {
                serde_json::json!({
                    "file": problem.place.file.as_ref().map(|file| file.display().to_string()),
                    "line": problem.place.line,
                    "kind": if problem.is_warning { "warning" } else { "error" },
                    "message": problem.message,
                })
            })
            .collect();
        let mut report =
            serde_json::json!({ "zone": apex.to_string(), "usable": figures.is_some(), "problems": problems });
        if let Some(figures) = figures {
            report["serial"] = figures.zone.serial().into();
            report["names"] = figures.image.name_count().into();
            report["records"] = figures.zone.record_count().into();
            report["image_bytes"] = figures.image.memory_bytes().into();
            report["reading_s"] = figures.reading.as_secs_f64().into();
            report["compiling_s"] = figures.compiling.as_secs_f64().into();
        }
        sayln!("{report}");
        return;
    }
    for problem in problems {
        sayln!("{}", fitted(&problem.to_string()));
    }
    if let Some(figures) = figures {
        let text = format!(
            "{apex} serial {}: {} names, {} records; image {:.1} MiB; read in {:.2} s, compiled in {:.2} s",
            figures.zone.serial(),
            grouped(figures.image.name_count() as u64),
            grouped(figures.zone.record_count() as u64),
            figures.image.memory_bytes() as f64 / f64::from(1 << 20),
            figures.reading.as_secs_f64(),
            figures.compiling.as_secs_f64(),
        );
        sayln!("{}", fitted(&text));
    }
}
