//! [`Users`]: all users. The one in the first place is `default`: who says no name is it.

use crate::engine::users::digest::Digest;
use crate::engine::users::file::UsersFile;
use crate::engine::users::log::DenialLog;
use crate::engine::users::user::User;
use std::collections::BTreeMap;

/// The name of the user in the first place.
pub const DEFAULT: &[u8] = b"default";
/// Users, at most.
pub const USERS_MAX: usize = 65_536;

/// See the module. A place is given anew when its user is gone; clients that were it are closed before.
#[derive(Debug)]
pub struct Users {
    places: Vec<Option<User>>,
    names: BTreeMap<Box<[u8]>, usize>,
    /// Something may be refused to somebody. While it is false, no command is judged.
    pub judges: bool,
    /// What was refused.
    pub log: DenialLog,
    /// Where users are kept.
    pub file: Option<Box<dyn UsersFile>>,
    /// Chance that nobody can guess, for passwords that are made here; none: there are none.
    pub chance: Option<Chance>,
}

/// Bytes that nobody can guess who does not know what they are made of.
pub struct Chance {
    secret: [u8; 32],
    count: u64,
}

impl Chance {
    /// Made of 32 random bytes.
    pub fn new(secret: [u8; 32]) -> Chance {
        Chance { secret, count: 0 }
    }

    /// The next ones.
    pub fn draw(&mut self) -> Digest {
        self.count += 1;
        Digest::of(&[self.secret.as_slice(), &self.count.to_le_bytes()].concat())
    }
}

impl std::fmt::Debug for Chance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Chance")
    }
}

impl Default for Users {
    fn default() -> Users {
        Users {
            places: vec![Some(User::open(DEFAULT))],
            names: BTreeMap::from([(DEFAULT.into(), 0)]),
            judges: false,
            log: DenialLog::default(),
            file: None,
            chance: None,
        }
    }
}

impl Users {
    /// The user in a place.
    pub fn get(&self, place: usize) -> Option<&User> {
        self.places.get(place)?.as_ref()
    }

    /// The place of a user.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// The user of this name.
    pub fn named(&self, name: &[u8]) -> Option<&User> {
        self.get(self.find(name)?)
    }

    /// The name of the user in a place.
    pub fn name(&self, place: usize) -> &[u8] {
        self.get(place).map_or(DEFAULT, |user| &user.name)
    }

    /// All, in the order of their names, with their places.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &User)> {
        self.names.values().filter_map(|place| Some((*place, self.get(*place)?)))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none: never.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether who says no name is let in.
    pub fn lets_in(&self) -> bool {
        self.get(0).is_some_and(User::lets_in)
    }

    fn look(&mut self) {
        self.judges = self.len() > 1 || !self.lets_in() || !self.get(0).is_some_and(|user| user.root.is_everything());
    }

    /// A user is this from now on; its place, or `None`: there are too many.
    pub fn put(&mut self, user: User) -> Option<usize> {
        let place = match self.find(&user.name) {
            Some(place) => place,
            None if self.len() >= USERS_MAX => return None,
            None => self.places.iter().position(Option::is_none).unwrap_or(self.places.len()),
        };
        if place == self.places.len() {
            self.places.push(None);
        }
        self.names.insert(user.name.clone(), place);
        if let Some(there) = self.places.get_mut(place) {
            *there = Some(user);
        }
        self.look();
        Some(place)
    }

    /// A user is gone; the place that it had. The one in the first place can't go.
    pub fn remove(&mut self, name: &[u8]) -> Option<usize> {
        let place = self.find(name).filter(|place| *place != 0)?;
        self.names.remove(name);
        if let Some(there) = self.places.get_mut(place) {
            *there = None;
        }
        self.look();
        Some(place)
    }

    /// The place of the user that has this name and password. It takes about as long if there is none of this name.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<usize> {
        let (digest, place) = (Digest::of(password), self.find(name));
        let user = place.and_then(|place| self.get(place))?;
        let is_right = user.has_password(&digest) || user.needs_no_password;
        place.filter(|_| is_right && user.is_on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_judged_while_everybody_may_do_everything() {
        let mut users = Users::default();
        assert!(!users.judges && users.lets_in());
        let place = users.put(User::new(b"me")).unwrap();
        assert!(users.judges);
        assert_eq!(users.remove(b"me"), Some(place));
        assert!(!users.judges);
        let mut closed = User::open(DEFAULT);
        closed.add_password(Digest::of(b"secret"));
        assert_eq!(users.put(closed), Some(0));
        assert!(users.judges && !users.lets_in());
        assert_eq!(users.authenticate(DEFAULT, b"secret"), Some(0));
        assert_eq!((users.authenticate(DEFAULT, b"secre"), users.authenticate(b"x", b"secret")), (None, None));
        assert_eq!(users.remove(DEFAULT), None);
    }

    #[test]
    fn a_user_that_is_off_is_nobody() {
        let mut users = Users::default();
        users.put(User { needs_no_password: true, ..User::new(b"me") });
        assert_eq!(users.authenticate(b"me", b"anything"), None);
    }
}
