//! What a request asks for, how long its answer may be, and refusals.

use super::walk;
use crate::answer::edns::{self, OptReply};
use crate::answer::question::Question;
use crate::name::Name;
use crate::zone::rtype;

/// An answer over UDP to a client without EDNS (RFC 1035, section 4.2.1).
const UDP_ROOM_MIN: usize = 512;
/// The payload we announce.
pub(super) const UDP_PAYLOAD: u16 = 1_232;
pub(super) const NOTAUTH: u8 = 9;
pub(super) const REFUSED: u8 = 5;
pub(super) const FORMERR: u8 = 1;

/// How a request came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// By TCP.
    Tcp,
    /// By UDP; no datagram can be longer.
    Udp(usize),
}

/// How long an answer may be: over UDP what the client's EDNS says, or 512 bytes.
pub(super) fn room(request: &[u8], way: Way) -> usize {
    let Way::Udp(longest) = way else { return usize::from(u16::MAX) };
    let opt = walk::records(request).ok().and_then(|records| {
        let mut known = records.filter_map(Result::ok);
        known.find(|record| record.rtype == rtype::OPT)
    });
    opt.map_or(UDP_ROOM_MIN, |opt| usize::from(opt.class).max(UDP_ROOM_MIN)).min(longest)
}

/// The name (small letters) and type of a request's only question.
pub(super) fn question(request: &[u8]) -> Option<(Name, u16)> {
    let question = Question::parse(request).filter(|_| request.get(4..6) == Some(&[0, 1]))?;
    let name = Name::from_wire(request.get(walk::HEADER_LENGTH..question.name_end)?)?;
    Some((name.to_lowercase(), question.qtype))
}

/// The request's question, if it has one that can be read, with response code `code`; with OPT if the request has that.
pub(super) fn refuse(request: &[u8], code: u8) -> Vec<u8> {
    let question = Question::parse(request).filter(|_| request.get(4..6) == Some(&[0, 1]));
    let end = question.map_or(walk::HEADER_LENGTH, |question| question.end());
    let mut reply = request.get(..end).unwrap_or_default().to_vec();
    let opt = edns::error_reply(request, UDP_PAYLOAD, code);
    if let Some(header) = reply.first_chunk_mut::<{ walk::HEADER_LENGTH }>() {
        header[2] = 0x80 | header[2] & 0x79;
        header[3] = code;
        header[4..].copy_from_slice(&[0, u8::from(question.is_some()), 0, 0, 0, 0, 0, u8::from(opt.is_some())]);
        append_opt(&mut reply, opt);
    }
    reply
}

/// Appends our OPT record, which the header tells of already.
pub(super) fn append_opt(message: &mut Vec<u8>, opt: Option<OptReply<'_>>) {
    let Some(opt) = opt else { return };
    let start = message.len();
    message.resize(start + opt.length(), 0);
    opt.write(message, start, start + opt.length());
}
