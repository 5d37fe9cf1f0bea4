//! Who may transfer what, with which keys: as users write it, and as it is used.
//!
//! ```toml
//! [[key]]
//! name = "transfer.example.com"
//! algorithm = "hmac-sha256"              # or hmac-sha384, hmac-sha512; this is the default
//! secret = "c2VjcmV0IHNlY3JldCBzZWNyZXQ="
//!
//! [[zone]]
//! name = "example.com"
//! file = "example.com.zone"
//! allow_transfer = ["10.77.0.0/24", "10.78.0.5 key:transfer.example.com", "key:transfer.example.com"]
//! also_notify = ["10.77.0.5", "10.78.0.5:5353 key:transfer.example.com"]
//!
//! [[zone]]
//! name = "example.net"
//! primary = ["10.77.0.9 key:transfer.example.com"]   # a secondary
//! file = "example.net.copy"              # where it is kept, and started from after a restart; may be left out
//! ```

use super::tsig::{Key, KeyError, Keyring};
use crate::name::{Name, NameError};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

const PORT: u16 = 53;
const ALGORITHM_DEFAULT: &str = "hmac-sha256";

/// A `[[key]]`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyTable {
    /// What it is called.
    pub name: String,
    /// How codes are computed; `None`: hmac-sha256.
    pub algorithm: Option<String>,
    /// In base 64.
    pub secret: String,
}

/// What a `[[zone]]` says about transfers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ZoneTable {
    /// Who may have the zone: `PREFIX`, `PREFIX key:NAME` or `key:NAME`. Nobody else may.
    pub allow_transfer: Vec<String>,
    /// Who is told of changes: `ADDRESS[:PORT] [key:NAME]`.
    pub also_notify: Vec<String>,
    /// Where the zone comes from, in order of preference: `ADDRESS[:PORT] [key:NAME]`.
    pub primary: Vec<String>,
    /// Where a zone from there is kept.
    pub file: Option<PathBuf>,
}

/// Somebody with a name server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Its address.
    pub address: SocketAddr,
    /// The key that messages to it are signed with.
    pub key: Option<Arc<Key>>,
}

/// Somebody who may transfer.
#[derive(Clone, Debug)]
pub struct Access {
    /// Addresses; `None`: any.
    pub prefix: Option<(IpAddr, u8)>,
    /// The key a request must be signed with; `None`: none need be.
    pub key: Option<Arc<Key>>,
}

impl Access {
    /// Whether it lets a request from `peer`, signed with `key`, pass.
    pub fn allows(&self, peer: IpAddr, key: Option<&Arc<Key>>) -> bool {
        let known_address = self.prefix.is_none_or(|prefix| is_within(peer, prefix));
        let known_key = self.key.as_ref().is_none_or(|wanted| key.is_some_and(|key| key.name() == wanted.name()));
        known_address && known_key
    }
}

fn is_within(address: IpAddr, (network, length): (IpAddr, u8)) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            (address.to_bits() ^ network.to_bits()) & mask == 0
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
            (address.to_bits() ^ network.to_bits()) & mask == 0
        }
        _ => false,
    }
}

/// A zone's transfers.
#[derive(Clone, Debug, Default)]
pub struct ZoneTransfers {
    /// Who may have it.
    pub allow: Vec<Access>,
    /// Who is told of changes.
    pub notify: Vec<Remote>,
    /// Where it comes from; empty: this server is its primary.
    pub primaries: Vec<Remote>,
    /// Where it is kept, if it comes from elsewhere.
    pub file: Option<PathBuf>,
}

/// All rules of transfers.
#[derive(Clone, Debug, Default)]
pub struct TransferConfig {
    /// Keys.
    pub keys: Keyring,
    /// Rules, by the zone's name (small letters).
    pub zones: BTreeMap<Name, ZoneTransfers>,
}

/// What is wrong with what a user wrote about transfers.
#[derive(Debug, thiserror::Error)]
pub enum TransferConfigError {
    /// A `[[key]]`.
    #[error("{0}")]
    Key(#[from] KeyError),
    /// A field of a `[[zone]]`.
    #[error("zone {zone}: {field}: {error}")]
    Zone {
        /// The zone's name.
        zone: Name,
        /// The field.
        field: &'static str,
        /// What is wrong with a word in it.
        error: WordError,
    },
}

/// What is wrong with a word that says who may transfer, or where from and to.
#[derive(Debug, thiserror::Error)]
pub enum WordError {
    /// A key's name is none.
    #[error("{word:?}: {error}")]
    KeyName {
        /// As it was written.
        word: String,
        /// What is wrong with the name.
        error: NameError,
    },
    /// There is no such key.
    #[error("{word:?}: there is no [[key]] called {name:?}")]
    UnknownKey {
        /// As it was written.
        word: String,
        /// The key's name.
        name: String,
    },
    /// It is no address of a server.
    #[error("{0:?}: write ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT, and `key:NAME` after it if messages are signed")]
    Remote(String),
    /// It is no range of addresses.
    #[error("{0:?}: write ADDRESS/LENGTH, `ADDRESS/LENGTH key:NAME` or `key:NAME`")]
    Access(String),
}

impl TransferConfig {
    /// The rules that a user wrote.
    ///
    /// # Errors
    /// What is wrong, where, and what it may be.
    pub fn new<'a>(
        keys: &[KeyTable],
        zones: impl IntoIterator<Item = (&'a Name, &'a ZoneTable)>,
    ) -> Result<TransferConfig, TransferConfigError> {
        let key = |table: &KeyTable| {
            let algorithm = table.algorithm.as_deref().unwrap_or(ALGORITHM_DEFAULT);
            Key::new(&table.name, algorithm, &table.secret).map(Arc::new)
        };
        let keys = Keyring::new(keys.iter().map(key).collect::<Result<Vec<_>, _>>()?);
        let mut config = TransferConfig { keys, zones: BTreeMap::new() };
        for (name, table) in zones {
            let wrong = |field: &'static str| {
                move |error: WordError| TransferConfigError::Zone { zone: name.clone(), field, error }
            };
            let remotes = |field: &'static str, words: &[String]| -> Result<Vec<Remote>, TransferConfigError> {
                words.iter().map(|text| parse_remote(text, &config.keys).map_err(wrong(field))).collect()
            };
            let allow = table.allow_transfer.iter();
            let transfers = ZoneTransfers {
                allow: allow
                    .map(|text| parse_access(text, &config.keys).map_err(wrong("allow_transfer")))
                    .collect::<Result<_, _>>()?,
                notify: remotes("also_notify", &table.also_notify)?,
                primaries: remotes("primary", &table.primary)?,
                file: table.file.clone(),
            };
            config.zones.insert(name.to_lowercase(), transfers);
        }
        Ok(config)
    }

    /// What is said of the zone called `apex` (small letters).
    pub fn zone(&self, apex: &Name) -> Option<&ZoneTransfers> {
        self.zones.get(apex)
    }

    /// Zones that come from elsewhere.
    pub fn secondaries(&self) -> impl Iterator<Item = &Name> {
        self.zones.iter().filter(|(_, zone)| !zone.primaries.is_empty()).map(|(apex, _)| apex)
    }

    /// Whether there is anything to do.
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }
}

/// Splits `ADDRESS key:NAME`.
fn split_key<'a>(text: &'a str, keys: &Keyring) -> Result<(&'a str, Option<Arc<Key>>), WordError> {
    let (address, name) = match text.split_once("key:") {
        Some((address, name)) => (address.trim(), Some(name.trim())),
        None => (text.trim(), None),
    };
    let Some(name) = name else { return Ok((address, None)) };
    let parsed = Name::absolute(name).map_err(|error| WordError::KeyName { word: text.to_owned(), error })?;
    let key =
        keys.named(&parsed).ok_or_else(|| WordError::UnknownKey { word: text.to_owned(), name: name.to_owned() })?;
    Ok((address, Some(Arc::clone(key))))
}

fn parse_remote(text: &str, keys: &Keyring) -> Result<Remote, WordError> {
    let (address, key) = split_key(text, keys)?;
    let with_port = address.parse::<IpAddr>().map(|address| SocketAddr::new(address, PORT));
    let address = with_port.or_else(|_| address.parse()).map_err(|_| WordError::Remote(text.to_owned()))?;
    Ok(Remote { address, key })
}

fn parse_access(text: &str, keys: &Keyring) -> Result<Access, WordError> {
    let (prefix, key) = split_key(text, keys)?;
    if prefix.is_empty() && key.is_some() {
        return Ok(Access { prefix: None, key });
    }
    let wrong = || WordError::Access(text.to_owned());
    let (address, length) = prefix.split_once('/').map_or((prefix, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let length = length.map_or(Ok(longest), str::parse).ok().filter(|length| *length <= longest).ok_or_else(wrong)?;
    Ok(Access { prefix: Some((address, length)), key })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(zone: &ZoneTable) -> Result<ZoneTransfers, TransferConfigError> {
        let key = KeyTable { name: "k.example".to_owned(), algorithm: None, secret: "AAAA".to_owned() };
        let name = Name::absolute("Example").unwrap();
        let config = TransferConfig::new(&[key], [(&name, zone)])?;
        Ok(config.zone(&name.to_lowercase()).cloned().unwrap_or_default())
    }

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn who_may() {
        let words = strings(&["10.0.0.0/8", "fd00::/8 key:k.example.", "192.0.2.1", "0.0.0.0/0 key:K.example"]);
        let zone = config(&ZoneTable { allow_transfer: words, ..ZoneTable::default() }).unwrap();
        let key = Arc::new(Key::new("k.example", "hmac-sha256", "AAAA").unwrap());
        let other = Arc::new(Key::new("other", "hmac-sha256", "AAAA").unwrap());
        let may = |peer: &str, key: Option<&Arc<Key>>| {
            let peer = peer.parse().unwrap();
            zone.allow.iter().any(|access| access.allows(peer, key))
        };
        assert!(may("10.200.0.1", None) && may("192.0.2.1", None) && may("10.0.0.1", Some(&other)));
        assert!(!may("192.0.2.2", None) && !may("fd00::1", None) && !may("fd00::1", Some(&other)));
        assert!(may("fd00::1", Some(&key)) && may("198.51.100.1", Some(&key)));
    }

    #[test]
    fn remotes_and_mistakes() {
        let words = strings(&["10.0.0.1", "10.0.0.1:5353 key:k.example", "[fd00::1]:54", "fd00::2"]);
        let zone = config(&ZoneTable { primary: words, ..ZoneTable::default() }).unwrap();
        let ports: Vec<u16> = zone.primaries.iter().map(|remote| remote.address.port()).collect();
        assert_eq!((ports, zone.primaries[1].key.is_some()), (vec![53, 5_353, 54, 53], true));
        for (word, part) in [("here", "ADDRESS:PORT"), ("10.0.0.1 key:none", "no [[key]] called \"none\"")] {
            let error =
                config(&ZoneTable { also_notify: strings(&[word]), ..ZoneTable::default() }).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("also_notify"), "{error}");
        }
        for word in ["10.0.0.0/33", "x/8", ""] {
            let error = config(&ZoneTable { allow_transfer: strings(&[word]), ..ZoneTable::default() })
                .unwrap_err()
                .to_string();
            assert!(error.contains("allow_transfer"), "{error}");
        }
    }
}
