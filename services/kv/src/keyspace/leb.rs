//! Numbers in as few bytes as they need: LEB128.

/// Writes a number.
pub fn put(target: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        target.push(number as u8 | 0x80);
        number >>= 7;
    }
    target.push(number as u8);
}

/// Takes a number from the front of `rest`, if there is one.
pub fn take(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Writes a piece: its length, and its bytes.
pub fn put_piece(target: &mut Vec<u8>, piece: &[u8]) {
    put(target, piece.len() as u64);
    target.extend_from_slice(piece);
}

/// Takes a piece from the front of `rest`, if it is all there.
pub fn take_piece<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take(rest)?).ok()?;
    let (piece, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(piece)
}
