//! DNS cookies (RFC 7873), interoperable server cookies (RFC 9018): whoever has one really has its address.

use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::net::IpAddr;

/// Version, reserved bytes, time, hash.
pub const SERVER_COOKIE_LENGTH: usize = 16;
/// RFC 9018 section 4.3: a cookie is good for an hour, or five minutes into the future.
const AGE_MAX_S: u32 = 3_600;
const FUTURE_MAX_S: u32 = 300;

/// What a request carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientCookie {
    /// The client's own.
    pub client: [u8; 8],
    /// The server cookie it was given before, if it has our form.
    pub server: Option<[u8; SERVER_COOKIE_LENGTH]>,
}

impl ClientCookie {
    /// From an option's data; `None`: of a wrong length.
    pub fn parse(data: &[u8]) -> Option<ClientCookie> {
        let (client, server) = data.split_first_chunk::<8>()?;
        match server.len() {
            0 | 8..=32 => Some(ClientCookie { client: *client, server: server.try_into().ok() }),
            _ => None,
        }
    }
}

/// Keys server cookies are made and known by: the first makes them, all are good.
#[derive(Clone, Debug)]
pub struct CookieSecrets(Vec<[u8; 16]>);

impl CookieSecrets {
    /// Secrets, at least one. Anycast instances share theirs (RFC 9018 section 5).
    pub fn new(current: [u8; 16], former: impl IntoIterator<Item = [u8; 16]>) -> CookieSecrets {
        CookieSecrets(std::iter::once(current).chain(former).collect())
    }

    fn hash(secret: &[u8; 16], client: &[u8; 8], front: &[u8; 8], address: IpAddr) -> [u8; 8] {
        let mut hasher = SipHasher24::new_with_key(secret);
        let mut input = [0u8; 32];
        input[..8].copy_from_slice(client);
        input[8..16].copy_from_slice(front);
        let length = match address {
            IpAddr::V4(address) => {
                input[16..20].copy_from_slice(&address.octets());
                20
            }
            IpAddr::V6(address) => {
                input[16..32].copy_from_slice(&address.octets());
                32
            }
        };
        hasher.write(&input[..length]);
        hasher.finish().to_le_bytes()
    }

    /// A server cookie for this client at `now_s` (seconds since 1970, modulo 2³²).
    pub fn make(&self, client: &[u8; 8], address: IpAddr, now_s: u32) -> [u8; SERVER_COOKIE_LENGTH] {
        let mut cookie = [0; SERVER_COOKIE_LENGTH];
        let mut front = [1, 0, 0, 0, 0, 0, 0, 0];
        front[4..].copy_from_slice(&now_s.to_be_bytes());
        cookie[..8].copy_from_slice(&front);
        if let Some(secret) = self.0.first() {
            cookie[8..].copy_from_slice(&CookieSecrets::hash(secret, client, &front, address));
        }
        cookie
    }

    /// Whether the request carries a server cookie of ours that is still good.
    pub fn is_valid(&self, cookie: &ClientCookie, address: IpAddr, now_s: u32) -> bool {
        let Some(server) = &cookie.server else { return false };
        let Some((front, hash)) = server.split_first_chunk::<8>() else { return false };
        if front[0] != 1 {
            return false;
        }
        let made_s = u32::from_be_bytes([front[4], front[5], front[6], front[7]]);
        // Serial arithmetic, as the RFC has it.
        let age = now_s.wrapping_sub(made_s) as i32;
        if age > AGE_MAX_S as i32 || age < -(FUTURE_MAX_S as i32) {
            return false;
        }
        self.0.iter().any(|secret| CookieSecrets::hash(secret, &cookie.client, front, address) == *hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        let digits: Vec<u8> = hex.bytes().map(|digit| char::from(digit).to_digit(16).unwrap() as u8).collect();
        let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        bytes.try_into().unwrap()
    }

    /// RFC 9018 appendix A.1 and A.4.
    #[test]
    fn the_cookies_of_the_rfc() {
        let secrets = CookieSecrets::new(bytes("e5e973e5a6b2a43f48e7dc849e37bfcf"), []);
        let (client, address) = (bytes("2464c4abcf10c957"), "198.51.100.100".parse().unwrap());
        let made = secrets.make(&client, address, 0x5cf7_9f11);
        assert_eq!(made, bytes("010000005cf79f111f8130c3eee29480"));
        let cookie = ClientCookie { client, server: Some(made) };
        assert!(secrets.is_valid(&cookie, address, 0x5cf7_9f11 + 3_600));
        assert!(!secrets.is_valid(&cookie, address, 0x5cf7_9f11 + 3_601));
        assert!(!secrets.is_valid(&cookie, "198.51.100.101".parse().unwrap(), 0x5cf7_9f11));
        let newer = CookieSecrets::new([7; 16], [bytes("e5e973e5a6b2a43f48e7dc849e37bfcf")]);
        assert!(newer.is_valid(&cookie, address, 0x5cf7_9f11));
        let six = CookieSecrets::new(bytes("445536bcd2513298075a5d379663c962"), []);
        let made =
            six.make(&bytes("22681ab97d52c298"), "2001:db8:220:1:59de:d0f4:8769:82b8".parse().unwrap(), 0x5cf7_c609);
        assert_eq!(made, bytes("010000005cf7c609a6bb79d16625507a"));
    }

    #[test]
    fn lengths() {
        for (length, good) in
            [(0, false), (7, false), (8, true), (9, false), (15, false), (16, true), (40, true), (41, false)]
        {
            assert_eq!(ClientCookie::parse(&vec![1; length]).is_some(), good, "{length}");
        }
    }
}
