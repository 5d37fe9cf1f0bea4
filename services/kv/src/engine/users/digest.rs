//! [`Digest`]: the SHA-256 of a password. Passwords themselves are not kept.

use sha2::{Digest as _, Sha256};
use std::hint::black_box;

/// See the module. Two of them are compared in a time that does not depend on them, and they are not printed with other things.
#[derive(Clone, Copy)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of a password.
    pub fn of(password: &[u8]) -> Digest {
        Digest(Sha256::digest(password).into())
    }

    /// From 64 hexadecimal digits in small letters, as users' files have it.
    pub fn from_hex(text: &[u8]) -> Option<Digest> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            let [high, low] = pair else { return None };
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Digest(bytes))
    }

    /// As users' files have it.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Digest) -> bool {
        // All bytes are looked at, whatever the first ones are.
        let differs = self.0.iter().zip(&other.0).fold(0, |differs, (one, other)| black_box(differs | (one ^ other)));
        differs == 0
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digest")
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn digests_are_written_and_read() {
        let hex = "148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940";
        let digest = Digest::of(b"p");
        assert_eq!(digest.hex(), hex);
        assert_eq!(Digest::from_hex(hex.as_bytes()), Some(digest));
        assert_eq!(format!("{digest:?}"), "Digest");
        for wrong in [&hex[1..], &hex.to_uppercase(), &hex.replace('1', "g"), ""] {
            assert_eq!(Digest::from_hex(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_difference_is_seen_wherever_it_is() {
        let one = Digest::of(b"p");
        for place in 0..32 {
            for bit in 0..8 {
                let mut other = one;
                other.0[place] ^= 1 << bit;
                assert_ne!(one, other, "{place} {bit}");
            }
        }
    }
}
