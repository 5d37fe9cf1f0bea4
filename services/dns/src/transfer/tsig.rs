//! TSIG (RFC 8945): messages signed with a secret both ends know. Requests, their answers, and answers of several
//! messages, each signed over the one before.

use super::replies;
use super::walk::{self, Malformed};
use crate::name::{Name, NameError};
use domain::utils::base64::{self, DecodeError};
use hmac::{Hmac, Mac};
use sha2::{Sha256, Sha384, Sha512};
use std::fmt;
use std::sync::Arc;

const TYPE_TSIG: u16 = 250;
const CLASS_ANY: u16 = 255;
/// Seconds by which clocks may differ (RFC 8945, section 10, advises it).
const FUDGE_S: u16 = 300;
/// Unsigned messages between two signed ones (RFC 8945, section 5.3.1: at most 99).
const UNSIGNED_MAX: usize = 99;
/// Shortest code there may be (RFC 8945, section 5.2.2.1).
const MAC_LENGTH_MIN: usize = 10;

/// How a code is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// hmac-sha256
    Sha256,
    /// hmac-sha384
    Sha384,
    /// hmac-sha512
    Sha512,
}

const ALGORITHMS: [(Algorithm, &str, &[u8]); 3] = [
    (Algorithm::Sha256, "hmac-sha256", b"\x0bhmac-sha256\0"),
    (Algorithm::Sha384, "hmac-sha384", b"\x0bhmac-sha384\0"),
    (Algorithm::Sha512, "hmac-sha512", b"\x0bhmac-sha512\0"),
];

impl Algorithm {
    fn wire(self) -> &'static [u8] {
        ALGORITHMS.iter().find(|(algorithm, ..)| *algorithm == self).map_or(b"\0", |(.., wire)| wire)
    }

    fn named(name: &str) -> Option<Algorithm> {
        ALGORITHMS.iter().find(|(_, known, _)| known.eq_ignore_ascii_case(name)).map(|(algorithm, ..)| *algorithm)
    }

    fn length(self) -> usize {
        match self {
            Algorithm::Sha256 => 32,
            Algorithm::Sha384 => 48,
            Algorithm::Sha512 => 64,
        }
    }
}

/// A secret and what it is called.
#[derive(PartialEq, Eq)]
pub struct Key {
    name: Name,
    algorithm: Algorithm,
    secret: Vec<u8>,
}

impl fmt::Debug for Key {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, {:?})", self.name, self.algorithm)
    }
}

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// There is no such algorithm.
    #[error("key {name}: algorithm {algorithm:?} is unknown; hmac-sha256, hmac-sha384 and hmac-sha512 are known")]
    Algorithm {
        /// The key's name.
        name: String,
        /// As it was written.
        algorithm: String,
    },
    /// The secret is not base 64.
    #[error("key {name}: the secret is not base 64: {error}")]
    Secret {
        /// The key's name.
        name: String,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// The secret has no bytes.
    #[error("key {0}: the secret is empty; `keymgr -t {0}` makes a key")]
    EmptySecret(String),
    /// The key's name is none.
    #[error("key {name:?}: {error}")]
    Name {
        /// As it was written.
        name: String,
        /// What is wrong with it.
        error: NameError,
    },
}

impl Key {
    /// A key called `name`; `secret` in base 64, as `keymgr -t` and `tsig-keygen` print it.
    ///
    /// # Errors
    /// What is wrong, and what may be.
    pub fn new(name: &str, algorithm: &str, secret: &str) -> Result<Key, KeyError> {
        let named = || name.to_owned();
        let algorithm = Algorithm::named(algorithm)
            .ok_or_else(|| KeyError::Algorithm { name: named(), algorithm: algorithm.to_owned() })?;
        let secret: Vec<u8> = base64::decode(secret).map_err(|error| KeyError::Secret { name: named(), error })?;
        if secret.is_empty() {
            return Err(KeyError::EmptySecret(named()));
        }
        let name = Name::absolute(name).map_err(|error| KeyError::Name { name: named(), error })?.to_lowercase();
        Ok(Key { name, algorithm, secret })
    }

    /// What it is called.
    pub fn name(&self) -> &Name {
        &self.name
    }
}

/// A code under computation.
#[derive(Clone)]
enum Digest {
    Sha256(Hmac<Sha256>),
    Sha384(Hmac<Sha384>),
    Sha512(Hmac<Sha512>),
}

impl Digest {
    /// Begins with the code of the message before, if there was one.
    fn new(key: &Key, prior: &[u8]) -> Digest {
        // Keys of any length are good: the constructors can't fail.
        #[allow(clippy::expect_used, reason = "HMAC takes keys of any length")]
        let mut digest = match key.algorithm {
            Algorithm::Sha256 => Digest::Sha256(Hmac::new_from_slice(&key.secret).expect("any length")),
            Algorithm::Sha384 => Digest::Sha384(Hmac::new_from_slice(&key.secret).expect("any length")),
            Algorithm::Sha512 => Digest::Sha512(Hmac::new_from_slice(&key.secret).expect("any length")),
        };
        if !prior.is_empty() {
            digest.update(&(prior.len() as u16).to_be_bytes());
            digest.update(prior);
        }
        digest
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Digest::Sha256(hmac) => hmac.update(bytes),
            Digest::Sha384(hmac) => hmac.update(bytes),
            Digest::Sha512(hmac) => hmac.update(bytes),
        }
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Digest::Sha256(hmac) => hmac.finalize().into_bytes().to_vec(),
            Digest::Sha384(hmac) => hmac.finalize().into_bytes().to_vec(),
            Digest::Sha512(hmac) => hmac.finalize().into_bytes().to_vec(),
        }
    }

    /// Whether it is `mac`, in a time that does not depend on where they differ.
    fn is(self, mac: &[u8]) -> bool {
        match self {
            Digest::Sha256(hmac) => hmac.verify_slice(mac).is_ok(),
            Digest::Sha384(hmac) => hmac.verify_slice(mac).is_ok(),
            Digest::Sha512(hmac) => hmac.verify_slice(mac).is_ok(),
        }
    }
}

/// Why a signature does not hold: the TSIG record's error field (RFC 8945, section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TsigError {
    /// Not a message, or not a TSIG record (FORMERR).
    #[error("a malformed TSIG record")]
    Malformed,
    /// There is none, where one must be.
    #[error("no TSIG record, though the request had one")]
    Missing,
    /// Somebody else's code (BADSIG).
    #[error("a signature made with another secret (BADSIG)")]
    BadSignature,
    /// A key or algorithm not known here (BADKEY).
    #[error("a key or algorithm not known here (BADKEY)")]
    BadKey,
    /// Signed too long ago, or in the future (BADTIME).
    #[error("a signature out of time: compare the clocks (BADTIME)")]
    BadTime,
    /// Cut shorter than accepted here (BADTRUNC).
    #[error("a signature cut short (BADTRUNC)")]
    BadTruncation,
    /// The other end says so.
    #[error("{}", refusal_text(*.0))]
    Refused(u16),
}

/// What the other end says by error `code` of its TSIG record.
fn refusal_text(code: u16) -> String {
    match code {
        16 => "the other end finds our signature wrong (BADSIG): compare the secrets".to_owned(),
        17 => "the other end does not know our key (BADKEY)".to_owned(),
        18 => "the other end's clock differs too much (BADTIME)".to_owned(),
        code => format!("the other end refuses our signature (TSIG error {code})"),
    }
}

impl TsigError {
    /// The number in the error field.
    pub fn code(self) -> u16 {
        match self {
            TsigError::Malformed | TsigError::Missing => 1,
            TsigError::BadSignature => 16,
            TsigError::BadKey => 17,
            TsigError::BadTime => 18,
            TsigError::BadTruncation => 22,
            TsigError::Refused(code) => code,
        }
    }
}

impl From<Malformed> for TsigError {
    fn from(_: Malformed) -> TsigError {
        TsigError::Malformed
    }
}

/// A TSIG record, found and not yet believed.
struct Signature<'a> {
    /// Where it begins.
    start: usize,
    key_name: Vec<u8>,
    algorithm: Vec<u8>,
    time_s: u64,
    fudge_s: u16,
    mac: &'a [u8],
    original_identifier: u16,
    error: u16,
    other: &'a [u8],
}

/// Finds the TSIG record: the last of the additional section, and the only one.
fn locate(message: &[u8]) -> Result<Option<Signature<'_>>, TsigError> {
    let mut last = None;
    for record in walk::records(message)? {
        let record = record?;
        if last.is_some() {
            // Something follows it.
            return Err(TsigError::Malformed);
        }
        if record.rtype == TYPE_TSIG {
            if record.section != walk::Section::Additional || record.class != CLASS_ANY {
                return Err(TsigError::Malformed);
            }
            last = Some(record);
        }
    }
    let Some(record) = last else { return Ok(None) };
    let (key_name, _) = walk::read_name(message, record.start)?;
    let (algorithm, at) = walk::read_name(message, record.data_start)?;
    let mut data = message.get(at..record.data_end).ok_or(TsigError::Malformed)?;
    let mut take = |count: usize| -> Result<&[u8], TsigError> {
        let (head, rest) = data.split_at_checked(count).ok_or(TsigError::Malformed)?;
        data = rest;
        Ok(head)
    };
    let number = |bytes: &[u8]| bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let time_s = number(take(6)?);
    let fudge_s = number(take(2)?) as u16;
    let mac_length = number(take(2)?) as usize;
    let mac = take(mac_length)?;
    let original_identifier = number(take(2)?) as u16;
    let error = number(take(2)?) as u16;
    let other_length = number(take(2)?) as usize;
    let other = take(other_length)?;
    if !data.is_empty() {
        return Err(TsigError::Malformed);
    }
    Ok(Some(Signature {
        start: record.start,
        key_name: key_name.to_ascii_lowercase(),
        algorithm: algorithm.to_ascii_lowercase(),
        time_s,
        fudge_s,
        mac,
        original_identifier,
        error,
        other,
    }))
}

/// Covers the message up to `start`, as it was before the TSIG record: with its first identifier, one record fewer.
fn cover_message(digest: &mut Digest, message: &[u8], start: usize, identifier: u16) {
    let mut head = [0; walk::HEADER_LENGTH];
    if let Some(bytes) = message.first_chunk() {
        head = *bytes;
    }
    let count = u16::from_be_bytes([head[10], head[11]]).saturating_sub(1);
    head[..2].copy_from_slice(&identifier.to_be_bytes());
    head[10..].copy_from_slice(&count.to_be_bytes());
    digest.update(&head);
    digest.update(message.get(walk::HEADER_LENGTH..start).unwrap_or_default());
}

/// Covers the record's own fields; those of the clock only in messages after the first.
fn cover_variables(digest: &mut Digest, key: &Key, fields: (u64, u16, u16, &[u8]), timers_only: bool) {
    let (time_s, fudge_s, error, other) = fields;
    if !timers_only {
        digest.update(key.name.wire());
        digest.update(&CLASS_ANY.to_be_bytes());
        digest.update(&0u32.to_be_bytes());
        digest.update(key.algorithm.wire());
    }
    digest.update(time_s.to_be_bytes().get(2..).unwrap_or_default());
    digest.update(&fudge_s.to_be_bytes());
    if !timers_only {
        digest.update(&error.to_be_bytes());
        digest.update(&(other.len() as u16).to_be_bytes());
        digest.update(other);
    }
}

fn check(signature: &Signature<'_>, key: &Key, mut digest: Digest, now_s: u64, later: bool) -> Result<(), TsigError> {
    let full = key.algorithm.length();
    if signature.mac.len() > full || signature.mac.len() < MAC_LENGTH_MIN.max(full / 2) {
        return Err(if signature.mac.is_empty() { TsigError::BadSignature } else { TsigError::Malformed });
    }
    if signature.mac.len() < full {
        return Err(TsigError::BadTruncation);
    }
    let fields = (signature.time_s, signature.fudge_s, signature.error, signature.other);
    cover_variables(&mut digest, key, fields, later);
    if !digest.is(signature.mac) {
        return Err(TsigError::BadSignature);
    }
    if signature.time_s.abs_diff(now_s) > u64::from(signature.fudge_s) {
        return Err(TsigError::BadTime);
    }
    Ok(())
}

/// Cuts the TSIG record off.
fn strip(message: &mut Vec<u8>, start: usize, identifier: u16) {
    message.truncate(start);
    if let Some(head) = message.first_chunk_mut::<{ walk::HEADER_LENGTH }>() {
        let count = u16::from_be_bytes([head[10], head[11]]).saturating_sub(1);
        head[..2].copy_from_slice(&identifier.to_be_bytes());
        head[10..].copy_from_slice(&count.to_be_bytes());
    }
}

/// Appends a TSIG record; returns its code.
fn append(
    message: &mut Vec<u8>,
    key: &Key,
    mut digest: Digest,
    fields: (u64, u16, u16, &[u8]),
    later: bool,
) -> Vec<u8> {
    digest.update(message);
    cover_variables(&mut digest, key, fields, later);
    let mac = digest.finish();
    append_record(message, key.name.wire(), key.algorithm.wire(), &mac, fields);
    mac
}

fn append_record(
    message: &mut Vec<u8>,
    name: &[u8],
    algorithm: &[u8],
    mac: &[u8],
    (time_s, fudge_s, error, other): (u64, u16, u16, &[u8]),
) {
    let identifier = message.first_chunk::<2>().copied().unwrap_or_default();
    message.extend_from_slice(name);
    message.extend_from_slice(&TYPE_TSIG.to_be_bytes());
    message.extend_from_slice(&CLASS_ANY.to_be_bytes());
    message.extend_from_slice(&0u32.to_be_bytes());
    let length = algorithm.len() + 6 + 2 + 2 + mac.len() + 2 + 2 + 2 + other.len();
    message.extend_from_slice(&(length as u16).to_be_bytes());
    message.extend_from_slice(algorithm);
    message.extend_from_slice(time_s.to_be_bytes().get(2..).unwrap_or_default());
    message.extend_from_slice(&fudge_s.to_be_bytes());
    message.extend_from_slice(&(mac.len() as u16).to_be_bytes());
    message.extend_from_slice(mac);
    message.extend_from_slice(&identifier);
    message.extend_from_slice(&error.to_be_bytes());
    message.extend_from_slice(&(other.len() as u16).to_be_bytes());
    message.extend_from_slice(other);
    if let Some(count) = message.get_mut(10..12) {
        let more = u16::from_be_bytes([count[0], count[1]]).saturating_add(1);
        count.copy_from_slice(&more.to_be_bytes());
    }
}

/// Bytes a signature adds at most.
pub fn overhead(key: &Key) -> usize {
    key.name.wire().len() + 10 + key.algorithm.wire().len() + 16 + key.algorithm.length() + 6
}

/// The keys known here.
#[derive(Clone, Debug, Default)]
pub struct Keyring(Vec<Arc<Key>>);

impl Keyring {
    /// A keyring of these keys.
    pub fn new(keys: impl IntoIterator<Item = Arc<Key>>) -> Keyring {
        Keyring(keys.into_iter().collect())
    }

    /// The key of this name.
    pub fn named(&self, name: &Name) -> Option<&Arc<Key>> {
        let name = name.to_lowercase();
        self.0.iter().find(|key| key.name == name)
    }

    /// Verifies a request and takes its signature off.
    ///
    /// # Errors
    /// The signature does not hold; [`refusal`](Keyring::refusal) makes the answer that says so.
    pub fn verify_request(&self, message: &mut Vec<u8>, now_s: u64) -> Result<Option<Signer>, TsigError> {
        let Some(signature) = locate(message)? else { return Ok(None) };
        let known =
            |key: &&Arc<Key>| key.name.wire() == signature.key_name && key.algorithm.wire() == signature.algorithm;
        let key = self.0.iter().find(known).ok_or(TsigError::BadKey)?;
        let mut digest = Digest::new(key, &[]);
        cover_message(&mut digest, message, signature.start, signature.original_identifier);
        check(&signature, key, digest, now_s, false)?;
        let signer = Signer { key: Arc::clone(key), prior: signature.mac.to_vec(), later: false };
        let (start, identifier) = (signature.start, signature.original_identifier);
        strip(message, start, identifier);
        Ok(Some(signer))
    }

    /// Turns a request whose signature does not hold into the answer that says so (RFC 8945, section 5.2): NOTAUTH, and a
    /// TSIG record with the error, signed only if it is the clock that is wrong, and then with the time here; FORMERR
    /// alone if there was no telling what it was.
    pub fn refusal(&self, request: &[u8], error: TsigError, now_s: u64) -> Vec<u8> {
        let signature = locate(request).ok().flatten().filter(|_| error != TsigError::Malformed);
        let mut answer =
            replies::refuse(request, if signature.is_some() { replies::NOTAUTH } else { replies::FORMERR });
        let Some(signature) = signature else { return answer };
        let key =
            self.0.iter().find(|key| key.name.wire() == signature.key_name).filter(|_| error == TsigError::BadTime);
        match key {
            Some(key) => {
                let time = now_s.to_be_bytes();
                let other = time.get(2..).unwrap_or_default();
                let fields = (signature.time_s, FUDGE_S, error.code(), other);
                append(&mut answer, key, Digest::new(key, signature.mac), fields, false);
            }
            None => {
                let fields = (signature.time_s, signature.fudge_s, error.code(), &[][..]);
                append_record(&mut answer, &signature.key_name, &signature.algorithm, &[], fields);
            }
        }
        answer
    }
}

/// Signs what one end sends: a request, or the messages of an answer.
#[derive(Debug)]
pub struct Signer {
    key: Arc<Key>,
    /// The code of the message before; empty: there was none.
    prior: Vec<u8>,
    /// A message of this answer went before.
    later: bool,
}

impl Signer {
    /// For a request.
    pub fn for_request(key: &Arc<Key>) -> Signer {
        Signer { key: Arc::clone(key), prior: Vec::new(), later: false }
    }

    /// The key it signs with.
    pub fn key(&self) -> &Arc<Key> {
        &self.key
    }

    /// Signs the next message.
    pub fn sign(&mut self, message: &mut Vec<u8>, now_s: u64) {
        let digest = Digest::new(&self.key, &self.prior);
        let fields = (now_s, FUDGE_S, 0, &[][..]);
        self.prior = append(message, &self.key, digest, fields, self.later);
        self.later = true;
    }

    /// Verifies the answer to the request that was signed.
    pub fn into_verifier(self) -> Verifier {
        let digest = Digest::new(&self.key, &self.prior);
        Verifier { key: self.key, digest: Some(digest), later: false, unsigned: 0 }
    }
}

/// Verifies the messages of an answer.
#[derive(Clone)]
pub struct Verifier {
    key: Arc<Key>,
    /// Over what came since the last signature.
    digest: Option<Digest>,
    later: bool,
    unsigned: usize,
}

impl Verifier {
    /// Verifies the next message and takes its signature off. Whether it was signed: the last one of an answer must be.
    ///
    /// # Errors
    /// The signature does not hold, or is missing from the first message, or from too many.
    pub fn verify(&mut self, message: &mut Vec<u8>, now_s: u64) -> Result<bool, TsigError> {
        let Some(signature) = locate(message)? else {
            if !self.later || self.unsigned >= UNSIGNED_MAX {
                return Err(TsigError::Missing);
            }
            self.unsigned += 1;
            if let Some(digest) = &mut self.digest {
                digest.update(message);
            }
            return Ok(false);
        };
        if signature.error != 0 && signature.mac.is_empty() {
            return Err(TsigError::Refused(signature.error));
        }
        if signature.key_name != self.key.name.wire() || signature.algorithm != self.key.algorithm.wire() {
            return Err(TsigError::BadKey);
        }
        let mut digest = self.digest.take().ok_or(TsigError::BadSignature)?;
        cover_message(&mut digest, message, signature.start, signature.original_identifier);
        check(&signature, &self.key, digest, now_s, self.later)?;
        if signature.error != 0 {
            return Err(TsigError::Refused(signature.error));
        }
        self.digest = Some(Digest::new(&self.key, signature.mac));
        self.later = true;
        self.unsigned = 0;
        let (start, identifier) = (signature.start, signature.original_identifier);
        strip(message, start, identifier);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_700_000_000;

    fn key() -> Arc<Key> {
        Arc::new(Key::new("Transfer.example", "hmac-sha256", "c2VjcmV0LXNlY3JldC1zZWNyZXQ=").unwrap())
    }

    fn question() -> Vec<u8> {
        b"\x12\x34\0\0\0\x01\0\0\0\0\0\0\x07example\0\0\xfc\0\x01".to_vec()
    }

    #[test]
    fn requests_and_answers_of_several_messages() {
        let keys = Keyring::new([key()]);
        let mut client = Signer::for_request(&key());
        let mut request = question();
        client.sign(&mut request, NOW_S);
        assert!(request.len() <= question().len() + overhead(&key()));
        let mut verifier = client.into_verifier();
        let mut seen = request.clone();
        // A forwarder may have given it another identifier.
        seen[0] ^= 0xff;
        let mut server = keys.verify_request(&mut seen, NOW_S + 299).unwrap().expect("signed");
        assert_eq!(seen, question(), "as before it was signed");
        for number in 0..4u8 {
            let mut answer = question();
            answer[2] = 0x84;
            answer.extend_from_slice(&[0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 9, 0, 2, 1, b'a' + number]);
            answer[7] = 1;
            let plain = answer.clone();
            server.sign(&mut answer, NOW_S);
            let mut forged = answer.clone();
            forged[40] ^= 1;
            assert!(verifier.verify(&mut answer, NOW_S).unwrap());
            assert_eq!(answer, plain);
        }
    }

    #[test]
    fn unsigned_messages_in_between_are_covered() {
        let keys = Keyring::new([key()]);
        for forge in [false, true] {
            let mut client = Signer::for_request(&key());
            let mut request = question();
            client.sign(&mut request, NOW_S);
            let mut verifier = client.into_verifier();
            let mut server = keys.verify_request(&mut request, NOW_S).unwrap().unwrap();
            let mut first = question();
            server.sign(&mut first, NOW_S);
            assert!(verifier.verify(&mut first, NOW_S).unwrap());
            let middle = question();
            let mut last = question();
            let mut digest = Digest::new(&key(), &server.prior);
            digest.update(&middle);
            append(&mut last, &key(), digest, (NOW_S, FUDGE_S, 0, &[]), true);
            let mut seen = middle.clone();
            seen[13] ^= u8::from(forge);
            assert!(!verifier.verify(&mut seen, NOW_S).unwrap());
            let outcome = verifier.verify(&mut last, NOW_S);
            assert_eq!(outcome, if forge { Err(TsigError::BadSignature) } else { Ok(true) });
        }
    }

    #[test]
    fn what_does_not_hold() {
        let keys = Keyring::new([key()]);
        let mut signed = question();
        Signer::for_request(&key()).sign(&mut signed, NOW_S);
        let verify = |message: &[u8], now_s| keys.verify_request(&mut message.to_vec(), now_s).err();
        assert_eq!(verify(&signed, NOW_S + 301), Some(TsigError::BadTime));
        let mut forged = signed.clone();
        forged[14] ^= 0x20;
        assert_eq!(verify(&forged, NOW_S), Some(TsigError::BadSignature));
        let mut other = question();
        let stranger = Arc::new(Key::new("stranger", "hmac-sha512", "AAAA").unwrap());
        Signer::for_request(&stranger).sign(&mut other, NOW_S);
        assert_eq!(verify(&other, NOW_S), Some(TsigError::BadKey));
        let late = keys.refusal(&signed, TsigError::BadTime, NOW_S + 900);
        let mut client = Signer::for_request(&key());
        client.sign(&mut question(), NOW_S);
        assert_eq!(client.into_verifier().verify(&mut late.clone(), NOW_S), Err(TsigError::Refused(18)), "signed");
        assert!(late.ends_with(&[0, 18, 0, 6, 0, 0, 0x65, 0x53, 0xf4, 0x84]), "{late:x?}");
        let answer = keys.refusal(&other, TsigError::BadKey, NOW_S);
        assert_eq!((answer[2] & 0x80, answer[3]), (0x80, 9));
        let mut verifier = Signer::for_request(&stranger).into_verifier();
        assert_eq!(verifier.verify(&mut answer.clone(), NOW_S), Err(TsigError::Refused(17)));
        assert_eq!(verifier.verify(&mut question(), NOW_S), Err(TsigError::Missing));
        for length in 0..signed.len() {
            let _ = verify(&signed[..length], NOW_S);
            let _ = keys.refusal(&signed[..length], TsigError::Malformed, NOW_S);
        }
        assert!(keys.verify_request(&mut question(), NOW_S).unwrap().is_none(), "not signed");
        assert!(Key::new("k", "hmac-md5", "AAAA").unwrap_err().to_string().contains("hmac-sha256"));
        assert!(Key::new("k", "hmac-sha256", "!").is_err());
    }
}
