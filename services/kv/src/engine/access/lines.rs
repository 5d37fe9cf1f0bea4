//! Lines of users' files: `user NAME RULE …`.

use crate::engine::access::rules::apply;
use crate::engine::access::words::{of_line, rules, shown};
use crate::engine::users::roster::{DEFAULT, USERS_MAX};
use crate::engine::users::user::User;
use std::collections::BTreeSet;

/// What is wrong with such a file, as Redis words it: all its lines that are none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}WARNING: ACL errors detected, no change to the previously active ACL rules was performed")]
pub struct LinesError(String);

/// Lines that are told if they are none.
const TOLD: usize = 32;

/// The users of a file that is called `name`. If it has no default user, that is everybody's.
///
/// # Errors
/// [`LinesError`].
pub fn parse(name: &str, text: &[u8]) -> Result<Vec<User>, LinesError> {
    let (mut users, mut wrong) = (Vec::new(), Vec::new());
    let mut known: BTreeSet<Box<[u8]>> = BTreeSet::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        let mut words = of_line(line);
        let user = match (words.next(), words.next()) {
            (None, _) => continue,
            (Some(b"user"), Some(user)) => user,
            _ => {
                wrong.push(format!("{name}:{number} should start with user keyword followed by the username. "));
                continue;
            }
        };
        if !known.insert(user.into()) || known.len() > USERS_MAX {
            wrong.push(format!("WARNING: Duplicate user '{}' found on line {number}. ", shown(user)));
            continue;
        }
        match of_rules(user, words) {
            Ok(user) => users.push(user),
            Err(why) => wrong.push(format!("{name}:{number}: {why}. ")),
        }
    }
    if known.len() >= USERS_MAX && !known.contains(DEFAULT) {
        wrong.push(format!("There is no room for the default user besides {USERS_MAX} others. "));
    }
    if !wrong.is_empty() {
        wrong.truncate(TOLD);
        return Err(LinesError(wrong.concat()));
    }
    if !known.contains(DEFAULT) {
        users.push(User::open(DEFAULT));
    }
    Ok(users)
}

/// Why a line is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
enum LineError {
    #[error("Unmatched parenthesis in selector definition")]
    Unmatched,
    #[error("Error in applying operation '{0}': {1}")]
    Rule(String, crate::engine::access::rules::RuleError),
}

fn of_rules<'a>(name: &[u8], words: impl Iterator<Item = &'a [u8]>) -> Result<User, LineError> {
    let mut user = User::new(name);
    for rule in rules(words).map_err(|_| LineError::Unmatched)? {
        apply(&mut user, &rule).map_err(|why| LineError::Rule(shown(&rule), why))?;
    }
    Ok(user)
}

/// A file of these users.
pub fn write<'a>(users: impl Iterator<Item = &'a User>) -> Vec<u8> {
    let mut text = Vec::new();
    for user in users {
        text.extend_from_slice(&user.line());
        text.push(b'\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::table;

    #[test]
    fn what_is_written_is_read() {
        table();
        let text = "user alice on >pw ~a* %R~b +@read -get +config|get +select|0 (~c &d +set) (%W~e)\n\nuser bob off\n";
        let users = parse("f", text.as_bytes()).unwrap();
        assert_eq!(
            users.iter().map(|user| user.name.as_ref()).collect::<Vec<_>>(),
            [b"alice".as_slice(), b"bob", b"default"]
        );
        let written = write(users.iter());
        assert_eq!(parse("f", &written).unwrap(), users);
        let line = String::from_utf8(written).unwrap();
        assert!(
            line.starts_with(
                "user alice on #30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4 ~a* %R~b resetchannels -@all \
                 +@read -get +config|get +select|0 (~c resetchannels &d -@all +set) (%W~e resetchannels -@all)\nuser bob off \
                 resetchannels -@all\n"
            ),
            "{line}"
        );
    }

    /// What could not be read as it was said can't be said.
    #[test]
    fn no_rule_ends_a_line_or_a_selector() {
        table();
        for rule in [
            "+get|x\nuser evil on nopass +@all",
            "+get|x y",
            "+select|\0",
            "(~a) +get)",
            "(+get|x) ~b)",
            "((~a)",
            "(~a (~b)",
        ] {
            let mut user = User::new(b"u");
            let applied = apply(&mut user, rule.as_bytes());
            let written = write(std::iter::once(&user));
            assert!(applied.is_err(), "{rule}: {}", String::from_utf8_lossy(&written));
        }
    }

    #[test]
    fn there_is_room_for_the_default_user() {
        table();
        let others: String = (0..USERS_MAX).map(|number| format!("user {number}\n")).collect();
        assert!(parse("f", others.as_bytes()).unwrap_err().to_string().starts_with("There is no room"));
        assert!(parse("f", format!("{others}user default\n").as_bytes()).is_err());
    }

    #[test]
    fn all_lines_that_are_none_are_told() {
        table();
        let text = "user x on\nfoo bar\nuser y +nosuch\nuser x off\nuser d (+get\nuser\n";
        let expected = "f:2 should start with user keyword followed by the username. f:3: Error in applying operation '+nosuch': \
                        Unknown command or category name in ACL. WARNING: Duplicate user 'x' found on line 4. f:5: Unmatched \
                        parenthesis in selector definition. f:6 should start with user keyword followed by the username. WARNING: \
                        ACL errors detected, no change to the previously active ACL rules was performed";
        assert_eq!(parse("f", text.as_bytes()).unwrap_err().to_string(), expected);
    }
}
