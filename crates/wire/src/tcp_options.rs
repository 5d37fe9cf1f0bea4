//! TCP options: MSS (RFC 9293, section 3.7.1), window scale and timestamps (RFC 7323), SACK (RFC 2018), user timeout
//! (RFC 5482), Fast Open (RFC 7413).

use crate::sequence_number::SequenceNumber;
use crate::{Error, checksum, field};

/// Bytes all options together may take.
pub const LENGTH_MAX: usize = 40;

/// Blocks a SACK option can hold; 3 beside timestamps.
pub const SACK_BLOCKS_MAX: usize = 4;

/// Largest shift count; larger ones count as this (RFC 7323, section 2.3).
pub const WINDOW_SCALE_MAX: u8 = 14;

/// Bytes of a timestamps option with its two NOPs: all the options of most segments.
pub const TIMESTAMPS_LENGTH: usize = 12;

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const USER_TIMEOUT: u8 = 28;
const FAST_OPEN: u8 = 34;
/// An experiment's option (RFC 6994), and the number by which Fast Open was one before it had a kind.
const EXPERIMENT: u8 = 254;
const FAST_OPEN_EXPERIMENT: [u8; 2] = [0xf9, 0x89];

/// The timestamps option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct Timestamps {
    /// The sender's clock (TSval).
    pub value: u32,
    /// The clock value of the receiver's that is echoed (TSecr).
    pub echo: u32,
}

/// The user timeout option (RFC 5482, section 3.3): 15 bits of seconds, or of minutes if the highest bit is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct UserTimeout(pub u16);

impl UserTimeout {
    const MINUTES: u16 = 0x8000;

    /// The least the option can say that is not shorter than `timeout`; at most 32,767 minutes.
    pub fn from_duration(timeout: std::time::Duration) -> UserTimeout {
        let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
        if seconds < u64::from(UserTimeout::MINUTES) {
            return UserTimeout(seconds as u16);
        }
        UserTimeout(seconds.div_ceil(60).min(u64::from(UserTimeout::MINUTES - 1)) as u16 | UserTimeout::MINUTES)
    }

    /// What it says.
    pub fn duration(self) -> std::time::Duration {
        let value = u64::from(self.0 & !UserTimeout::MINUTES);
        std::time::Duration::from_secs(if self.0 & UserTimeout::MINUTES != 0 { value * 60 } else { value })
    }
}

/// The Fast Open option (RFC 7413, section 4.1.1): a cookie, or the request for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct FastOpen {
    cookie: [u8; FastOpen::COOKIE_MAX],
    length: u8,
    is_experimental: bool,
}

impl FastOpen {
    /// Bytes of the shortest cookie.
    pub const COOKIE_MIN: usize = 4;
    /// Bytes of the longest cookie.
    pub const COOKIE_MAX: usize = 16;

    /// A cookie of 4 to 16 bytes, an even number; of none: the request for one. `is_experimental`: as the option was written
    /// before it had a kind of its own (RFC 7413, section 4.1.1 "MAY"). `None`: no cookie has that many bytes.
    pub fn new(cookie: &[u8], is_experimental: bool) -> Option<FastOpen> {
        let is_long_enough = cookie.is_empty() || cookie.len() >= FastOpen::COOKIE_MIN;
        if !is_long_enough || !cookie.len().is_multiple_of(2) {
            return None;
        }
        let mut bytes = [0; FastOpen::COOKIE_MAX];
        bytes.get_mut(..cookie.len())?.copy_from_slice(cookie);
        Some(FastOpen { cookie: bytes, length: cookie.len() as u8, is_experimental })
    }

    /// The request for a cookie.
    pub const fn request(is_experimental: bool) -> FastOpen {
        FastOpen { cookie: [0; FastOpen::COOKIE_MAX], length: 0, is_experimental }
    }

    /// The cookie; no bytes: it is requested.
    pub fn cookie(&self) -> &[u8] {
        self.cookie.get(..usize::from(self.length)).unwrap_or_default()
    }

    /// Whether it is written as an experiment's.
    pub fn is_experimental(&self) -> bool {
        self.is_experimental
    }

    /// Bytes without padding.
    fn option_length(&self) -> usize {
        usize::from(self.length) + if self.is_experimental { 4 } else { 2 }
    }

    /// Bytes with NOPs up to a multiple of four.
    fn padded_length(&self) -> usize {
        self.option_length().next_multiple_of(4)
    }

    /// The option, and NOPs.
    #[cold]
    fn encode(&self) -> [u8; FastOpen::COOKIE_MAX + 4] {
        let mut bytes = [NO_OPERATION; FastOpen::COOKIE_MAX + 4];
        let length = self.option_length();
        let head = [FAST_OPEN, length as u8];
        let [high, low] = FAST_OPEN_EXPERIMENT;
        let experiment = [EXPERIMENT, length as u8, high, low];
        let head = if self.is_experimental { experiment.as_slice() } else { head.as_slice() };
        for (place, byte) in bytes.iter_mut().zip(head.iter().chain(self.cookie())) {
            *place = *byte;
        }
        bytes
    }
}

/// Received bytes beyond the acknowledgment number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct SackBlock {
    /// First sequence number of the block.
    pub start: SequenceNumber,
    /// The sequence number after its last.
    pub end: SequenceNumber,
}

/// Up to [`SACK_BLOCKS_MAX`] blocks, the most recent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct SackBlocks {
    blocks: [SackBlock; SACK_BLOCKS_MAX],
    count: u8,
}

impl SackBlocks {
    /// No block.
    pub const NONE: SackBlocks = SackBlocks {
        blocks: [SackBlock { start: SequenceNumber(0), end: SequenceNumber(0) }; SACK_BLOCKS_MAX],
        count: 0,
    };

    /// Appends a block; says whether there was room.
    #[inline]
    pub fn push(&mut self, block: SackBlock) -> bool {
        match self.blocks.get_mut(usize::from(self.count)) {
            Some(place) => {
                *place = block;
                self.count += 1;
                true
            }
            None => false,
        }
    }

    /// The blocks.
    #[inline]
    pub fn as_slice(&self) -> &[SackBlock] {
        self.blocks.get(..usize::from(self.count)).unwrap_or(&self.blocks)
    }

    /// Number of blocks.
    #[inline(always)]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// No blocks.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The options of a segment. Those unknown here are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct Options {
    /// Maximum segment size the sender can receive, bytes without headers; as it stands, 0 included. On SYNs.
    pub mss: Option<u16>,
    /// Window shift count, at most 14. On SYNs.
    pub window_scale: Option<u8>,
    /// The sender takes SACK. On SYNs.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgments.
    pub sack_blocks: SackBlocks,
    /// User timeout.
    pub user_timeout: Option<UserTimeout>,
    /// Fast Open. On SYNs.
    pub fast_open: Option<FastOpen>,
}

impl Options {
    /// No options.
    pub const NONE: Options = Options {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        sack_blocks: SackBlocks::NONE,
        user_timeout: None,
        fast_open: None,
    };

    /// Reads a segment's options. A length that is zero or runs past the end is [`Error::BadOption`] (RFC 9293, MUST-7);
    /// a known option with another length than its own is skipped; of repeated ones the last counts.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Options, Error> {
        if bytes.is_empty() {
            return Ok(Options::NONE);
        }
        // What an established connection's segments carry, as everyone lays it out (RFC 7323, appendix A).
        if let Ok(exact) = <&[u8; TIMESTAMPS_LENGTH]>::try_from(bytes)
            && field::array_at::<0, 4, _>(exact) == [NO_OPERATION, NO_OPERATION, TIMESTAMPS, 10]
        {
            let timestamps = Timestamps { value: field::u32_at::<4, _>(exact), echo: field::u32_at::<8, _>(exact) };
            return Ok(Options { timestamps: Some(timestamps), ..Options::NONE });
        }
        Options::walk(bytes)
    }

    /// Bounded: every turn takes at least one byte off `bytes`.
    fn walk(mut bytes: &[u8]) -> Result<Options, Error> {
        let mut options = Options::NONE;
        loop {
            match bytes {
                [] | [END, ..] => return Ok(options),
                [NO_OPERATION, rest @ ..] => bytes = rest,
                [kind, length, ..] => {
                    let (option, rest) = bytes.split_at_checked(usize::from(*length)).ok_or(Error::BadOption)?;
                    let [_, _, data @ ..] = option else { return Err(Error::BadOption) };
                    options.take(*kind, data);
                    bytes = rest;
                }
                [_] => return Err(Error::BadOption),
            }
        }
    }

    /// One option without its kind and length.
    fn take(&mut self, kind: u8, data: &[u8]) {
        match (kind, data) {
            (MSS, &[a, b]) => self.mss = Some(u16::from_be_bytes([a, b])),
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift.min(WINDOW_SCALE_MAX)),
            (SACK_PERMITTED, []) => self.sack_permitted = true,
            (TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => {
                self.timestamps = Some(Timestamps {
                    value: u32::from_be_bytes([a, b, c, d]),
                    echo: u32::from_be_bytes([e, f, g, h]),
                });
            }
            (USER_TIMEOUT, &[a, b]) => self.user_timeout = Some(UserTimeout(u16::from_be_bytes([a, b]))),
            // As Linux: one of another length is as good as none, and takes the place of one before it.
            (FAST_OPEN, cookie) => self.fast_open = FastOpen::new(cookie, false),
            (EXPERIMENT, [a, b, cookie @ ..]) if [*a, *b] == FAST_OPEN_EXPERIMENT => {
                self.fast_open = FastOpen::new(cookie, true);
            }
            (SACK, data) => {
                let (blocks, []) = data.as_chunks::<8>() else { return };
                self.sack_blocks = SackBlocks::NONE;
                for block in blocks {
                    self.sack_blocks.push(SackBlock {
                        start: SequenceNumber(field::u32_at::<0, _>(block)),
                        end: SequenceNumber(field::u32_at::<4, _>(block)),
                    });
                }
            }
            _ => {}
        }
    }

    /// Bytes that [`emit`](Options::emit) writes: 0 to 40, a multiple of 4.
    #[inline]
    pub fn encoded_length(&self) -> usize {
        let fixed = self.fixed_length();
        match self.sack_blocks_that_fit(fixed) {
            0 => fixed,
            blocks => fixed + 4 + 8 * blocks,
        }
    }

    /// Everything but SACK blocks.
    #[inline(always)]
    fn fixed_length(&self) -> usize {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let window_scale = if self.window_scale.is_some() { 4 } else { 0 };
        // SACK permitted stands in the place of the timestamps' NOPs.
        let timestamps = match (self.timestamps, self.sack_permitted) {
            (Some(_), _) => TIMESTAMPS_LENGTH,
            (None, true) => 4,
            (None, false) => 0,
        };
        let user_timeout = if self.user_timeout.is_some() { 4 } else { 0 };
        let fixed = mss + window_scale + timestamps + user_timeout;
        fixed + self.fast_open_that_fits(fixed).map_or(0, |option| option.padded_length())
    }

    /// A cookie that finds no room beside the others is not sent: the SYN is an ordinary one then.
    #[inline]
    fn fast_open_that_fits(&self, fixed_length: usize) -> Option<&FastOpen> {
        self.fast_open.as_ref().filter(|option| fixed_length + option.padded_length() <= LENGTH_MAX)
    }

    /// Blocks beyond the room left are not sent: the receiver treats them as a hint only (RFC 2018, section 8).
    #[inline(always)]
    fn sack_blocks_that_fit(&self, fixed_length: usize) -> usize {
        self.sack_blocks.len().min(LENGTH_MAX.saturating_sub(fixed_length + 4) / 8)
    }

    /// Writes [`encoded_length`](Options::encoded_length) bytes, in Linux's order and padded with NOPs as Linux does
    /// (middleboxes and fingerprints know it): MSS, SACK permitted, timestamps, window scale, user timeout,
    /// Fast Open, SACK.
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize, Error> {
        let length = self.encoded_length();
        let bytes = bytes.get_mut(..length).ok_or(Error::NoRoom)?;
        let mut bytes = bytes;
        if let Some(mss) = self.mss {
            let [a, b] = mss.to_be_bytes();
            bytes = put(bytes, [MSS, 4, a, b])?;
        }
        match (self.timestamps, self.sack_permitted) {
            (Some(timestamps), sack_permitted) => {
                let first = if sack_permitted { [SACK_PERMITTED, 2] } else { [NO_OPERATION; 2] };
                let mut option = [0; TIMESTAMPS_LENGTH];
                field::put_array_at::<0, 2, _>(&mut option, first);
                field::put_array_at::<2, 2, _>(&mut option, [TIMESTAMPS, 10]);
                field::put_u32_at::<4, _>(&mut option, timestamps.value);
                field::put_u32_at::<8, _>(&mut option, timestamps.echo);
                bytes = put(bytes, option)?;
            }
            (None, true) => bytes = put(bytes, [NO_OPERATION, NO_OPERATION, SACK_PERMITTED, 2])?,
            (None, false) => {}
        }
        if let Some(shift) = self.window_scale {
            bytes = put(bytes, [NO_OPERATION, WINDOW_SCALE, 3, shift.min(WINDOW_SCALE_MAX)])?;
        }
        if let Some(UserTimeout(value)) = self.user_timeout {
            let [a, b] = value.to_be_bytes();
            bytes = put(bytes, [USER_TIMEOUT, 4, a, b])?;
        }
        let fixed = self.fixed_length();
        let before = length - bytes.len();
        if let Some(option) = self.fast_open_that_fits(before) {
            let (place, rest) = bytes.split_at_mut_checked(option.padded_length()).ok_or(Error::NoRoom)?;
            place.iter_mut().zip(option.encode()).for_each(|(place, byte)| *place = byte);
            bytes = rest;
        }
        let count = self.sack_blocks_that_fit(fixed);
        if count > 0 {
            // At most 2 + 8 × 4.
            bytes = put(bytes, [NO_OPERATION, NO_OPERATION, SACK, 2 + 8 * count as u8])?;
            for block in self.sack_blocks.as_slice().iter().take(count) {
                let mut option = [0; 8];
                field::put_u32_at::<0, _>(&mut option, block.start.0);
                field::put_u32_at::<4, _>(&mut option, block.end.0);
                bytes = put(bytes, option)?;
            }
        }
        debug_assert_eq!(bytes.len(), 0);
        Ok(length)
    }
    /// The [`checksum::sum`] of what [`emit`](Options::emit) writes.
    #[inline]
    pub fn sum(&self) -> u16 {
        let Timestamps { value, echo } = match *self {
            Options {
                mss: None,
                window_scale: None,
                sack_permitted: false,
                timestamps,
                sack_blocks,
                user_timeout: None,
                fast_open: None,
            } if sack_blocks.is_empty() => {
                let Some(timestamps) = timestamps else { return 0 };
                timestamps
            }
            // SYNs and acknowledgments of holes: rare enough to be written twice.
            _ => {
                let mut bytes = [0; LENGTH_MAX];
                // There is room for any options, and zeros after them add nothing.
                return self.emit(&mut bytes).map_or(0, |_| checksum::sum(&bytes));
            }
        };
        let kinds = const { checksum::combine(0x0101, u16::from_be_bytes([TIMESTAMPS, 10])) };
        checksum::combine(checksum::combine(kinds, checksum::sum_u32(value)), checksum::sum_u32(echo))
    }
}

/// Writes `option` and returns what is after it.
#[inline(always)]
fn put<const N: usize>(bytes: &mut [u8], option: [u8; N]) -> Result<&mut [u8], Error> {
    let (place, rest) = bytes.split_first_chunk_mut::<N>().ok_or(Error::NoRoom)?;
    *place = option;
    Ok(rest)
}
