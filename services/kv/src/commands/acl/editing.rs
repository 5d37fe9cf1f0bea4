//! ACL SETUSER and DELUSER, and `requirepass`.

use crate::engine::access::rules::apply;
use crate::engine::access::words::{rules, shown};
use crate::engine::call::Call;
use crate::engine::fault::Fault;
use crate::engine::guard;
use crate::engine::users::roster::DEFAULT;
use crate::engine::users::user::User;

/// Bytes of a user's name, at most.
const NAME_BYTES_MAX: usize = 1_024;

/// Makes or changes a user: all rules, or none.
///
/// # Errors
/// As Redis words them.
pub fn set_user(call: &mut Call<'_>) -> Result<(), Fault> {
    let name = call.args.at(2);
    if name.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0) {
        return Err(Fault::Said("ERR Usernames can't contain spaces or null characters"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Fault::Said("ERR the username is too long"));
    }
    let mut user = call.state.users.named(name).cloned().unwrap_or_else(|| User::new(name));
    for rule in rules(call.args.from(3)).map_err(|why| Fault::Told(format!("ERR {why}")))? {
        apply(&mut user, &rule)
            .map_err(|why| Fault::Told(format!("ERR Error in ACL SETUSER modifier '{}': {why}", shown(&rule))))?;
    }
    if !guard::put_user(call.state, user) {
        return Err(Fault::Said("ERR there are too many users"));
    }
    call.reply.ok();
    Ok(())
}

/// Removes users, and answers how many there were.
///
/// # Errors
/// The default user can't go: nobody does then.
pub fn remove_users(call: &mut Call<'_>) -> Result<(), Fault> {
    if call.args.from(2).any(|name| name == DEFAULT) {
        return Err(Fault::Said("ERR The 'default' user cannot be removed"));
    }
    let own = Some(call.client);
    let mut count = 0;
    for name in call.args.from(2) {
        count += i64::from(guard::remove_user(call.state, name, own));
    }
    call.reply.integer(count);
    Ok(())
}
