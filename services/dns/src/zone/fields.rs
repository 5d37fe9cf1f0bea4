//! The presentation format of types that `domain` does not read: fields one after the other, each to its bytes.

use super::error::DataError;
use super::rtype::type_of;
use super::scanner::DataScanner;
use super::{mnemonics, time};
use crate::layout::Field;
use domain::base::scan::Scanner;
use domain::utils::{base32, base64};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Writes the data whose parts are `fields` in presentation format.
pub(super) fn scan(fields: &[Field], scanner: &mut DataScanner<'_>, data: &mut Vec<u8>) -> Result<(), DataError> {
    fields.iter().try_for_each(|field| scan_field(*field, scanner, data))
}

fn scan_field(field: Field, scanner: &mut DataScanner<'_>, data: &mut Vec<u8>) -> Result<(), DataError> {
    match field {
        Field::U8 => data.push(number(scanner)?),
        Field::U16 => data.extend_from_slice(&number::<u16>(scanner)?.to_be_bytes()),
        Field::U32 => data.extend_from_slice(&number::<u32>(scanner)?.to_be_bytes()),
        Field::Time => {
            let text = word(scanner)?;
            let time = time::parse(text).ok_or_else(|| DataError::Time(text.to_owned()))?;
            data.extend_from_slice(&time.to_be_bytes());
        }
        Field::Name => data.extend_from_slice(scanner.scan_name().map_err(DataError::Scan)?.as_slice()),
        Field::Text => scan_text(scanner, data)?,
        Field::Texts => {
            scan_text(scanner, data)?;
            while scanner.continues() {
                scan_text(scanner, data)?;
            }
        }
        Field::LongText => data.extend_from_slice(&scanner.scan_octets().map_err(DataError::Scan)?),
        Field::Hex => {
            let text = rest(scanner);
            if text.is_empty() {
                return Err(DataError::NoHexadecimal);
            }
            hexadecimal(&text, data)?;
        }
        Field::Base64 | Field::Base64OrNothing => scan_base64(field == Field::Base64, scanner, data)?,
        Field::Dashed(count) => {
            let text = word(scanner)?;
            let bytes: Option<Vec<u8>> = text.split('-').map(|pair| from_hexadecimal(pair, 2, 2)).collect();
            let bytes = bytes.filter(|bytes| bytes.len() == count);
            let bytes = bytes.ok_or_else(|| DataError::Dashed { text: text.to_owned(), count })?;
            data.extend_from_slice(&bytes);
        }
        Field::Groups => {
            let text = word(scanner)?;
            let groups: Option<Vec<u16>> = text.split(':').map(|group| from_hexadecimal(group, 1, 4)).collect();
            let groups = groups.filter(|groups| groups.len() == 4);
            let groups = groups.ok_or_else(|| DataError::Groups(text.to_owned()))?;
            groups.iter().for_each(|group| data.extend_from_slice(&group.to_be_bytes()));
        }
        Field::Address => {
            let text = word(scanner)?;
            let address: Ipv4Addr = text.parse().map_err(|_| DataError::Ipv4Address(text.to_owned()))?;
            data.extend_from_slice(&address.octets());
        }
        Field::ByteOf(words) => {
            let text = word(scanner)?;
            let number = words.number(text)?;
            data.push(u8::try_from(number).map_err(|_| DataError::MoreThan255(text.to_owned()))?);
        }
        Field::PairOf(words) => data.extend_from_slice(&words.number(word(scanner)?)?.to_be_bytes()),
        Field::KeyFlags => data.extend_from_slice(&mnemonics::key_flags(word(scanner)?)?.to_be_bytes()),
        Field::Type => {
            let text = word(scanner)?;
            data.extend_from_slice(&type_of(text).ok_or_else(|| DataError::Type(text.to_owned()))?.to_be_bytes());
        }
        Field::Date => {
            let text = word(scanner)?;
            let seconds = date(text).ok_or_else(|| DataError::Date(text.to_owned()))?;
            data.extend_from_slice(&seconds.to_be_bytes());
        }
        Field::Salt | Field::HashedOwner => scan_counted(field == Field::Salt, scanner, data)?,
        Field::NetworkAddress => {
            let digits = rest(scanner);
            let digits = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
            let digits = digits.ok_or(DataError::NetworkAddress)?;
            hexadecimal(&digits.replace('.', ""), data)?;
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
pub(super) fn scan_host_identity(scanner: &mut DataScanner<'_>, data: &mut Vec<u8>) -> Result<(), DataError> {
    let algorithm: u8 = number(scanner)?;
    let mut tag = Vec::new();
    hexadecimal(word(scanner)?, &mut tag)?;
    let key: Vec<u8> = base64::decode(word(scanner)?).map_err(DataError::Base64)?;
    data.push(u8::try_from(tag.len()).map_err(|_| DataError::TagTooLong)?);
    data.push(algorithm);
    let key_length = u16::try_from(key.len()).map_err(|_| DataError::KeyTooLong)?;
    data.extend_from_slice(&key_length.to_be_bytes());
    data.extend_from_slice(&tag);
    data.extend_from_slice(&key);
    while scanner.continues() {
        scan_field(Field::Name, scanner, data)?;
    }
    Ok(())
}

/// What a record says of somewhere to go: nothing, an IPv4 or IPv6 address, or a name.
fn scan_gateway(kind: u8, scanner: &mut DataScanner<'_>, data: &mut Vec<u8>) -> Result<(), DataError> {
    let wrong = |text: &str| DataError::Gateway { text: text.to_owned(), kind };
    match kind {
        0 => {
            let text = word(scanner)?;
            if text == "." { Ok(()) } else { Err(wrong(text)) }
        }
        1 => scan_field(Field::Address, scanner, data),
        2 => {
            let text = word(scanner)?;
            let address: Ipv6Addr = text.parse().map_err(|_| wrong(text))?;
            data.extend_from_slice(&address.octets());
            Ok(())
        }
        3 => scan_field(Field::Name, scanner, data),
        _ => Err(DataError::GatewayKind(kind)),
    }
}

/// IPSECKEY records (RFC 4025 section 3.1). There may be no key, whatever the algorithm: so BIND and Knot read it.
pub(super) fn scan_ipsec_key(scanner: &mut DataScanner<'_>, data: &mut Vec<u8>) -> Result<(), DataError> {
    let (precedence, kind): (u8, u8) = (number(scanner)?, number(scanner)?);
    data.extend_from_slice(&[precedence, kind]);
    scan_field(Field::U8, scanner, data)?;
    scan_gateway(kind, scanner, data)?;
    scan_base64(false, scanner, data)
}

/// AMTRELAY records (RFC 8777 section 4.3).
pub(super) fn scan_relay(scanner: &mut DataScanner<'_>, data: &mut Vec<u8>) -> Result<(), DataError> {
    let (precedence, discovery, kind): (u8, u8, u8) = (number(scanner)?, number(scanner)?, number(scanner)?);
    if discovery > 1 || kind > 3 {
        return Err(DataError::Relay);
    }
    data.extend_from_slice(&[precedence, discovery << 7 | kind]);
    scan_gateway(kind, scanner, data)
}

/// WKS records (RFC 1035 section 3.4.2): an address, a protocol, and a bitmap of ports.
pub(super) fn scan_services(scanner: &mut DataScanner<'_>, data: &mut Vec<u8>) -> Result<(), DataError> {
    scan_field(Field::Address, scanner, data)?;
    data.push(mnemonics::protocol(word(scanner)?)?);
    let mut bitmap: Vec<u8> = Vec::new();
    while scanner.continues() {
        let port = usize::from(mnemonics::service(word(scanner)?)?);
        bitmap.resize(bitmap.len().max(port / 8 + 1), 0);
        if let Some(byte) = bitmap.get_mut(port / 8) {
            *byte |= 0x80 >> (port % 8);
        }
    }
    data.extend_from_slice(&bitmap);
    Ok(())
}

/// NXT records (RFC 2535 section 5.2): a name, and a bitmap of types below 128.
pub(super) fn scan_next(scanner: &mut DataScanner<'_>, data: &mut Vec<u8>) -> Result<(), DataError> {
    scan_field(Field::Name, scanner, data)?;
    let mut bitmap = [0u8; 16];
    let mut length = 0;
    while scanner.continues() {
        let text = word(scanner)?;
        let bit = type_of(text).filter(|rtype| (1..128).contains(rtype)).map(usize::from);
        let bit = bit.ok_or_else(|| DataError::TypeBelow128(text.to_owned()))?;
        length = length.max(bit / 8 + 1);
        if let Some(byte) = bitmap.get_mut(bit / 8) {
            *byte |= 0x80 >> (bit % 8);
        }
    }
    data.extend_from_slice(bitmap.get(..length).unwrap_or_default());
    Ok(())
}

fn scan_base64(required: bool, scanner: &mut DataScanner<'_>, data: &mut Vec<u8>) -> Result<(), DataError> {
    let text = rest(scanner);
    if required && text.is_empty() {
        return Err(DataError::NoBase64);
    }
    let bytes: Vec<u8> = base64::decode(&text).map_err(DataError::Base64)?;
    data.extend_from_slice(&bytes);
    Ok(())
}

/// Bytes after their length: a salt in hexadecimal digits, or a hash in base 32.
fn scan_counted(is_salt: bool, scanner: &mut DataScanner<'_>, data: &mut Vec<u8>) -> Result<(), DataError> {
    let text = word(scanner)?;
    let mut bytes = Vec::new();
    match is_salt {
        true if text == "-" => {}
        true => hexadecimal(text, &mut bytes)?,
        false => {
            bytes = base32::decode_hex(text).map_err(|error| DataError::Base32 { text: text.to_owned(), error })?
        }
    }
    data.push(u8::try_from(bytes.len()).map_err(|_| DataError::CountedTooLong(text.to_owned()))?);
    data.extend_from_slice(&bytes);
    Ok(())
}

/// Seconds since 1970, modulo 2³² (RFC 4034 section 3.2): fourteen digits are a date, fewer are the number itself.
fn date(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if text.len() != 14 {
        return text.parse().ok();
    }
    let part = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days_of = |month: u64| match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let valid = year >= 1970 && (1..=12).contains(&month) && (1..=days_of(month)).contains(&day);
    if !valid || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let days = years + (1..month).map(days_of).sum::<u64>() + day - 1;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    Some((seconds & u64::from(u32::MAX)) as u32)
}

fn word<'a>(scanner: &mut DataScanner<'a>) -> Result<&'a str, DataError> {
    scanner.token().map(|token| token.text).map_err(DataError::Scan)
}

fn rest(scanner: &mut DataScanner<'_>) -> String {
    scanner.rest().iter().map(|token| token.text).collect()
}

fn number<T: std::str::FromStr>(scanner: &mut DataScanner<'_>) -> Result<T, DataError> {
    let text = word(scanner)?;
    text.parse().map_err(|_| DataError::Number(text.to_owned()))
}

fn scan_text(scanner: &mut DataScanner<'_>, data: &mut Vec<u8>) -> Result<(), DataError> {
    let text = scanner.scan_charstr().map_err(DataError::Scan)?;
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
pub(super) fn hexadecimal(text: &str, data: &mut Vec<u8>) -> Result<(), DataError> {
    let mut high = None;
    for digit in text.chars() {
        let value = digit.to_digit(16).ok_or(DataError::HexadecimalDigit(digit))? as u8;
        match high.take() {
            None => high = Some(value << 4),
            Some(high) => data.push(high | value),
        }
    }
    if high.is_some() { Err(DataError::OddHexadecimal) } else { Ok(()) }
}

/// RFC 4034 section 4.1.2: blocks of 256 types, each with its number, the length of its bitmap, and that.
fn scan_types(scanner: &mut DataScanner<'_>, data: &mut Vec<u8>) -> Result<(), DataError> {
    let mut types = Vec::new();
    while scanner.continues() {
        let text = word(scanner)?;
        types.push(type_of(text).ok_or_else(|| DataError::Type(text.to_owned()))?);
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
fn scan_prefix(text: &str, data: &mut Vec<u8>) -> Result<(), DataError> {
    let wrong = || DataError::Prefix(text.to_owned());
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
