//! CLIENT PAUSE and UNPAUSE.

use crate::engine::call::Call;
use crate::engine::fault::Fault;
use crate::resp::number::integer;

/// Clients have to wait for so many milliseconds, or those of them that write.
///
/// # Errors
/// As Redis words them.
pub fn pause(call: &mut Call<'_>) -> Result<(), Fault> {
    let is_of_all = match call.args.len() {
        3 => true,
        _ if call.args.is(3, "WRITE") => false,
        _ if call.args.is(3, "ALL") => true,
        _ => return Err(Fault::Said("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let ms = integer(call.args.at(2)).ok_or(Fault::Said("ERR timeout is not an integer or out of range"))?;
    if ms < 0 {
        return Err(Fault::Said("ERR timeout is negative"));
    }
    let now_ms = call.state.keyspace.now_ms;
    let until_ms = now_ms.checked_add(ms).ok_or(Fault::Said("ERR timeout is out of range"))?;
    call.state.pause.begin(now_ms, until_ms, is_of_all);
    call.reply.ok();
    Ok(())
}

/// They go on.
///
/// # Errors
/// There is none.
pub fn unpause(call: &mut Call<'_>) -> Result<(), Fault> {
    call.state.pause.end();
    call.reply.ok();
    Ok(())
}
