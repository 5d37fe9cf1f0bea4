//! The web service's request parser: a head that comes in pieces, cut anywhere, is understood as if it had come whole.

use qanat_web::http::Request;
use qanat_web::http::parse::{Outcome, ParseLimits, check_partial, head_end, header_storage, parse};

const LIMITS: ParseLimits = ParseLimits { head_bytes_max: 1_024, target_bytes_max: 256 };

/// What a server does with the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Reading {
    /// Everything that decides about the answer, and where the next request starts.
    Request {
        method: String,
        target: Vec<u8>,
        path: Vec<u8>,
        host: Vec<u8>,
        keep_alive: bool,
        flags: u8,
        length: usize,
    },
    Waiting,
    Refused,
}

fn reading(outcome: &Outcome<'_, '_>) -> Reading {
    match outcome {
        Outcome::Complete(request) => of_request(request),
        Outcome::Partial => Reading::Waiting,
        Outcome::Reject(rejection) => {
            assert!((400..600).contains(&rejection.status) && !rejection.why.is_empty());
            Reading::Refused
        }
    }
}

fn of_request(request: &Request<'_, '_>) -> Reading {
    for name in ["host", "range", "content-length"] {
        let count = request.values(name).count();
        assert!(request.single(name).is_none() || count == 1);
    }
    Reading::Request {
        method: request.method_name.to_owned(),
        target: request.target.to_vec(),
        path: request.path_and_query.to_vec(),
        host: request.host.to_vec(),
        keep_alive: request.keep_alive,
        flags: request.flags,
        length: request.head_length,
    }
}

fn whole(bytes: &[u8]) -> Reading {
    let mut storage = header_storage();
    reading(&parse(bytes, &mut storage, &LIMITS))
}

/// As the service does: the first piece in place, the rest gathered until the head's end is there.
fn in_pieces(bytes: &[u8], cuts: &[u8]) -> Reading {
    let mut cuts = cuts.iter().map(|&cut| usize::from(cut) + 1).cycle();
    let mut next = || cuts.next().unwrap_or(usize::MAX);
    let (first, mut rest) = bytes.split_at(next().min(bytes.len()));
    let begun = whole(first);
    if begun != Reading::Waiting {
        return begun;
    }
    let mut gathered = first.to_vec();
    while !rest.is_empty() {
        let from = gathered.len();
        let piece;
        (piece, rest) = rest.split_at(next().min(rest.len()));
        gathered.extend_from_slice(&piece[..piece.len().min(LIMITS.head_bytes_max.saturating_sub(from))]);
        match head_end(&gathered, from) {
            Some(end) => {
                let read = whole(&gathered[..end]);
                return if read == Reading::Waiting { Reading::Refused } else { read };
            }
            None if check_partial(&gathered, &LIMITS).is_err() => return Reading::Refused,
            None => {}
        }
    }
    Reading::Waiting
}

/// The first byte says how many bytes follow that say where to cut the rest.
pub fn http(data: &[u8]) {
    let Some((&count, rest)) = data.split_first() else { return };
    let (cuts, bytes) = rest.split_at(usize::from(count % 16).min(rest.len()));
    // Empty lines before a request are the caller's to skip.
    let blank = bytes.iter().take_while(|&&byte| matches!(byte, b'\r' | b'\n')).count();
    let bytes = &bytes[blank..];
    let (whole, pieces) = (whole(bytes), in_pieces(bytes, cuts));
    match (&whole, &pieces) {
        (Reading::Request { length, .. }, _) => {
            assert!(*length <= LIMITS.head_bytes_max && *length <= bytes.len());
            assert_eq!(whole, pieces, "in pieces the request reads otherwise");
        }
        (_, Reading::Request { .. }) => panic!("only in pieces this is a request: {pieces:?}, whole {whole:?}"),
        _ => {}
    }
}
