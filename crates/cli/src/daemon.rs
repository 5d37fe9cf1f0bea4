//! What the commands that talk to the daemon share.

use clap::Args;
use qanat_control::client::{Session, default_socket};
use qanat_control::protocol::{Answer, Request};
use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Which daemon.
#[derive(Args, Clone, Debug, Default)]
pub struct DaemonArguments {
    /// The daemon's socket (default: $QANAT_SOCKET, or /run/qanat/control.sock)
    #[arg(long, value_name = "PATH", global = true)]
    socket: Option<PathBuf>,
}

impl DaemonArguments {
    /// Connects.
    pub fn session(&self) -> Result<Session, String> {
        let path = self.path();
        Session::connect(&path).map_err(|error| error.to_string())
    }

    /// Where the daemon listens.
    pub fn path(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(default_socket)
    }

    /// Asks for something that is answered by its being done.
    pub fn order(&self, request: Request) -> Result<(), String> {
        match self.session()?.ask(request).map_err(|error| error.to_string())? {
            Answer::Done => Ok(()),
            other => Err(format!("the daemon answers {other:?}: restart it with this version")),
        }
    }
}

/// Which card: its number, or its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Card {
    Number(u32),
    Name(String),
}

impl FromStr for Card {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Card, Infallible> {
        Ok(text.parse().map_or_else(|_| Card::Name(text.to_owned()), Card::Number))
    }
}

impl fmt::Display for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Card::Number(number) => number.fmt(f),
            Card::Name(name) => name.fmt(f),
        }
    }
}

impl Card {
    /// Its number, as the daemon at `socket` knows it.
    ///
    /// # Errors
    /// No card of this user's has the name, or several have.
    pub fn number(&self, socket: &Path) -> Result<u32, String> {
        let name = match self {
            Card::Number(number) => return Ok(*number),
            Card::Name(name) => name,
        };
        let status =
            Session::connect(socket).and_then(|session| session.status()).map_err(|error| error.to_string())?;
        let numbers: Vec<u32> = status.vnics.iter().filter(|vnic| vnic.name == *name).map(|vnic| vnic.vnic).collect();
        match numbers.as_slice() {
            [] => Err(format!("no VNIC is called {name:?}: `qanat vnic list` shows those there are")),
            [one] => Ok(*one),
            several => {
                let several: Vec<String> = several.iter().map(u32::to_string).collect();
                Err(format!("several VNICs are called {name:?}: name one by its number, {}", several.join(" or ")))
            }
        }
    }
}

/// How a command that does something tells so.
#[derive(Args, Clone, Copy, Debug)]
pub struct TellArguments {
    /// As JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// `1500000` as `1.5M`, as rates are typed.
pub fn short(number: u64) -> String {
    for (unit, factor) in [("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000)] {
        if number >= factor {
            let tenths = number / (factor / 10);
            let (whole, rest) = (tenths / 10, tenths % 10);
            return if rest == 0 { format!("{whole}{unit}") } else { format!("{whole}.{rest}{unit}") };
        }
    }
    number.to_string()
}

/// `1.5M`, `100k`, `2000` as a number.
pub fn parse_number(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}`: write a number, with k, M or G if need be");
    let (digits, factor) = match text.chars().last() {
        Some('k' | 'K') => (text.get(..text.len() - 1), 1_000),
        Some('m' | 'M') => (text.get(..text.len() - 1), 1_000_000),
        Some('g' | 'G') => (text.get(..text.len() - 1), 1_000_000_000),
        _ => (Some(text), 1),
    };
    let digits = digits.ok_or_else(wrong)?;
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(|| format!("`{text}` is more than there can be ({})", u64::MAX));
    }
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let product = number * factor as f64;
    if product.is_finite() && (0.0..1e18).contains(&product) { Ok(product as u64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (text, number) in [("0", 0), ("1500", 1_500), ("1.5M", 1_500_000), ("10G", 10_000_000_000), ("3k", 3_000)] {
            assert_eq!(parse_number(text), Ok(number));
        }
        for wrong in ["", "k", "-1", "1e30G", "x", "nan", "é"] {
            assert!(parse_number(wrong).is_err(), "{wrong}");
        }
        assert_eq!([0, 999, 1_500_000, 10_000_000_000].map(short), ["0", "999", "1.5M", "10G"]);
    }
}
