//! What ICMP for IPv4 and ICMPv6 have in common: type, code, checksum and four bytes more before the payload.

use crate::{Error, checksum, field};
use std::marker::PhantomData;

/// Bytes before the payload.
pub const HEADER_LENGTH: usize = 8;

/// Which time was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeExceededCode(pub u8);

impl TimeExceededCode {
    /// TTL or hop limit reached zero in transit.
    pub const IN_TRANSIT: TimeExceededCode = TimeExceededCode(0);
    /// Fragments were missing for too long.
    pub const REASSEMBLY: TimeExceededCode = TimeExceededCode(1);
}

/// A view of a message of the protocol that `V` stands for.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a, V> {
    pub(crate) header: &'a [u8; HEADER_LENGTH],
    pub(crate) payload: &'a [u8],
    version: PhantomData<V>,
}

impl<'a, V> Message<'a, V> {
    /// `bytes`: the payload of an IPv4 packet, or what follows an IPv6 packet's extension headers.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a, V>, Error> {
        let (header, payload) = bytes.split_first_chunk().ok_or(Error::Truncated)?;
        Ok(Message { header, payload, version: PhantomData })
    }

    /// Type. It decides together with the code what a message is: see `Header::parse` of the protocol.
    #[inline(always)]
    pub fn message_type(&self) -> u8 {
        field::u8_at::<0, _>(self.header)
    }

    /// Code.
    #[inline(always)]
    pub fn code(&self) -> u8 {
        field::u8_at::<1, _>(self.header)
    }

    /// The checksum as it stands.
    #[inline(always)]
    pub fn checksum(&self) -> u16 {
        field::u16_at::<2, _>(self.header)
    }

    /// The header's last four bytes.
    #[inline(always)]
    pub(crate) fn rest(&self) -> [u8; 4] {
        field::array_at::<4, 4, _>(self.header)
    }

    /// Identifier and sequence number, if it is an echo.
    #[inline(always)]
    pub(crate) fn echo(&self) -> (u16, u16) {
        (field::u16_at::<4, _>(self.header), field::u16_at::<6, _>(self.header))
    }

    /// The sum over header and payload.
    #[inline]
    pub(crate) fn sum(&self) -> u16 {
        checksum::combine(checksum::sum(self.header), checksum::sum(self.payload))
    }

    /// Header and payload, bytes.
    #[inline(always)]
    pub fn length(&self) -> usize {
        HEADER_LENGTH + self.payload.len()
    }

    /// Echo data, the beginning of the packet that an error is about, or a discovery message's body.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The header's last four bytes of an echo, or of what has two numbers there.
pub(crate) fn pair(first: u16, second: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (first.to_be_bytes(), second.to_be_bytes());
    [a, b, c, d]
}

/// Writes a header (type, code, last four bytes) and `payload` behind it, with the checksum over them and what `sum` is over already.
pub(crate) fn emit(
    (message_type, code, last): (u8, u8, [u8; 4]),
    bytes: &mut [u8],
    payload: &[u8],
    sum: u16,
) -> Result<usize, Error> {
    let (header, rest) = bytes.split_first_chunk_mut::<HEADER_LENGTH>().ok_or(Error::NoRoom)?;
    let place = rest.get_mut(..payload.len()).ok_or(Error::NoRoom)?;
    let payload_sum = checksum::combine(sum, checksum::copy_and_sum(payload, place));
    field::put_array_at::<0, 4, _>(header, [message_type, code, 0, 0]);
    field::put_array_at::<4, 4, _>(header, last);
    let sum = checksum::combine(checksum::sum(header), payload_sum);
    field::put_u16_at::<2, _>(header, checksum::finish(sum));
    Ok(HEADER_LENGTH + payload.len())
}
