//! Whether a user may do something.

use crate::engine::access::needs;
use crate::engine::command::Command;
use crate::engine::users::log::Reason;
use crate::engine::users::selector::Selector;
use crate::engine::users::user::User;
use crate::resp::request::Args;

/// What is refused: why, and which of the arguments it is about.
pub type Refused = (Reason, usize);

fn refused(selector: &Selector, number: usize, command: &Command, args: &Args<'_>) -> Option<Refused> {
    if !needs::is_everybodys(command) && !selector.has_command(number, args.at(1)) {
        return Some((Reason::Command, 0));
    }
    if !selector.has_all_keys {
        let mut keys = needs::keys(command, args);
        if let Some((place, _)) = keys.find(|(place, access)| !selector.has_key(args.at(*place), *access)) {
            return Some((Reason::Key, place));
        }
    }
    if !selector.has_all_channels {
        let (mut places, is_pattern) = needs::channels(command, args);
        if let Some(place) = places.find(|place| !selector.has_channel(args.at(*place), is_pattern)) {
            return Some((Reason::Channel, place));
        }
    }
    None
}

/// How much of a command was allowed before it was refused: what went furthest is told.
fn how_far((reason, place): &Refused) -> (u8, usize) {
    (matches!(reason, Reason::Key) as u8 + 2 * (matches!(reason, Reason::Channel) as u8), *place)
}

/// Why a user may not execute a command, which is in this place of the table; `None`: it may.
pub fn judge(user: &User, place: usize, command: &Command, args: &Args<'_>) -> Option<Refused> {
    let number = needs::number_of(place, command, args);
    let mut furthest: Option<Refused> = None;
    for selector in user.all_selectors() {
        let refusal = refused(selector, number, command, args)?;
        if furthest.as_ref().is_none_or(|before| how_far(before) < how_far(&refusal)) {
            furthest = Some(refusal);
        }
    }
    furthest
}

/// Whether a user that may execute a command may read any key with it, those included that no argument names.
pub fn reads_all_keys(user: &User, place: usize, command: &Command, args: &Args<'_>) -> bool {
    let number = needs::number_of(place, command, args);
    user.all_selectors().any(|selector| selector.reads_all_keys() && refused(selector, number, command, args).is_none())
}

/// Whether a user may listen to a channel, or to a pattern of channels.
pub fn may_listen(user: &User, channel: &[u8], is_pattern: bool) -> bool {
    user.all_selectors().any(|selector| selector.has_channel(channel, is_pattern))
}
