//! Words that stand for numbers in a record's data, as NSD and BIND read them.

use super::error::DataError;

/// Which words a field takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Words {
    /// DNSSEC algorithms (RFC 4034 appendix A.1).
    Algorithm,
    /// Digests of DS records.
    Digest,
    /// Hashes of NSEC3 records (RFC 5155 section 4.1.1).
    Hash,
    /// Protocols of keys (RFC 2535 section 3.1.3).
    KeyProtocol,
    /// Kinds of certificates (RFC 4398 section 2.1).
    Certificate,
    /// Schemes of DSYNC records.
    Scheme,
}

/// IANA's names, and those that NSD and BIND have used before.
const ALGORITHMS: [(&str, u16); 25] = [
    ("DELETE", 0),
    ("RSAMD5", 1),
    ("RSA", 1),
    ("DH", 2),
    ("DSA", 3),
    ("ECC", 4),
    ("RSASHA1", 5),
    ("DSA-NSEC3-SHA1", 6),
    ("DSA_NSEC3_SHA1", 6),
    ("NSEC3DSA", 6),
    ("RSASHA1-NSEC3-SHA1", 7),
    ("RSASHA1_NSEC3_SHA1", 7),
    ("NSEC3RSASHA1", 7),
    ("RSASHA256", 8),
    ("RSASHA512", 10),
    ("ECC-GOST", 12),
    ("ECC_GOST", 12),
    ("ECCGOST", 12),
    ("ECDSAP256SHA256", 13),
    ("ECDSAP384SHA384", 14),
    ("ED25519", 15),
    ("ED448", 16),
    ("INDIRECT", 252),
    ("PRIVATEDNS", 253),
    ("PRIVATEOID", 254),
];

const DIGESTS: [(&str, u16); 7] =
    [("SHA-1", 1), ("SHA1", 1), ("SHA-256", 2), ("SHA256", 2), ("GOST", 3), ("SHA-384", 4), ("SHA384", 4)];

const HASHES: [(&str, u16); 2] = [("SHA-1", 1), ("SHA1", 1)];

const KEY_PROTOCOLS: [(&str, u16); 6] =
    [("NONE", 0), ("TLS", 1), ("EMAIL", 2), ("DNSSEC", 3), ("IPSEC", 4), ("ALL", 255)];

const CERTIFICATES: [(&str, u16); 10] = [
    ("PKIX", 1),
    ("SPKI", 2),
    ("PGP", 3),
    ("IPKIX", 4),
    ("ISPKI", 5),
    ("IPGP", 6),
    ("ACPKIX", 7),
    ("IACPKIX", 8),
    ("URI", 253),
    ("OID", 254),
];

const SCHEMES: [(&str, u16); 1] = [("NOTIFY", 1)];

/// Flags of keys (RFC 2535 section 3.1.2, RFC 3757, RFC 5011), joined by `|`.
const KEY_FLAGS: [(&str, u16); 13] = [
    ("NOCONF", 0x4000),
    ("NOAUTH", 0x8000),
    ("NOKEY", 0xc000),
    ("EXTEND", 0x1000),
    ("FLAG2", 0x2000),
    ("FLAG4", 0x0800),
    ("FLAG5", 0x0400),
    ("USER", 0),
    ("ZONE", 0x0100),
    ("HOST", 0x0200),
    ("NTYP3", 0x0300),
    ("REVOKE", 0x0080),
    ("KSK", 0x0001),
];

/// Services of WKS records, in order, by the names of IANA's registry.
const SERVICES: [(&str, u16); 33] = [
    ("echo", 7),
    ("discard", 9),
    ("systat", 11),
    ("daytime", 13),
    ("netstat", 15),
    ("qotd", 17),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("time", 37),
    ("whois", 43),
    ("tacacs", 49),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("gopher", 70),
    ("finger", 79),
    ("http", 80),
    ("kerberos", 88),
    ("pop3", 110),
    ("sunrpc", 111),
    ("auth", 113),
    ("nntp", 119),
    ("ntp", 123),
    ("imap2", 143),
    ("snmp", 161),
    ("irc", 194),
    ("https", 443),
    ("submission", 587),
];

const PROTOCOLS: [(&str, u16); 5] = [("icmp", 1), ("igmp", 2), ("tcp", 6), ("udp", 17), ("sctp", 132)];

fn find(table: &[(&str, u16)], text: &str) -> Option<u16> {
    table.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)).map(|(_, number)| *number)
}

impl Words {
    fn table(self) -> (&'static [(&'static str, u16)], &'static str) {
        match self {
            Words::Algorithm => (&ALGORITHMS, "algorithm"),
            Words::Digest => (&DIGESTS, "kind of digest"),
            Words::Hash => (&HASHES, "hash algorithm"),
            Words::KeyProtocol => (&KEY_PROTOCOLS, "protocol"),
            Words::Certificate => (&CERTIFICATES, "kind of certificate"),
            Words::Scheme => (&SCHEMES, "scheme"),
        }
    }

    /// The number that `text` is, or stands for.
    ///
    /// # Errors
    /// It is neither.
    pub(super) fn number(self, text: &str) -> Result<u16, DataError> {
        let (table, what) = self.table();
        find(table, text)
            .or_else(|| text.parse().ok())
            .ok_or_else(|| DataError::Mnemonic { text: text.to_owned(), what })
    }
}

/// The flags of a key: a number, or words with `|` between them.
pub(super) fn key_flags(text: &str) -> Result<u16, DataError> {
    let words = || text.split('|').map(|word| find(&KEY_FLAGS, word)).try_fold(0, |sum, flag| Some(sum | flag?));
    text.parse().ok().or_else(words).ok_or_else(|| DataError::KeyFlags(text.to_owned()))
}

/// The number of a protocol over IP.
pub(super) fn protocol(text: &str) -> Result<u8, DataError> {
    let known = find(&PROTOCOLS, text).and_then(|number| u8::try_from(number).ok());
    known.or_else(|| text.parse().ok()).ok_or_else(|| DataError::Protocol(text.to_owned()))
}

/// The port of a service.
pub(super) fn service(text: &str) -> Result<u16, DataError> {
    let port = find(&SERVICES, text).or_else(|| text.parse().ok());
    port.ok_or_else(|| DataError::Service(text.to_owned()))
}
