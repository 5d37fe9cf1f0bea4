//! `qanat kv export`: a stopped store as a dump that Redis loads.

use super::check::read_log;
use super::disk::DiskArguments;
use crate::live::grouped;
use crate::progress::progress_bar;
use crate::say::done;
use clap::Args;
use qanat_kv::rdb::writer;
use serde_json::json;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Write all keys of a stopped store as a dump (RDB) that Redis loads
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat kv export dump.rdb --disk /var/lib/qanat/kv.img     all keys that have not expired
  redis-server --dbfilename dump.rdb                        and Redis has them, from version 5 on
The file is new: one that is there is not overwritten. Nothing is written to the disk of the store.")]
pub struct ExportArguments {
    /// The file to write
    file: PathBuf,
    #[command(flatten)]
    disk: DiskArguments,
}

/// The time (Unix, ms).
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Runs it.
pub fn run(arguments: &ExportArguments) -> Result<(), String> {
    let path = &arguments.file;
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if path.exists() {
        return Err(format!("{}: is there already; remove it, or give another name", path.display()));
    }
    let mut reading = read_log(&arguments.disk)?;
    reading.keyspace.now_ms = now_ms();
    let mut file = BufWriter::with_capacity(1 << 20, File::create_new(path).map_err(failed)?);
    let bar = progress_bar("writing the dump");
    bar.set_length(reading.keyspace.len() as u64);
    let written = writer::write(&reading.keyspace, &mut file, |keys| bar.set_position(keys)).map_err(failed)?;
    file.get_ref().sync_all().map_err(failed)?;
    bar.finish_and_clear();
    let writer::Written { keys, expired, bytes, libraries } = written;
    let text = format!(
        "{} keys, {libraries} libraries of functions, {} bytes; left out: {expired} that had expired",
        grouped(keys),
        grouped(bytes)
    );
    let json = json!({ "keys": keys, "libraries": libraries, "bytes": bytes, "expired": expired });
    done(arguments.disk.json, &json, &text);
    Ok(())
}
