//! Why records are refused: their texts, in one place.

use crate::name::NameError;
use domain::base::scan::StrError;
use domain::utils::base64::DecodeError;

/// Why a record cannot be added to a zone.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordError {
    /// The owner is no name in wire format.
    #[error("a malformed owner name")]
    MalformedOwner,
    /// The owner is not in the zone.
    #[error("{owner} is outside of the zone {apex}")]
    Outside {
        /// The owner, in presentation format.
        owner: String,
        /// The zone's name.
        apex: String,
    },
    /// The data do not fit into a record.
    #[error("data of more than 65,535 bytes")]
    DataTooLong,
    /// The zone does not fit into what addresses its bytes.
    #[error("the zone is larger than 4 GiB: split it")]
    ZoneTooLarge,
}

/// What is wrong with a line of a master file.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("{0}")]
    Lexical(&'static str),
    #[error(
        "`{0}` like this is no directive: there are $ORIGIN NAME, $TTL TIME, $INCLUDE FILE [ORIGIN], \
         $GENERATE RANGE OWNER TYPE DATA"
    )]
    Directive(String),
    #[error("`{0}` is no TTL: write seconds, or as 1h30m")]
    Ttl(String),
    #[error("`{text}`: {error}")]
    Name { text: String, error: NameError },
    #[error("files included more than {0} deep: is this a circle?")]
    IncludedTooDeep(usize),
    #[error("`{0}` is no range: write START-STOP or START-STOP/STEP")]
    Range(String),
    #[error("more than {0} records: split the range")]
    RangeTooLong(u64),
    #[error("`${{` without `}}`")]
    OpenModifier,
    #[error("`${{{0}}}` is no modifier: write ${{OFFSET[,WIDTH[,BASE]]}} with base d, o, x, X, n or N")]
    Modifier(String),
    #[error("the first record has no owner: begin its line with a name")]
    NoOwner,
    #[error("no type: write OWNER [TTL] [IN] TYPE DATA")]
    NoType,
    #[error("class {0}: only IN is served; take the record out")]
    Class(String),
    #[error("`{0}` is no type: is the owner missing, or the type unknown? (RFC 3597: TYPE123 \\# LENGTH HEX)")]
    UnknownType(String),
    #[error("{0} is no type of data: take the record out")]
    NoDataType(String),
    #[error("{rtype}: {error}")]
    Data { rtype: String, error: DataError },
    #[error("{0}")]
    Record(RecordError),
}

/// What is wrong with the data of a record in presentation format. The texts in it are words of the master file.
#[derive(Debug, thiserror::Error)]
pub(super) enum DataError {
    #[error("data of more than 65,535 bytes")]
    TooLong,
    #[error("`{0}` is more than this type has: take it out")]
    Superfluous(String),
    #[error("a type without a presentation format here: write its data as \\# LENGTH HEX (RFC 3597)")]
    NoPresentation,
    #[error("{0}")]
    Scan(StrError),
    #[error("\\# without a length: write \\# LENGTH HEX")]
    NoLength,
    #[error("`{0}` is no length: 0 to 65535")]
    Length(String),
    #[error("{found} bytes where {announced} are announced: correct one of them")]
    LengthDiffers { found: usize, announced: u16 },
    #[error("these bytes are no data of type {0}")]
    NotOfType(String),
    #[error("`{0}` is no time")]
    Time(String),
    #[error("`{0}` is no date, as in 20300101000000")]
    Date(String),
    #[error("`{0}` is no type")]
    Type(String),
    #[error("`{0}` is no type below 128")]
    TypeBelow128(String),
    #[error("`{0}` is no number of this field")]
    Number(String),
    #[error("`{0}` is more than 255")]
    MoreThan255(String),
    #[error("`{text}` is no {what}")]
    Mnemonic { text: String, what: &'static str },
    #[error("`{0}` is neither a number nor flags of a key")]
    KeyFlags(String),
    #[error("`{0}` is no protocol: write its number")]
    Protocol(String),
    #[error("`{0}` is no service: write its port")]
    Service(String),
    #[error("hexadecimal digits are missing")]
    NoHexadecimal,
    #[error("`{0}` is no hexadecimal digit")]
    HexadecimalDigit(char),
    #[error("an odd number of hexadecimal digits")]
    OddHexadecimal,
    #[error("base 64: there is none")]
    NoBase64,
    #[error("base 64: {0}")]
    Base64(DecodeError),
    #[error("`{text}`: base 32: {error}")]
    Base32 { text: String, error: DecodeError },
    #[error("`{0}` has more than 255 bytes")]
    CountedTooLong(String),
    #[error("`{text}` is not {count} bytes, as in 00-00-5e-…")]
    Dashed { text: String, count: usize },
    #[error("`{0}` is not four groups, as in 14:4fff:ff20:ee64")]
    Groups(String),
    #[error("`{0}` is no IPv4 address")]
    Ipv4Address(String),
    #[error("an NSAP address begins with 0x")]
    NetworkAddress,
    #[error("`{0}` is no prefix, as in 1:192.0.2.0/24 or !2:2001:db8::/32")]
    Prefix(String),
    #[error("a host identity tag of more than 255 bytes")]
    TagTooLong,
    #[error("a key of more than 65,535 bytes")]
    KeyTooLong,
    #[error("`{text}` is no gateway of kind {kind}")]
    Gateway { text: String, kind: u8 },
    #[error("{0} is no kind of gateway: 0 to 3")]
    GatewayKind(u8),
    #[error("a relay's discovery bit is 0 or 1, its kind 0 to 3")]
    Relay,
    #[error(
        "no such angle: write degrees (0 to {degrees_max}), minutes, seconds, and {} or {}",
        directions[0],
        directions[1]
    )]
    Angle { degrees_max: i64, directions: [&'static str; 2] },
    #[error("no altitude: write one, as in 10m")]
    NoAltitude,
    #[error("an altitude below -100000m or above 42849672.95m")]
    Altitude,
    #[error("`{0}` is no length: write metres, as in 10.5m")]
    Metres(String),
    #[error("a size below 0 or above 90000000m")]
    Size,
}
