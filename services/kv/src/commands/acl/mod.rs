//! ACL: users, and what they may do.

mod editing;
mod keeping;
mod telling;

use crate::engine::access::categories::{Categories, NAMES};
use crate::engine::access::judge::judge;
use crate::engine::access::{needs, rules};
use crate::engine::call::Call;
use crate::engine::command::{NO_KEYS, commands, find_place};
use crate::engine::fault::Fault;
use crate::engine::help;
use crate::engine::subcommands;
use crate::engine::users::log::Reason;
use crate::resp::request::Args;

commands! { "server":
    "acl", -2, [ADMIN], NO_KEYS, "6.0.0", "A container for Access List Control commands" => acl;
}

const HELP: &[(&str, &str)] = &[
    ("CAT [<category>]", "List all commands that belong to <category>, or all command categories."),
    ("DELUSER <username> [<username> ...]", "Delete a list of users."),
    (
        "DRYRUN <username> <command> [<arg> ...]",
        "Returns whether the user can execute the given command without executing the command.",
    ),
    ("GETUSER <username>", "Get the user's details."),
    ("GENPASS [<bits>]", "Generate a secure 256-bit user password, or one of so many bits."),
    ("LIST", "Show users details in config file format."),
    ("LOAD", "Reload users from the ACL file."),
    ("LOG [<count> | RESET]", "Show the ACL log entries."),
    ("SAVE", "Save the current config to the ACL file."),
    ("SETUSER <username> <attribute> [<attribute> ...]", "Create or modify a user with the specified attributes."),
    ("USERS", "List all the registered usernames."),
    ("WHOAMI", "Return the current connection username."),
];

/// Bits of a password that is made, at most.
const PASSWORD_BITS_MAX: i64 = 4_096;

fn acl(call: &mut Call<'_>) -> Result<(), Fault> {
    let (sub, count) = (call.args.at(1).to_ascii_lowercase(), call.args.len());
    match (sub.as_slice(), count) {
        (b"cat", 2..=3) => categories(call)?,
        (b"log", 2..=3) => telling::log(call)?,
        (b"genpass", 2..=3) => password(call)?,
        (b"cat" | b"log" | b"genpass", _) => {
            let said = String::from_utf8_lossy(call.args.at(1));
            return Err(Fault::Told(format!(
                "ERR unknown subcommand or wrong number of arguments for '{said}'. Try ACL HELP."
            )));
        }
        (b"setuser", 3..) => editing::set_user(call)?,
        (b"deluser", 3..) => editing::remove_users(call)?,
        (b"getuser", 3) => telling::user(call),
        (b"dryrun", 4..) => try_out(call)?,
        (b"list", 2) => telling::list(call),
        (b"users", 2) => telling::names(call),
        (b"whoami", 2) => {
            let place = call.session().map_or(0, |session| session.user);
            call.reply.bulk(call.state.users.name(place));
        }
        (b"load", 2) => keeping::load(call)?,
        (b"save", 2) => keeping::save(call)?,
        (b"help", 2) => help::answer(call, "ACL", HELP),
        _ if subcommands::find("acl", &sub).is_some() => {
            return Err(help::arity("acl", &String::from_utf8_lossy(&sub)));
        }
        _ => return Err(help::unknown(call, "ACL")),
    }
    Ok(())
}

fn categories(call: &mut Call<'_>) -> Result<(), Fault> {
    if call.args.len() == 2 {
        call.reply.array(NAMES.len());
        NAMES.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
        return Ok(());
    }
    let name = call.args.at(2);
    let unknown = || Fault::Told(format!("ERR Unknown category '{}'", String::from_utf8_lossy(name)));
    let category = Categories::named(name).ok_or_else(unknown)?;
    let found: Vec<&str> = rules::names_of(category).collect();
    call.reply.array(found.len());
    found.into_iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}

fn password(call: &mut Call<'_>) -> Result<(), Fault> {
    /// Unless it is said.
    const BITS: i64 = 256;
    /// A hexadecimal digit's.
    const DIGIT_BITS: i64 = 4;
    let bits = if call.args.len() == 3 { call.integer(2)? } else { BITS };
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(Fault::Said(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ));
    }
    let digits = (bits as usize).div_ceil(DIGIT_BITS as usize);
    let chance = call.state.users.chance.as_mut();
    let chance = chance.ok_or(Fault::Said("ERR there are no random bytes for a password"))?;
    let mut text = String::new();
    while text.len() < digits {
        text.push_str(&chance.draw().hex());
    }
    call.reply.bulk(text.get(..digits).unwrap_or_default().as_bytes());
    Ok(())
}

/// DRYRUN: whether a user may do something, without doing it.
fn try_out(call: &mut Call<'_>) -> Result<(), Fault> {
    let args = call.args;
    let shown = |index: usize| String::from_utf8_lossy(args.at(index)).into_owned();
    let user = call.state.users.named(args.at(2));
    let user = user.ok_or_else(|| Fault::Told(format!("ERR User '{}' not found", shown(2))))?;
    let unknown = || Fault::Told(format!("ERR Command '{}' not found", shown(3)));
    let (place, command) = find_place(args.at(3)).ok_or_else(unknown)?;
    let (text, ranges) = args.joined(3);
    let tried = Args::new(&text, &ranges);
    if needs::is_unknown(command, &tried) {
        return Err(unknown());
    }
    let name = needs::whole_name(command, &tried);
    if !command.takes(tried.len()) {
        return Err(Fault::Arity(name.to_owned()));
    }
    match judge(user, place, command, &tried) {
        None => call.reply.ok(),
        Some((reason, argument)) => {
            let object = String::from_utf8_lossy(tried.at(argument)).into_owned();
            let text = match reason {
                Reason::Command | Reason::Password => {
                    format!("This user has no permissions to run the '{name}' command")
                }
                Reason::Key => format!("This user has no permissions to access the '{object}' key"),
                Reason::Channel => format!("This user has no permissions to access the '{object}' channel"),
            };
            call.reply.bulk(text.as_bytes());
        }
    }
    Ok(())
}
