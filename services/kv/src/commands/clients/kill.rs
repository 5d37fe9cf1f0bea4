//! CLIENT KILL.

use super::kinds::is_of;
use crate::engine::call::Call;
use crate::engine::fault::Fault;
use crate::engine::session::Session;
use crate::resp::number::integer;

/// Ends clients: one by its address, or all that options name.
///
/// # Errors
/// As Redis words them.
pub fn kill(call: &mut Call<'_>) -> Result<(), Fault> {
    let (args, own) = (call.args, call.client);
    if args.len() == 3 {
        let wanted = String::from_utf8_lossy(args.at(2)).into_owned();
        let found = call.state.sessions.iter_mut().find(|(_, session)| session.peer.to_string() == wanted);
        let (slot, session) = found.ok_or(Fault::Said("ERR No such client"))?;
        end(session, slot == own);
        call.state.kills = true;
        call.reply.ok();
        return Ok(());
    }
    let (skips_own, user) = options(call)?;
    let here = format!("0.0.0.0:{}", call.state.settings.port);
    let mut count = 0;
    for (slot, session) in call.state.sessions.iter_mut() {
        let is_meant = (2..args.len()).step_by(2).all(|index| {
            let value = args.at(index + 1);
            match args.at(index).to_ascii_uppercase().as_slice() {
                b"ID" => integer(value) == Some(session.id as i64),
                b"ADDR" => session.peer.to_string().as_bytes() == value,
                b"LADDR" => here.as_bytes() == value,
                b"USER" => user == Some(session.user),
                b"TYPE" => is_of(session, value).unwrap_or(false),
                _ => true,
            }
        });
        if is_meant && !(skips_own && slot == own) {
            end(session, slot == own);
            count += 1;
        }
    }
    call.state.kills = true;
    call.reply.integer(count);
    Ok(())
}

/// A client is closed at once; one that asks for it itself, when it has its answer.
fn end(session: &mut Session, is_own: bool) {
    if is_own { session.is_ending = true } else { session.is_killed = true }
}

/// Judges the options: whether who asks is spared, and the place of the user that is named.
fn options(call: &Call<'_>) -> Result<(bool, Option<usize>), Fault> {
    let args = call.args;
    if !args.len().is_multiple_of(2) {
        return Err(Fault::Syntax);
    }
    let (mut skips_own, mut user) = (true, None);
    for index in (2..args.len()).step_by(2) {
        let value = args.at(index + 1);
        if args.is(index, "ID") {
            integer(value).filter(|id| *id > 0).ok_or(Fault::Said("ERR client-id should be greater than 0"))?;
        } else if args.is(index, "SKIPME") {
            skips_own = match value.to_ascii_lowercase().as_slice() {
                b"yes" => true,
                b"no" => false,
                _ => return Err(Fault::Syntax),
            };
        } else if args.is(index, "TYPE") {
            is_of(&Session::new(0, std::net::SocketAddr::from(([0; 4], 0)), 0), value)?;
        } else if args.is(index, "USER") {
            let unknown = || Fault::Told(format!("ERR No such user '{}'", String::from_utf8_lossy(value)));
            user = Some(call.state.users.find(value).ok_or_else(unknown)?);
        } else if !args.is(index, "ADDR") && !args.is(index, "LADDR") {
            return Err(Fault::Syntax);
        }
    }
    Ok((skips_own, user))
}
