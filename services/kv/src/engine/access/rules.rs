//! Rules: what is said of a user, word by word.

use crate::engine::access::categories::{Categories, of_command, of_subcommand};
use crate::engine::access::needs::{number, numbers, subcommand_number};
use crate::engine::access::words::of_line;
use crate::engine::command::{all, find_place};
use crate::engine::subcommands;
use crate::engine::users::digest::Digest;
use crate::engine::users::selector::{Access, Selector};
use crate::engine::users::user::User;

/// Sets that a user has besides its first one, at most.
const SELECTORS_MAX: usize = 256;

/// Why a rule is none, as Redis words it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleError {
    /// It is not understood.
    #[error("Syntax error")]
    Syntax,
    /// There is no such command.
    #[error("Unknown command or category name in ACL")]
    Unknown,
    /// All keys are there already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
    )]
    AfterAllKeys,
    /// All channels are.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels"
    )]
    AfterAllChannels,
    /// It is not there.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// No digest.
    #[error("The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters")]
    NoDigest,
    /// Of a command that has subcommands.
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstOfSubcommand,
    /// A user has so many passwords, patterns or selectors already.
    #[error("There are too many of these")]
    TooMany,
}

fn room(had_room: bool) -> Result<(), RuleError> {
    if had_room { Ok(()) } else { Err(RuleError::TooMany) }
}

/// Adds a rule to a user. If it is none, some of it may have been added: whoever calls this has a copy.
///
/// # Errors
/// [`RuleError`].
pub fn apply(user: &mut User, rule: &[u8]) -> Result<(), RuleError> {
    let digest = |text: &[u8]| Digest::from_hex(text).ok_or(RuleError::NoDigest);
    match rule {
        [b'>', password @ ..] => return room(user.add_password(Digest::of(password))),
        [b'#', hex @ ..] => return room(user.add_password(digest(hex)?)),
        [b'<', password @ ..] => return remove_password(user, Digest::of(password)),
        [b'!', hex @ ..] => return remove_password(user, digest(hex)?),
        [b'(', inner @ .., b')'] => {
            let mut selector = Selector::default();
            // A line is cut into words once more when it is read, and then this would be the end of the selector.
            let ends = |word: &[u8]| word.ends_with(b")") || word.starts_with(b"(");
            of_line(inner).try_for_each(|rule| match ends(rule) {
                true => Err(RuleError::Syntax),
                false => select(&mut selector, rule),
            })?;
            if user.selectors.len() >= SELECTORS_MAX {
                return Err(RuleError::TooMany);
            }
            user.selectors.push(selector);
            return Ok(());
        }
        _ => {}
    }
    match rule.to_ascii_lowercase().as_slice() {
        b"on" => user.is_on = true,
        b"off" => user.is_on = false,
        b"nopass" => {
            user.needs_no_password = true;
            user.passwords.clear();
        }
        b"resetpass" => {
            user.needs_no_password = false;
            user.passwords.clear();
        }
        b"skip-sanitize-payload" => user.skips_judgement = Some(true),
        b"sanitize-payload" => user.skips_judgement = Some(false),
        b"clearselectors" => user.selectors.clear(),
        b"reset" => *user = User { skips_judgement: Some(false), ..User::new(&user.name) },
        _ => return select(&mut user.root, rule),
    }
    Ok(())
}

fn remove_password(user: &mut User, password: Digest) -> Result<(), RuleError> {
    let before = user.passwords.len();
    user.passwords.retain(|own| *own != password);
    if user.passwords.len() < before { Ok(()) } else { Err(RuleError::NoSuchPassword) }
}

fn select(selector: &mut Selector, rule: &[u8]) -> Result<(), RuleError> {
    match rule.to_ascii_lowercase().as_slice() {
        b"allkeys" | b"~*" => selector.set_all_keys(true),
        b"resetkeys" => selector.set_all_keys(false),
        b"allchannels" | b"&*" => selector.set_all_channels(true),
        b"resetchannels" => selector.set_all_channels(false),
        b"allcommands" | b"+@all" => selector.set_all_commands(true),
        b"nocommands" | b"-@all" => selector.set_all_commands(false),
        lower => {
            return match (rule, lower) {
                ([b'~' | b'%', ..], _) => add_keys(selector, rule),
                ([b'&', pattern @ ..], _) => add_channels(selector, pattern),
                (_, [sign @ (b'+' | b'-'), b'@', category @ ..]) => add_category(selector, category, *sign == b'+'),
                (_, [sign @ (b'+' | b'-'), name @ ..]) => add_command(selector, name, *sign == b'+'),
                _ => Err(RuleError::Syntax),
            };
        }
    }
    Ok(())
}

fn is_one_word(pattern: &[u8]) -> Result<(), RuleError> {
    if pattern.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0) { Err(RuleError::Syntax) } else { Ok(()) }
}

fn add_keys(selector: &mut Selector, rule: &[u8]) -> Result<(), RuleError> {
    if selector.has_all_keys {
        return Err(RuleError::AfterAllKeys);
    }
    let (rights, pattern) = match rule.iter().position(|byte| *byte == b'~').and_then(|at| rule.split_at_checked(at)) {
        Some((rights, [_, pattern @ ..])) => (rights, pattern),
        _ => return Err(RuleError::Syntax),
    };
    let access = match rights.to_ascii_uppercase().as_slice() {
        b"" | b"%RW" | b"%WR" => Access::BOTH,
        b"%R" => Access::READ,
        b"%W" => Access::WRITE,
        _ => return Err(RuleError::Syntax),
    };
    is_one_word(pattern)?;
    room(selector.add_keys(access, pattern))
}

fn add_channels(selector: &mut Selector, pattern: &[u8]) -> Result<(), RuleError> {
    if selector.has_all_channels {
        return Err(RuleError::AfterAllChannels);
    }
    is_one_word(pattern)?;
    room(selector.add_channels(pattern))
}

/// The numbers of all that is of these categories.
fn of_categories(wanted: Categories) -> impl Iterator<Item = usize> {
    let commands = all().iter().enumerate().filter(move |(_, command)| of_command(command).meets(wanted));
    let subs = subcommands::ALL.iter().enumerate().filter(move |(_, name)| of_subcommand(name).meets(wanted));
    commands.map(|(place, _)| number(place)).chain(subs.map(|(place, _)| subcommand_number(place)))
}

/// The names of all commands and subcommands of a category.
pub fn names_of(wanted: Categories) -> impl Iterator<Item = &'static str> {
    of_categories(wanted).filter_map(crate::engine::access::needs::name)
}

fn add_category(selector: &mut Selector, name: &[u8], is_in: bool) -> Result<(), RuleError> {
    let category = Categories::named(name).ok_or(RuleError::Unknown)?;
    selector.set_commands(of_categories(category), is_in, &format!("@{}", String::from_utf8_lossy(name)));
    Ok(())
}

fn add_command(selector: &mut Selector, name: &[u8], is_in: bool) -> Result<(), RuleError> {
    // What is behind a command's name may be any argument, and lines of users' files have words.
    is_one_word(name)?;
    let said = String::from_utf8_lossy(name).into_owned();
    let Some((parent, sub)) = said.split_once('|') else {
        let (place, command) = find_place(name).ok_or(RuleError::Unknown)?;
        selector.set_commands(numbers(place, command), is_in, command.name);
        return Ok(());
    };
    let (place, command) = find_place(parent.as_bytes()).ok_or(RuleError::Unknown)?;
    let has_subcommands = !subcommands::of(command.name).is_empty();
    match sub.split_once('|') {
        _ if sub.is_empty() => return Err(RuleError::Syntax),
        Some((first, _)) => {
            let is_sub = has_subcommands && subcommands::place(command.name, first.as_bytes()).is_some();
            return Err(if is_sub { RuleError::FirstOfSubcommand } else { RuleError::Unknown });
        }
        None => {}
    }
    match (has_subcommands, subcommands::place(command.name, sub.as_bytes())) {
        (true, Some(at)) => selector.set_commands([subcommand_number(at)].into_iter(), is_in, &said),
        // It is the command with this first argument.
        (false, _) if is_in => room(selector.add_first_argument(number(place), sub.as_bytes(), &said))?,
        _ => return Err(RuleError::Unknown),
    }
    Ok(())
}
