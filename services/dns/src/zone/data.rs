//! The data of a record, from tokens to wire format: `domain` knows most types, and [`fields`] those that it does not.

use super::error::DataError;
use super::lexer::Token;
use super::rtype::type_name;
use super::scanner::DataScanner;
use super::{fields, location};
use crate::layout;
use domain::base::Name;
use domain::base::iana::Rtype;
use domain::base::rdata::ComposeRecordData;
use domain::rdata::ZoneRecordData;

const WKS: u16 = 11;
const LOC: u16 = 29;
const NXT: u16 = 30;
const IPSECKEY: u16 = 45;
const HIP: u16 = 55;
const AMTRELAY: u16 = 260;

/// Writes the data of a record of `rtype` in `tokens` to `data`.
///
/// # Errors
/// What is wrong with it.
pub(super) fn scan(rtype: u16, tokens: &[Token<'_>], origin: &[u8], data: &mut Vec<u8>) -> Result<(), DataError> {
    data.clear();
    scan_any(rtype, tokens, origin, data)?;
    if data.len() > usize::from(u16::MAX) { Err(DataError::TooLong) } else { Ok(()) }
}

/// Reads the data of one type.
type Scan = fn(&mut DataScanner<'_>, &mut Vec<u8>) -> Result<(), DataError>;

fn scan_any(rtype: u16, tokens: &[Token<'_>], origin: &[u8], data: &mut Vec<u8>) -> Result<(), DataError> {
    if let [marker, rest @ ..] = tokens
        && marker.text == "\\#"
        && !marker.quoted
    {
        return scan_unknown(rtype, rest, data);
    }
    let mut scanner = DataScanner::new(tokens, origin);
    let own: Option<Scan> = match rtype {
        LOC => return location::scan(tokens, data),
        HIP => Some(fields::scan_host_identity),
        IPSECKEY => Some(fields::scan_ipsec_key),
        AMTRELAY => Some(fields::scan_relay),
        WKS => Some(fields::scan_services),
        NXT => Some(fields::scan_next),
        _ => None,
    };
    if let Some(scan) = own {
        scan(&mut scanner, data)?;
        return scanner.end();
    }
    if let Some(parts) = layout::presented_fields(rtype) {
        fields::scan(parts, &mut scanner, data)?;
        return scanner.end();
    }
    let parsed = ZoneRecordData::<Vec<u8>, Name<Vec<u8>>>::scan(Rtype::from_int(rtype), &mut scanner);
    let parsed = parsed.map_err(|error| {
        let is_unknown = error.to_string().contains("unknown record type");
        if is_unknown { DataError::NoPresentation } else { DataError::Scan(error) }
    })?;
    scanner.end()?;
    parsed.compose_rdata(data).map_err(|_| DataError::TooLong)
}

/// RFC 3597 section 5: `\# LENGTH HEX…`, for any type.
fn scan_unknown(rtype: u16, tokens: &[Token<'_>], data: &mut Vec<u8>) -> Result<(), DataError> {
    let [length, digits @ ..] = tokens else { return Err(DataError::NoLength) };
    let length: u16 = length.text.parse().map_err(|_| DataError::Length(length.text.to_owned()))?;
    fields::hexadecimal(&digits.iter().map(|token| token.text).collect::<String>(), data)?;
    if data.len() != usize::from(length) {
        return Err(DataError::LengthDiffers { found: data.len(), announced: length });
    }
    if layout::is_well_formed(rtype, data) { Ok(()) } else { Err(DataError::NotOfType(type_name(rtype))) }
}
