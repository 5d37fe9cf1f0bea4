//! `qanat kv import`: a dump of Redis into a stopped store.

use super::disk::{DiskArguments, open_stopped};
use super::export::now_ms;
use crate::disk::size;
use crate::live::grouped;
use crate::progress::progress_bar;
use crate::say::done;
use clap::Args;
use qanat::entropy;
use qanat_kv::offline::filling::Filler;
use qanat_kv::rdb::reader::{Reader, Skipped};
use serde_json::json;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

/// Put all keys of a dump (RDB) of Redis into a stopped store
#[derive(Args)]
#[command(after_help = "\
Examples:
  redis-cli save                                                     Redis writes dump.rdb
  qanat kv import dump.rdb --disk /var/lib/qanat/kv.img              into a store that has no keys, or is made
  qanat kv import dump.rdb --disk /var/lib/qanat/kv.img --size 8G    how large a file that is made is to be
  qanat kv import more.rdb --disk /var/lib/qanat/kv.img --merge      keys of the dump replace those of the same names
  qanat kv import dump.rdb --disk kv.img --skip-unsupported          values of modules are passed over, and counted
Versions 1 to 11 of the format (Redis 7.0 has 10) are read. Keys that have expired, and functions, are passed over. An import that was
stopped has put some of the keys: say --merge when it is done again.")]
pub struct ImportArguments {
    /// The dump
    file: PathBuf,
    #[command(flatten)]
    disk: DiskArguments,
    /// The size of a file that is made: more than twice what keys and values have
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size::parse)]
    size: u64,
    /// Also into a store that has keys: keys of the dump replace those of the same names
    #[arg(long)]
    merge: bool,
    /// Pass over keys of a kind that is not kept here, instead of refusing the dump
    #[arg(long)]
    skip_unsupported: bool,
}

/// Runs it.
pub fn run(arguments: &ImportArguments) -> Result<(), String> {
    let path = arguments.file.display();
    let file = File::open(&arguments.file).map_err(|error| format!("{path}: {error}"))?;
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let wrong = |error: qanat_kv::rdb::error::RdbError| format!("{path}: {error}");
    // Before anything is made for it.
    let mut reader = Reader::new(BufReader::with_capacity(1 << 20, file), arguments.skip_unsupported).map_err(wrong)?;
    let random = entropy().map_err(|error| format!("no entropy: {error}"))?;
    let identity = random.first_chunk::<16>().ok_or("too few random bytes")?;
    let storage = open_stopped(&arguments.disk, Some(arguments.size))?;
    let bar = progress_bar("importing");
    bar.set_length(length);
    let failed = |error: qanat_kv::offline::filling::FillError| format!("{}: {error}", arguments.disk.disk.display());
    let (mut filler, _) = Filler::open(storage, *identity, |_| {}).map_err(failed)?;
    let there = filler.keyspace().len();
    if there > 0 && !arguments.merge {
        return Err(format!(
            "{}: the store has {there} keys; say --merge to put those of the dump among them, or give another --disk or --area",
            arguments.disk.disk.display()
        ));
    }
    let (now, mut keys, mut expired) = (now_ms(), 0_u64, 0_u64);
    while let Some(item) = reader.next_key().map_err(wrong)? {
        bar.set_position(reader.offset());
        if item.entry.expires != 0 && item.entry.expires <= now {
            expired += 1;
            continue;
        }
        filler.put(item.database, &item.key, &item.entry).map_err(failed)?;
        keys += 1;
    }
    filler.finish().map_err(failed)?;
    bar.finish_and_clear();
    let (bytes, Skipped { functions, of_modules, keys: unsupported, empty, .. }) = (reader.offset(), reader.skipped());
    let fields = json!({
        "keys": keys, "bytes": bytes, "expired": expired, "unsupported": unsupported, "empty": empty,
        "functions": functions, "of_modules": of_modules,
    });
    let text = format!(
        "{} keys, from {} bytes; passed over: {expired} that had expired, {unsupported} of kinds that are not kept, {functions} libraries of functions",
        grouped(keys),
        grouped(bytes),
    );
    done(arguments.disk.json, &fields, &text);
    Ok(())
}
