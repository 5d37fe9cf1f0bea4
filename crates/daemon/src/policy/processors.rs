//! The policy's net cores, the processors they are on, and its disk cores.

use qanat_control::ParseError;
use serde::{Deserialize, Deserializer};

/// Net cores that the daemon starts, for services in the split placement.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetPolicy {
    /// The processors they are on, one each: `"0-1,3"`.
    #[serde(deserialize_with = "processors")]
    pub cores: Vec<u32>,
    /// Frames to receive into of each service's card: what service and stack may hold.
    pub frames: u32,
    /// When they sleep: `adaptive`, `always` (they never sleep) or `never` (at once).
    pub spin: String,
    /// Which of the services that share a listener has the next connection: `round-robin`, `least-loaded` or `queue`.
    pub accept: String,
}

impl Default for NetPolicy {
    fn default() -> NetPolicy {
        NetPolicy { cores: Vec::new(), frames: 8_192, spin: "adaptive".to_owned(), accept: "round-robin".to_owned() }
    }
}

/// Disk cores that the daemon starts, one for each disk that needs one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DiskPolicy {
    /// When they sleep while somebody has an area: `adaptive`, `always` (they never sleep) or `never` (at once).
    pub spin: String,
}

impl Default for DiskPolicy {
    fn default() -> DiskPolicy {
        DiskPolicy { spin: "adaptive".to_owned() }
    }
}

/// Net cores of one daemon at most.
pub(crate) const NET_CORES_MAX: usize = 64;

/// Processors as `0-1,3`, in order.
///
/// # Errors
/// What is wrong.
pub fn parse_processors(text: &str) -> Result<Vec<u32>, ParseError> {
    let wrong = || ParseError(format!("`{text}`: name processors as in 0-1,3"));
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        let (first, last) = (number(first)?, number(last)?);
        if first > last || (last - first) as usize >= NET_CORES_MAX {
            return Err(wrong());
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    if all.len() > NET_CORES_MAX {
        Err(ParseError(format!("`{text}`: {NET_CORES_MAX} net cores at most")))
    } else {
        Ok(all)
    }
}

fn processors<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    let text: String = Deserialize::deserialize(deserializer)?;
    parse_processors(&text).map_err(serde::de::Error::custom)
}
