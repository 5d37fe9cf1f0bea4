//! ACL LOAD and SAVE: users in a file. It is short, and operators ask for it: the loop waits for it.

use crate::engine::access::lines;
use crate::engine::call::Call;
use crate::engine::fault::Fault;
use crate::engine::guard;
use crate::engine::users::roster::DEFAULT;
use crate::engine::users::user::User;

const NO_FILE: Fault = Fault::Said(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.",
);

/// All users are what the file says. Clients of users that are gone or others than they were are closed.
///
/// # Errors
/// The file can't be read, or some of it is not understood. All users are as before.
pub fn load(call: &mut Call<'_>) -> Result<(), Fault> {
    let file = call.state.users.file.as_ref().ok_or(NO_FILE)?;
    let name = file.name();
    let text =
        file.read().map_err(|why| Fault::Told(format!("ERR Error loading ACLs, opening file '{name}': {why}")))?;
    let users = lines::parse(&name, &text).map_err(|why| Fault::Told(format!("ERR {why}")))?;
    let is_same = |before: &User| users.iter().any(|user| user == before);
    let others = call.state.users.iter().map(|(_, user)| user).filter(|user| &*user.name != DEFAULT && !is_same(user));
    let gone: Vec<Box<[u8]>> = others.map(|user| user.name.clone()).collect();
    for name in gone {
        guard::remove_user(call.state, &name, Some(call.client));
    }
    for user in users {
        if !guard::put_user(call.state, user) {
            return Err(Fault::Said("ERR there are too many users"));
        }
    }
    call.reply.ok();
    Ok(())
}

/// The file has all users from now on.
///
/// # Errors
/// It can't be written.
pub fn save(call: &mut Call<'_>) -> Result<(), Fault> {
    let users = &call.state.users;
    let file = users.file.as_ref().ok_or(NO_FILE)?;
    let text = lines::write(users.iter().map(|(_, user)| user));
    file.replace(&text).map_err(|why| Fault::Told(format!("ERR There was an error trying to save the ACLs: {why}")))?;
    call.reply.ok();
    Ok(())
}
