//! Seeded mutation: takes an input of the corpus and damages it in the ways that parsers get wrong.

use fastrand::Rng;

/// The longest input made, bytes.
pub const LENGTH_MAX: usize = 4096;

/// Values at the edges of length, offset and number fields.
const EDGES: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 8, 0x0f, 0x40, 0x45, 0x60, 0x7f, 0x80, 0xfe, 0xff];

/// Puts a mutated input into `input`, from a random member of `corpus`.
pub fn mutate(random: &mut Rng, corpus: &[Vec<u8>], input: &mut Vec<u8>) {
    input.clear();
    // Now and then noise alone: what no corpus suggests.
    if corpus.is_empty() || random.u8(..) < 8 {
        let length = random.usize(0..256);
        input.extend(std::iter::repeat_with(|| random.u8(..)).take(length));
    } else {
        input.extend_from_slice(&corpus[random.usize(..corpus.len())]);
    }
    // Mostly few changes, so that the rest still makes sense.
    let count = 1 + random.u32(0..8).min(random.u32(0..8));
    for _ in 0..count {
        mutate_once(random, corpus, input);
    }
    input.truncate(LENGTH_MAX);
}

fn mutate_once(random: &mut Rng, corpus: &[Vec<u8>], input: &mut Vec<u8>) {
    if input.is_empty() {
        input.push(random.u8(..));
        return;
    }
    // Headers are where decisions are made: most changes go to the first 96 bytes.
    let reach = if random.u8(..) < 192 { input.len().min(96) } else { input.len() };
    let at = random.usize(..reach);
    match random.u8(0..12) {
        0 | 1 => input[at] ^= 1 << random.u8(0..8),
        2 => input[at] = random.u8(..),
        3 | 4 => input[at] = EDGES[random.usize(..EDGES.len())],
        5 => input[at] = input[at].wrapping_add(random.u8(0..17)).wrapping_sub(8),
        6 => put_u16(random, input, at),
        7 => input.truncate(at),
        8 => {
            let end = (at + 1 + random.usize(0..16)).min(input.len());
            input.drain(at..end);
        }
        9 => {
            let (length, byte) = (1 + random.usize(0..16), random.u8(..));
            input.splice(at..at, std::iter::repeat_n(byte, length));
        }
        10 => {
            // Repeats a piece: doubled options, doubled headers.
            let end = (at + 1 + random.usize(0..48)).min(input.len());
            let piece = input[at..end].to_vec();
            input.splice(at..at, piece);
        }
        _ => {
            // The end of another input.
            if let Some(other) = corpus.get(random.usize(..corpus.len().max(1)))
                && at < other.len()
            {
                input.truncate(at);
                input.extend_from_slice(&other[at..]);
            }
        }
    }
}

/// A big-endian 16-bit value: random, an edge, or near the input's own length.
fn put_u16(random: &mut Rng, input: &mut [u8], at: usize) {
    let value = match random.u8(0..4) {
        0 => random.u16(..),
        1 => u16::from(EDGES[random.usize(..EDGES.len())]),
        2 => 0xffff - u16::from(random.u8(0..8)),
        _ => (input.len() as u16).wrapping_sub(random.u16(0..64)),
    };
    if let Some(place) = input.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}
