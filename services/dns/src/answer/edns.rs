//! EDNS(0) (RFC 6891): what a request's OPT record says, and ours.

use super::cookies::{ClientCookie, SERVER_COOKIE_LENGTH};
use crate::message::{HEADER_LENGTH, rcode};
use crate::name;
use crate::zone::rtype;

/// Option codes.
mod option {
    pub(super) const NSID: u16 = 3;
    pub(super) const COOKIE: u16 = 10;
    pub(super) const KEEPALIVE: u16 = 11;
    pub(super) const PADDING: u16 = 12;
}

/// Records after the question at most: OPT and TSIG.
const RECORDS_MAX: u16 = 2;
/// Fixed bytes of OPT.
pub const OPT_LENGTH: usize = 11;
/// RFC 8467 section 4.1: responses are padded to a multiple of so many bytes.
const PADDING_BLOCK: usize = 468;
/// Smallest UDP payload (RFC 6891 section 6.2.3).
pub const PAYLOAD_MIN: usize = 512;

/// What the records after the question say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edns {
    /// There is an OPT record.
    pub present: bool,
    /// Its version.
    pub version: u8,
    /// DO: signatures are wanted.
    pub dnssec: bool,
    /// Largest UDP payload the client takes, bytes.
    pub payload: usize,
    /// NSID is wanted (RFC 5001).
    pub nsid: bool,
    /// The client's cookie.
    pub cookie: Option<ClientCookie>,
    /// The client pads (RFC 7830).
    pub padding: bool,
    /// The client understands keepalive over TCP (RFC 7828).
    pub keepalive: bool,
    /// There is a TSIG record (RFC 8945).
    pub signed: bool,
}

fn u16_of(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]))
}

impl Edns {
    /// Reads `count` records from `bytes`, of authority and additional section. What is not known is skipped.
    ///
    /// # Errors
    /// The response code to refuse the request with.
    pub fn parse(bytes: &[u8], count: u16, others: u16) -> Result<Edns, u8> {
        let mut edns = Edns { payload: PAYLOAD_MIN, ..Edns::default() };
        if count > RECORDS_MAX + others {
            return Err(rcode::FORMERR);
        }
        let mut rest = bytes;
        for index in 0..count {
            let owner = owner_length(rest).ok_or(rcode::FORMERR)?;
            let fixed = rest.get(owner..owner + 10).ok_or(rcode::FORMERR)?;
            let length = usize::from(u16_of(fixed, 8).ok_or(rcode::FORMERR)?);
            let data = rest.get(owner + 10..owner + 10 + length).ok_or(rcode::FORMERR)?;
            match u16_of(fixed, 0) {
                Some(rtype::OPT) => {
                    if edns.present || owner != 1 || edns.signed {
                        return Err(rcode::FORMERR);
                    }
                    edns.opt(fixed, data)?;
                }
                // RFC 8945 section 5.1: it is the last.
                Some(rtype::TSIG) if index + 1 == count => edns.signed = true,
                Some(rtype::TSIG) => return Err(rcode::FORMERR),
                _ => {}
            }
            rest = rest.get(owner + 10 + length..).unwrap_or_default();
        }
        Ok(edns)
    }

    fn opt(&mut self, fixed: &[u8], data: &[u8]) -> Result<(), u8> {
        self.present = true;
        self.payload = usize::from(u16_of(fixed, 2).unwrap_or(0)).max(PAYLOAD_MIN);
        self.version = fixed.get(5).copied().unwrap_or(0);
        self.dnssec = fixed.get(6).is_some_and(|flags| flags & 0x80 != 0);
        // A version that is not ours: its options are none of ours either.
        if self.version != 0 {
            return Ok(());
        }
        let mut rest = data;
        while !rest.is_empty() {
            let (Some(code), Some(length)) = (u16_of(rest, 0), u16_of(rest, 2)) else { return Err(rcode::FORMERR) };
            let value = rest.get(4..4 + usize::from(length)).ok_or(rcode::FORMERR)?;
            match code {
                option::NSID => self.nsid = true,
                option::PADDING => self.padding = true,
                option::KEEPALIVE => self.keepalive = true,
                // RFC 7873 section 5.2.2: a cookie of a wrong length is a format error.
                option::COOKIE if self.cookie.is_none() => {
                    self.cookie = Some(ClientCookie::parse(value).ok_or(rcode::FORMERR)?);
                }
                _ => {}
            }
            rest = rest.get(4 + usize::from(length)..).unwrap_or_default();
        }
        Ok(())
    }
}

/// Where the OPT record of a message of any kind begins, be its other records what they like. Each step goes forward, so the
/// message bounds the walk.
pub fn locate(message: &[u8]) -> Option<usize> {
    let mut at = HEADER_LENGTH;
    for _ in 0..u16_of(message, 4)? {
        at += owner_length(message.get(at..)?)? + 4;
    }
    let records = [6, 8, 10].iter().map(|count| u16_of(message, *count).map_or(0, u32::from)).sum::<u32>();
    for _ in 0..records {
        let owner = owner_length(message.get(at..)?)?;
        let length = usize::from(u16_of(message, at + owner + 8)?);
        let end = at + owner + 10 + length;
        if end > message.len() {
            return None;
        }
        if owner == 1 && u16_of(message, at + owner) == Some(rtype::OPT) {
            return Some(at);
        }
        at = end;
    }
    None
}

/// Our OPT record in an error, which a request with such a record gets as well (RFC 6891 section 6.1.1). `request` may be
/// anything.
pub fn error_reply(request: &[u8], payload: u16, rcode: u8) -> Option<OptReply<'static>> {
    let at = locate(request)?;
    let dnssec = request.get(at + 7).is_some_and(|flags| flags & 0x80 != 0);
    Some(OptReply { rcode, dnssec, payload, nsid: None, cookie: None, keepalive: None, padding: false })
}

/// Length of an owner's name, which may end in a pointer.
fn owner_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match *bytes.get(at)? {
            0 => return Some(at + 1),
            length @ 1..=63 => at += usize::from(length) + 1,
            0xc0..=0xff => return Some(at + 2).filter(|end| *end <= bytes.len()),
            _ => return None,
        }
        if at > name::NAME_BYTES_MAX {
            return None;
        }
    }
}

/// Our OPT record, planned before the answer so that there is room for it.
#[derive(Clone, Copy)]
pub struct OptReply<'a> {
    /// Response code; its upper eight bits go here.
    pub rcode: u8,
    /// DO is echoed (RFC 3225 section 3).
    pub dnssec: bool,
    /// Largest payload we take, bytes.
    pub payload: u16,
    /// Our name, if it was asked for.
    pub nsid: Option<&'a [u8]>,
    /// Client cookie and server cookie.
    pub cookie: Option<([u8; 8], [u8; SERVER_COOKIE_LENGTH])>,
    /// Idle time-out over TCP, units of 100 ms.
    pub keepalive: Option<u16>,
    /// Pad the message.
    pub padding: bool,
}

impl OptReply<'_> {
    /// Bytes it takes, without padding.
    #[inline]
    pub fn length(&self) -> usize {
        let nsid = self.nsid.map_or(0, |nsid| 4 + nsid.len());
        let cookie = if self.cookie.is_some() { 4 + 8 + SERVER_COOKIE_LENGTH } else { 0 };
        OPT_LENGTH + nsid + cookie + if self.keepalive.is_some() { 6 } else { 0 }
    }

    /// Writes it at `at`, where there is room for [`length`](OptReply::length); gives the end.
    #[inline]
    pub fn write(&self, message: &mut [u8], at: usize, limit: usize) -> usize {
        let mut end = at + OPT_LENGTH;
        let mut put = |bytes: &[u8]| {
            if let Some(target) = message.get_mut(end..end + bytes.len()) {
                target.copy_from_slice(bytes);
                end += bytes.len();
            }
        };
        let mut header = |code: u16, length: usize| {
            put(&code.to_be_bytes());
            put(&(length as u16).to_be_bytes());
        };
        if let Some(nsid) = self.nsid {
            header(option::NSID, nsid.len());
            put(nsid);
        }
        let mut header = |code: u16, length: usize| {
            put(&code.to_be_bytes());
            put(&(length as u16).to_be_bytes());
        };
        if let Some((client, server)) = &self.cookie {
            header(option::COOKIE, client.len() + server.len());
            put(client);
            put(server);
        }
        if let Some(units) = self.keepalive {
            put(&option::KEEPALIVE.to_be_bytes());
            put(&[0, 2]);
            put(&units.to_be_bytes());
        }
        if self.padding {
            let whole = (end + 4).next_multiple_of(PADDING_BLOCK).min(limit);
            if let Some(length) = whole.checked_sub(end + 4)
                && let Some(target) = message.get_mut(end..whole)
            {
                target.fill(0);
                if let Some(header) = target.first_chunk_mut::<4>() {
                    header[..2].copy_from_slice(&option::PADDING.to_be_bytes());
                    header[2..].copy_from_slice(&(length as u16).to_be_bytes());
                }
                end = whole;
            }
        }
        if let Some(fixed) = message.get_mut(at..at + OPT_LENGTH) {
            let [payload_high, payload_low] = self.payload.to_be_bytes();
            let [length_high, length_low] = ((end - at - OPT_LENGTH) as u16).to_be_bytes();
            let dnssec = if self.dnssec { 0x80 } else { 0 };
            fixed.copy_from_slice(&[
                0,
                0,
                41,
                payload_high,
                payload_low,
                self.rcode >> 4,
                0,
                dnssec,
                0,
                length_high,
                length_low,
            ]);
        }
        end
    }
}
