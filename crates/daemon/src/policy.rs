//! The policy: one TOML file that says who may have what. Nobody may have anything no rule grants.
//!
//! ```toml
//! host = ["10.77.0.1/24"]           # the kernel's own addresses on every VNIC's other end
//!
//! [[rule]]                          # the first that names the user decides
//! name = "web servers"
//! groups = ["qanat"]
//! vnics = 4
//! addresses = ["10.77.0.0/24"]
//! services = ["tcp/80", "tcp/443"]
//! transmit = { bits_per_s = 1_000_000_000 }
//! ```

use crate::accounts::SUBORDINATE_USERS;
use crate::names::{self, Names};
use qanat_control::address::Address;
use qanat_control::filter::{Addresses, Direction, EtherTypes, Filter, Macs, Rate, Service, Vlan};
use qanat_control::protocol::DEFAULT_SOCKET;
use qanat_control::refusal::{Cause, Refusal};
use serde::{Deserialize, Deserializer, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What the file says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Where the daemon listens.
    pub socket: PathBuf,
    /// Whose members may connect, where there is such a group; others (but root) can't even ask.
    pub group: String,
    /// The kernel's addresses at the other end of every VNIC, with the prefix VNICs are reached by.
    #[serde(deserialize_with = "prefixed_list")]
    pub host: Vec<(Address, u8)>,
    /// Serve Prometheus' text format here, by HTTP; for this machine only.
    pub metrics: Option<SocketAddr>,
    /// A NIC, the wire of which VNICs may be on.
    pub uplink: Option<UplinkPolicy>,
    /// NICs whose own queues may be given to whom a rule trusts.
    pub nic: Vec<NicPolicy>,
    /// Net cores the daemon starts.
    pub net: NetPolicy,
    /// Which numbers accounts have for their namespaces (subuid(5)): what such a user has counts to the account.
    pub subordinate_users: PathBuf,
    /// Who may have what. A file without a rule gives nobody anything; the default policy, without a file, has one.
    #[serde(default)]
    pub rule: Vec<Rule>,
}

/// The rule that a policy has for a user.
#[derive(Clone, Copy, Debug)]
pub struct Grant<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// Its place in the policy.
    pub number: usize,
    /// It is for members of a group, and does not name the user.
    pub is_for_members: bool,
}

/// What somebody who connected may have, as it was judged then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nothing: no rule is for the user.
    #[default]
    NoRule,
    /// What this rule allows: its place in the policy.
    Rule(usize),
    /// Nothing: this rule is for members of groups, and the user's number is no account's.
    NoAccount(usize),
}

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

/// Of a rule's peers and Ethernet addresses: rows of each of its cards in a table that all share.
const PEERS_MAX: usize = 48;
/// Net cores of one daemon at most.
pub(crate) const NET_CORES_MAX: usize = 64;

/// Processors as `0-1,3`, in order.
///
/// # Errors
/// What is wrong.
pub fn parse_processors(text: &str) -> Result<Vec<u32>, String> {
    let wrong = || format!("`{text}`: name processors as in 0-1,3");
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
    if all.len() > NET_CORES_MAX { Err(format!("`{text}`: {NET_CORES_MAX} net cores at most")) } else { Ok(all) }
}

fn processors<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    let text: String = Deserialize::deserialize(deserializer)?;
    parse_processors(&text).map_err(serde::de::Error::custom)
}

/// The uplink.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UplinkPolicy {
    /// Its name.
    pub interface: String,
    /// VNICs with these addresses are on its wire, if their rule says so. None: those it has addresses in itself.
    pub prefixes: Vec<Addresses>,
    /// Their next hops to elsewhere. None: the kernel's, if it has one there.
    pub gateways: Vec<Address>,
}

/// A NIC whose own queues may be given away.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NicPolicy {
    /// Its name.
    pub interface: String,
    /// Those queues: first and last. The rest stay the kernel's.
    pub queues: [u32; 2],
}

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
    /// Whom to.
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
}

impl Default for Policy {
    /// No file needed: root and the group `qanat` may have VNICs in 10.77.0.0/24 and fd77::/64.
    fn default() -> Policy {
        let everything = Rule {
            name: "default".to_owned(),
            users: vec!["root".to_owned()],
            groups: vec!["qanat".to_owned()],
            addresses: ["10.77.0.0/24", "fd77::/64"].iter().filter_map(|text| text.parse().ok()).collect(),
            services: vec![Service::ANY],
            ..Rule::default()
        };
        Policy {
            socket: PathBuf::from(DEFAULT_SOCKET),
            group: "qanat".to_owned(),
            host: vec![(Address::from([10, 77, 0, 1]), 24), (Address::from([0xfd77_u16, 0, 0, 0, 0, 0, 0, 1]), 64)],
            metrics: None,
            uplink: None,
            nic: Vec::new(),
            net: NetPolicy::default(),
            subordinate_users: PathBuf::from(SUBORDINATE_USERS),
            rule: vec![everything],
        }
    }
}

impl Policy {
    /// What in it says nothing to anybody, in words with a remedy.
    pub fn idle(&self) -> Option<String> {
        let uplink = self.uplink.as_ref().filter(|_| !self.rule.iter().any(|rule| rule.uplink))?;
        let name = &uplink.interface;
        Some(format!("no rule says `uplink = true`, so no card can be on the wire of the uplink {name}: add it to one"))
    }

    /// Has the default policy use an uplink, whose networks are these: root's cards may have their addresses.
    pub fn let_root_use_uplink(&mut self, networks: impl Iterator<Item = Addresses>) {
        let Some(default) = self.rule.first() else { return };
        let mut addresses = default.addresses.clone();
        addresses.extend(networks);
        let groups = Vec::new();
        let wide = Rule { name: "uplink".to_owned(), uplink: true, addresses, groups, ..default.clone() };
        self.rule.insert(0, wide);
    }
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
        }
    }
}

fn prefixed_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(Address, u8)>, D::Error> {
    let texts: Vec<String> = Deserialize::deserialize(deserializer)?;
    texts.iter().map(|text| Address::parse_prefixed(text).map_err(serde::de::Error::custom)).collect()
}

impl Policy {
    /// Reads a file.
    ///
    /// # Errors
    /// Names the file, the line, and what is wrong there.
    pub fn read(path: &Path) -> Result<Policy, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Policy::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// Names the line, and what is wrong there.
    pub fn parse(text: &str) -> Result<Policy, String> {
        let mut policy: Policy = toml::from_str(text).map_err(|error| error.to_string())?;
        if policy.metrics.is_some_and(|address| !address.ip().is_loopback()) {
            return Err("metrics: must be an address of this machine only, 127.0.0.1 or [::1]".to_owned());
        }
        if policy.uplink.as_ref().is_some_and(|uplink| uplink.interface.is_empty()) {
            return Err("uplink: name the interface, as in interface = \"eth1\"".to_owned());
        }
        for NicPolicy { interface, queues: [first, last] } in &policy.nic {
            if interface.is_empty() || first > last || *last == u32::MAX {
                return Err(
                    "nic: name the interface, and its queues from first to last, as in interface = \"eth1\" and \
                            queues = [4, 7]"
                        .to_owned(),
                );
            }
            if policy.uplink.as_ref().is_some_and(|uplink| uplink.interface == *interface) {
                return Err(format!("nic {interface}: it is the uplink; it can't be both"));
            }
        }
        if !(256..=262_144).contains(&policy.net.frames) || !policy.net.frames.is_multiple_of(2) {
            return Err("net: frames must be an even number from 256 to 262144".to_owned());
        }
        if !["adaptive", "always", "never"].contains(&policy.net.spin.as_str()) {
            return Err("net: spin must be \"adaptive\", \"always\" or \"never\"".to_owned());
        }
        if !["round-robin", "least-loaded", "queue"].contains(&policy.net.accept.as_str()) {
            return Err("net: accept must be \"round-robin\", \"least-loaded\" or \"queue\"".to_owned());
        }
        if policy.host.is_empty() {
            return Err("host: name an address of the kernel's, as in host = [\"10.77.0.1/24\"]".to_owned());
        }
        for (number, rule) in policy.rule.iter_mut().enumerate() {
            if rule.name.is_empty() {
                rule.name = format!("number {}", number + 1);
            }
            let pairs = rule.peers.len().saturating_mul(rule.macs.len() + 1);
            if rule.binds_peers() && pairs > PEERS_MAX {
                return Err(format!(
                    "rule \"{}\": its peers with its macs are {pairs} pairs, which each card would have: at most \
                     {PEERS_MAX}; name prefixes or ranges",
                    rule.name
                ));
            }
        }
        Ok(policy)
    }

    /// Whether a rule names a user by number, whoever has that number for its namespaces: then it counts for itself.
    pub fn names(&self, user: u32) -> bool {
        self.rule.iter().flat_map(|rule| &rule.users).any(|name| name.parse() == Ok(user))
    }

    /// The first rule for a user with these groups; `None`: may have nothing. Nobody is asked for names here: `names` has them.
    pub fn grant(&self, names: &Names, user: u32, groups: &[u32]) -> Option<Grant<'_>> {
        let is_user = |name: &String| name == "*" || names.user(name) == Some(user);
        let in_group = |name: &String| names.group(name).is_some_and(|number| groups.contains(&number));
        self.rule.iter().enumerate().find_map(|(number, rule)| {
            let is_named = rule.users.iter().any(is_user);
            let grant = Grant { rule, number, is_for_members: !is_named };
            (is_named || rule.groups.iter().any(in_group)).then_some(grant)
        })
    }

    /// The rule by its place in the policy.
    pub fn rule_of(&self, standing: Standing) -> Option<&Rule> {
        match standing {
            Standing::NoRule => None,
            Standing::Rule(number) | Standing::NoAccount(number) => self.rule.get(number),
        }
    }

    /// The number of the group that may connect; `None`: there is no such group.
    ///
    /// # Errors
    /// The machine's name service has not answered for some seconds.
    pub fn socket_group(&self) -> Result<Option<u32>, String> {
        names::group_number(&self.group)
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
                let text =
                    format!("rule \"{}\" allows {bits_per_s} bit/s and {packets_per_s} packets/s (0: any)", self.name);
                Err(Refusal::new(Cause::Forbidden, text))
            }
        }
    }
}

fn list<T: ToString>(items: &[T]) -> String {
    let texts: Vec<String> = items.iter().map(T::to_string).collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn net_cores_are_processors_once_each() {
        let cores = |text: &str| Policy::parse(&format!("[net]\ncores = \"{text}\"")).map(|policy| policy.net.cores);
        assert_eq!(cores("0-1,3, 1"), Ok(vec![0, 1, 3]));
        assert_eq!(cores(""), Ok(vec![]));
        for wrong in ["1-0", "a", "0-", "0-99999999", "-1"] {
            assert!(cores(wrong).is_err(), "{wrong}");
        }
        assert!(Policy::parse("[net]\nframes = 7").is_err() && Policy::parse("[net]\nspin = \"at times\"").is_err());
    }

    #[test]
    fn a_file_is_read() {
        let policy = Policy::parse(
            r#"
            host = ["10.9.0.1/16"]
            [[rule]]
            name = "web"
            users = ["www-data", "65534"]
            addresses = ["10.9.1.0/24"]
            services = ["tcp/80"]
            peers = ["10.0.0.0/8"]
            transmit = { bits_per_s = 1000000 }
            "#,
        )
        .unwrap();
        let names = Names::default();
        assert!(policy.grant(&names, 12_345, &[12_345]).is_none(), "nobody else may have anything");
        let rule = policy.grant(&names, 65_534, &[65_534]).unwrap().rule;
        assert!(rule.check_address("10.9.1.7".parse().unwrap()).is_ok());
        let refusal = rule.check_address("10.9.2.7".parse().unwrap()).unwrap_err();
        assert!(
            refusal.cause == Cause::Forbidden
                && refusal.text.contains("rule \"web\"")
                && refusal.text.contains("10.9.1.0/24"),
            "{refusal}"
        );
        let mut filter = Filter::service("tcp/80".parse().unwrap());
        let check = |filter: &Filter| rule.check_filter(Direction::Transmit, filter);
        assert!(check(&filter).unwrap_err().text.contains("peers"), "any peer is more than 10/8");
        filter.peer = "10.2.0.0/16".parse().unwrap();
        assert!(check(&filter).is_ok());
        let tagged = Filter { vlan: "7".parse().unwrap(), ..filter };
        assert!(check(&tagged).unwrap_err().text.contains("VLAN 7"), "no VLAN unless it is named");
        let raw = Filter { types: Some("0x88b5".parse().unwrap()), ..filter };
        assert!(rule.check_filter(Direction::Receive, &raw).unwrap_err().text.contains("EtherType 0x88b5"));
        filter.service = "tcp/81".parse().unwrap();
        assert!(check(&filter).unwrap_err().text.contains("tcp/81"));
        assert!(rule.check_filter(Direction::Receive, &filter).is_ok(), "what is received is one's own affair");
        assert!(rule.check_rate(rule.transmit, Rate { bits_per_s: 2_000_000, ..Rate::UNLIMITED }).is_err());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, word) in [
            ("hosts = []", "hosts"),
            ("host = [\"10.0.0.1\"]", "10.77.0.2/24"),
            ("metrics = \"0.0.0.0:9464\"", "127.0.0.1"),
            ("[[rule]]\naddresses = [\"10.0.0.0/40\"]", "10.0.0.0/40"),
            ("[[rule]]\nservices = [\"tpc/80\"]", "tpc/80"),
            ("[[rule]]\ntransmit = { bits = 1 }", "bits"),
            ("[[nic]]\ninterface = \"eth1\"\nqueues = [3, 2]", "from first to last"),
            ("[uplink]\ninterface = \"eth1\"\n[[nic]]\ninterface = \"eth1\"\nqueues = [1, 2]", "uplink"),
        ] {
            let error = Policy::parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
        let names = Names::default();
        assert!(Policy::default().grant(&names, 0, &[]).is_some(), "root by default");
        assert!(
            Policy::parse("").unwrap().grant(&names, 0, &[]).is_none(),
            "a file without a rule gives nobody anything"
        );
    }
}
