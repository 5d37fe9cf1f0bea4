//! Cookies of TCP Fast Open (RFC 7413): a server's keys, and what a client keeps of servers.

use qanat_nic::Time;
use qanat_wire::tcp_options::FastOpen;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::net::IpAddr;
use std::time::Duration;

/// Servers whose cookies are kept, at most.
const CACHE_MAX: usize = 256;
/// After two SYNs with data that were lost in a row, or one whose data the server did not take, none is sent to that server for
/// this long, doubling with each (section 4.1.3.1).
const LOSS_PAUSE: Duration = Duration::from_secs(60);
const LOSS_DOUBLINGS_MAX: u8 = 10;

/// Keys of a server's cookies: 16 bytes each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct CookieKeys {
    /// Makes cookies.
    pub first: [u8; 16],
    /// One that made them before, and is still believed.
    pub second: Option<[u8; 16]>,
}

/// What a cookie shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CookieVerdict {
    /// Its bearer receives at its address.
    Good,
    /// As well, but it is an old key's: a new cookie is due.
    Aging,
    /// Nothing.
    Wrong,
}

/// A keyed hash of both addresses, as Linux makes it (section 4.1.2: nobody but the server can make one).
fn cookie(key: &[u8; 16], remote: IpAddr, local: IpAddr) -> [u8; 8] {
    let [low, high] = [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|index| key[at + index])));
    let mut hasher = SipHasher24::new_with_keys(low, high);
    for address in [remote, local] {
        match address {
            IpAddr::V4(four) => hasher.write(&four.octets()),
            IpAddr::V6(six) => hasher.write(&six.octets()),
        }
    }
    hasher.finish().to_le_bytes()
}

impl CookieKeys {
    /// The cookie of a client at `remote`, for the server's address `local`.
    pub fn make(&self, remote: IpAddr, local: IpAddr, is_experimental: bool) -> Option<FastOpen> {
        FastOpen::new(&cookie(&self.first, remote, local), is_experimental)
    }

    /// What a cookie that came from `remote` shows.
    pub fn judge(&self, shown: &[u8], remote: IpAddr, local: IpAddr) -> CookieVerdict {
        let is_of = |key: &[u8; 16]| shown == cookie(key, remote, local);
        if is_of(&self.first) {
            CookieVerdict::Good
        } else if self.second.as_ref().is_some_and(is_of) {
            CookieVerdict::Aging
        } else {
            CookieVerdict::Wrong
        }
    }
}

/// Which form of the option a request for a cookie has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug, serde::Serialize, serde::Deserialize)]
pub(super) enum Form {
    Standard,
    /// The standard one was not answered.
    Experimental,
    /// Neither was.
    StandardAgain,
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Entry {
    pub local: IpAddr,
    pub remote: IpAddr,
    pub cookie: Option<FastOpen>,
    /// The server's MSS option.
    pub segment: u16,
    pub form: Form,
    pub losses: u8,
    pub lost_at: Time,
    /// The last answer was negative.
    pub is_refused: bool,
}

/// How a server answered a SYN with data, or a request for a cookie (section 4.1.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// As it should.
    Positive,
    /// Perhaps not at all: the SYN had to be repeated, and the answer is to one without data. One may be chance.
    Lost,
    /// It acknowledged the SYN alone and gave no new cookie: it does not want data there now.
    Negative,
}

/// Cookies that servers gave, the oldest first (section 4.1.3): at most 256.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct CookieCache {
    entries: Vec<Entry>,
}

impl CookieCache {
    pub(super) fn find(&self, local: IpAddr, remote: IpAddr) -> Option<&Entry> {
        self.entries.iter().find(|entry| (entry.local, entry.remote) == (local, remote))
    }

    /// The cookie for a server, if data may be sent with one.
    pub fn cookie(&self, local: IpAddr, remote: IpAddr, now: Time) -> Option<FastOpen> {
        let entry = self.find(local, remote)?;
        entry.cookie.filter(|_| !self.is_pausing(local, remote, now))
    }

    /// Whether a server is given no data with SYNs for now, with a cookie or without.
    pub(super) fn is_pausing(&self, local: IpAddr, remote: IpAddr, now: Time) -> bool {
        self.find(local, remote).is_some_and(|entry| {
            let pause = LOSS_PAUSE * (1 << entry.losses.min(LOSS_DOUBLINGS_MAX));
            (entry.losses > 1 || entry.is_refused) && now.since(entry.lost_at) < pause
        })
    }

    pub(super) fn note(&mut self, fresh: Entry, answer: Answer) {
        let mut entry =
            match self.entries.iter().position(|entry| (entry.local, entry.remote) == (fresh.local, fresh.remote)) {
                Some(index) => self.entries.remove(index),
                None => Entry { cookie: None, form: Form::Standard, losses: 0, ..fresh.clone() },
            };
        entry.segment = fresh.segment;
        if fresh.cookie.is_some() {
            entry.cookie = fresh.cookie;
        } else if entry.cookie.is_none() && fresh.form > entry.form {
            entry.form = fresh.form;
        }
        entry.losses = match answer {
            Answer::Positive => 0,
            Answer::Lost | Answer::Negative => entry.losses.saturating_add(1),
        };
        entry.is_refused = answer == Answer::Negative;
        entry.lost_at = fresh.lost_at;
        if self.entries.len() >= CACHE_MAX {
            self.entries.remove(0);
        }
        self.entries.push(entry);
    }
}
