//! `qanat video add`: cuts a film if it is not cut yet, and puts it on the disk.

use super::disk::{DiskArguments, failed, now_s, open_to_change};
use crate::disk::size;
use crate::live::grouped;
use crate::progress::progress_bar;
use crate::say::done;
use clap::Args;
use qanat_video::cutting::{Rung, Streams, arguments};
use qanat_video::name;
use qanat_video::offline::adding::{Source, files_of};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Smallest file that is made.
const DISK_BYTES_MIN: u64 = 1 << 30;
const INSTALL: &str = "install it (Debian: apt install ffmpeg), or add a folder that is cut already";

/// Put a film on the disk: a file, which ffmpeg cuts into HLS and DASH, or a folder that is cut already
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat video --disk films.img add film.mp4                                    H.264 and AAC stay as they are
  qanat video --disk films.img add film.mp4 --quality 360:600 --quality 720:2500   two qualities, made of it
  qanat video --disk films.img add ./cut --name film                           a folder of segments and manifests
The page finds a playlist of the name master.m3u8. Without a file of that name a folder is served as it is. If the disk's file is not
there, one is made: of a GiB, or of twice what is added.")]
pub struct AddArguments {
    /// The film: a file, or a folder with its segments and manifests
    film: PathBuf,
    /// Its name, which its address begins with (default: the file's, without its extension)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A quality to make: lines of the picture and kilobits a second; may be repeated
    #[arg(long, value_name = "LINES:KBITS")]
    quality: Vec<Rung>,
    /// Seconds of a segment
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=60))]
    segment: u32,
    /// Folder for segments while they are cut, about as large as the film (default: the system's for temporary files)
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
    /// The size of the disk's file, if one is made
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: Option<u64>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(disk: &DiskArguments, add: &AddArguments) -> Result<(), String> {
    let name = add.name.clone().unwrap_or_else(|| name::film_of(&add.film));
    name::check_film(&name).map_err(|error| error.to_string())?;
    disk.disk()?;
    let about = std::fs::metadata(&add.film).map_err(|error| format!("{}: {error}", add.film.display()))?;
    // Whatever ends this command, the folder of segments is gone, and no half film is there.
    let is_stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&is_stopped)).map_err(|error| format!("signals: {error}"))?;
    }
    let scratch;
    let folder = if about.is_dir() {
        if !add.quality.is_empty() {
            return Err("--quality is for a film that is to be cut; the folder is taken as it is".to_owned());
        }
        add.film.as_path()
    } else {
        scratch = match &add.scratch {
            Some(place) => tempfile::tempdir_in(place),
            None => tempfile::tempdir(),
        }
        .map_err(|error| format!("a folder for segments: {error}; name one by --scratch"))?;
        // ffmpeg works in the folder of segments.
        let film = std::path::absolute(&add.film).map_err(|error| format!("{}: {error}", add.film.display()))?;
        cut(&film, scratch.path(), add, &is_stopped)?;
        scratch.path()
    };
    let sources = files_of(folder).map_err(|error| error.to_string())?;
    store(disk, &name, &sources, add, &is_stopped)
}

fn store(
    disk: &DiskArguments,
    film: &str,
    sources: &[Source],
    add: &AddArguments,
    is_stopped: &AtomicBool,
) -> Result<(), String> {
    let bytes: u64 = sources.iter().map(|source| source.bytes).sum();
    let made = add.size.unwrap_or((bytes * 2).next_multiple_of(1 << 20).max(DISK_BYTES_MIN));
    let mut session = open_to_change(disk, Some(made))?;
    let bar = progress_bar("storing");
    bar.set_length(bytes);
    let outcome = session.add_film(film, sources, now_s(), |stored| {
        bar.set_position(stored);
        !is_stopped.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    outcome.map_err(|error| failed(disk, error))?;
    let files = sources.len();
    let fields = json!({ "film": film, "files": files, "bytes": bytes, "path": format!("/{film}/") });
    let text = format!("{film}: {} files, {}; at /{film}/ when it is served", grouped(files as u64), size::text(bytes));
    done(add.json, &fields, &text);
    Ok(())
}

/// Has ffmpeg cut a film into a folder.
fn cut(film: &Path, folder: &Path, add: &AddArguments, is_stopped: &AtomicBool) -> Result<(), String> {
    let probed = Command::new("ffprobe").args(Streams::probe_arguments(film)).output();
    let probed = probed.map_err(|error| format!("ffprobe: {error}; {INSTALL}"))?;
    let streams = Streams::of_probe(&String::from_utf8_lossy(&probed.stdout));
    if !probed.status.success() || streams == Streams::default() {
        let said = String::from_utf8_lossy(&probed.stderr);
        let why = said.lines().last().unwrap_or("it has neither picture nor sound");
        return Err(format!("{}: no film that ffmpeg knows: {why}", film.display()));
    }
    let bar = progress_bar("cutting");
    bar.set_length(duration_us(film).unwrap_or(0));
    let mut cutter = Command::new("ffmpeg")
        .args(arguments(film, folder, &streams, &add.quality, add.segment))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|error| format!("ffmpeg: {error}; {INSTALL}"))?;
    if let Some(told) = cutter.stdout.take() {
        for line in BufReader::new(told).lines().map_while(Result::ok) {
            // It tells twice a second.
            if is_stopped.load(Ordering::Relaxed) {
                let _ = cutter.kill();
            }
            if let Some(position) = line.strip_prefix("out_time_us=").and_then(|text| text.parse().ok()) {
                bar.set_position(position);
            }
        }
    }
    bar.finish_and_clear();
    let status = cutter.wait().map_err(|error| format!("ffmpeg: {error}"))?;
    if is_stopped.load(Ordering::Relaxed) {
        return Err("stopped: nothing was added".to_owned());
    }
    if status.success() { Ok(()) } else { Err(format!("{}: ffmpeg could not cut it ({status})", film.display())) }
}

/// How long a film is, as ffprobe says.
fn duration_us(film: &Path) -> Option<u64> {
    let fixed = ["-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0"];
    let told = Command::new("ffprobe").args(fixed).arg(film).output().ok()?;
    let seconds: f64 = String::from_utf8_lossy(&told.stdout).trim().parse().ok()?;
    Some((seconds * 1e6) as u64)
}
