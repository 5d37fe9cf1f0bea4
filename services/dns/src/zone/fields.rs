//! The presentation format of types that `domain` does not read: fields one after the other, each to its bytes.

use super::scanner::DataScanner;
use crate::layout::Field;
use domain::base::iana::{Rtype, SecurityAlgorithm};
use domain::base::scan::Scanner;
use domain::utils::base64;
use std::net::{IpAddr, Ipv4Addr};

/// Kinds of certificates (RFC 4398 section 2.1).
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

/// Writes the data whose parts are `fields` in presentation format.
pub(super) fn scan(fields: &[Field], scanner: &mut DataScanner<'_>, data: &mut Vec<u8>) -> Result<(), String> {
    for field in fields {
        scan_field(*field, scanner, data)?;
    }
    if scanner.continues() { Err("more than this type has: take it out".to_owned()) } else { Ok(()) }
}

fn scan_field(field: Field, scanner: &mut DataScanner<'_>, data: &mut Vec<u8>) -> Result<(), String> {
    match field {
        Field::U8 => data.push(number(scanner)?),
        Field::U16 => data.extend_from_slice(&number::<u16>(scanner)?.to_be_bytes()),
        Field::U32 => data.extend_from_slice(&number::<u32>(scanner)?.to_be_bytes()),
        Field::Time => {
            let text = word(scanner)?;
            let time = super::parse::time(text).ok_or_else(|| format!("`{text}` is no time"))?;
            data.extend_from_slice(&time.to_be_bytes());
        }
        Field::Name => data.extend_from_slice(scanner.scan_name().map_err(|error| error.to_string())?.as_slice()),
        Field::Text => scan_text(scanner, data)?,
        Field::Texts => {
            scan_text(scanner, data)?;
            while scanner.continues() {
                scan_text(scanner, data)?;
            }
        }
        Field::LongText => data.extend_from_slice(&scanner.scan_octets().map_err(|error| error.to_string())?),
        Field::Hex => hexadecimal(&rest(scanner), data)?,
        Field::Base64 => {
            let bytes: Vec<u8> = base64::decode(&rest(scanner)).map_err(|error| format!("base 64: {error}"))?;
            data.extend_from_slice(&bytes);
        }
        Field::Dashed(count) => {
            let text = word(scanner)?;
            let bytes: Option<Vec<u8>> = text.split('-').map(|pair| from_hexadecimal(pair, 2, 2)).collect();
            let bytes = bytes.filter(|bytes| bytes.len() == count);
            data.extend_from_slice(&bytes.ok_or_else(|| format!("`{text}` is not {count} bytes, as in 00-00-5e-…"))?);
        }
        Field::Groups => {
            let text = word(scanner)?;
            let groups: Option<Vec<u16>> = text.split(':').map(|group| from_hexadecimal(group, 1, 4)).collect();
            let groups = groups.filter(|groups| groups.len() == 4);
            let groups = groups.ok_or_else(|| format!("`{text}` is not four groups, as in 14:4fff:ff20:ee64"))?;
            groups.iter().for_each(|group| data.extend_from_slice(&group.to_be_bytes()));
        }
        Field::Address => {
            let text = word(scanner)?;
            let address: Ipv4Addr = text.parse().map_err(|_| format!("`{text}` is no IPv4 address"))?;
            data.extend_from_slice(&address.octets());
        }
        Field::Certificate => {
            let text = word(scanner)?;
            let named = CERTIFICATES.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind);
            let kind =
                named.or_else(|| text.parse().ok()).ok_or_else(|| format!("`{text}` is no kind of certificate"))?;
            data.extend_from_slice(&kind.to_be_bytes());
        }
        Field::Algorithm => {
            let text = word(scanner)?;
            let named =
                SecurityAlgorithm::from_mnemonic(text.to_ascii_uppercase().as_bytes()).map(|named| named.to_int());
            data.push(named.or_else(|| text.parse().ok()).ok_or_else(|| format!("`{text}` is no algorithm"))?);
        }
        Field::Types => scan_types(scanner, data)?,
        Field::Prefixes => {
            while scanner.continues() {
                scan_prefix(word(scanner)?, data)?;
            }
        }
        Field::Bytes(_) | Field::Rest => {}
    }
    Ok(())
}

/// HIP records (RFC 8005 section 6).
pub(super) fn scan_host_identity(scanner: &mut DataScanner<'_>, data: &mut Vec<u8>) -> Result<(), String> {
    let algorithm: u8 = number(scanner)?;
    let mut tag = Vec::new();
    hexadecimal(word(scanner)?, &mut tag)?;
    let key: Vec<u8> = base64::decode(word(scanner)?).map_err(|error| format!("base 64: {error}"))?;
    data.push(u8::try_from(tag.len()).map_err(|_| "a host identity tag of more than 255 bytes")?);
    data.push(algorithm);
    let key_length = u16::try_from(key.len()).map_err(|_| "a key of more than 65,535 bytes")?;
    data.extend_from_slice(&key_length.to_be_bytes());
    data.extend_from_slice(&tag);
    data.extend_from_slice(&key);
    while scanner.continues() {
        scan_field(Field::Name, scanner, data)?;
    }
    Ok(())
}

fn word<'a>(scanner: &mut DataScanner<'a>) -> Result<&'a str, String> {
    scanner.token().map(|token| token.text).map_err(|error| error.to_string())
}

fn rest(scanner: &mut DataScanner<'_>) -> String {
    scanner.rest().iter().map(|token| token.text).collect()
}

fn number<T: std::str::FromStr>(scanner: &mut DataScanner<'_>) -> Result<T, String> {
    let text = word(scanner)?;
    text.parse().map_err(|_| format!("`{text}` is no number of this field"))
}

fn scan_text(scanner: &mut DataScanner<'_>, data: &mut Vec<u8>) -> Result<(), String> {
    let text = scanner.scan_charstr().map_err(|error| error.to_string())?;
    data.push(text.len() as u8);
    data.extend_from_slice(text.as_slice());
    Ok(())
}

/// A number of so many hexadecimal digits.
fn from_hexadecimal<T: TryFrom<u16>>(text: &str, digits_min: usize, digits_max: usize) -> Option<T> {
    let is_one = (digits_min..=digits_max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = u16::from_str_radix(text, 16).ok().filter(|_| is_one)?;
    T::try_from(value).ok()
}

/// Writes the bytes whose digits `text` has.
pub(super) fn hexadecimal(text: &str, data: &mut Vec<u8>) -> Result<(), String> {
    let mut high = None;
    for digit in text.chars() {
        let value = digit.to_digit(16).ok_or_else(|| format!("`{digit}` is no hexadecimal digit"))? as u8;
        match high.take() {
            None => high = Some(value << 4),
            Some(high) => data.push(high | value),
        }
    }
    if high.is_some() { Err("an odd number of hexadecimal digits".to_owned()) } else { Ok(()) }
}

/// RFC 4034 section 4.1.2: blocks of 256 types, each with its number, the length of its bitmap, and that.
fn scan_types(scanner: &mut DataScanner<'_>, data: &mut Vec<u8>) -> Result<(), String> {
    let mut types = Vec::new();
    while scanner.continues() {
        let text = word(scanner)?;
        let named = Rtype::from_bytes(text.to_ascii_uppercase().as_bytes());
        types.push(named.ok_or_else(|| format!("`{text}` is no type"))?.to_int());
    }
    types.sort_unstable();
    for block in types.chunk_by(|one, other| one >> 8 == other >> 8) {
        let mut bitmap = [0u8; 32];
        let mut length = 0;
        for bit in block.iter().map(|rtype| usize::from(rtype & 0xff)) {
            length = bit / 8 + 1;
            if let Some(byte) = bitmap.get_mut(bit / 8) {
                *byte |= 0x80 >> (bit % 8);
            }
        }
        let number = block.first().map_or(0, |rtype| rtype >> 8);
        data.extend_from_slice(&[number as u8, length as u8]);
        data.extend_from_slice(bitmap.get(..length).unwrap_or_default());
    }
    Ok(())
}

/// RFC 3123 section 4: family, prefix, `!` and length, the address without the zeros at its end.
fn scan_prefix(text: &str, data: &mut Vec<u8>) -> Result<(), String> {
    let wrong = || format!("`{text}` is no prefix, as in 1:192.0.2.0/24 or !2:2001:db8::/32");
    let (negation, prefix) = match text.strip_prefix('!') {
        Some(prefix) => (0x80, prefix),
        None => (0, text),
    };
    let (family, prefix) = prefix.split_once(':').ok_or_else(wrong)?;
    let (address, length) = prefix.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let length: u8 = length.parse().map_err(|_| wrong())?;
    let (number, length_max, bytes) = match address {
        IpAddr::V4(address) => (1u16, 32, address.octets().to_vec()),
        IpAddr::V6(address) => (2, 128, address.octets().to_vec()),
    };
    if family != number.to_string() || length > length_max {
        return Err(wrong());
    }
    let count = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    data.extend_from_slice(&number.to_be_bytes());
    data.extend_from_slice(&[length, negation | count as u8]);
    data.extend_from_slice(bytes.get(..count).unwrap_or_default());
    Ok(())
}
