//! MONITOR.

use crate::engine::call::Call;
use crate::engine::command::{NO_KEYS, commands};
use crate::engine::fault::Fault;

commands! { "server":
    "monitor", 1, [ADMIN], NO_KEYS, "1.0.0", "Listen for all requests received by the server in real time" => monitor;
}

fn monitor(call: &mut Call<'_>) -> Result<(), Fault> {
    if call.is_queued {
        return Err(Fault::Said("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    let client = call.client;
    let Some(session) = call.session() else { return Ok(()) };
    // Who watches already is not answered again.
    if !std::mem::replace(&mut session.is_monitor, true) {
        call.state.observed.monitors.push(client);
        call.reply.ok();
    }
    Ok(())
}
