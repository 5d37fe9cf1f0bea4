//! UDP (RFC 768).

use crate::{Error, checksum, field};

/// Bytes before the payload.
pub const HEADER_LENGTH: usize = 8;

/// Where the checksum stands in the header.
pub const CHECKSUM_OFFSET: usize = 6;

/// A view of a datagram; bytes past its length field are left out.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    header: &'a [u8; HEADER_LENGTH],
    payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// `bytes`: an IP packet's payload. Checks that the length field covers the header and is there.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Datagram<'a>, Error> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_LENGTH>().ok_or(Error::Truncated)?;
        let payload_length =
            usize::from(field::u16_at::<4, _>(header)).checked_sub(HEADER_LENGTH).ok_or(Error::BadLength)?;
        let payload = rest.get(..payload_length).ok_or(Error::Truncated)?;
        Ok(Datagram { header, payload })
    }

    /// Sender's port; 0 if it wants no answer.
    #[inline(always)]
    pub fn source_port(&self) -> u16 {
        field::u16_at::<0, _>(self.header)
    }

    /// Receiver's port.
    #[inline(always)]
    pub fn destination_port(&self) -> u16 {
        field::u16_at::<2, _>(self.header)
    }

    /// Header and payload, bytes.
    #[inline(always)]
    pub fn length(&self) -> usize {
        usize::from(field::u16_at::<4, _>(self.header))
    }

    /// The checksum as it stands; 0: the sender computed none.
    #[inline(always)]
    pub fn checksum(&self) -> u16 {
        field::u16_at::<CHECKSUM_OFFSET, _>(self.header)
    }

    /// The sender computed a checksum. Without one a datagram is fine over IPv4 and to be dropped over IPv6
    /// (RFC 8200, section 8.1).
    #[inline(always)]
    pub fn has_checksum(&self) -> bool {
        self.checksum() != 0
    }

    /// Whether the checksum is there and right. `pseudo_header_sum`: over [`Datagram::length`], see
    /// [`checksum::pseudo_header_v4`].
    #[inline]
    pub fn checksum_is_valid(&self, pseudo_header_sum: u16) -> bool {
        self.checksum_is_valid_with(pseudo_header_sum, checksum::sum(self.payload))
    }

    /// As [`checksum_is_valid`](Datagram::checksum_is_valid), with the payload's sum known already.
    #[inline]
    pub fn checksum_is_valid_with(&self, pseudo_header_sum: u16, payload_sum: u16) -> bool {
        let header_sum = checksum::sum(self.header);
        self.has_checksum()
            && checksum::is_valid(checksum::combine(checksum::combine(pseudo_header_sum, header_sum), payload_sum))
    }

    /// What the datagram carries.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Sender's port.
    pub source_port: u16,
    /// Receiver's port.
    pub destination_port: u16,
    /// Bytes after the header; at most 65,527.
    pub payload_length: usize,
}

impl Header {
    /// The header of a view.
    #[inline]
    pub fn parse(datagram: &Datagram<'_>) -> Header {
        Header {
            source_port: datagram.source_port(),
            destination_port: datagram.destination_port(),
            payload_length: datagram.payload().len(),
        }
    }

    /// Writes [`HEADER_LENGTH`] bytes with checksum 0 (none); see [`write_checksum`].
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize, Error> {
        let header: &mut [u8; HEADER_LENGTH] = bytes.first_chunk_mut().ok_or(Error::NoRoom)?;
        let length = self
            .payload_length
            .checked_add(HEADER_LENGTH)
            .and_then(|length| u16::try_from(length).ok())
            .ok_or(Error::BadLength)?;
        field::put_u16_at::<0, _>(header, self.source_port);
        field::put_u16_at::<2, _>(header, self.destination_port);
        field::put_u16_at::<4, _>(header, length);
        field::put_u16_at::<CHECKSUM_OFFSET, _>(header, 0);
        Ok(HEADER_LENGTH)
    }
}

/// Writes the checksum of a datagram whose header, with checksum 0, begins `header`. A checksum that comes out as 0 is
/// written as its other representation, `0xffff`, for 0 means none.
#[inline]
pub fn write_checksum(header: &mut [u8], pseudo_header_sum: u16, payload_sum: u16) -> Result<(), Error> {
    let header: &mut [u8; HEADER_LENGTH] = header.first_chunk_mut().ok_or(Error::NoRoom)?;
    let sum = checksum::combine(checksum::combine(pseudo_header_sum, checksum::sum(header)), payload_sum);
    let checksum = match checksum::finish(sum) {
        0 => 0xffff,
        checksum => checksum,
    };
    field::put_u16_at::<CHECKSUM_OFFSET, _>(header, checksum);
    Ok(())
}
