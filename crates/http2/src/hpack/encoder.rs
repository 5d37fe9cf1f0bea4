//! Fields are written: literals that the peer need not keep, with names from the table of the RFC where it has them (RFC 7541, 6.2.2).

use super::integer;
use super::static_table::index_of;

/// A field that the peer's table does not take in.
const NOT_KEPT: u8 = 0x00;
/// A field that is in the table.
const INDEXED: u8 = 0x80;
/// The indexes of the statuses that are in the table.
const STATUSES: [(u16, usize); 7] = [(200, 8), (204, 9), (206, 10), (304, 11), (400, 12), (404, 13), (500, 14)];

/// The index of a name that responses have.
fn name_index(name: &[u8]) -> Option<usize> {
    macro_rules! index {
        ($($name:literal),*) => {
            match name {
                $(name if name == $name.as_bytes() => Some(const { index_of($name) }),)*
                _ => None,
            }
        };
    }
    // By length first: most comparisons are of two numbers.
    match name.len() {
        4 => index!("date", "etag", "vary"),
        5 => index!("allow"),
        6 => index!("server"),
        8 => index!("location"),
        11 => index!("retry-after"),
        12 => index!("content-type"),
        13 => index!("accept-ranges", "last-modified", "cache-control", "content-range"),
        14 => index!("content-length"),
        16 => index!("content-encoding"),
        25 => index!("strict-transport-security"),
        _ => None,
    }
}

fn string(text: &[u8], target: &mut Vec<u8>) {
    integer::encode(text.len(), 7, 0, target);
    target.extend_from_slice(text);
}

/// Appends the status of a response, which comes before its fields.
pub fn encode_status(status: u16, target: &mut Vec<u8>) {
    match STATUSES.iter().find(|(known, _)| *known == status) {
        Some((_, index)) => integer::encode(*index, 7, INDEXED, target),
        None => {
            integer::encode(const { index_of(":status") }, 4, NOT_KEPT, target);
            let digits = [100, 10, 1].map(|of| b'0' + (status / of % 10) as u8);
            string(&digits, target);
        }
    }
}

/// Appends a field. Its name is in lower case.
pub fn encode(name: &[u8], value: &[u8], target: &mut Vec<u8>) {
    match name_index(name) {
        Some(index) => integer::encode(index, 4, NOT_KEPT, target),
        None => {
            target.push(NOT_KEPT);
            string(name, target);
        }
    }
    string(value, target);
}

#[cfg(test)]
mod tests {
    use super::super::Decoder;
    use super::*;

    #[test]
    fn each_status_is_read_as_it_was_written() {
        for status in [100, 200, 204, 206, 301, 304, 400, 404, 416, 431, 500, 503, 999] {
            let mut block = Vec::new();
            encode_status(status, &mut block);
            let mut read = Vec::new();
            let field = |name: &[u8], value: &[u8]| read.push((name.to_vec(), value.to_vec()));
            Decoder::default().decode(&block, field).unwrap();
            assert_eq!(read, [(b":status".to_vec(), status.to_string().into_bytes())]);
        }
    }
}
