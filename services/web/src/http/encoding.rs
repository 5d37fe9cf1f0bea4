//! Content negotiation by Accept-Encoding (RFC 9110, 12.5.3).

use super::lists::{list_elements, trim};
use super::parse::Request;

/// Codings a file may be held in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coding {
    /// As it is.
    Identity,
    /// Brotli (`.br`).
    Brotli,
    /// Gzip (`.gz`).
    Gzip,
}

impl Coding {
    /// All, in the order their variants are kept.
    pub const ALL: [Coding; 3] = [Coding::Identity, Coding::Brotli, Coding::Gzip];

    /// The name in a Content-Encoding field.
    pub const fn name(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Brotli => "br",
            Coding::Gzip => "gzip",
        }
    }

    /// What is appended to a file's name.
    pub const fn suffix(self) -> &'static str {
        match self {
            Coding::Identity => "",
            Coding::Brotli => ".br",
            Coding::Gzip => ".gz",
        }
    }
}

/// Quality (thousandths) the client gives each coding of [`Coding::ALL`]; `None`: not named.
pub fn qualities(request: &Request<'_, '_>) -> [Option<u16>; 3] {
    let mut named = [None; 3];
    let mut wildcard = None;
    for value in request.values("accept-encoding") {
        for element in list_elements(value) {
            let mut parameters = element.split(|&byte| byte == b';');
            let name = trim(parameters.next().unwrap_or_default());
            let quality = parameters.find_map(|parameter| weight(trim(parameter))).unwrap_or(1000);
            if name == b"*" {
                wildcard = Some(quality);
            }
            for (coding, slot) in Coding::ALL.iter().zip(named.iter_mut()) {
                let alias = *coding == Coding::Gzip && name.eq_ignore_ascii_case(b"x-gzip");
                if alias || name.eq_ignore_ascii_case(coding.name().as_bytes()) {
                    *slot = Some(quality);
                }
            }
        }
    }
    [named[0].or(wildcard), named[1].or(wildcard), named[2].or(wildcard)]
}

/// `q=0.5` in thousandths; a malformed weight counts as 0, so that it never forces a coding on a client.
fn weight(parameter: &[u8]) -> Option<u16> {
    let value = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))?;
    let (whole, fraction) = match value.split_first() {
        Some((b'0', rest)) => (0, rest),
        Some((b'1', rest)) => (1000, rest),
        _ => return Some(0),
    };
    let digits = match fraction.split_first() {
        None => return Some(whole),
        Some((b'.', digits)) if digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit) => digits,
        Some(_) => return Some(0),
    };
    let thousandths = digits.iter().chain(b"000").take(3).fold(0u16, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    Some((whole + thousandths).min(1000))
}

/// The best available coding. Identity unless the client prefers another (brotli before gzip at equal quality), or
/// forbids identity; when nothing available is acceptable, identity is sent all the same (RFC 9110, 12.5.3).
pub fn choose(qualities: [Option<u16>; 3], available: [bool; 3]) -> Coding {
    let mut best = Coding::Identity;
    // Identity not named is acceptable, but a coding the client asks for is better.
    let mut best_quality = if available[0] { qualities[0].unwrap_or(1) } else { 0 };
    for (index, coding) in Coding::ALL.into_iter().enumerate().skip(1) {
        let quality = qualities[index].unwrap_or(0);
        let better = quality > best_quality || (quality == best_quality && quality > 0 && best == Coding::Identity);
        if available[index] && better {
            best = coding;
            best_quality = quality;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::parse::{Outcome, ParseLimits, header_storage, parse};
    use super::*;

    fn chosen(value: &str, available: [bool; 3]) -> Coding {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {value}\r\n\r\n");
        let mut storage = header_storage();
        let limits = ParseLimits { head_bytes_max: 16384, target_bytes_max: 8192 };
        let Outcome::Complete(request) = parse(text.as_bytes(), &mut storage, &limits) else { panic!() };
        choose(qualities(&request), available)
    }

    #[test]
    fn negotiation() {
        let all = [true; 3];
        assert_eq!(chosen("gzip, deflate, br", all), Coding::Brotli);
        assert_eq!(chosen("gzip, deflate, br", [true, false, true]), Coding::Gzip);
        assert_eq!(chosen("gzip, deflate, br", [true, false, false]), Coding::Identity);
        assert_eq!(chosen("", all), Coding::Identity);
        assert_eq!(chosen("gzip;q=1.0, br;q=0.5", all), Coding::Gzip);
        assert_eq!(chosen("br;q=0, gzip;q=0", all), Coding::Identity);
        assert_eq!(chosen("*", all), Coding::Brotli);
        assert_eq!(chosen("*;q=0", all), Coding::Identity);
        assert_eq!(chosen("gzip;q=0.3, identity;q=0.8", all), Coding::Identity);
        assert_eq!(chosen("x-gzip", all), Coding::Gzip);
        assert_eq!(chosen("br;q=banana", all), Coding::Identity);
        assert_eq!(chosen("identity;q=0, gzip", all), Coding::Gzip);
        assert_eq!(chosen("gzip;q=0.001", all), Coding::Gzip);
    }
}
