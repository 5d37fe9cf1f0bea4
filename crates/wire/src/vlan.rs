//! The 802.1Q tag: between an Ethernet header with type [`EtherType::VLAN`] and the payload.

use crate::ethernet::EtherType;
use crate::{Error, field};

/// Bytes a tag adds to a frame.
pub const TAG_LENGTH: usize = 4;

/// A view of a tagged frame's Ethernet payload: tag control information, the type of what follows, and that.
#[derive(Clone, Copy, Debug)]
pub struct Tagged<'a> {
    header: &'a [u8; TAG_LENGTH],
    payload: &'a [u8],
}

impl<'a> Tagged<'a> {
    /// `bytes`: the payload of a frame whose type is [`EtherType::VLAN`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Tagged<'a>, Error> {
        let (header, payload) = bytes.split_first_chunk().ok_or(Error::Truncated)?;
        Ok(Tagged { header, payload })
    }

    /// VLAN identifier, 0 to 4095; 0 means a priority tag only.
    #[inline(always)]
    pub fn identifier(&self) -> u16 {
        field::u16_at::<0, _>(self.header) & 0x0fff
    }

    /// Priority code point, 0 to 7.
    #[inline(always)]
    pub fn priority(&self) -> u8 {
        field::u8_at::<0, _>(self.header) >> 5
    }

    /// Drop eligible indicator.
    #[inline(always)]
    pub fn drop_eligible(&self) -> bool {
        field::u8_at::<0, _>(self.header) & 0x10 != 0
    }

    /// What the payload is.
    #[inline(always)]
    pub fn ethertype(&self) -> EtherType {
        EtherType(field::u16_at::<2, _>(self.header))
    }

    /// Everything after the tag.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A tag and the type that follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// VLAN identifier; the low 12 bits are used.
    pub identifier: u16,
    /// Priority code point; the low 3 bits are used.
    pub priority: u8,
    /// Drop eligible indicator.
    pub drop_eligible: bool,
    /// What follows.
    pub ethertype: EtherType,
}

impl Header {
    /// The tag of a view.
    #[inline]
    pub fn parse(tagged: &Tagged<'_>) -> Header {
        Header {
            identifier: tagged.identifier(),
            priority: tagged.priority(),
            drop_eligible: tagged.drop_eligible(),
            ethertype: tagged.ethertype(),
        }
    }

    /// Writes [`TAG_LENGTH`] bytes.
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize, Error> {
        let header: &mut [u8; TAG_LENGTH] = bytes.first_chunk_mut().ok_or(Error::NoRoom)?;
        let control =
            u16::from(self.priority & 7) << 13 | u16::from(self.drop_eligible) << 12 | (self.identifier & 0x0fff);
        field::put_u16_at::<0, _>(header, control);
        field::put_u16_at::<2, _>(header, self.ethertype.0);
        Ok(TAG_LENGTH)
    }
}
