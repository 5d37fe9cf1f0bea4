//! Where a VNIC comes from: the daemon, a device of our own, or an interface that is there already.
//!
//! ```text
//!  daemon:     kernel ── qanat0 ═ gate, deliver (the daemon's namespace) ── AF_XDP ── 10.77.0.2, without privileges
//!  its TAP:    kernel ── qanat0 ═ tap_gate, tap_deliver ══ descriptor ── 10.77.0.2, without privileges
//!  own veth:   kernel ── qanat0 10.77.0.1/24 ═══ qanat-device (anonymous namespace) ── AF_XDP ── 10.77.0.2
//!  own TAP:    kernel ── qanat0 10.77.0.1/24 ══ descriptor ── 10.77.0.2
//!  interface:  eth1 ── XDP program: takes what the rules name, passes the rest ── AF_XDP
//!  function:   the card's switch ── a virtual function's rings ── this process, by VFIO
//! ```
//! Nothing is left behind on any exit: the namespace, the program and the sockets live as long as this process.

mod claim;
mod function;
mod options;
mod prefix;
mod wish;

pub use claim::check_addresses;
use claim::{no_other_has, no_server_has, no_way_by};
use function::FunctionDevice;
pub use options::{
    AttachOptions, CardSource, DaemonCard, FunctionCard, InterfaceCard, OwnCard, OwnDevice, OwnKind, PROTOCOL_TCP,
    PROTOCOL_UDP, RouterAdvertisements, WantedCard,
};
use prefix::{first_of_prefix, last_of_prefix};
use qanat_control::client::{ClientError, Session, VnicHandle, default_socket};
use qanat_control::filter::Addresses;
use qanat_control::protocol::Provider;
use qanat_nic::af_xdp::{AttachConfig, Interface, QueueOpener, Rule, Verdicts};
use qanat_nic::igbvf::IgbVfError;
use qanat_nic::link::{self, Namespace, Side};
use qanat_nic::tap::{self, TapConfig, TapDevice};
use qanat_nic::veth::{self, Veth, VethConfig};
use qanat_nic::{DeviceError, LendableFiles, MemoryPlan, Queue};
use qanat_stack::{Autoconfiguration, Config, DuplicateAddressDetection};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

/// Addresses of a daemon's VNIC at most.
const VNIC_ADDRESSES_MAX: usize = 16;
/// Addresses tried on a daemon before giving up.
const BESIDE_ATTEMPTS: usize = 64;

/// Why there is no VNIC.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The device refused; its message has the remedy.
    #[error("{0}")]
    Device(#[from] DeviceError),
    /// The routing table could not be asked.
    #[error("no route: {0}; check the address and `ip route get`")]
    Route(#[source] io::Error),
    /// The target is this machine itself.
    #[error("{0} is this machine's own address, which no network card leads to; use kernel sockets (--kernel)")]
    Loopback(IpAddr),
    /// The interface has no address of the target's family to neighbour on.
    #[error("interface {interface} has no address near {target}; name one with --source ADDRESS")]
    NoPrefix {
        /// The interface.
        interface: String,
        /// The target.
        target: IpAddr,
    },
    /// The virtual function can't be had; its message has the remedy.
    #[error(transparent)]
    Function(#[from] IgbVfError),
    /// The control plane did not do it; its message has the remedy.
    #[error("{0}")]
    Control(#[from] ClientError),
    /// On a real network addresses are not to be guessed.
    #[error(
        "{interface} leads to a real network, where addresses are not to be guessed: name a free one with --source ADDRESS"
    )]
    SourceNeeded {
        /// The interface.
        interface: String,
    },
}

/// The stack's configuration, as far as it is the same wherever the card comes from.
fn stack_config(options: &AttachOptions) -> Config {
    let mut config = Config::new(options.address.0, options.address.1);
    config.addresses = options.addresses();
    config.gateways.extend(options.gateway);
    config.tcp.maximum_segment = options.maximum_segment;
    if let CardSource::Interface(interface) = &options.source {
        config.vlan = interface.vlan;
    }
    match options.source.router_advertisements() {
        RouterAdvertisements::Ignore => {}
        RouterAdvertisements::Routers => config.accept_router_advertisements = true,
        RouterAdvertisements::Addresses => config.autoconfiguration = Some(autoconfiguration()),
    }
    config.duplicate_address_detection = options.duplicate_address_detection.unwrap_or_default();
    let has_six = config.addresses.iter().any(|(address, _)| address.is_ipv6());
    config.multicast_listener_reports = options.source.is_there() && has_six || config.autoconfiguration.is_some();
    config
}

/// Whether the stack listens to what is sent to all nodes of the link.
fn hears_all_nodes(config: &Config) -> bool {
    config.multicast_listener_reports || config.accept_router_advertisements
}

fn is_function(vnic: &VnicHandle) -> bool {
    matches!(vnic.status().provider, Provider::Vf { .. })
}

fn is_tap(vnic: &VnicHandle) -> bool {
    vnic.status().provider == Provider::Tap
}

/// A device whose queues may be opened, and the stack configuration that fits it.
pub struct Attachment {
    device: Device,
    config: Config,
    /// What traffic passes through: of a daemon's device, the kernel's end.
    interface: String,
    driver: String,
    mtu: u32,
}

enum Device {
    /// Ours; the veth device is kept with it.
    Own(Interface, #[allow(dead_code, reason = "kept for its drop")] Option<Veth>),
    /// The daemon's.
    Daemon(VnicHandle),
    /// A TAP device of ours.
    Tap(TapDevice),
    /// A virtual function.
    Function(FunctionDevice),
}

impl Attachment {
    /// Gives up a daemon's device in all processes that share it. Any other device stays until the last process gives it up.
    pub fn give_up(&self) {
        if let Device::Daemon(handle) = &self.device {
            handle.give_up();
        }
    }

    /// Makes or opens the device and attaches the XDP program with its rules.
    ///
    /// # Errors
    /// [`AttachError`], with the remedy.
    pub fn open(options: &AttachOptions) -> Result<Attachment, AttachError> {
        let config = stack_config(options);
        match &options.source {
            CardSource::Own(own) => Attachment::made(own, options, config),
            CardSource::Interface(interface) => Attachment::shared(interface, options, config),
            CardSource::Function(function) => Attachment::driven(function, options, config),
            CardSource::Daemon(daemon) => Attachment::handed(daemon, options, config),
        }
    }

    /// On an interface that is there already.
    fn shared(
        interface: &InterfaceCard,
        options: &AttachOptions,
        mut config: Config,
    ) -> Result<Attachment, AttachError> {
        let (addresses, namespace) = (&config.addresses, interface.namespace.as_ref());
        let (kernel, gateway) = kernel_view(&interface.name, namespace, interface.vlan, options.address.0);
        // The kernel's own next hop is right wherever it is.
        check_addresses(addresses, options.gateway.filter(|named| Some(*named) != gateway))?;
        // In a VLAN they are on an interface over that one.
        if interface.vlan.is_none() {
            no_other_has(addresses, Some(interface.name.as_str()), namespace)?;
        }
        // As the kernel would go, unless told otherwise.
        if config.gateways.is_empty() {
            config.gateways.extend(gateway);
        }
        config.shared_address = kernel.iter().any(|(address, _)| *address == options.address.0);
        if config.shared_address {
            no_server_has(&options.services, addresses, namespace)?;
        }
        let rule = |(address, _): &(IpAddr, u8)| {
            if config.shared_address { Rule::shared(*address, &options.services) } else { Rule::whole(*address) }
        };
        let rules = addresses.iter().map(rule).collect();
        if config.shared_address && config.autoconfiguration.is_some() {
            let reason = format!("{} is the kernel's, which finds its addresses itself", options.address.0);
            return Err(DeviceError::Invalid { reason }.into());
        }
        // Somebody else may be on that link.
        let default = DuplicateAddressDetection::On;
        config.duplicate_address_detection = options.duplicate_address_detection.unwrap_or(default);
        let attached = Interface::attach(AttachConfig {
            interface: interface.name.clone(),
            namespace: interface.namespace.clone(),
            queues: options.queues,
            rules,
            vlan: interface.vlan,
            all_nodes: hears_all_nodes(&config) && !config.shared_address,
            mode: interface.mode,
            ..AttachConfig::default()
        })?;
        Ok(Attachment::own(attached, None, config))
    }

    /// A virtual function.
    fn driven(function: &FunctionCard, options: &AttachOptions, mut config: Config) -> Result<Attachment, AttachError> {
        check_addresses(&config.addresses, options.gateway)?;
        no_other_has(&config.addresses, None, None)?;
        // Somebody else may be on that link.
        config.duplicate_address_detection =
            options.duplicate_address_detection.unwrap_or(DuplicateAddressDetection::On);
        let device = FunctionDevice::find(function, options, &config)?;
        let (interface, driver, mtu) = (device.name(), device.driver().to_owned(), device.mtu());
        Ok(Attachment { device: Device::Function(device), config, interface, driver, mtu })
    }

    /// A device of our own.
    fn made(own: &OwnCard, options: &AttachOptions, mut config: Config) -> Result<Attachment, AttachError> {
        check_addresses(&config.addresses, options.gateway)?;
        no_other_has(&config.addresses, None, own.namespace.as_ref())?;
        let host = first_of_prefix(options.address);
        // What is off the prefix goes to the kernel, which may route it.
        if config.gateways.is_empty() {
            config.gateways.push(host);
        }
        let host_addresses = host_addresses(options, host, &config.addresses);
        let (host_namespace, mtu) = (own.namespace.clone(), own.mtu);
        let mode = match own.kind {
            OwnKind::Tap => {
                let device = tap::create(&TapConfig { host_name: None, host_addresses, host_namespace, mtu })?;
                let (link, driver) = (device.host().clone(), "tun".to_owned());
                let device = Device::Tap(device);
                return Ok(Attachment { device, config, interface: link.name, driver, mtu: link.mtu });
            }
            OwnKind::Veth { mode } => mode,
        };
        let queues = options.queues;
        let veth = veth::create(&VethConfig { host_addresses, host_namespace, mtu, queues, ..VethConfig::default() })?;
        let interface = veth.attach(AttachConfig {
            queues,
            rules: config.addresses.iter().map(|(address, _)| Rule::whole(*address)).collect(),
            all_nodes: hears_all_nodes(&config),
            mode,
            ..AttachConfig::default()
        })?;
        Ok(Attachment::own(interface, Some(veth), config))
    }

    fn own(interface: Interface, veth: Option<Veth>, config: Config) -> Attachment {
        let (link, driver) = (interface.link().clone(), interface.driver().to_owned());
        Attachment { device: Device::Own(interface, veth), config, interface: link.name, driver, mtu: link.mtu }
    }

    /// Asks the daemon for a device with these addresses.
    fn handed(daemon: &DaemonCard, options: &AttachOptions, mut config: Config) -> Result<Attachment, AttachError> {
        let mut wish = options.vnic_wish();
        if let WantedCard::Queues { interface, namespace, first } = &daemon.card {
            let (kernel, _) = kernel_view(interface, namespace.as_ref(), None, options.address.0);
            wish.shared = kernel.iter().any(|(address, _)| *address == options.address.0);
            if wish.shared {
                no_server_has(&options.services, &[options.address], namespace.as_ref())?;
            }
            wish.provider = Provider::Queue { interface: interface.clone(), first: *first };
        }
        if let WantedCard::Function { interface } = &daemon.card {
            wish.provider = Provider::Vf { interface: interface.clone(), number: None };
        }
        let session = match &daemon.session {
            Some(session) => Session::over(copied(session)?, &daemon.socket),
            None => Session::connect(&daemon.socket)?,
        };
        let vnic = match daemon.card {
            WantedCard::Made(number) => session.open_vnic(number)?,
            WantedCard::New(_) | WantedCard::Queues { .. } | WantedCard::Function { .. } => {
                options.create_card(&session, wish)?
            }
        };
        let status = vnic.status();
        if matches!(daemon.card, WantedCard::Made(_)) {
            config.addresses.clone_from(&status.addresses);
        }
        no_way_by(options.gateway, &config.addresses)?;
        let is_alone = matches!(status.provider, Provider::Veth | Provider::Tap) && !status.uplink;
        if !is_alone && options.duplicate_address_detection.is_none() {
            // Somebody else may be on that link.
            config.duplicate_address_detection = DuplicateAddressDetection::On;
        }
        config.shared_address = status.shared;
        if config.gateways.is_empty() {
            config.gateways.clone_from(&status.gateways);
        }
        let (interface, mtu) = (status.interface.clone(), status.mtu);
        let driver = status.driver.clone();
        Ok(Attachment { device: Device::Daemon(vnic), config, interface, driver, mtu })
    }

    /// Attaches a client to the interface that leads to `target`, beside the kernel, with addresses of its own:
    /// `sources`, or on a veth device `count` unused ones of its prefix.
    ///
    /// # Errors
    /// [`AttachError`], with the remedy.
    pub fn towards(
        target: IpAddr,
        sources: &[IpAddr],
        count: usize,
        namespace: Option<&Namespace>,
    ) -> Result<Attachment, AttachError> {
        let look = || -> io::Result<_> {
            let route = link::route_to(target)?;
            let link = link::link_by_index(route.interface_index)?;
            let driver = link::driver(&link.name).unwrap_or_default();
            let addresses = link::addresses(link.index)?;
            // The fence of a daemon's TAP card.
            let is_classified = link::classifiers(link.index, Side::Ingress).is_ok_and(|found| !found.is_empty());
            Ok((route, link, driver, addresses, is_classified))
        };
        let found = match namespace {
            Some(namespace) => namespace.within(look).and_then(|found| found),
            None => look(),
        };
        let (route, link, driver, addresses, is_classified) = found.map_err(AttachError::Route)?;
        if route.is_local || link.name == "lo" {
            return Err(AttachError::Loopback(target));
        }
        // Another's VNIC of the same daemon: our own comes from there too, and the fence switches between them.
        let is_fenced = match driver.as_str() {
            "veth" => link.xdp_program.is_some(),
            "tun" => is_classified,
            _ => false,
        };
        if is_fenced && link.name.starts_with("qanat") {
            return Attachment::beside(target, sources, count);
        }
        let near = |address: &&(IpAddr, u8)| {
            address.0.is_ipv4() == target.is_ipv4() && route.source.is_none_or(|source| source == address.0)
        };
        let prefix = addresses.iter().find(near).copied();
        let own: Vec<(IpAddr, u8)> = if sources.is_empty() {
            let Some((kernel, length)) = prefix else {
                return Err(AttachError::NoPrefix { interface: link.name, target });
            };
            // On an interface that a program like this one made addresses may be guessed.
            let is_own = driver == "tun" && link.name.starts_with("qanat");
            if driver != "veth" && !is_own {
                return Err(AttachError::SourceNeeded { interface: link.name });
            }
            let taken = |address: &IpAddr| {
                *address == target || route.gateway == Some(*address) || addresses.iter().any(|(a, _)| a == address)
            };
            let free: Vec<IpAddr> = last_of_prefix(kernel, length).filter(|address| !taken(address)).collect();
            // Other ones each time: a server keeps the last run's connections in TIME-WAIT for a minute, and answers the
            // SYN of a new process, whose timestamp clock starts anew, from such an address and port by a challenge.
            let [low, high, ..] = crate::entropy::entropy().map_err(AttachError::Route)?;
            let start = usize::from(u16::from_le_bytes([low, high])) % free.len().max(1);
            free.iter().cycle().skip(start).take(count.clamp(1, free.len().max(1))).map(|a| (*a, length)).collect()
        } else {
            let length = prefix.map_or(if target.is_ipv4() { 24 } else { 64 }, |(_, length)| length);
            sources.iter().map(|source| (*source, length)).collect()
        };
        let Some((first, rest)) = own.split_first() else {
            return Err(AttachError::NoPrefix { interface: link.name, target });
        };
        let mut options = AttachOptions::new(first.0, first.1);
        options.more_addresses = rest.to_vec();
        options.source = CardSource::interface(&link.name, namespace.cloned());
        options.gateway = route.gateway;
        // A load of seconds doesn't wait for two to be told that its addresses are free.
        options.duplicate_address_detection = Some(DuplicateAddressDetection::Off);
        Attachment::open(&options)
    }

    /// Attaches a client in a VLAN, with addresses of its own on `target`'s prefix (of 24 or 64 bits).
    ///
    /// # Errors
    /// [`AttachError`], with the remedy.
    pub fn towards_in_vlan(
        target: IpAddr,
        sources: &[IpAddr],
        interface: &str,
        vlan: u16,
        namespace: Option<&Namespace>,
    ) -> Result<Attachment, AttachError> {
        let length = if target.is_ipv4() { 24 } else { 64 };
        let Some((first, rest)) = sources.split_first() else {
            return Err(AttachError::SourceNeeded { interface: interface.to_owned() });
        };
        let mut options = AttachOptions::new(*first, length);
        options.more_addresses = rest.iter().map(|source| (*source, length)).collect();
        let interface = InterfaceCard::new(interface, namespace.cloned());
        options.source = CardSource::Interface(InterfaceCard { vlan: Some(vlan), ..interface });
        // Who names a free address knows it to be free; a load of seconds shouldn't wait for two to be told so.
        options.duplicate_address_detection = Some(DuplicateAddressDetection::Off);
        Attachment::open(&options)
    }

    /// A client's VNIC of the daemon that has `target`'s.
    fn beside(target: IpAddr, sources: &[IpAddr], count: usize) -> Result<Attachment, AttachError> {
        let socket = default_socket();
        let limits = Session::connect(&socket)?.limits()?;
        let prefix = |text: &String| {
            let (address, length) = text.split_once('/')?;
            Some((address.parse::<IpAddr>().ok()?, length.parse::<u8>().ok()?))
        };
        // With addresses of one's own the target may be in another network, by the kernel.
        let near = sources.first().copied().unwrap_or(target);
        let holds = |(address, length): &(IpAddr, u8)| {
            Addresses::prefix(*address, *length).is_some_and(|prefix| prefix.contains(Addresses::host(near)))
        };
        let none = || AttachError::NoPrefix { interface: "of the control plane".to_owned(), target };
        let (base, length) = limits.addresses.iter().filter_map(prefix).find(holds).ok_or_else(none)?;
        let free: Vec<IpAddr> = match sources {
            [] => last_of_prefix(base, length).filter(|address| *address != target).collect(),
            sources => sources.to_vec(),
        };
        let count = if sources.is_empty() { count.clamp(1, VNIC_ADDRESSES_MAX) } else { free.len() };
        let [low, high, ..] = crate::entropy::entropy().map_err(AttachError::Route)?;
        let start = usize::from(u16::from_le_bytes([low, high])) % free.len().max(1);
        let mut outcome = Err(none());
        // Which addresses are free only the daemon knows, which tells by refusing.
        for attempt in 0..BESIDE_ATTEMPTS {
            let at = start + attempt * count;
            let chosen: Vec<IpAddr> = free.iter().cycle().skip(at).take(count).copied().collect();
            let Some((first, rest)) = chosen.split_first() else { return Err(none()) };
            let mut options = AttachOptions::new(*first, length);
            options.more_addresses = rest.iter().map(|address| (*address, length)).collect();
            options.source = CardSource::Daemon(DaemonCard::new(socket.clone()));
            outcome = Attachment::open(&options);
            if !sources.is_empty() || !matches!(&outcome, Err(AttachError::Control(ClientError::Refused(_)))) {
                return outcome;
            }
        }
        outcome
    }

    /// Opens queue `queue` on this thread.
    ///
    /// # Errors
    /// [`AttachError::Device`].
    pub fn open_queue(&self, queue: u32, plan: MemoryPlan) -> Result<Queue, AttachError> {
        let interface = match &self.device {
            Device::Own(interface, _) => interface,
            Device::Daemon(vnic) if is_tap(vnic) => {
                return Ok(vnic.open_tap(queue, plan.allocate().map_err(no_memory)?)?.into());
            }
            Device::Daemon(vnic) if is_function(vnic) => {
                let descriptors = vnic.open_function()?;
                return Ok(function::open_handed(descriptors, self.addresses(), plan)?.into());
            }
            Device::Daemon(vnic) => return Ok(vnic.open_queue(queue, plan)?.into()),
            Device::Tap(device) => return Ok(device.open(plan)?.into()),
            Device::Function(device) => return Ok(device.open(queue, plan)?.into()),
        };
        Ok(opener(interface, queue)?.open(plan)?.into())
    }

    /// As [`open_queue`](Attachment::open_queue), over memory that the processes forked from this one share with it. (Of a
    /// daemon's VNIC it always is.) It sends by the ring only: those processes have its descriptors too, with whatever rights, and an
    /// injector's program can be attached to any device.
    ///
    /// # Errors
    /// [`AttachError::Device`].
    pub fn open_shared_queue(&self, queue: u32, plan: MemoryPlan) -> Result<Queue, AttachError> {
        let interface = match &self.device {
            Device::Own(interface, _) => interface,
            Device::Daemon(vnic) if is_tap(vnic) => {
                let (memory, _) = plan.allocate_in_memory_file().map_err(no_memory)?;
                return Ok(vnic.open_tap(queue, memory)?.into());
            }
            Device::Daemon(vnic) if is_function(vnic) => return Err(function::not_shared(&self.interface).into()),
            Device::Daemon(vnic) => return Ok(vnic.open_shared_queue(queue, plan)?.into()),
            Device::Tap(device) => {
                let (memory, _) = plan.allocate_in_memory_file().map_err(no_memory)?;
                return Ok(device.open_over(memory)?.into());
            }
            Device::Function(device) => return Err(device.is_not_shared().into()),
        };
        let (memory, _) = plan.allocate_in_memory_file().map_err(no_memory)?;
        Ok(opener(interface, queue)?.without_injector().open_over(plan, memory)?.into())
    }

    /// As [`open_queue`](Attachment::open_queue), with received frames that can be lent to another process.
    ///
    /// # Errors
    /// [`AttachError::Device`].
    pub fn open_lendable_queue(&self, queue: u32, plan: MemoryPlan) -> Result<(Queue, LendableFiles), AttachError> {
        let interface = match &self.device {
            Device::Own(interface, _) => interface,
            Device::Daemon(vnic) if is_tap(vnic) => {
                let (memory, files) = plan.allocate_lendable().map_err(no_memory)?;
                return Ok((vnic.open_tap(queue, memory)?.into(), files));
            }
            Device::Daemon(vnic) if is_function(vnic) => return Err(function::not_shared(&self.interface).into()),
            Device::Daemon(vnic) => {
                let (queue, files) = vnic.open_lendable_queue(queue, plan)?;
                return Ok((queue.into(), files));
            }
            Device::Tap(device) => {
                let (memory, files) = plan.allocate_lendable().map_err(no_memory)?;
                return Ok((device.open_over(memory)?.into(), files));
            }
            Device::Function(device) => return Err(device.is_not_shared().into()),
        };
        let (memory, files) = plan.allocate_lendable().map_err(no_memory)?;
        Ok((opener(interface, queue)?.open_over(plan, memory)?.into(), files))
    }

    /// The interface's name; of a daemon's VNIC, that of the kernel's end.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Its driver.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Its MTU.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// The VNIC's handle, if it is a daemon's.
    pub fn vnic(&self) -> Option<&VnicHandle> {
        match &self.device {
            Device::Own(..) | Device::Tap(_) | Device::Function(_) => None,
            Device::Daemon(vnic) => Some(vnic),
        }
    }

    /// What the XDP program did so far; `None`: it is the daemon's (`qanat status`).
    pub fn verdicts(&self) -> Option<Verdicts> {
        match &self.device {
            Device::Own(interface, _) => interface.verdicts().ok(),
            Device::Daemon(_) | Device::Tap(_) | Device::Function(_) => None,
        }
    }

    /// The stack configuration: addresses, gateway, whether the address is shared.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Own addresses.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.config.addresses.iter().map(|(address, _)| *address).collect()
    }
}

fn opener(interface: &Interface, queue: u32) -> Result<QueueOpener, DeviceError> {
    let opener = interface.openers().into_iter().find(|opener| opener.queue() == queue);
    opener.ok_or_else(|| DeviceError::Invalid { reason: format!("there is no queue {queue}") })
}

fn no_memory(error: io::Error) -> DeviceError {
    DeviceError::Invalid { reason: format!("memory for frames: {error}") }
}

/// The kernel's end gets a neighbour's address in each further prefix too, or nothing there could reach us.
fn host_addresses(options: &AttachOptions, host: IpAddr, own: &[(IpAddr, u8)]) -> Vec<(IpAddr, u8)> {
    let mut all = vec![(host, options.address.1)];
    for further in &options.more_addresses {
        let neighbour = first_of_prefix(*further);
        let clash = |taken: &(IpAddr, u8)| taken.0 == neighbour;
        if !all.iter().any(clash) && !own.iter().any(clash) {
            all.push((neighbour, further.1));
        }
    }
    all
}

/// A copy of the descriptor.
fn copied(descriptor: &OwnedFd) -> Result<OwnedFd, AttachError> {
    let say = |_| DeviceError::Descriptors { what: "a copy of a descriptor".to_owned() };
    Ok(descriptor.try_clone().map_err(say)?)
}

/// RFC 7217's secret of this machine: with the identity it has, so that addresses are the same after a restart. Without
/// one they are new at each start.
fn autoconfiguration() -> Autoconfiguration {
    let identity = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let parse = |text: &str| u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32);
    let secret = match parse(identity.trim()) {
        Some(identity) => identity.to_be_bytes(),
        None => {
            let mut secret = [0; 16];
            let random = crate::entropy::entropy().unwrap_or_default();
            secret.copy_from_slice(&random[..16]);
            secret
        }
    };
    Autoconfiguration { secret }
}

/// What the kernel has on `interface` (in a VLAN: on whichever interface has our address): its addresses, and the next hop
/// of its default route if that leads through it.
fn kernel_view(
    interface: &str,
    namespace: Option<&Namespace>,
    vlan: Option<u16>,
    own: IpAddr,
) -> (Vec<(IpAddr, u8)>, Option<IpAddr>) {
    // Any address off every local prefix asks for the default route; nothing is sent there (RFC 5737, RFC 3849).
    let elsewhere: IpAddr = match own {
        IpAddr::V4(_) => Ipv4Addr::new(203, 0, 113, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    let look = || -> io::Result<_> {
        let index = match vlan {
            None => link::link(interface)?.index,
            Some(_) => link::owner_of(own)?.ok_or(io::ErrorKind::NotFound)?,
        };
        let through_it = |route: &link::Route| route.interface_index == index;
        let gateway = link::route_to(elsewhere).ok().filter(through_it).and_then(|route| route.gateway);
        Ok((link::addresses(index)?, gateway))
    };
    let found = match namespace {
        Some(namespace) => namespace.within(look).and_then(|found| found),
        None => look(),
    };
    // A missing interface is reported, with its remedy, when attaching to it.
    found.unwrap_or_default()
}
