//! [`User`]: a name, passwords, and what may be done under it.

use crate::engine::users::digest::Digest;
use crate::engine::users::selector::Selector;

/// See the module. The new one is off and may do nothing.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct User {
    /// As it calls itself.
    pub name: Box<[u8]>,
    /// Somebody can be it.
    pub is_on: bool,
    /// Any password will do.
    pub needs_no_password: bool,
    /// What was said of the judgement of payloads of RESTORE, which are judged always here: whether it is left out.
    pub skips_judgement: Option<bool>,
    /// Any of these is its password.
    pub passwords: Vec<Digest>,
    /// What it may do.
    pub root: Selector,
    /// What it may do, too.
    pub selectors: Vec<Selector>,
}

impl User {
    /// A new one.
    pub fn new(name: &[u8]) -> User {
        User { name: name.into(), ..User::default() }
    }

    /// As whoever says no name is: it needs no password and may do everything.
    pub fn open(name: &[u8]) -> User {
        User { is_on: true, needs_no_password: true, root: Selector::everything(), ..User::new(name) }
    }

    /// Whether everybody is let in as it.
    pub fn lets_in(&self) -> bool {
        self.is_on && self.needs_no_password
    }

    /// Whether a password is its own. It takes as long whichever it is.
    pub fn has_password(&self, password: &Digest) -> bool {
        self.passwords.iter().fold(false, |found, own| found | (own == password))
    }

    /// Adds a password; whether there was room.
    pub fn add_password(&mut self, password: Digest) -> bool {
        /// Passwords of one user.
        const PASSWORDS_MAX: usize = 256;
        self.needs_no_password = false;
        if self.has_password(&password) {
            return true;
        }
        let has_room = self.passwords.len() < PASSWORDS_MAX;
        if has_room {
            self.passwords.push(password);
        }
        has_room
    }

    /// All that it may do, as one set after the other.
    pub fn all_selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// What is true of it, as it is said.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        let password = self.needs_no_password.then_some("nopass");
        let payloads =
            self.skips_judgement.map(|skips| if skips { "skip-sanitize-payload" } else { "sanitize-payload" });
        [Some(if self.is_on { "on" } else { "off" }), password, payloads].into_iter().flatten()
    }

    /// As a line of a file has it, and `ACL LIST`.
    pub fn line(&self) -> Vec<u8> {
        let mut words: Vec<Vec<u8>> = vec![b"user".to_vec(), self.name.to_vec()];
        words.extend(self.flags().map(|flag| flag.as_bytes().to_vec()));
        words.extend(self.passwords.iter().map(|password| format!("#{}", password.hex()).into_bytes()));
        words.push(self.root.text());
        words.extend(self.selectors.iter().map(|selector| [b"(", selector.text().as_slice(), b")"].concat()));
        words.join(&b' ')
    }
}
