//! The names that a policy has, as numbers.
//!
//! The machine's name service may ask other machines, so a look-up can take seconds. Nothing here is called in the daemon's
//! loop: a thread does it ([`crate::daemon`]'s registrar).

use crate::policy::Policy;
use nix::unistd::{Group, Uid, User};
use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::sync::mpsc::channel;
use std::time::Duration;

/// So long a single look-up is waited for where nobody else waits.
const PATIENCE: Duration = Duration::from_secs(5);

/// Users and groups that rules name, by what they are called there. Names that nobody has are missing.
#[derive(Clone, Debug, Default)]
pub struct Names {
    users: HashMap<String, u32>,
    groups: HashMap<String, u32>,
}

/// A name in a rule that no user, or no group, has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// The rule's name.
    pub rule: String,
    /// `user` or `group`.
    pub kind: &'static str,
    /// As it is in the rule.
    pub name: String,
}

impl Names {
    /// Looks up every name of a policy's rules. It takes as long as the machine's name service does.
    pub fn of(policy: &Policy) -> Names {
        let user = |name: &str| User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
        let group = |name: &str| Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw());
        let users = policy.rule.iter().flat_map(|rule| &rule.users).filter(|name| known(name).is_none());
        let groups = policy.rule.iter().flat_map(|rule| &rule.groups).filter(|name| known(name).is_none());
        Names {
            users: users.filter(|name| *name != "*").filter_map(|name| Some((name.clone(), user(name)?))).collect(),
            groups: groups.filter_map(|name| Some((name.clone(), group(name)?))).collect(),
        }
    }

    /// The number of a user that a rule names.
    pub fn user(&self, name: &str) -> Option<u32> {
        known(name).or_else(|| self.users.get(name).copied())
    }

    /// The number of a group that a rule names.
    pub fn group(&self, name: &str) -> Option<u32> {
        known(name).or_else(|| self.groups.get(name).copied())
    }

    /// Names of a policy's rules that are nobody's: such a rule gives less than it says.
    pub fn unknown(&self, policy: &Policy) -> Vec<UnknownName> {
        let mut unknown = Vec::new();
        for rule in &policy.rule {
            let mut say = |kind, name: &String| {
                unknown.push(UnknownName { rule: rule.name.clone(), kind, name: name.clone() });
            };
            rule.users
                .iter()
                .filter(|name| *name != "*" && self.user(name).is_none())
                .for_each(|name| say("user", name));
            rule.groups.iter().filter(|name| self.group(name).is_none()).for_each(|name| say("group", name));
        }
        unknown
    }
}

impl Display for UnknownName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let UnknownName { rule, kind, name } = self;
        write!(f, "rule \"{rule}\" names the {kind} \"{name}\", and there is none: make it, or name another")
    }
}

/// A number is itself, and `root` is known without a look-up.
fn known(name: &str) -> Option<u32> {
    if name == "root" { Some(0) } else { name.parse().ok() }
}

/// The number of a group; `None`: there is none of that name. The machine's name service is not waited for longer than
/// [`PATIENCE`].
///
/// # Errors
/// It has not answered by then.
pub fn group_number(name: &str) -> Result<Option<u32>, String> {
    if let Some(number) = known(name) {
        return Ok(Some(number));
    }
    let (found, answer) = channel();
    let wanted = name.to_owned();
    // A look-up that hangs can't be stopped: its thread ends when it does, or with the process.
    let look_up = move || {
        let group = Group::from_name(&wanted).ok().flatten();
        let _ = found.send(group.map(|group| group.gid.as_raw()));
    };
    let started = std::thread::Builder::new().name("qanat-group".to_owned()).spawn(look_up);
    started.map_err(|error| format!("start a thread for names: {error}"))?;
    answer.recv_timeout(PATIENCE).map_err(|_| {
        format!(
            "group \"{name}\": this machine's name service has not answered for {} s: see nsswitch.conf(5), or give the \
             group by number",
            PATIENCE.as_secs()
        )
    })
}

/// Whether a user number is an account's. It takes as long as the machine's name service does.
pub fn has_account(user: u32) -> bool {
    matches!(User::from_uid(Uid::from_raw(user)), Ok(Some(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbers() {
        let policy = Policy::parse(
            "[[rule]]\nname = \"a\"\nusers = [\"root\", \"nobody\", \"7\", \"*\", \"no such user\"]\n\
             groups = [\"nogroup\", \"60\", \"no such group\"]",
        )
        .unwrap();
        let names = Names::of(&policy);
        assert_eq!(
            ["root", "nobody", "7", "no such user"].map(|name| names.user(name)),
            [Some(0), Some(65_534), Some(7), None]
        );
        assert_eq!(["nogroup", "60", "no such group"].map(|name| names.group(name)), [Some(65_534), Some(60), None]);
        let unknown: Vec<_> = names.unknown(&policy).into_iter().map(|unknown| (unknown.kind, unknown.name)).collect();
        assert_eq!(unknown, [("user", "no such user".to_owned()), ("group", "no such group".to_owned())]);
        assert!(has_account(0) && !has_account(3_999_999_999));
    }
}
