//! [`RecordKey`]: the key of one direction, and the number of its next record (RFC 8446, 5.2 and 5.3).

use crate::alert::Alert;
use crate::record::{CONTENT_BYTES_MAX, HEADER_BYTES, TAG_BYTES, record_bytes, sealed_header};
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use rustls::ConnectionTrafficSecrets;

/// Records under one key after which a new one is due. AES-GCM stands 2^24.5 records of the longest kind (RFC 8446, 5.5).
const RECORDS_MAX: u64 = 1 << 23;

/// See the module.
#[derive(Debug)]
pub(crate) struct RecordKey {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    sequence: u64,
    /// Records until a new key is due.
    left: u64,
}

impl RecordKey {
    /// From the secrets of a handshake, or of an update; `None`: they are of no suite of TLS 1.3.
    pub(crate) fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Option<RecordKey> {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return None,
        };
        let key = key.as_ref().get(..algorithm.key_len())?;
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?);
        Some(RecordKey { key, iv: iv.as_ref().try_into().ok()?, sequence, left: RECORDS_MAX })
    }

    /// Whether so many records were sealed that a new key is due.
    pub(crate) fn is_worn(&self) -> bool {
        self.left == 0
    }

    /// As many records as may be under this key, to see that an update follows.
    #[cfg(test)]
    pub(crate) fn wear(&mut self) {
        self.left = 0;
    }

    /// The next record's nonce: no two records of a key have the same.
    fn nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        if let Some(low) = nonce.last_chunk_mut::<8>() {
            *low = (u64::from_be_bytes(*low) ^ self.sequence).to_be_bytes();
        }
        // 2^64 records are more than anybody seals.
        self.sequence += 1;
        self.left = self.left.saturating_sub(1);
        Nonce::assume_unique_for_key(nonce)
    }

    /// Seals a record into `target`, which has room for it exactly. `content`: bytes elsewhere; `None`: they lie in `target` already, behind
    /// the header's place.
    pub(crate) fn seal(&mut self, number: u8, content: Option<&[u8]>, target: &mut [u8]) -> Result<(), Alert> {
        let sealed = target.len().checked_sub(HEADER_BYTES).ok_or(Alert::InternalError)?;
        let (header, rest) = target.split_first_chunk_mut::<HEADER_BYTES>().ok_or(Alert::InternalError)?;
        let bytes = sealed.checked_sub(1 + TAG_BYTES).ok_or(Alert::InternalError)?;
        let (body, tail) = rest.split_at_mut_checked(bytes).ok_or(Alert::InternalError)?;
        *header = sealed_header(sealed);
        let (nonce, aad) = (self.nonce(), Aad::from(*header));
        match content {
            Some(content) => self.key.seal_out_of_place_scatter(nonce, aad, content, body, &[number], tail),
            None => self.key.seal_in_place_scatter(nonce, aad, body, &[number], tail),
        }
        .map_err(|_| Alert::InternalError)
    }

    /// Opens a whole record into `target`, which has at least as many bytes as the record less header and tag. Returns the content's type,
    /// by number, and its length: the padding is taken off.
    pub(crate) fn open(&mut self, record: &[u8], target: &mut [u8]) -> Result<(u8, usize), Alert> {
        debug_assert_eq!(record_bytes(record), Some(record.len()));
        let (header, rest) = record.split_first_chunk::<HEADER_BYTES>().ok_or(Alert::DecodeError)?;
        let bytes = rest.len().checked_sub(TAG_BYTES).ok_or(Alert::BadRecordMac)?;
        let (body, tag) = rest.split_at(bytes);
        let plain = target.get_mut(..bytes).ok_or(Alert::RecordOverflow)?;
        let nonce = self.nonce();
        self.key.open_separate_gather(nonce, Aad::from(*header), body, tag, plain).map_err(|_| Alert::BadRecordMac)?;
        // Content, its type, and zeroes.
        let last = plain.iter().rposition(|byte| *byte != 0).ok_or(Alert::UnexpectedMessage)?;
        if last > CONTENT_BYTES_MAX {
            return Err(Alert::RecordOverflow);
        }
        Ok((plain.get(last).copied().unwrap_or_default(), last))
    }
}
