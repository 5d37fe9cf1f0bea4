//! The Huffman code of strings (RFC 7541, appendix B).
//!
//! The code is canonical: among codes of one length the symbols ascend, and so do the codes. So the lengths say everything.

const SYMBOLS: usize = 257;
/// Ends a string. It is never sent; its first bits fill up the last byte.
const END: u16 = 256;
const LENGTH_MAX: usize = 30;
/// A code that is no longer is found by one look.
const SHORT_BITS: usize = 9;

/// Bits of the code of each symbol.
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6,
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22,
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26, 30,
];

/// What follows from the lengths.
struct Code {
    /// Of each symbol.
    codes: [u32; SYMBOLS],
    /// The symbols, by their codes' lengths and then by themselves.
    ordered: [u16; SYMBOLS],
    /// Of each length: one more than its last code, 0 if it has none; and where in `ordered` a code of 0 would be.
    ends: [(u32, i32); LENGTH_MAX + 1],
    /// By the next bits: a symbol and its code's length; a length of 0: the code is longer.
    short: [(u8, u8); 1 << SHORT_BITS],
}

const CODE: Code = {
    let mut made = Code {
        codes: [0; SYMBOLS],
        ordered: [0; SYMBOLS],
        ends: [(0, 0); LENGTH_MAX + 1],
        short: [(0, 0); 1 << SHORT_BITS],
    };
    let (mut code, mut place, mut length) = (0u32, 0, 1);
    while length <= LENGTH_MAX {
        code <<= 1;
        let base = place as i32 - code as i32;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                made.codes[symbol] = code;
                made.ordered[place] = symbol as u16;
                if length <= SHORT_BITS {
                    let first = (code as usize) << (SHORT_BITS - length);
                    let mut at = first;
                    while at < first + (1 << (SHORT_BITS - length)) {
                        made.short[at] = (symbol as u8, length as u8);
                        at += 1;
                    }
                }
                (code, place) = (code + 1, place + 1);
            }
            symbol += 1;
        }
        made.ends[length] = (code, base);
        length += 1;
    }
    made
};
static TABLES: Code = CODE;

/// Appends what `bytes` say: at most eight bytes for five. `None`: they are no such string.
pub(super) fn decode(bytes: &[u8], target: &mut Vec<u8>) -> Option<()> {
    let mut rest = bytes.iter();
    // The first bits to be looked at are its highest.
    let (mut window, mut bits) = (0u64, 0usize);
    loop {
        while bits <= 56 {
            let Some(byte) = rest.next() else { break };
            window |= u64::from(*byte) << (56 - bits);
            bits += 8;
        }
        if bits == 0 {
            return Some(());
        }
        let (symbol, length) = match TABLES.short.get((window >> (64 - SHORT_BITS)) as usize) {
            Some((symbol, length)) if *length > 0 => (u16::from(*symbol), usize::from(*length)),
            _ => long(window)?,
        };
        if length > bits {
            // What is left fills up the byte: fewer than eight bits, and all of them set.
            return (bits < 8 && window.leading_ones() as usize >= bits).then_some(());
        }
        if symbol == END {
            return None;
        }
        target.push(symbol as u8);
        window <<= length;
        bits -= length;
    }
}

/// The symbol of a code that is not short, and the code's length.
fn long(window: u64) -> Option<(u16, usize)> {
    for length in SHORT_BITS + 1..=LENGTH_MAX {
        let code = (window >> (64 - length)) as u32;
        let (end, base) = TABLES.ends.get(length)?;
        if code < *end {
            let place = usize::try_from(i64::from(code) + i64::from(*base)).ok()?;
            return Some((*TABLES.ordered.get(place)?, length));
        }
    }
    None
}

/// Bytes of the code of `text`.
#[cfg(test)]
fn encode(text: &[u8]) -> Vec<u8> {
    let (mut target, mut window, mut bits) = (Vec::new(), 0u64, 0);
    for byte in text {
        let length = LENGTHS[usize::from(*byte)];
        window = window << length | u64::from(CODE.codes[usize::from(*byte)]);
        bits += length;
        while bits >= 8 {
            bits -= 8;
            target.push((window >> bits) as u8);
        }
    }
    if bits > 0 {
        target.push((window << (8 - bits)) as u8 | (0xff >> bits));
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut target = Vec::new();
        decode(bytes, &mut target).map(|()| target)
    }

    #[test]
    fn the_codes_are_those_of_the_rfc() {
        for (symbol, code, length) in [
            (0, 0x1ff8, 13),
            (10, 0x3fff_fffc, 30),
            (32, 0x14, 6),
            (48, 0x0, 5),
            (122, 0x7b, 7),
            (127, 0xfff_fffc, 28),
            (249, 0xfff_fffe, 28),
            (255, 0x3ff_ffee, 26),
            (256, 0x3fff_ffff, 30),
        ] {
            assert_eq!((CODE.codes[symbol], LENGTHS[symbol]), (code, length), "{symbol}");
        }
    }

    #[test]
    fn the_examples_of_the_rfc() {
        // C.4.1, C.4.2, C.6.1.
        let examples: [(&[u8], &[u8]); 4] = [
            (b"www.example.com", &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff]),
            (b"no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]),
            (b"302", &[0x64, 0x02]),
            (b"private", &[0xae, 0xc3, 0x77, 0x1a, 0x4b]),
        ];
        for (text, bytes) in examples {
            assert_eq!(encode(text), bytes);
            assert_eq!(decoded(bytes).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_fills_up_the_last_byte_is_set_and_short_and_an_end_is_not_said() {
        for bytes in [&[0x00, 0x00][..], &[0xff], &[0x07, 0xff], &[0xff, 0xff, 0xff, 0xff], &[0xff, 0xff, 0xff, 0xfc]] {
            assert_eq!(decoded(bytes), None, "{bytes:?}");
        }
        assert_eq!(decoded(&[0x07]), Some(b"0".to_vec()));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(decoded(&encode(&text)), Some(text));
        }

        #[test]
        fn whatever_is_read_is_written_the_same(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Some(text) = decoded(&bytes) {
                prop_assert_eq!(encode(&text), bytes);
            }
        }
    }
}
