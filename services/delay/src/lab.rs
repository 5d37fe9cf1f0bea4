//! Two namespaces joined only through the emulator, for tests and for trying things.
//!
//! ```text
//!  namespace A                                                                   namespace B
//!  qanat0 10.78.0.1/24 ══ qanat-device ──[ emulator ]── qanat-device ══ qanat0 10.78.0.2/24
//! ```
//! All are anonymous: whatever ends the process removes them.

use crate::config::Port;
use qanat_nic::DeviceError;
use qanat_nic::link::{self, Namespace};
use qanat_nic::veth::{self, Veth, VethConfig};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How to make the lab.
#[derive(Clone, Copy, Debug)]
pub struct LabConfig {
    /// MTU of all interfaces.
    pub mtu: u32,
    /// Queues of all interfaces.
    pub queues: u32,
}

impl Default for LabConfig {
    /// MTU 1500, one queue.
    fn default() -> LabConfig {
        LabConfig { mtu: 1_500, queues: 1 }
    }
}

/// See the module. Dropping it removes everything, once the emulator is gone.
#[derive(Debug)]
pub struct Lab {
    ends: [Veth; 2],
}

impl Lab {
    /// The IPv4 address of the first and of the second namespace.
    pub const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 78, 0, 1), Ipv4Addr::new(10, 78, 0, 2)];
    /// Their IPv6 addresses.
    pub const ADDRESSES_V6: [Ipv6Addr; 2] =
        [Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 2)];

    /// Makes both namespaces and their interfaces, addressed and up.
    ///
    /// # Errors
    /// Those of [`veth::create`].
    pub fn create(config: LabConfig) -> Result<Lab, DeviceError> {
        let end = |number: usize| -> Result<Veth, DeviceError> {
            let system = |error| DeviceError::System { what: "make a network namespace".to_owned(), source: error };
            let namespace = Namespace::anonymous().map_err(system)?;
            namespace
                .within(|| link::link("lo").and_then(|loopback| link::set_up(loopback.index)))
                .map_err(system)?
                .map_err(system)?;
            veth::create(&VethConfig {
                host_addresses: vec![
                    (IpAddr::V4(Lab::ADDRESSES[number]), 24),
                    (IpAddr::V6(Lab::ADDRESSES_V6[number]), 64),
                ],
                host_namespace: Some(namespace),
                mtu: config.mtu,
                queues: config.queues,
                ..VethConfig::default()
            })
        };
        Ok(Lab { ends: [end(0)?, end(1)?] })
    }

    /// The two interfaces to forward between.
    pub fn ports(&self) -> [Port; 2] {
        let port = |end: &Veth| Port { interface: end.device().name.clone(), namespace: Some(end.namespace().clone()) };
        [port(&self.ends[0]), port(&self.ends[1])]
    }

    /// The two namespaces whose programs are to speak.
    pub fn namespaces(&self) -> [&Namespace; 2] {
        [self.ends[0].host_namespace(), self.ends[1].host_namespace()]
    }

    /// The two devices.
    pub fn ends(&self) -> &[Veth; 2] {
        &self.ends
    }
}
