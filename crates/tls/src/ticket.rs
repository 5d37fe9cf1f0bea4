//! [`Tickets`]: how a client goes on with the secrets of an earlier connection. What the server would have to remember is in the ticket,
//! which nobody else can read (RFC 8446, 4.6.1).
//!
//! ```text
//!  0 key's name 16   16 nonce 12   28 what is remembered, AES-256-GCM   … tag 16
//! ```

use crate::certificate::read;
use crate::error::TlsError;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a file with a ticket key: its name, and the key. It is nginx' longer form (`ssl_session_ticket_key`).
pub const TICKET_KEY_BYTES: usize = 80;
const NAME_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
/// A ticket can be used for so long.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// A key that the server made itself makes tickets for so long; then it only opens them, for as long again.
const ROTATION: Duration = LIFETIME;
/// A ticket is at most this long.
const TICKET_BYTES_MAX: usize = 16 << 10;

struct Key {
    name: [u8; NAME_BYTES],
    key: LessSafeKey,
}

impl Key {
    fn new(bytes: &[u8]) -> Option<Key> {
        let (name, rest) = bytes.split_first_chunk::<NAME_BYTES>()?;
        // As nginx has it: a name, a key of HMAC, a key of AES. The last one is ours; GCM needs no other.
        let key = rest.last_chunk::<KEY_BYTES>()?;
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?);
        Some(Key { name: *name, key })
    }

    fn random() -> Option<Key> {
        let mut bytes = [0; NAME_BYTES + KEY_BYTES];
        rand::fill(&mut bytes).ok()?;
        Key::new(&bytes)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(self.name), &mut sealed)
            .ok()?;
        Some([self.name.as_slice(), &nonce, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>().filter(|(name, _)| **name == self.name)?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let mut sealed = sealed.to_vec();
        let plain = self.key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(*name), &mut sealed);
        plain.ok().map(|plain| plain.to_vec())
    }
}

/// Keys that the server made itself.
struct Own {
    /// The first one makes tickets.
    keys: Vec<Key>,
    since: Instant,
}

enum Keys {
    /// From files: the first one makes tickets, all open them. Who wrote the files changes them.
    Given(Vec<Key>),
    Own(Mutex<Own>),
}

/// See the module.
pub struct Tickets(Keys);

impl Tickets {
    /// Keys from files, which servers and restarts may share: the first one makes tickets, all open them. Without any file, the server's
    /// own, which change once a day.
    ///
    /// # Errors
    /// A file can't be read, or has another length.
    pub fn new(files: &[PathBuf]) -> Result<Arc<Tickets>, TlsError> {
        if files.is_empty() {
            let keys = Key::random().into_iter().collect();
            return Ok(Arc::new(Tickets(Keys::Own(Mutex::new(Own { keys, since: Instant::now() })))));
        }
        let keys = files.iter().map(|path| given(path)).collect::<Result<_, _>>()?;
        Ok(Arc::new(Tickets(Keys::Given(keys))))
    }
}

fn given(path: &Path) -> Result<Key, TlsError> {
    let bytes = read(path)?;
    let key = Some(&bytes).filter(|bytes| bytes.len() == TICKET_KEY_BYTES).and_then(|bytes| Key::new(bytes));
    key.ok_or_else(|| TlsError::Content {
        path: path.to_owned(),
        what: format!("it has {} bytes", bytes.len()),
        remedy: "A ticket key has 80 random bytes: openssl rand 80 > FILE",
    })
}

impl Own {
    /// Takes a new key in use, if it is time.
    fn rotate(&mut self, now: Instant) {
        if now.saturating_duration_since(self.since) >= ROTATION
            && let Some(key) = Key::random()
        {
            self.keys.insert(0, key);
            self.keys.truncate(2);
            self.since = now;
        }
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME.as_secs() as u32
    }

    // Services of one process may share the keys, so there is a lock. It is taken once a handshake, and by nobody else for long.
    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        match &self.0 {
            Keys::Given(keys) => keys.first()?.encrypt(plain),
            Keys::Own(own) => {
                let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
                own.rotate(Instant::now());
                own.keys.first()?.encrypt(plain)
            }
        }
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        if ticket.len() > TICKET_BYTES_MAX {
            return None;
        }
        match &self.0 {
            Keys::Given(keys) => keys.iter().find_map(|key| key.decrypt(ticket)),
            Keys::Own(own) => {
                own.lock().unwrap_or_else(PoisonError::into_inner).keys.iter().find_map(|key| key.decrypt(ticket))
            }
        }
    }
}

impl std::fmt::Debug for Tickets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tickets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_keys_open_what_they_made_until_the_second_rotation() {
        let mut own = Own { keys: vec![Key::random().unwrap()], since: Instant::now() };
        let ticket = own.keys[0].encrypt(b"remember").unwrap();
        let later = own.since + ROTATION;
        own.rotate(later);
        assert!(own.keys.len() == 2 && own.keys[0].decrypt(&ticket).is_none());
        assert_eq!(own.keys[1].decrypt(&ticket).as_deref(), Some(b"remember".as_slice()));
        own.rotate(later + ROTATION - Duration::from_secs(1));
        assert_eq!(own.keys[1].decrypt(&ticket).as_deref(), Some(b"remember".as_slice()));
        own.rotate(later + ROTATION);
        assert!(own.keys.iter().all(|key| key.decrypt(&ticket).is_none()));
    }

    #[test]
    fn no_changed_byte_of_a_ticket_passes() {
        let tickets = Tickets::new(&[]).unwrap();
        let ticket = tickets.encrypt(b"what the server would have to remember").unwrap();
        assert!(tickets.decrypt(&ticket).is_some() && tickets.decrypt(&[]).is_none());
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert!(tickets.decrypt(&changed).is_none(), "byte {at}");
            assert!(tickets.decrypt(&ticket[..at]).is_none());
        }
    }

    #[test]
    fn keys_of_files_are_shared_and_changed_one_by_one() {
        let directory = tempfile::tempdir().unwrap();
        let paths = [1u8, 2].map(|number| {
            let path = directory.path().join(number.to_string());
            std::fs::write(&path, [number; TICKET_KEY_BYTES]).unwrap();
            path
        });
        let before = Tickets::new(&paths[..1]).unwrap();
        let ticket = before.encrypt(b"x").unwrap();
        let after = Tickets::new(&[paths[1].clone(), paths[0].clone()]).unwrap();
        assert!(after.decrypt(&ticket).is_some() && before.decrypt(&after.encrypt(b"x").unwrap()).is_none());
        std::fs::write(&paths[0], [0; 79]).unwrap();
        assert!(Tickets::new(&paths).unwrap_err().to_string().contains("openssl rand 80"));
    }
}
