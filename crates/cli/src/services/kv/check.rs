//! `qanat kv check`: reads the log of a stopped store wholly.

use super::disk::{DiskArguments, open_stopped};
use crate::live::grouped;
use crate::progress::progress_bar;
use crate::say::sayln;
use clap::Args;
use qanat_kv::keyspace::space::DATABASES;
use qanat_kv::offline::reading::{Reading, read};
use serde_json::json;

/// Read the log of a stopped store wholly, and say what is there and whether it is whole
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat kv check --disk /var/lib/qanat/kv.img            keys of each database, records and bytes of the log
  qanat kv check --disk /var/lib/qanat/kv.img --json     for programs
Nothing is written. An end that a crash has torn is no damage: nothing of it was acknowledged.
Exit code 1 if something that was acknowledged can't be read any more, with its place in the area.")]
pub struct CheckArguments {
    #[command(flatten)]
    disk: DiskArguments,
}

/// Reads the log, with a bar that shows how far it is.
pub fn read_log(arguments: &DiskArguments) -> Result<Reading, String> {
    let storage = open_stopped(arguments, None)?;
    let bar = progress_bar("reading the log");
    let reading = read(storage, |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    reading.map_err(|error| format!("{}, area {}: {error}", arguments.disk.display(), arguments.area))
}

/// Runs it.
pub fn run(arguments: &CheckArguments) -> Result<(), String> {
    let reading = match read_log(&arguments.disk) {
        Ok(reading) => reading,
        Err(error) => {
            if arguments.disk.json {
                sayln!("{}", json!({ "is_whole": false, "error": error }));
            }
            return Err(error);
        }
    };
    let Reading { keyspace, recovered, log_bytes } = &reading;
    let databases: Vec<(u8, usize)> = (0..DATABASES).map(|number| (number, keyspace.database(number).len())).collect();
    if arguments.disk.json {
        let keys: serde_json::Map<_, _> = databases
            .iter()
            .filter(|(_, keys)| *keys > 0)
            .map(|(number, keys)| (number.to_string(), json!(keys)))
            .collect();
        sayln!(
            "{}",
            json!({
                "is_whole": true, "keys": keys, "data_bytes": keyspace.bytes(), "records": recovered.records,
                "log_bytes_used": recovered.bytes, "log_bytes": log_bytes, "was_torn": recovered.was_torn,
                "superblock_damaged": recovered.was_damaged,
            })
        );
        return Ok(());
    }
    for (number, keys) in databases.iter().filter(|(_, keys)| *keys > 0) {
        sayln!("database {number}: {} keys", grouped(*keys as u64));
    }
    sayln!("keys and values: {} bytes, as their records have them", grouped(keyspace.bytes() as u64));
    sayln!(
        "log: {} records, {} of {} bytes",
        grouped(recovered.records),
        grouped(recovered.bytes),
        grouped(*log_bytes)
    );
    if recovered.was_torn {
        sayln!(
            "its end, behind these bytes, was torn by a crash: nothing of it was acknowledged, and the next start cuts it off"
        );
    }
    if recovered.was_damaged {
        sayln!("one of two superblocks is damaged: the next start writes it anew");
    }
    sayln!("all that was acknowledged is whole");
    Ok(())
}
