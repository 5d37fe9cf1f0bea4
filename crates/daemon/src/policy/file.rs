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

use super::error::PolicyError;
use crate::policy::accounts::SUBORDINATE_USERS;
use crate::policy::names::{Names, group_number};
use crate::policy::processors::{DiskPolicy, NetPolicy};
use crate::policy::rule::Rule;
use qanat_control::address::Address;
use qanat_control::filter::{Addresses, Service};
use qanat_control::protocol::DEFAULT_SOCKET;
use qanat_control::regular_file;
use serde::{Deserialize, Deserializer};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The group whose members may ask a daemon that has no policy file.
pub(crate) const DEFAULT_GROUP: &str = "qanat";

/// Bytes of a policy at most.
const POLICY_BYTES_MAX: u64 = 4 << 20;

/// Where the daemon that everybody asks writes down which disks it has.
const DISK_RECORDS: &str = "/var/lib/qanat/disks";

/// Where a daemon writes down which disks it has if its policy does not say: by its control socket.
pub fn usual_disk_records(socket: &Path) -> PathBuf {
    match socket == Path::new(DEFAULT_SOCKET) {
        true => PathBuf::from(DISK_RECORDS),
        false => socket.with_extension("disks"),
    }
}

/// What the file says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Where the daemon listens.
    pub socket: PathBuf,
    /// The group whose members may connect, if there is such a group. Others, except root, can't even ask.
    pub group: String,
    /// The kernel's addresses at the other end of every VNIC, with the prefix VNICs are reached by.
    #[serde(deserialize_with = "prefixed_list")]
    pub host: Vec<(Address, u8)>,
    /// Serve Prometheus' text format here, by HTTP; for this machine only.
    pub metrics: Option<SocketAddr>,
    /// Have a page for browsers here, which shows what there is; for this machine only.
    pub dashboard: Option<SocketAddr>,
    /// A NIC, the wire of which VNICs may be on.
    pub uplink: Option<UplinkPolicy>,
    /// NICs whose own queues may be given to whom a rule trusts.
    pub nic: Vec<NicPolicy>,
    /// NICs whose virtual functions may be given to whom a rule trusts.
    pub vf: Vec<VfPolicy>,
    /// Net cores the daemon starts.
    pub net: NetPolicy,
    /// Disk cores the daemon starts.
    pub disk: DiskPolicy,
    /// Which numbers accounts have for their namespaces (subuid(5)): what such a user has counts to the account.
    pub subordinate_users: PathBuf,
    /// Where the daemon writes down which disks it has; `None`: `/var/lib/qanat/disks`, or beside a control socket that is elsewhere.
    pub disk_records: Option<PathBuf>,
    /// The rules that say what each user may have. A file without a rule gives nobody anything. The default policy, without a file, has
    /// one rule.
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

/// Of a rule's peers and Ethernet addresses: rows of each of its cards in a table that all share.
const PEERS_MAX: usize = 48;

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

/// A NIC whose virtual functions may be given away. All that it has are the daemon's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VfPolicy {
    /// Its interface.
    pub interface: String,
    /// How many: the daemon makes them when it starts.
    pub functions: u32,
    /// The VLAN they are in, 1 to 4094; 0: none.
    pub vlan: u16,
}

impl Default for Policy {
    /// No file needed: root and the group `qanat` may have VNICs in 10.77.0.0/24 and fd77::/64.
    fn default() -> Policy {
        let everything = Rule {
            name: "default".to_owned(),
            users: vec!["root".to_owned()],
            groups: vec![DEFAULT_GROUP.to_owned()],
            addresses: ["10.77.0.0/24", "fd77::/64"].iter().filter_map(|text| text.parse().ok()).collect(),
            services: vec![Service::ANY],
            disks: vec!["*".to_owned()],
            ..Rule::default()
        };
        Policy {
            socket: PathBuf::from(DEFAULT_SOCKET),
            group: DEFAULT_GROUP.to_owned(),
            host: vec![(Address::from([10, 77, 0, 1]), 24), (Address::from([0xfd77_u16, 0, 0, 0, 0, 0, 0, 1]), 64)],
            metrics: None,
            dashboard: None,
            uplink: None,
            nic: Vec::new(),
            vf: Vec::new(),
            net: NetPolicy::default(),
            subordinate_users: PathBuf::from(SUBORDINATE_USERS),
            disk_records: None,
            disk: DiskPolicy::default(),
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

    /// The directory in which the daemon writes down which disks it has.
    pub fn disk_directory(&self) -> PathBuf {
        self.disk_records.clone().unwrap_or_else(|| usual_disk_records(&self.socket))
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

fn prefixed_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(Address, u8)>, D::Error> {
    let texts: Vec<String> = Deserialize::deserialize(deserializer)?;
    texts.iter().map(|text| Address::parse_prefixed(text).map_err(serde::de::Error::custom)).collect()
}

impl Policy {
    /// What a file says, for [`Policy::parse_of`].
    ///
    /// # Errors
    /// Names the file, and why it can't be read.
    pub fn text(path: &Path) -> Result<String, PolicyError> {
        let unreadable = |error| PolicyError::Unreadable { path: path.to_owned(), error };
        let bytes = regular_file::read(path, POLICY_BYTES_MAX).map_err(unreadable)?;
        String::from_utf8(bytes).map_err(|error| unreadable(std::io::Error::other(error)))
    }

    /// Reads the text of a file, or what was its text.
    ///
    /// # Errors
    /// Names the file, the line, and what is wrong there.
    pub fn parse_of(path: &Path, text: &str) -> Result<Policy, PolicyError> {
        Policy::parse(text).map_err(|error| PolicyError::InFile { path: path.to_owned(), error: Box::new(error) })
    }

    /// Whether what it serves by HTTP can be where it says.
    ///
    /// # Errors
    /// Names the key, and what is wrong with it.
    pub fn check_addresses(&self) -> Result<(), PolicyError> {
        for (key, address) in [("metrics", self.metrics), ("dashboard", self.dashboard)] {
            if address.is_some_and(|address| !address.ip().is_loopback()) {
                return Err(PolicyError::Wrong(format!(
                    "{key}: must be an address of this machine only, 127.0.0.1 or [::1]"
                )));
            }
        }
        match self.dashboard {
            Some(address) if address.port() == 0 => Err(PolicyError::Wrong("dashboard: name a port".to_owned())),
            Some(_) if self.dashboard == self.metrics => {
                Err(PolicyError::Wrong("dashboard: name another address than metrics".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// Names the line, and what is wrong there.
    pub fn parse(text: &str) -> Result<Policy, PolicyError> {
        let mut policy: Policy = toml::from_str(text)?;
        policy.check_addresses()?;
        if policy.uplink.as_ref().is_some_and(|uplink| uplink.interface.is_empty()) {
            return Err(PolicyError::Wrong("uplink: name the interface, as in interface = \"eth1\"".to_owned()));
        }
        for NicPolicy { interface, queues: [first, last] } in &policy.nic {
            if interface.is_empty() || first > last || *last == u32::MAX {
                return Err(PolicyError::Wrong(
                    "nic: name the interface, and its queues from first to last, as in interface = \"eth1\" and \
                            queues = [4, 7]"
                        .to_owned(),
                ));
            }
            if policy.uplink.as_ref().is_some_and(|uplink| uplink.interface == *interface) {
                return Err(PolicyError::Wrong(format!("nic {interface}: it is the uplink; it can't be both")));
            }
        }
        for VfPolicy { interface, functions, vlan } in &policy.vf {
            if interface.is_empty() || !(1..=256).contains(functions) || *vlan > 4_094 {
                let text = "vf: name the NIC, and how many functions, as in interface = \"eth1\" and functions = 4; a vlan is 1 to 4094";
                return Err(PolicyError::Wrong(text.to_owned()));
            }
        }
        if !(256..=262_144).contains(&policy.net.frames) || !policy.net.frames.is_multiple_of(2) {
            return Err(PolicyError::Wrong("net: frames must be an even number from 256 to 262144".to_owned()));
        }
        for (section, spin) in [("net", &policy.net.spin), ("disk", &policy.disk.spin)] {
            if !["adaptive", "always", "never"].contains(&spin.as_str()) {
                let text = format!("{section}: spin must be \"adaptive\", \"always\" or \"never\"");
                return Err(PolicyError::Wrong(text));
            }
        }
        if !["round-robin", "least-loaded", "queue"].contains(&policy.net.accept.as_str()) {
            return Err(PolicyError::Wrong(
                "net: accept must be \"round-robin\", \"least-loaded\" or \"queue\"".to_owned(),
            ));
        }
        if policy.disk_records.as_ref().is_some_and(|path| !path.is_absolute()) {
            return Err(PolicyError::Wrong(
                "disk_records: name a directory from the root on, as in disk_records = \"/var/lib/qanat/disks\""
                    .to_owned(),
            ));
        }
        if policy.host.is_empty() {
            return Err(PolicyError::Wrong(
                "host: name an address of the kernel's, as in host = [\"10.77.0.1/24\"]".to_owned(),
            ));
        }
        for (number, rule) in policy.rule.iter_mut().enumerate() {
            if rule.name.is_empty() {
                rule.name = format!("number {}", number + 1);
            }
            let pairs = rule.peers.len().saturating_mul(rule.macs.len() + 1);
            if rule.binds_peers() && pairs > PEERS_MAX {
                return Err(PolicyError::Wrong(format!(
                    "rule \"{}\": its peers with its macs are {pairs} pairs, which each card would have: at most \
                     {PEERS_MAX}; name prefixes or ranges",
                    rule.name
                )));
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
    pub fn socket_group(&self) -> Result<Option<u32>, PolicyError> {
        group_number(&self.group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qanat_control::filter::{Direction, Filter, Rate};
    use qanat_control::protocol::DiskRate;
    use qanat_control::refusal::Cause;

    #[test]
    fn net_cores_are_processors_once_each() {
        let cores = |text: &str| Policy::parse(&format!("[net]\ncores = \"{text}\"")).map(|policy| policy.net.cores);
        assert_eq!(cores("0-1,3, 1").unwrap(), [0, 1, 3]);
        assert!(cores("").unwrap().is_empty());
        for wrong in ["1-0", "a", "0-", "0-99999999", "-1"] {
            assert!(cores(wrong).is_err(), "{wrong}");
        }
        assert!(Policy::parse("[net]\nframes = 7").is_err() && Policy::parse("[net]\nspin = \"at times\"").is_err());
        assert!(Policy::parse("[disk]\nspin = \"always\"").is_ok_and(|policy| policy.disk.spin == "always"));
        assert!(Policy::parse("[disk]\nspin = \"at times\"").is_err());
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
            disks = ["fast"]
            area_mib = 64
            disk_rate = { requests_per_s = 1000 }
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
        assert!(rule.check_disk("fast").is_ok() && !rule.disk_admin);
        let refusal = rule.check_disk("slow").unwrap_err();
        assert!(refusal.cause == Cause::Forbidden && refusal.text.contains("its disks are fast"), "{refusal}");
        assert_eq!(rule.disk_rate, DiskRate { requests_per_s: 1_000, bytes_per_s: 0 });
        assert!(rule.check_rate(rule.transmit, Rate { bits_per_s: 2_000_000, ..Rate::UNLIMITED }).is_err());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, word) in [
            ("hosts = []", "hosts"),
            ("host = [\"10.0.0.1\"]", "10.77.0.2/24"),
            ("metrics = \"0.0.0.0:9464\"", "127.0.0.1"),
            ("dashboard = \"10.0.0.1:9480\"", "dashboard: must"),
            ("dashboard = \"[::1]:0\"", "a port"),
            ("dashboard = \"[::1]:1\"\nmetrics = \"[::1]:1\"", "another"),
            ("[[rule]]\naddresses = [\"10.0.0.0/40\"]", "10.0.0.0/40"),
            ("[[rule]]\nservices = [\"tpc/80\"]", "tpc/80"),
            ("[[rule]]\ntransmit = { bits = 1 }", "bits"),
            ("disk_records = \"disks\"", "from the root on"),
            ("[[rule]]\ndisk_rate = { bits_per_s = 1 }", "bits_per_s"),
            ("[[nic]]\ninterface = \"eth1\"\nqueues = [3, 2]", "from first to last"),
            ("[[vf]]\ninterface = \"eth1\"", "functions = 4"),
            ("[[vf]]\ninterface = \"eth1\"\nfunctions = 4\nvlan = 4095", "4094"),
            ("[uplink]\ninterface = \"eth1\"\n[[nic]]\ninterface = \"eth1\"\nqueues = [1, 2]", "uplink"),
        ] {
            let error = Policy::parse(text).unwrap_err();
            assert!(error.to_string().contains(word), "{text}: {error}");
        }
        let names = Names::default();
        let default = Policy::default();
        assert!(default.grant(&names, 0, &[]).is_some_and(|grant| grant.rule.allows_disk("fast")), "root by default");
        assert!(!Rule::default().allows_disk("fast"), "a rule that names no disk allows none");
        assert_eq!(default.disk_directory(), Path::new("/var/lib/qanat/disks"));
        let elsewhere = Policy { socket: PathBuf::from("/run/q/control.sock"), ..default };
        assert_eq!(elsewhere.disk_directory(), Path::new("/run/q/control.disks"));
        assert!(
            Policy::parse("").unwrap().grant(&names, 0, &[]).is_none(),
            "a file without a rule gives nobody anything"
        );
    }
}
