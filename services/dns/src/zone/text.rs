//! A zone as a master file (RFC 1035, section 5): a record a line, all names absolute, the SOA record first.

use super::records::{RecordView, Zone};
use super::rtype::type_name;
use crate::name::Presentation;
use domain::base::ParsedName;
use domain::base::iana::Rtype;
use domain::base::rdata::ParseAnyRecordData;
use domain::base::zonefile_fmt::{DisplayKind, ZonefileFmt};
use domain::dep::octseq::Parser;
use domain::rdata::AllRecordData;
use std::fmt::{self, Write};

/// The zone's text would be longer than it may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the zone's text has more than {bytes_max} bytes")]
pub struct TooLong {
    /// What it may have.
    pub bytes_max: usize,
}

/// A record's data as its type writes it; as RFC 3597, section 5, if the data isn't what the type says.
struct Data<'a>(&'a RecordView<'a>);

impl fmt::Display for Data<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecordView { rtype, data, .. } = *self.0;
        let mut parser = Parser::from_ref(data);
        let known = AllRecordData::<&[u8], ParsedName<&[u8]>>::parse_any_rdata(Rtype::from_int(rtype), &mut parser);
        match known {
            Ok(known) if parser.remaining() == 0 => write!(f, "{}", known.display_zonefile(DisplayKind::Simple)),
            _ => {
                write!(f, "\\# {} ", data.len())?;
                data.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

/// The zone as a master file of at most `bytes_max` bytes. Owners are written as they came, with their capital letters.
///
/// # Errors
/// [`TooLong`].
pub fn text(zone: &Zone, bytes_max: usize) -> Result<String, TooLong> {
    let mut text = String::new();
    let soa = zone.soa_index();
    let rest = (0..zone.record_count()).filter(|index| Some(*index) != soa);
    for record in soa.into_iter().chain(rest).filter_map(|index| zone.spelled_record(index)) {
        let owner = Presentation(record.owner);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{owner} {} IN {} {}", record.ttl, type_name(record.rtype), Data(&record));
        if text.len() > bytes_max {
            return Err(TooLong { bytes_max });
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use crate::zone::parse::read_text;
    use std::path::Path;

    const SAMPLE: &str = "$TTL 60\n\
        @ SOA ns hostmaster.a\\.b 7 100 100 1000 30\n\
        @ NS ns\n@ MX 10 Far.example.org.\n@ CAA 0 issue \"ca.example.net; policy=ev\"\n\
        @ DNSKEY 257 3 13 mdsswUyr3DPW132mOi8V9xESWE8jTo0dxCjjnopKl+GqJxpVXckHAeF+KkxLbxILfDLUT0rAK9iUzy1L53eKGQ==\n\
        @ NSEC Mix.a\\.b\\000 NS SOA TXT RRSIG NSEC DNSKEY TYPE65280\n\
        @ NSEC3PARAM 1 0 5 aabb\n\
        ns A 192.0.2.1\nns AAAA 2001:db8::1\nns SSHFP 4 2 0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF\n\
        Mix.a\\.b\\000 TXT \"a \\\" b\" \"\" \"semicolon;\\\\ \\200 tab\\009\"\n\
        _ldap._tcp SRV 1 2 389 ns\n_443._tcp.ns TLSA 3 1 1 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n\
        e NAPTR 100 50 \"s\" \"z3950+I2L+I2C\" \"\" _z3950._tcp.example.\n\
        h HTTPS 1 . alpn=h2,h3 port=8443 ipv4hint=192.0.2.1,192.0.2.2 ipv6hint=2001:db8::1\nh2 SVCB 0 ns\n\
        u TYPE65280 \\# 0\nv TYPE65281 \\# 3 00ff10\nc CNAME ns.Example.\nd DNAME other.example.\n1 PTR h.\n\
        w DS 60485 13 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n\
        * HINFO \"PC Intel 700mhz\" \"Ubuntu 8.04\"\n";

    fn read(text: &str) -> Zone {
        let apex = Name::absolute("example").expect("a name");
        read_text(&apex, Path::new("zone"), text).expect("a zone").0
    }

    #[test]
    fn what_is_written_is_the_same_zone_when_it_is_read() {
        let zone = read(SAMPLE);
        let written = text(&zone, usize::MAX).expect("it is short");
        let again = read(&written);
        for (before, after) in zone.records().zip(again.records()) {
            assert_eq!(before, after, "{written}");
        }
        assert_eq!(zone.record_count(), again.record_count(), "{written}");
        for index in 0..zone.record_count() {
            assert_eq!(zone.spelling(index), again.spelling(index));
        }
        let first = written.lines().next().unwrap_or_default();
        assert_eq!(first, "example. 60 IN SOA ns.example. hostmaster.a\\.b.example. 7 100 100 1000 30");
        assert!(written.contains("example. 60 IN MX 10 Far.example.org.\n"), "{written}");
    }

    #[test]
    fn it_is_no_longer_than_it_may_be() {
        let zone = read(SAMPLE);
        let length = text(&zone, usize::MAX).expect("it is short").len();
        assert_eq!(text(&zone, length).map(|text| text.len()), Ok(length));
        assert_eq!(text(&zone, length - 1), Err(TooLong { bytes_max: length - 1 }));
    }
}
