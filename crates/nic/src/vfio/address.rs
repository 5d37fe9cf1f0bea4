//! [`PciAddress`]: the name of a PCI function on its machine.

use std::fmt;
use std::str::FromStr;

/// A text is no address of a PCI function.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text} is no PCI address: one is like 0000:01:00.0 (`lspci -D` lists what there is)")]
pub struct AddressError {
    /// The text.
    pub text: String,
}

/// Where a PCI function is: domain, bus, device and function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PciAddress {
    domain: u16,
    bus: u8,
    /// 0…31.
    device: u8,
    /// 0…7.
    function: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PciAddress { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

impl From<PciAddress> for String {
    fn from(address: PciAddress) -> String {
        address.to_string()
    }
}

impl TryFrom<String> for PciAddress {
    type Error = AddressError;

    fn try_from(text: String) -> Result<PciAddress, AddressError> {
        text.parse()
    }
}

/// A hexadecimal number of exactly so many digits.
fn digits(text: &str, count: usize) -> Option<u16> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| u16::from_str_radix(text, 16).ok()).flatten()
}

impl FromStr for PciAddress {
    type Err = AddressError;

    /// From `0000:01:00.0`, or `01:00.0` in domain 0.
    ///
    /// # Errors
    /// [`AddressError`].
    fn from_str(text: &str) -> Result<PciAddress, AddressError> {
        let parse = || {
            let (rest, function) = text.rsplit_once('.')?;
            let (rest, device) = rest.rsplit_once(':')?;
            let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0000", rest));
            let (device, function) = (digits(device, 2)?, digits(function, 1)?);
            let (domain, bus) = (digits(domain, 4)?, digits(bus, 2)? as u8);
            (device < 32 && function < 8).then_some(PciAddress {
                domain,
                bus,
                device: device as u8,
                function: function as u8,
            })
        };
        parse().ok_or_else(|| AddressError { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["0000:01:00.0", "00a0:ff:1f.7"] {
            assert_eq!(text.parse::<PciAddress>().unwrap().to_string(), text);
        }
        assert_eq!("01:00.3".parse::<PciAddress>().unwrap().to_string(), "0000:01:00.3");
        for text in
            ["", "01", "01:00", "0000:01:00.8", "0000:01:20.0", "0000:1:00.0", "+001:01:00.0", "0:0:0.0", "../01:00.0"]
        {
            assert_eq!(text.parse::<PciAddress>(), Err(AddressError { text: text.to_owned() }));
        }
    }
}
