//! One rule: what some users may have.

use qanat_control::address::Address;
use qanat_control::filter::{Addresses, Direction, EtherTypes, Filter, Macs, Rate, Service, Vlan};
use qanat_control::protocol::DiskRate;
use qanat_control::refusal::{Cause, Refusal};
use serde::{Deserialize, Serialize};

/// What some users may have.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Named in every refusal.
    pub name: String,
    /// Users it is for; `*` for all.
    pub users: Vec<String>,
    /// Groups it is for.
    pub groups: Vec<String>,
    /// VNICs of one user.
    pub vnics: u32,
    /// Queues of one VNIC.
    pub queues: u32,
    /// Frame memory of one user, MiB.
    pub memory_mib: u64,
    /// Addresses that may be claimed.
    pub addresses: Vec<Addresses>,
    /// What may be sent as.
    pub services: Vec<Service>,
    /// What may be sent to.
    pub peers: Vec<Addresses>,
    /// Ethernet addresses of peers, or of the next hops towards them.
    pub macs: Vec<Macs>,
    /// VLANs, both ways.
    pub vlans: Vec<Vlan>,
    /// EtherTypes that filters of the Ethernet level may name, both ways.
    pub ethertypes: Vec<EtherTypes>,
    /// ICMP echo and errors, both ways.
    pub icmp: bool,
    /// To other VNICs of this machine too.
    pub switch: bool,
    /// On the uplink's wire too, with addresses of its prefixes.
    pub uplink: bool,
    /// Cards may be TAP devices.
    pub tap: bool,
    /// May have queues of NICs: what is sent by one passes no filter, no rate and no count. And injectors: their program can be
    /// attached to devices.
    pub trusted: bool,
    /// Ceiling of one user's VNICs together.
    pub transmit: Rate,
    /// Ceiling of one user's VNICs together.
    pub receive: Rate,
    /// Disks on which areas may be made; `*` for all.
    pub disks: Vec<String>,
    /// Areas of one user, on all disks together.
    pub areas: u32,
    /// What one user's areas may have together, MiB.
    pub area_mib: u64,
    /// Ceiling of what one user's areas are asked together, on each disk.
    pub disk_rate: DiskRate,
    /// May add disks and remove them, as root may: whatever file or device is named, the daemon opens it.
    pub disk_admin: bool,
}

impl Default for Rule {
    fn default() -> Rule {
        Rule {
            name: String::new(),
            users: Vec::new(),
            groups: Vec::new(),
            vnics: 8,
            queues: 4,
            memory_mib: 1_024,
            addresses: Vec::new(),
            services: Vec::new(),
            peers: vec![Addresses::ANY],
            macs: vec![Macs::ANY],
            vlans: vec![Vlan::NONE],
            ethertypes: Vec::new(),
            icmp: true,
            switch: true,
            uplink: false,
            tap: true,
            trusted: false,
            transmit: Rate::UNLIMITED,
            receive: Rate::UNLIMITED,
            disks: Vec::new(),
            areas: 16,
            area_mib: 16_384,
            disk_rate: DiskRate::UNLIMITED,
            disk_admin: false,
        }
    }
}

impl Rule {
    fn refuse(&self, wanted: &str, key: &str, allowed: &str) -> Refusal {
        let text = format!(
            "rule \"{}\" does not allow {wanted}: its {key} are {allowed}; the policy says so (qanat.toml, `qanat up --config`)",
            self.name
        );
        Refusal::new(Cause::Forbidden, text)
    }

    /// Whether `address` may be claimed.
    ///
    /// # Errors
    /// The refusal.
    pub fn check_address(&self, address: Address) -> Result<(), Refusal> {
        let wanted = Addresses::host(*address);
        match self.addresses.iter().any(|prefix| prefix.contains(wanted)) {
            true => Ok(()),
            false => Err(self.refuse(&format!("address {address}"), "addresses", &list(&self.addresses))),
        }
    }

    /// Whether all that `filter` covers may be sent, or received. What a VNIC receives is its own affair, as it is
    /// addressed to it; but for VLANs and EtherTypes, which are others' worlds.
    ///
    /// # Errors
    /// The refusal.
    pub fn check_filter(&self, direction: Direction, filter: &Filter) -> Result<(), Refusal> {
        if !self.vlans.iter().any(|vlan| vlan.contains(filter.vlan)) {
            return Err(self.refuse(&format!("VLAN {}", filter.vlan), "vlans", &list(&self.vlans)));
        }
        if let Some(types) = filter.types
            && !self.ethertypes.iter().any(|allowed| allowed.contains(types))
        {
            return Err(self.refuse(&format!("EtherType {types}"), "ethertypes", &list(&self.ethertypes)));
        }
        if direction == Direction::Receive {
            return Ok(());
        }
        if !self.macs.iter().any(|macs| macs.contains(filter.macs)) {
            return Err(self.refuse(&format!("Ethernet addresses {}", filter.macs), "macs", &list(&self.macs)));
        }
        if filter.types.is_some() {
            return Ok(());
        }
        if !self.services.iter().any(|service| service.contains(filter.service)) {
            return Err(self.refuse(&format!("service {}", filter.service), "services", &list(&self.services)));
        }
        if !self.peers.iter().any(|prefix| prefix.contains(filter.peer)) {
            return Err(self.refuse(&format!("peers {}", filter.peer), "peers", &list(&self.peers)));
        }
        Ok(())
    }

    /// Whether it says whom may be sent to: then ARP, ND and ICMP are bound by that, too.
    pub fn binds_peers(&self) -> bool {
        !self.peers.contains(&Addresses::ANY) || !self.macs.contains(&Macs::ANY)
    }

    /// Whether queues of a NIC may be had.
    ///
    /// # Errors
    /// The refusal.
    pub fn check_trusted(&self) -> Result<(), Refusal> {
        match self.trusted {
            true => Ok(()),
            false => {
                let text = format!(
                    "rule \"{}\" does not allow a NIC's own queue, which nothing would fence: it needs `trusted = true`",
                    self.name
                );
                Err(Refusal::new(Cause::Forbidden, text))
            }
        }
    }

    /// Whether areas may be made on a disk.
    pub fn allows_disk(&self, disk: &str) -> bool {
        self.disks.iter().any(|name| name == "*" || name == disk)
    }

    /// As [`allows_disk`](Rule::allows_disk).
    ///
    /// # Errors
    /// The refusal.
    pub fn check_disk(&self, disk: &str) -> Result<(), Refusal> {
        match self.allows_disk(disk) {
            true => Ok(()),
            false => Err(self.refuse(&format!("disk {disk}"), "disks", &list(&self.disks))),
        }
    }

    /// Whether a count stays within the rule. `cause`: what it is if it does not.
    ///
    /// # Errors
    /// The refusal.
    pub fn check_count(&self, what: &str, wanted: u64, most: u64, cause: Cause) -> Result<(), Refusal> {
        match wanted <= most {
            true => Ok(()),
            false => Err(Refusal::new(cause, format!("rule \"{}\" allows {most} {what}, not {wanted}", self.name))),
        }
    }

    /// Whether a rate stays below the ceiling.
    ///
    /// # Errors
    /// The refusal.
    pub fn check_rate(&self, ceiling: Rate, rate: Rate) -> Result<(), Refusal> {
        let Rate { bits_per_s, packets_per_s, .. } = ceiling;
        match rate == Rate::UNLIMITED || ceiling.contains(rate) {
            true => Ok(()),
            false => {
                let name = |count: u64, unit: &str| match count {
                    0 => format!("any number of {unit}"),
                    count => format!("{count} {unit}"),
                };
                let text = format!(
                    "rule \"{}\" allows {} and {}, not {} and {}: name both (--bits, --packets), for one left out means any",
                    self.name,
                    name(bits_per_s, "bit/s"),
                    name(packets_per_s, "packets/s"),
                    name(rate.bits_per_s, "bit/s"),
                    name(rate.packets_per_s, "packets/s"),
                );
                Err(Refusal::new(Cause::Forbidden, text))
            }
        }
    }
}

fn list<T: ToString>(items: &[T]) -> String {
    let texts: Vec<String> = items.iter().map(T::to_string).collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}
