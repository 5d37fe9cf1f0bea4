//! TCP segments (RFC 9293, section 3.1). Options: [`crate::tcp_options`].

use crate::tcp_options::Options;
use crate::{Error, checksum, field};
use std::fmt;
use std::ops::{BitOr, BitOrAssign};

pub use crate::sequence_number::SequenceNumber;

/// Bytes of a header without options.
pub const HEADER_LENGTH: usize = 20;

/// The longest header with options, bytes.
pub const HEADER_LENGTH_MAX: usize = 60;

/// Where the checksum stands in the header.
pub const CHECKSUM_OFFSET: usize = 16;

/// Control bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct Flags(pub u8);

impl Flags {
    /// No bit.
    pub const NONE: Flags = Flags(0);
    /// The sender has finished.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push to the application.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgment number counts.
    pub const ACK: Flags = Flags(0x10);
    /// The urgent pointer counts.
    pub const URG: Flags = Flags(0x20);
    /// ECN-echo (RFC 3168).
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(0x80);

    /// All bits of `other` are set.
    #[inline(always)]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// At least one bit of `other` is set.
    #[inline(always)]
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// The bits of both.
    #[inline(always)]
    pub const fn union(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// The bits that both have.
    #[inline(always)]
    pub const fn intersection(self, other: Flags) -> Flags {
        Flags(self.0 & other.0)
    }

    /// The bits of `self` without those of `other`.
    #[inline(always)]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// No bit is set.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Flags {
    type Output = Flags;
    #[inline(always)]
    fn bitor(self, other: Flags) -> Flags {
        self.union(other)
    }
}

impl BitOrAssign for Flags {
    #[inline(always)]
    fn bitor_assign(&mut self, other: Flags) {
        *self = self.union(other);
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
        let mut first = true;
        for (bit, name) in names.into_iter().enumerate() {
            if self.0 >> bit & 1 != 0 {
                f.write_str(if first { "" } else { "|" })?;
                f.write_str(name)?;
                first = false;
            }
        }
        if first { f.write_str("-") } else { Ok(()) }
    }
}

/// A view of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    header: &'a [u8; HEADER_LENGTH],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// `bytes`: an IP packet's payload. Checks the data offset.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Segment<'a>, Error> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_LENGTH>().ok_or(Error::Truncated)?;
        let header_length = usize::from(field::u8_at::<12, _>(header) >> 4) * 4;
        let options_length = header_length.checked_sub(HEADER_LENGTH).ok_or(Error::BadHeaderLength)?;
        let (options, payload) = rest.split_at_checked(options_length).ok_or(Error::Truncated)?;
        Ok(Segment { header, options, payload })
    }

    /// Sender's port.
    #[inline(always)]
    pub fn source_port(&self) -> u16 {
        field::u16_at::<0, _>(self.header)
    }

    /// Receiver's port.
    #[inline(always)]
    pub fn destination_port(&self) -> u16 {
        field::u16_at::<2, _>(self.header)
    }

    /// Sequence number of the SYN or of the first payload byte (SEG.SEQ).
    #[inline(always)]
    pub fn sequence(&self) -> SequenceNumber {
        SequenceNumber(field::u32_at::<4, _>(self.header))
    }

    /// Next sequence number expected (SEG.ACK); counts only with [`Flags::ACK`].
    #[inline(always)]
    pub fn acknowledgment(&self) -> SequenceNumber {
        SequenceNumber(field::u32_at::<8, _>(self.header))
    }

    /// Control bits.
    #[inline(always)]
    pub fn flags(&self) -> Flags {
        Flags(field::u8_at::<13, _>(self.header))
    }

    /// Window as it stands, not scaled.
    #[inline(always)]
    pub fn window(&self) -> u16 {
        field::u16_at::<14, _>(self.header)
    }

    /// The checksum as it stands.
    #[inline(always)]
    pub fn checksum(&self) -> u16 {
        field::u16_at::<CHECKSUM_OFFSET, _>(self.header)
    }

    /// Urgent pointer; counts only with [`Flags::URG`].
    #[inline(always)]
    pub fn urgent(&self) -> u16 {
        field::u16_at::<18, _>(self.header)
    }

    /// Bytes before the payload.
    #[inline(always)]
    pub fn header_length(&self) -> usize {
        HEADER_LENGTH + self.options.len()
    }

    /// Options as they stand; see [`Options::parse`].
    #[inline(always)]
    pub fn options(&self) -> &'a [u8] {
        self.options
    }

    /// The bytes of the stream.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// What the segment takes of the sequence space (SEG.LEN): payload, SYN and FIN.
    #[inline(always)]
    pub fn sequence_length(&self) -> u32 {
        let flags = self.flags();
        let controls = u32::from(flags.contains(Flags::SYN)) + u32::from(flags.contains(Flags::FIN));
        // A payload comes from one packet or one coalesced frame: far below 2^32.
        (self.payload.len() as u32).wrapping_add(controls)
    }

    /// Whether the checksum is right. `pseudo_header_sum`: over header and payload, see
    /// [`checksum::pseudo_header_v4`].
    #[inline]
    pub fn checksum_is_valid(&self, pseudo_header_sum: u16) -> bool {
        self.checksum_is_valid_with(pseudo_header_sum, checksum::sum(self.payload))
    }

    /// As [`checksum_is_valid`](Segment::checksum_is_valid), with the payload's sum known already.
    #[inline]
    pub fn checksum_is_valid_with(&self, pseudo_header_sum: u16, payload_sum: u16) -> bool {
        let header_sum = checksum::combine(checksum::sum(self.header), checksum::sum(self.options));
        checksum::is_valid(checksum::combine(checksum::combine(pseudo_header_sum, header_sum), payload_sum))
    }
}

/// A header with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Header {
    /// Sender's port.
    pub source_port: u16,
    /// Receiver's port.
    pub destination_port: u16,
    /// Sequence number (SEG.SEQ).
    pub sequence: SequenceNumber,
    /// Next sequence number expected (SEG.ACK).
    pub acknowledgment: SequenceNumber,
    /// Control bits.
    pub flags: Flags,
    /// Window, already scaled down.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options.
    pub options: Options,
}

impl Header {
    /// The header of a view; fails only on malformed options.
    #[inline]
    pub fn parse(segment: &Segment<'_>) -> Result<Header, Error> {
        Ok(Header {
            source_port: segment.source_port(),
            destination_port: segment.destination_port(),
            sequence: segment.sequence(),
            acknowledgment: segment.acknowledgment(),
            flags: segment.flags(),
            window: segment.window(),
            urgent: segment.urgent(),
            options: Options::parse(segment.options())?,
        })
    }

    /// Bytes that [`emit`](Header::emit) writes: 20 to 60, a multiple of 4.
    #[inline]
    pub fn header_length(&self) -> usize {
        HEADER_LENGTH + self.options.encoded_length()
    }

    /// Writes [`header_length`](Header::header_length) bytes with checksum 0; see [`write_checksum`].
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize, Error> {
        let header_length = self.header_length();
        let bytes = bytes.get_mut(..header_length).ok_or(Error::NoRoom)?;
        let (header, options) = bytes.split_first_chunk_mut::<HEADER_LENGTH>().ok_or(Error::NoRoom)?;
        self.options.emit(options)?;
        field::put_u16_at::<0, _>(header, self.source_port);
        field::put_u16_at::<2, _>(header, self.destination_port);
        field::put_u32_at::<4, _>(header, self.sequence.0);
        field::put_u32_at::<8, _>(header, self.acknowledgment.0);
        // At most 60 / 4 = 15: fits the four bits.
        field::put_u8_at::<12, _>(header, (header_length as u8) << 2);
        field::put_u8_at::<13, _>(header, self.flags.0);
        field::put_u16_at::<14, _>(header, self.window);
        field::put_u16_at::<CHECKSUM_OFFSET, _>(header, 0);
        field::put_u16_at::<18, _>(header, self.urgent);
        Ok(header_length)
    }

    /// [`emit`](Header::emit) with the checksum. Sums the values rather than the bytes just stored: reading words back
    /// from narrower stores stalls the processor for longer than everything else here takes.
    #[inline]
    pub fn emit_with_checksum(
        &self,
        bytes: &mut [u8],
        pseudo_header_sum: u16,
        payload_sum: u16,
    ) -> Result<usize, Error> {
        let header_length = self.emit(bytes)?;
        let offset_and_flags = u16::from_be_bytes([(header_length as u8) << 2, self.flags.0]);
        let mut sum = checksum::combine(pseudo_header_sum, payload_sum);
        sum = checksum::combine(sum, checksum::combine(self.source_port, self.destination_port));
        sum = checksum::combine(sum, checksum::sum_u32(self.sequence.0));
        sum = checksum::combine(sum, checksum::sum_u32(self.acknowledgment.0));
        sum = checksum::combine(sum, checksum::combine(offset_and_flags, self.window));
        sum = checksum::combine(sum, checksum::combine(self.urgent, self.options.sum()));
        let fixed: &mut [u8; HEADER_LENGTH] = bytes.first_chunk_mut().ok_or(Error::NoRoom)?;
        field::put_u16_at::<CHECKSUM_OFFSET, _>(fixed, checksum::finish(sum));
        Ok(header_length)
    }
}

/// Writes the checksum of a segment. See [`Header::emit_with_checksum`] for a header just made. `header`: the whole header with options and checksum 0, nothing after it.
#[inline]
pub fn write_checksum(header: &mut [u8], pseudo_header_sum: u16, payload_sum: u16) -> Result<(), Error> {
    let header_sum = checksum::sum(header);
    let fixed: &mut [u8; HEADER_LENGTH] = header.first_chunk_mut().ok_or(Error::NoRoom)?;
    let sum = checksum::combine(checksum::combine(pseudo_header_sum, header_sum), payload_sum);
    field::put_u16_at::<CHECKSUM_OFFSET, _>(fixed, checksum::finish(sum));
    Ok(())
}

/// Writes what a device with checksum offload expects in the checksum field: the pseudo-header's sum, uncomplemented.
#[inline]
pub fn write_partial_checksum(header: &mut [u8], pseudo_header_sum: u16) -> Result<(), Error> {
    let fixed: &mut [u8; HEADER_LENGTH] = header.first_chunk_mut().ok_or(Error::NoRoom)?;
    field::put_u16_at::<CHECKSUM_OFFSET, _>(fixed, pseudo_header_sum);
    Ok(())
}
