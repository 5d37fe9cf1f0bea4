//! What is asked for: one request after another, drawn from a weighted set.

use qanat::Bytes;
use qanat_nic::Random;
use std::net::{SocketAddr, ToSocketAddrs};
use thiserror::Error;

/// Sizes and weights shaped like the objects requested from the Yahoo! CDN: (bytes, requests in 1,000).
///
/// Al-Fares et al. ("Overclocking the Yahoo! CDN for faster web page loads", IMC 2011), as the Sandstorm thesis (§3.3.1)
/// cites them, say that 90 % of the requested objects are smaller than 25 KB, with a tail reaching ~20 MB. They publish no
/// table; this one is log-normal-like with those two anchors: 90.0 % under 25 KiB, median 4 KiB, mean about
/// 22 KiB, so that most requests are small and most bytes are in the few large ones (79 % in objects over 25 KiB).
pub const YAHOO: &[(u64, u32)] = &[
    (512, 150),
    (1_024, 150),
    (2_048, 160),
    (4_096, 170),
    (8_192, 140),
    (16_384, 90),
    (24_576, 40),
    (49_152, 50),
    (131_072, 35),
    (262_144, 10),
    (1_048_576, 4),
    (4_194_304, 1),
];

/// Most targets in a mix: their numbers fit the draw table's entries.
pub const TARGETS_MAX: usize = 4_096;
/// Entries of the draw table: weights are honoured to one part in this many.
const TABLE_ENTRIES: usize = 1 << 14;

/// A parsed `http://host[:port]/path` URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    /// `host` or `host:port` as written: the Host field's value.
    pub authority: String,
    /// The host alone, brackets of an IPv6 address removed.
    pub host: String,
    /// The port; 80 if none is written.
    pub port: u16,
    /// Path and query, beginning with `/`.
    pub path: String,
}

/// Why a URL or mix can't be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0}")]
pub struct TargetError(String);

impl Url {
    /// Parses an absolute `http:` URL (the scheme may be left out).
    ///
    /// # Errors
    /// [`TargetError`] with what is wrong and an example.
    pub fn parse(text: &str) -> Result<Url, TargetError> {
        let fail = |what: &str| TargetError(format!("URL {text:?}: {what}; expected http://host[:port]/path"));
        if text.starts_with("https://") {
            return Err(fail("https is not supported yet"));
        }
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some(_) => return Err(fail("unknown scheme")),
            None => text,
        };
        let (authority, path) = match rest.find(['/', '?', '#']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(fail("the path has characters that must be percent-encoded"));
        }
        let authority = authority.rsplit('@').next().unwrap_or_default();
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => {
                let (host, after) = bracketed.split_once(']').ok_or_else(|| fail("missing ]"))?;
                (host, after.strip_prefix(':'))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = match port {
            None | Some("") => 80,
            Some(port) => port.parse().map_err(|_| fail("the port is not a number from 1 to 65535"))?,
        };
        if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(fail("the host is missing or malformed"));
        }
        if port == 0 {
            return Err(fail("the port is not a number from 1 to 65535"));
        }
        Ok(Url { authority: authority.to_owned(), host: host.to_owned(), port, path })
    }

    /// The server's address (the first one, if a name has several).
    ///
    /// # Errors
    /// [`TargetError`] if the name doesn't resolve.
    pub fn resolve(&self) -> Result<SocketAddr, TargetError> {
        (self.host.as_str(), self.port)
            .to_socket_addrs()
            .ok()
            .and_then(|mut addresses| addresses.next())
            .ok_or_else(|| TargetError(format!("{}: no address found for this name; check its spelling", self.host)))
    }
}

/// One thing to ask for.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where.
    pub url: Url,
    /// How often, relative to the others.
    pub weight: u32,
}

/// A weighted set of requests to one server, ready to send, and the order they are drawn in.
#[derive(Debug)]
pub struct Mix {
    requests: Vec<Bytes>,
    names: Vec<String>,
    table: Vec<u16>,
    random: Random,
}

/// What all requests have in common.
#[derive(Clone, Debug, Default)]
pub struct RequestShape {
    /// Host field instead of the URL's.
    pub host: Option<String>,
    /// Ask the server to close after the response.
    pub close: bool,
    /// `HEAD` instead of `GET`.
    pub head: bool,
    /// More fields, each `Name: value`.
    pub fields: Vec<String>,
}

impl Mix {
    /// Prepares `targets`, drawn in an order given by `seed`.
    ///
    /// # Errors
    /// [`TargetError`]: none, too many, no positive weight, or a field with a line break in it.
    pub fn new(targets: &[Target], shape: &RequestShape, seed: u64) -> Result<Mix, TargetError> {
        if targets.is_empty() || targets.len() > TARGETS_MAX {
            return Err(TargetError(format!("{} URLs: give from 1 to {TARGETS_MAX}", targets.len())));
        }
        for field in shape.fields.iter().chain(&shape.host) {
            if field.bytes().any(|byte| byte.is_ascii_control()) {
                return Err(TargetError(format!("field {field:?} holds a control character")));
            }
        }
        if let Some(field) = shape.fields.iter().find(|field| !field.contains(':')) {
            return Err(TargetError(format!("field {field:?} has no colon; expected 'Name: value'")));
        }
        let weights: Vec<u32> = targets.iter().map(|target| target.weight).collect();
        let table = draw_table(&weights).ok_or_else(|| TargetError("every weight is 0".to_owned()))?;
        let requests = targets.iter().map(|target| Bytes::from(request(&target.url, shape))).collect();
        let names = targets.iter().map(|target| target.url.path.clone()).collect();
        Ok(Mix { requests, names, table, random: Random::new(seed) })
    }

    /// The next target's number. Each entry of the table is as likely as any other.
    #[inline]
    pub fn draw(&mut self) -> u16 {
        if self.requests.len() == 1 {
            return 0;
        }
        let index = self.random.below(TABLE_ENTRIES as u64);
        self.table.get(index as usize).copied().unwrap_or(0)
    }

    /// The request of a target: a reference to shared bytes.
    #[inline]
    pub fn request(&self, target: u16) -> Option<&Bytes> {
        self.requests.get(usize::from(target))
    }

    /// How many targets.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Never: a mix has at least one target.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// A target's path.
    pub fn name(&self, target: usize) -> &str {
        self.names.get(target).map_or("?", String::as_str)
    }
}

fn request(url: &Url, shape: &RequestShape) -> Vec<u8> {
    let method = if shape.head { "HEAD" } else { "GET" };
    let host = shape.host.as_deref().unwrap_or(&url.authority);
    let mut text = format!("{method} {} HTTP/1.1\r\nHost: {host}\r\n", url.path);
    if shape.close {
        text.push_str("Connection: close\r\n");
    }
    for field in &shape.fields {
        text.push_str(field);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// Target numbers, each as often as its weight asks (largest remainders); `None` if all weights are 0.
fn draw_table(weights: &[u32]) -> Option<Vec<u16>> {
    let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    if total == 0 {
        return None;
    }
    let entries = TABLE_ENTRIES as u64;
    let mut counts: Vec<u64> = weights.iter().map(|weight| u64::from(*weight) * entries / total).collect();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    by_remainder.sort_by_key(|index| {
        std::cmp::Reverse(weights.get(*index).map_or(0, |weight| u64::from(*weight) * entries % total))
    });
    let missing = entries - counts.iter().sum::<u64>();
    for index in by_remainder.into_iter().take(missing as usize) {
        if let Some(count) = counts.get_mut(index) {
            *count += 1;
        }
    }
    let mut table = Vec::with_capacity(TABLE_ENTRIES);
    for (index, count) in counts.iter().enumerate() {
        table.extend(std::iter::repeat_n(index as u16, *count as usize));
    }
    Some(table)
}

/// The targets of a named mix below a base URL: `yahoo` asks for `BASE/<bytes>.bin`.
///
/// # Errors
/// [`TargetError`] for a name it doesn't know.
pub fn named(name: &str, base: &Url) -> Result<Vec<Target>, TargetError> {
    if name != "yahoo" {
        return Err(TargetError(format!("mix {name:?}: not a file, and the only named mix is 'yahoo'")));
    }
    let directory = base.path.trim_end_matches('/');
    Ok(YAHOO
        .iter()
        .map(|(bytes, weight)| Target {
            url: Url { path: format!("{directory}/{bytes}.bin"), ..base.clone() },
            weight: *weight,
        })
        .collect())
}

/// Parses a mix file: lines of `WEIGHT PATH-OR-URL`; `#` begins a comment. Paths are taken below `base`'s host.
///
/// # Errors
/// [`TargetError`] naming the line.
pub fn parse_file(text: &str, base: &Url) -> Result<Vec<Target>, TargetError> {
    let mut targets = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let fail = |what: &str| TargetError(format!("mix line {}: {what}; expected: WEIGHT /path", number + 1));
        let (weight, path) = line.split_once(char::is_whitespace).ok_or_else(|| fail("one word only"))?;
        let weight = weight.parse().map_err(|_| fail("the weight is not a whole number"))?;
        let path = path.trim();
        let url = if path.starts_with('/') { Url { path: path.to_owned(), ..base.clone() } } else { Url::parse(path)? };
        if (&url.host, url.port) != (&base.host, base.port) {
            return Err(fail("another server: one run loads one server"));
        }
        targets.push(Target { url, weight });
    }
    if targets.is_empty() {
        return Err(TargetError("the mix file names no URL; each line: WEIGHT /path".to_owned()));
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let url = Url::parse("http://10.77.0.2:8080/a/b.png?x=1#y").unwrap();
        assert_eq!((url.authority.as_str(), url.port, url.path.as_str()), ("10.77.0.2:8080", 8080, "/a/b.png?x=1"));
        let url = Url::parse("http://[fd00::1]/").unwrap();
        assert_eq!((url.host.as_str(), url.port, url.authority.as_str()), ("fd00::1", 80, "[fd00::1]"));
        assert_eq!(Url::parse("example.org").unwrap().path, "/");
        assert_eq!(Url::parse("example.org?q").unwrap().path, "/?q");
        for bad in
            ["https://x/", "ftp://x/", "http:///x", "http://x:0/", "http://x:99999/", "http://x/a b", "http://[::1/"]
        {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn yahoo_has_the_stated_shape() {
        let total: u32 = YAHOO.iter().map(|(_, weight)| weight).sum();
        assert_eq!(total, 1_000);
        let small: u32 = YAHOO.iter().filter(|(bytes, _)| *bytes < 25 * 1024).map(|(_, weight)| weight).sum();
        assert_eq!(small, 900, "90 % under 25 KiB");
        let bytes = |large: bool| -> u64 {
            YAHOO.iter().filter(|(b, _)| (*b > 25 * 1024) == large).map(|(b, w)| b * u64::from(*w)).sum()
        };
        let mean = (bytes(true) + bytes(false)) / 1_000;
        assert!((20_000..24_000).contains(&mean), "{mean}");
        let share = bytes(true) * 100 / (bytes(true) + bytes(false));
        assert!((75..90).contains(&share), "{share}");
    }

    #[test]
    fn draws_follow_the_weights() {
        let base = Url::parse("http://x/mix").unwrap();
        let targets = named("yahoo", &base).unwrap();
        let mut mix = Mix::new(&targets, &RequestShape::default(), 7).unwrap();
        let mut drawn = vec![0u32; mix.len()];
        for _ in 0..1_000_000 {
            drawn[usize::from(mix.draw())] += 1;
        }
        for ((_, weight), count) in YAHOO.iter().zip(&drawn) {
            let expected = f64::from(*weight) * 1_000.0;
            let deviation = (f64::from(*count) - expected).abs();
            assert!(deviation < 5.0 * expected.sqrt() + 62.0, "weight {weight}: drawn {count}");
        }
        assert!(mix.request(0).unwrap().starts_with(b"GET /mix/512.bin HTTP/1.1\r\nHost: x\r\n\r\n"));
    }

    #[test]
    fn mix_files() {
        let base = Url::parse("http://x/").unwrap();
        let targets = parse_file("# comment\n 3 /a # more\n1 http://x/b\n", &base).unwrap();
        assert_eq!(targets.len(), 2);
        assert_eq!((targets[0].weight, targets[0].url.path.as_str()), (3, "/a"));
        for bad in ["", "x /a", "/a", "1 http://y/", "-1 /a"] {
            assert!(parse_file(bad, &base).is_err(), "{bad}");
        }
        let zero = [Target { url: base.clone(), weight: 0 }];
        assert!(Mix::new(&zero, &RequestShape::default(), 1).is_err());
        let shape = RequestShape { fields: vec!["A: b\r\nC: d".to_owned()], ..RequestShape::default() };
        assert!(Mix::new(&[Target { url: base, weight: 1 }], &shape, 1).is_err());
    }
}
