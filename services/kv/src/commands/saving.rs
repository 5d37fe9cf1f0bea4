//! Checkpoints on request, under the names that Redis' operators know. There is no dump file: what is acknowledged is in the log, and a
//! checkpoint makes the log as short as it can be.

use crate::engine::call::Call;
use crate::engine::command::{NO_KEYS, commands};
use crate::engine::fault::Fault;

commands! { "server":
    "bgrewriteaof", 1, [ADMIN], NO_KEYS, "1.0.0", "Begins a checkpoint of the log." => bgrewriteaof;
    "bgsave", -1, [ADMIN], NO_KEYS, "1.0.0", "Begins a checkpoint of the log." => bgsave;
    "save", 1, [ADMIN ALONE], NO_KEYS, "1.0.0", "Waits until what was written is durable, and begins a checkpoint of the log." => save;
    "lastsave", 1, [ADMIN FAST], NO_KEYS, "1.0.0", "Returns the Unix time at which the last checkpoint was complete." => lastsave;
}

/// A checkpoint begins when the turn ends. `running`: what is said if there is one.
fn begin(call: &mut Call<'_>, running: &'static str) -> Result<(), Fault> {
    if !call.state.settings.has_log {
        return Err(Fault::Said("ERR the store is in memory only: there is no log to make a checkpoint of"));
    }
    let log = &mut call.state.log;
    if log.has_failed {
        return Err(Fault::Said(crate::limits::MISCONF));
    }
    if log.is_checkpointing || log.is_checkpoint_wanted {
        return Err(Fault::Said(running));
    }
    log.is_checkpoint_wanted = true;
    Ok(())
}

fn bgrewriteaof(call: &mut Call<'_>) -> Result<(), Fault> {
    begin(call, "ERR Background append only file rewriting already in progress")?;
    call.reply.simple("Background append only file rewriting started");
    Ok(())
}

fn bgsave(call: &mut Call<'_>) -> Result<(), Fault> {
    let is_schedule = call.args.at(1).eq_ignore_ascii_case(b"schedule");
    if call.args.len() > 2 || call.args.len() == 2 && !is_schedule {
        return Err(Fault::Said("ERR syntax error"));
    }
    begin(call, "ERR Background save already in progress")?;
    call.reply.simple("Background saving started");
    Ok(())
}

/// What is answered after a checkpoint is not more durable than what is in the log. So nobody has to wait for it.
fn save(call: &mut Call<'_>) -> Result<(), Fault> {
    begin(call, "ERR Background save already in progress")?;
    call.state.waits_for_log = true;
    call.reply.ok();
    Ok(())
}

/// Of a store that has made none yet, the time of its start.
fn lastsave(call: &mut Call<'_>) -> Result<(), Fault> {
    let ms = call.state.log.checkpointed_ms.unwrap_or(call.state.started_ms);
    call.reply.integer(ms / 1_000);
    Ok(())
}
