//! Which link to be on, as users write it.

use qanat_nic::memif::{self, MemifDevice, MemifError, MemifListener};
use qanat_nic::{MemifConfig, MemoryPlan};
use qanat_wire::ethernet::MacAddress;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// How long a slave waits for its master to listen.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// A link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkChoice {
    /// A veth device, or an interface that is there.
    Veth,
    /// Shared memory with another process.
    Memif {
        /// The Unix socket.
        socket: PathBuf,
        /// This end listens.
        master: bool,
    },
    /// Memory between two threads of one process.
    Pair,
}

/// A text that names no link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LinkChoiceError {
    /// A memif link without its socket.
    #[error("name the socket: memif:/run/qanat.memif")]
    NoSocket,
    /// None of the kinds that there are.
    #[error("one of: veth, pair, memif:SOCKET (this end listens), memif-slave:SOCKET (it connects)")]
    Unknown,
}

impl FromStr for LinkChoice {
    type Err = LinkChoiceError;

    fn from_str(text: &str) -> Result<LinkChoice, LinkChoiceError> {
        let memif = |socket: &str, master| match socket {
            "" => Err(LinkChoiceError::NoSocket),
            socket => Ok(LinkChoice::Memif { socket: socket.into(), master }),
        };
        match text.split_once(':') {
            None if text == "veth" => Ok(LinkChoice::Veth),
            None if text == "pair" => Ok(LinkChoice::Pair),
            Some(("memif", socket)) => memif(socket, true),
            Some(("memif-slave", socket)) => memif(socket, false),
            _ => Err(LinkChoiceError::Unknown),
        }
    }
}

/// An Ethernet address of one's own: memif has none. Locally administered, different for the two ends.
pub fn own_mac(server: bool) -> MacAddress {
    MacAddress([2, 0x71, 0x61, 0x6e, 0x61, if server { 2 } else { 1 }])
}

/// A memif end ready for its peer; a master goes on to the next when one leaves.
pub struct OpenLink {
    config: MemifConfig,
    listener: Option<MemifListener>,
}

impl OpenLink {
    /// Listens, as master; as slave nothing happens yet.
    ///
    /// # Errors
    /// The socket cannot be listened on.
    pub fn memif(
        socket: PathBuf,
        master: bool,
        mac: MacAddress,
        mtu: u16,
        log2_ring_size: u8,
        memory: MemoryPlan,
    ) -> Result<OpenLink, MemifError> {
        let mut config = MemifConfig::new(socket, mac);
        config.mtu = mtu;
        config.memory = memory;
        config.log2_ring_size = log2_ring_size;
        let listener = match master {
            true => Some(MemifListener::bind(config.clone())?),
            false => None,
        };
        Ok(OpenLink { config, listener })
    }

    /// Whether another peer may come when one has left.
    pub fn is_master(&self) -> bool {
        self.listener.is_some()
    }

    /// Waits for the peer, at most `patience` at a time as master. `Ok(None)`: nobody yet, or somebody refused (said to
    /// `say`).
    ///
    /// # Errors
    /// A slave finds no master.
    pub fn next(&self, patience: Duration, say: &mut dyn FnMut(String)) -> Result<Option<MemifDevice>, MemifError> {
        let Some(listener) = &self.listener else {
            return memif::connect(&self.config, CONNECT_PATIENCE).map(Some);
        };
        match listener.accept(Some(patience)) {
            Ok(device) => Ok(Some(device)),
            Err(MemifError::Silent) => Ok(None),
            Err(error) => {
                say(error.to_string());
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices() {
        assert_eq!("veth".parse(), Ok(LinkChoice::Veth));
        assert_eq!("memif:/x".parse(), Ok(LinkChoice::Memif { socket: "/x".into(), master: true }));
        assert_eq!("memif-slave:/x".parse(), Ok(LinkChoice::Memif { socket: "/x".into(), master: false }));
        for wrong in ["", "memif", "memif:", "tap", "veth:1"] {
            assert!(wrong.parse::<LinkChoice>().is_err(), "{wrong}");
        }
    }
}
