//! The names that a policy has, as numbers.
//!
//! The machine's name service may ask other machines, so a look-up can take seconds. Nothing here is called in the daemon's
//! loop: a thread does it (the registrar).

use super::error::PolicyError;
use crate::policy::rule::Rule;
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

/// What a policy says in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InVain {
    /// A rule names a user, or a group, that there is not.
    UnknownName {
        /// The rule's name.
        rule: String,
        /// `user` or `group`.
        kind: &'static str,
        /// As it is in the rule.
        name: String,
    },
    /// A rule names nobody.
    NamesNobody {
        /// The rule's name.
        rule: String,
    },
    /// Whomever a rule names is named by rules before it, and the first that names somebody decides.
    NeverDecides {
        /// The rule's name.
        rule: String,
        /// That of the first rule that takes somebody from it.
        before: String,
    },
}

impl Names {
    /// Looks up every name of these rules. It takes as long as the machine's name service does.
    pub fn of(rules: &[Rule]) -> Names {
        let user = |name: &str| User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
        let group = |name: &str| Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw());
        let users = rules.iter().flat_map(|rule| &rule.users).filter(|name| known(name).is_none());
        let groups = rules.iter().flat_map(|rule| &rule.groups).filter(|name| known(name).is_none());
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

    /// What a policy says in vain: its rules give less than they say.
    pub fn in_vain(&self, rules: &[Rule]) -> Vec<InVain> {
        let mut found = Vec::new();
        for rule in rules {
            let mut say = |kind, name: &String| {
                found.push(InVain::UnknownName { rule: rule.name.clone(), kind, name: name.clone() });
            };
            rule.users
                .iter()
                .filter(|name| *name != "*" && self.user(name).is_none())
                .for_each(|name| say("user", name));
            rule.groups.iter().filter(|name| self.group(name).is_none()).for_each(|name| say("group", name));
        }
        for (number, rule) in rules.iter().enumerate() {
            let earlier = rules.get(..number).unwrap_or_default();
            found.extend(self.is_idle(rule, earlier));
        }
        found
    }

    /// Whether a rule behind these others decides for nobody. Who is in which group is not looked up.
    fn is_idle(&self, rule: &Rule, earlier: &[Rule]) -> Option<InVain> {
        if rule.users.is_empty() && rule.groups.is_empty() {
            return Some(InVain::NamesNobody { rule: rule.name.clone() });
        }
        let is_user = |wanted: &String, name: &String| {
            name == "*" || name == wanted || self.user(name).is_some_and(|number| self.user(wanted) == Some(number))
        };
        let is_group = |wanted: &String, name: &String| {
            name == wanted || self.group(name).is_some_and(|number| self.group(wanted) == Some(number))
        };
        let of_user = |wanted| earlier.iter().position(|other| other.users.iter().any(|name| is_user(wanted, name)));
        let takes_group = |other: &Rule, wanted| {
            other.users.iter().any(|name| name == "*") || other.groups.iter().any(|name| is_group(wanted, name))
        };
        let of_group = |wanted| earlier.iter().position(|other| takes_group(other, wanted));
        let takers: Option<Vec<usize>> =
            rule.users.iter().map(of_user).chain(rule.groups.iter().map(of_group)).collect();
        let first = earlier.get(takers?.into_iter().min()?)?;
        Some(InVain::NeverDecides { rule: rule.name.clone(), before: first.name.clone() })
    }
}

impl Display for InVain {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            InVain::UnknownName { rule, kind, name } => {
                write!(f, "rule \"{rule}\" names the {kind} \"{name}\", and there is none: make it, or name another")
            }
            InVain::NamesNobody { rule } => {
                write!(f, "rule \"{rule}\" names nobody, so it never decides: give it `users` or `groups`")
            }
            InVain::NeverDecides { rule, before } => write!(
                f,
                "rule \"{rule}\" never decides, for rules before it name everybody whom it names: put it before rule \"{before}\", or \
                 take it out"
            ),
        }
    }
}

/// A number is itself, and `root` is known without a look-up.
fn known(name: &str) -> Option<u32> {
    if name == "root" { Some(0) } else { name.parse().ok() }
}

/// The number of a group; `None`: there is none of that name. The machine's name service is not waited for longer than
/// five seconds.
///
/// # Errors
/// It has not answered by then.
pub fn group_number(name: &str) -> Result<Option<u32>, PolicyError> {
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
    started.map_err(PolicyError::NoThread)?;
    let silent = |_| PolicyError::NoAnswer { group: name.to_owned(), seconds: PATIENCE.as_secs() };
    answer.recv_timeout(PATIENCE).map_err(silent)
}

/// Whether a user number is an account's. It takes as long as the machine's name service does.
pub fn has_account(user: u32) -> bool {
    matches!(User::from_uid(Uid::from_raw(user)), Ok(Some(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    #[test]
    fn names_are_numbers() {
        let policy = Policy::parse(
            "[[rule]]\nname = \"a\"\nusers = [\"root\", \"nobody\", \"7\", \"*\", \"no such user\"]\n\
             groups = [\"nogroup\", \"60\", \"no such group\"]",
        )
        .unwrap();
        let names = Names::of(&policy.rule);
        assert_eq!(
            ["root", "nobody", "7", "no such user"].map(|name| names.user(name)),
            [Some(0), Some(65_534), Some(7), None]
        );
        assert_eq!(["nogroup", "60", "no such group"].map(|name| names.group(name)), [Some(65_534), Some(60), None]);
        let unknown = |kind, name: &str| InVain::UnknownName { rule: "a".to_owned(), kind, name: name.to_owned() };
        assert_eq!(names.in_vain(&policy.rule), [unknown("user", "no such user"), unknown("group", "no such group")]);
        assert!(has_account(0) && !has_account(3_999_999_999));
    }

    #[test]
    fn rules_that_never_decide_are_found() {
        let found = |rules: &[(&str, &str)]| {
            let text: String = rules
                .iter()
                .enumerate()
                .map(|(number, (users, groups))| {
                    format!("[[rule]]\nname = \"{number}\"\nusers = [{users}]\ngroups = [{groups}]\n")
                })
                .collect();
            let policy = Policy::parse(&text).unwrap();
            let in_vain = Names::of(&policy.rule).in_vain(&policy.rule);
            in_vain.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        for fine in [
            &[("\"root\"", ""), ("\"nobody\"", ""), ("", "\"root\""), ("\"*\"", "")][..],
            // A group's members may be other users.
            &[("\"root\"", ""), ("", "\"root\"")],
            &[("\"root\"", ""), ("\"root\", \"nobody\"", "")],
            &[("", "\"root\""), ("\"root\"", "")],
        ] {
            assert_eq!(found(fine), "", "{fine:?}");
        }
        for (never, before) in [
            (&[("\"*\"", ""), ("\"root\"", "\"nogroup\"")][..], 0),
            (&[("\"root\"", ""), ("\"0\"", "")], 0),
            (&[("", "\"nogroup\""), ("\"nobody\"", ""), ("\"65534\"", "\"65534\"")], 0),
        ] {
            let said = found(never);
            let last = never.len() - 1;
            assert!(said.contains(&format!("rule \"{last}\" never decides")), "{said}");
            assert!(said.contains(&format!("before rule \"{before}\"")) && !said.contains(';'), "{said}");
        }
        assert!(found(&[("", "")]).contains("names nobody"));
    }
}
