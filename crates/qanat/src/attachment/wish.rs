//! What a daemon is asked for: the card's wish, and of which kind its device is to be.

use super::options::{AttachOptions, CardSource, DaemonCard, MTU, OwnDevice, PROTOCOL_TCP, PROTOCOL_UDP, WantedCard};
use qanat_control::address::Address;
use qanat_control::client::{ClientError, Session, VnicHandle};
use qanat_control::filter::{Ports, Service};
use qanat_control::protocol::{Provider, VnicWish};
use qanat_nic::af_xdp::PortRange;
use std::net::IpAddr;

impl AttachOptions {
    fn daemon(&self) -> Option<&DaemonCard> {
        match &self.source {
            CardSource::Daemon(daemon) => Some(daemon),
            CardSource::Own(_) | CardSource::Interface(_) | CardSource::Function(_) => None,
        }
    }

    /// The card to ask a daemon for.
    pub fn vnic_wish(&self) -> VnicWish {
        // An empty list of services is a client's: it sends from any port.
        let service = |range: &PortRange| Service {
            protocol_first: range.protocol,
            protocol_last: range.protocol,
            ports: Ports { first: range.first, last: range.last },
        };
        let mut services: Vec<Service> = self.services.iter().map(service).collect();
        if services.is_empty() {
            services.push(Service { protocol_first: PROTOCOL_TCP, protocol_last: PROTOCOL_TCP, ports: Ports::ANY });
        }
        let own_name = || std::env::args().take(2).skip(1).collect();
        let name = self.daemon().and_then(|daemon| daemon.name.clone()).unwrap_or_else(own_name);
        let mtu = match &self.source {
            CardSource::Own(own) => own.mtu,
            CardSource::Interface(_) | CardSource::Function(_) => MTU,
            CardSource::Daemon(daemon) => daemon.mtu,
        };
        // As the daemon is told addresses.
        let canonical = |(address, length): (IpAddr, u8)| (Address::from(address), length);
        let addresses = self.addresses().into_iter().map(canonical).collect();
        VnicWish { name, addresses, queues: self.queues, mtu, services, ..VnicWish::default() }
    }

    /// Has the daemon make the card of `wish`, a device of the kind that these options name unless `wish` names a NIC's queue.
    ///
    /// # Errors
    /// [`ClientError`]; with [`OwnDevice::TapOrVeth`] why there is no veth, if only the kind of device stood in the way of a TAP.
    pub fn create_card(&self, session: &Session, wish: VnicWish) -> Result<VnicHandle, ClientError> {
        let device = match self.daemon().map(|daemon| &daemon.card) {
            Some(WantedCard::New(device)) if wish.provider == Provider::Veth => *device,
            _ => OwnDevice::Veth,
        };
        if device == OwnDevice::Veth {
            return session.create_vnic(wish);
        }
        match session.create_vnic(VnicWish { provider: Provider::Tap, ..wish.clone() }) {
            // What the policy, the uplink or the machine does not let a TAP device be, a veth may be.
            Err(error) if device == OwnDevice::TapOrVeth && error.is_about_provider() => session.create_vnic(wish),
            outcome => outcome,
        }
    }

    /// Offers everything the daemon lets this user offer, for a program that does not say beforehand which of it that will be.
    ///
    /// # Errors
    /// The daemon can't be asked; then nothing is offered.
    pub fn offer_everything(&mut self) -> Result<(), ClientError> {
        self.services.clear();
        let Some(daemon) = self.daemon() else { return Ok(()) };
        let session = match daemon.session.as_ref().and_then(|session| session.try_clone().ok()) {
            Some(session) => Ok(Session::over(session, &daemon.socket)),
            None => Session::connect(&daemon.socket),
        };
        let limits = session.and_then(|session| session.limits())?;
        let allowed: Vec<Service> = limits.services.iter().filter_map(|text| text.parse().ok()).collect();
        for protocol in [PROTOCOL_TCP, PROTOCOL_UDP] {
            let of_it = allowed.iter().filter(|s| (s.protocol_first..=s.protocol_last).contains(&protocol));
            self.services.extend(of_it.map(|service| PortRange {
                protocol,
                first: service.ports.first,
                last: service.ports.last,
            }));
        }
        Ok(())
    }
}
