//! ACL GETUSER, LIST, USERS and LOG.

use crate::engine::call::Call;
use crate::engine::fault::Fault;
use crate::engine::users::selector::Selector;
use crate::resp::number::integer;
use crate::resp::reply::Reply;

/// Entries of the log that are told, unless the client says otherwise.
const TOLD: usize = 10;

fn tell(reply: &mut Reply, selector: &Selector) {
    reply.bulk(b"commands");
    reply.bulk(selector.commands_text().as_bytes());
    reply.bulk(b"keys");
    reply.bulk(&selector.keys_text());
    reply.bulk(b"channels");
    reply.bulk(&selector.channels_text());
}

/// GETUSER.
pub fn user(call: &mut Call<'_>) {
    let Call { state, reply, args, .. } = call;
    let Some(user) = state.users.named(args.at(2)) else { return reply.null() };
    reply.map(6);
    reply.bulk(b"flags");
    let flags: Vec<&str> = user.flags().collect();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords.len());
    user.passwords.iter().for_each(|password| reply.bulk(password.hex().as_bytes()));
    tell(reply, &user.root);
    reply.bulk(b"selectors");
    reply.array(user.selectors.len());
    for selector in &user.selectors {
        reply.map(3);
        tell(reply, selector);
    }
}

/// LIST.
pub fn list(call: &mut Call<'_>) {
    let users = &call.state.users;
    call.reply.array(users.len());
    users.iter().for_each(|(_, user)| call.reply.bulk(&user.line()));
}

/// USERS.
pub fn names(call: &mut Call<'_>) {
    let users = &call.state.users;
    call.reply.array(users.len());
    users.iter().for_each(|(_, user)| call.reply.bulk(&user.name));
}

/// LOG.
///
/// # Errors
/// As Redis words them.
pub fn log(call: &mut Call<'_>) -> Result<(), Fault> {
    let args = call.args;
    let mut most = TOLD;
    if args.len() == 3 {
        if args.is(2, "RESET") {
            call.state.users.log.clear();
            call.reply.ok();
            return Ok(());
        }
        // A negative count means none.
        let count = integer(args.at(2)).ok_or(Fault::NotInteger)?;
        most = usize::try_from(count).unwrap_or(0);
    }
    let Call { state, reply, .. } = call;
    let now_ms = state.keyspace.now_ms;
    let log = &state.users.log;
    let count = log.entries().len().min(most);
    reply.array(count);
    for denial in log.entries().take(count) {
        reply.map(7);
        reply.bulk(b"count");
        reply.integer(denial.count as i64);
        for (field, text) in [
            ("reason", denial.reason.name().as_bytes()),
            ("context", denial.context.name().as_bytes()),
            ("object", &denial.object),
            ("username", &denial.user),
        ] {
            reply.bulk(field.as_bytes());
            reply.bulk(text);
        }
        reply.bulk(b"age-seconds");
        reply.double((now_ms - denial.at_ms) as f64 / 1_000.0);
        reply.bulk(b"client-info");
        reply.bulk(denial.client.as_bytes());
    }
    Ok(())
}
