//! When keys expire: EXPIRE, TTL and their like, and the options of other commands.

use crate::engine::call::Call;
use crate::engine::command::{ONE, commands};
use crate::engine::fault::Fault;
use crate::keyspace::change::Change;
use crate::keyspace::events::Kinds;

commands! { "generic":
    "expire", -3, [WRITE FAST], ONE, "1.0.0", "Sets the expiration time of a key in seconds."
        => |call| expire(call, "expire", Unit::Seconds, false);
    "expireat", -3, [WRITE FAST], ONE, "1.2.0", "Sets the expiration time of a key to a Unix timestamp."
        => |call| expire(call, "expireat", Unit::Seconds, true);
    "pexpire", -3, [WRITE FAST], ONE, "2.6.0", "Sets the expiration time of a key in milliseconds."
        => |call| expire(call, "pexpire", Unit::Milliseconds, false);
    "pexpireat", -3, [WRITE FAST], ONE, "2.6.0", "Sets the expiration time of a key to a Unix milliseconds timestamp."
        => |call| expire(call, "pexpireat", Unit::Milliseconds, true);
    "persist", 2, [WRITE FAST], ONE, "2.2.0", "Removes the expiration time of a key." => persist;
    "ttl", 2, [READ FAST], ONE, "1.0.0", "Returns the expiration time in seconds of a key."
        => |call| left(call, Unit::Seconds, false);
    "pttl", 2, [READ FAST], ONE, "2.6.0", "Returns the expiration time in milliseconds of a key."
        => |call| left(call, Unit::Milliseconds, false);
    "expiretime", 2, [READ FAST], ONE, "7.0.0", "Returns the expiration time of a key as a Unix timestamp."
        => |call| left(call, Unit::Seconds, true);
    "pexpiretime", 2, [READ FAST], ONE, "7.0.0", "Returns the expiration time of a key as a Unix milliseconds timestamp."
        => |call| left(call, Unit::Milliseconds, true);
}

/// Of a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// 1,000 ms.
    Seconds,
    /// What the keyspace counts.
    Milliseconds,
}

/// The time (Unix, ms) that an amount means, from now or from 1970 on; `None`: there is no such time.
pub fn time(call: &Call<'_>, amount: i64, unit: Unit, is_absolute: bool) -> Option<i64> {
    let ms = match unit {
        Unit::Seconds => amount.checked_mul(1_000)?,
        Unit::Milliseconds => amount,
    };
    if is_absolute { Some(ms) } else { ms.checked_add(call.state.keyspace.now_ms) }
}

/// The option of `SET` and `GETEX` at `index`, if it is one that says when the key expires: the time (Unix, ms). Its value is the
/// argument behind it.
///
/// # Errors
/// [`Fault::Expire`], [`Fault::NotInteger`], [`Fault::Syntax`].
pub fn option(call: &Call<'_>, index: usize, name: &'static str) -> Result<Option<i64>, Fault> {
    let options = [
        ("EX", Unit::Seconds, false),
        ("PX", Unit::Milliseconds, false),
        ("EXAT", Unit::Seconds, true),
        ("PXAT", Unit::Milliseconds, true),
    ];
    let Some((_, unit, is_absolute)) = options.into_iter().find(|(word, ..)| call.args.is(index, word)) else {
        return Ok(None);
    };
    if index + 1 >= call.args.len() {
        return Err(Fault::Syntax);
    }
    after(call, index + 1, (unit, is_absolute), name).map(Some)
}

/// The time that the argument at `index` means, which is later than 1970.
///
/// # Errors
/// [`Fault::Expire`], [`Fault::NotInteger`].
pub fn after(
    call: &Call<'_>,
    index: usize,
    (unit, is_absolute): (Unit, bool),
    name: &'static str,
) -> Result<i64, Fault> {
    let amount = Some(call.integer(index)?).filter(|amount| *amount > 0);
    amount.and_then(|amount| time(call, amount, unit, is_absolute)).ok_or(Fault::Expire(name))
}

fn expire(call: &mut Call<'_>, name: &'static str, unit: Unit, is_absolute: bool) -> Result<(), Fault> {
    let key = call.args.at(1);
    let at = time(call, call.integer(2)?, unit, is_absolute).ok_or(Fault::Expire(name))?;
    let (mut is_nx, mut is_xx, mut is_gt, mut is_lt) = (false, false, false, false);
    for option in call.args.from(3) {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" => is_nx = true,
            b"XX" => is_xx = true,
            b"GT" => is_gt = true,
            b"LT" => is_lt = true,
            _ => {
                return Err(Fault::Told(format!("ERR Unsupported option {}", String::from_utf8_lossy(option))));
            }
        }
    }
    if is_nx && (is_xx || is_gt || is_lt) {
        return Err(Fault::Said("ERR NX and XX, GT or LT options at the same time are not compatible"));
    }
    if is_gt && is_lt {
        return Err(Fault::Said("ERR GT and LT options at the same time are not compatible"));
    }
    let Some(before) = call.find(key).map(|entry| entry.expires) else {
        call.reply.integer(0);
        return Ok(());
    };
    // What never expires counts as later than any time.
    let is_refused = is_nx && before != 0
        || is_xx && before == 0
        || is_gt && (before == 0 || at <= before)
        || is_lt && before != 0 && at >= before;
    if !is_refused {
        let is_over = at <= call.state.keyspace.now_ms;
        match is_over {
            true => call.change(Change::Delete { key }),
            false => call.change(Change::Expire { key, at }),
        }
        call.note(Kinds::GENERIC, if is_over { "del" } else { "expire" }, key);
    }
    call.reply.integer(i64::from(!is_refused));
    Ok(())
}

fn persist(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    let expires = call.find(key).is_some_and(|entry| entry.expires != 0);
    if expires {
        call.change(Change::Expire { key, at: 0 });
        call.note(Kinds::GENERIC, "persist", key);
    }
    call.reply.integer(i64::from(expires));
    Ok(())
}

fn left(call: &mut Call<'_>, unit: Unit, is_absolute: bool) -> Result<(), Fault> {
    let now = call.state.keyspace.now_ms;
    let expires = call.look(call.args.at(1)).map(|entry| entry.expires);
    call.reply.integer(match (expires, unit) {
        (None, _) => -2,
        (Some(0), _) => -1,
        (Some(at), Unit::Milliseconds) => {
            if is_absolute {
                at
            } else {
                (at - now).max(0)
            }
        }
        (Some(at), Unit::Seconds) if is_absolute => (at + 500) / 1_000,
        (Some(at), Unit::Seconds) => ((at - now).max(0) + 500) / 1_000,
    });
    Ok(())
}
