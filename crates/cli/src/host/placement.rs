//! Where a service's stack runs: in its process, or on a net core.

use crate::daemon::Card;
use crate::host::attach::{AttachArguments, Ipv6, OwnDeviceKind, Spin, Trial};
use crate::host::net_core::Accept;
use crate::host::privilege::Privilege;
use crate::log;
use clap::{Args, ValueEnum};
use qanat::split::{self, Connector, Refusal, SplitOptions, SplitRuntime};
use qanat_control::address::Address;
use qanat_control::client::{ClientError, default_socket};
use qanat_control::protocol::StackWish;
use qanat_control::steward::{self, NetCoreDuty, farewell};
use qanat_nic::af_xdp::PortRange;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

/// A placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Placement {
    /// In this process
    #[default]
    Linked,
    /// In a process of its own, a net core, which this one can't harm
    Split,
    /// It is the kernel's own: no root and no card are needed
    Kernel,
}

/// How the kernel is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Sockets {
    /// One system call for all that a turn has to do
    IoUring,
    /// A system call for each accept, receive and send
    Epoll,
}

/// Where the stack runs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Network")]
pub struct PlacementArguments {
    /// Where the network stack runs (default: linked; kernel for whoever may not make a card, and has no daemon to ask for one)
    #[arg(long, value_enum)]
    pub placement: Option<Placement>,
    /// With --placement kernel: listen at this address of the machine's; may be repeated (default: web, video and dns at all of them, other
    /// services at 127.0.0.1 and ::1)
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<IpAddr>,
    /// With --placement kernel: how the kernel is asked (default: by io_uring where it is allowed; containers often forbid it)
    #[arg(long, value_enum, value_name = "HOW")]
    pub sockets: Option<Sockets>,
    /// For measurements: enter the kernel after each command and with each event, as if the stack were there; the stack stays in this
    /// process (“The Case Against User-Level Networking”)
    #[arg(long)]
    pub emulate_crossing: bool,
    /// The net core's socket (`qanat net`), for the split placement; may be repeated: this service is then on all of them. Without
    /// it the daemon's net cores are asked for (`[net] cores`, see qanatd(8)), and where there are none one is started for
    /// this service alone
    #[arg(long, value_name = "SOCKET")]
    pub net: Vec<PathBuf>,
    /// Be on so many net cores. With one address they have a queue each of one card of the daemon's, over which connections are
    /// spread; or --address and --also name an address for each, and each has a card of its own
    #[arg(long, value_name = "COUNT", default_value_t = 1, conflicts_with = "net",
          value_parser = clap::value_parser!(u32).range(1..=16))]
    pub net_cores: u32,
    /// Share the net core's card, and listeners on it, with other services of this user that say so, too: each connection is
    /// the one's or the other's, as `qanat net --accept` says
    #[arg(long)]
    pub share: bool,
    /// So many processes of this service, each on a processor's time of its own, that share its net core and its listeners; with
    /// --placement kernel they share its ports
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub app_cores: u32,
    /// With several app cores on a net core: which of them has the next connection (default: round-robin)
    #[arg(long, value_enum, value_name = "POLICY")]
    pub accept: Option<Accept>,
    /// One of several; it ends with who started it
    #[arg(long, hide = true)]
    pub app_core: bool,
}

/// A runtime on a net core. Dropped in this order: the net core takes the runtime's end for its own.
pub struct Placed {
    pub runtime: SplitRuntime,
    _own: Farewell,
}

/// Dropped, it waits for net cores of a service's own to go: its steward does.
struct Farewell;

impl Drop for Farewell {
    fn drop(&mut self) {
        farewell();
    }
}

/// What a service needs of a net core.
pub struct Request<'a> {
    /// Of an address shared with the kernel.
    pub services: &'a [PortRange],
    /// All else.
    pub options: SplitOptions,
}

impl<'a> Request<'a> {
    pub fn new(name: &str, services: &'a [PortRange]) -> Request<'a> {
        Request { services, options: SplitOptions::new(name) }
    }
}

impl PlacementArguments {
    /// One of several processes ends with whoever started it.
    pub fn end_with_parent(&self) {
        if self.app_core {
            let _ = set_parent_process_death_signal(Some(Signal::TERM));
        }
    }

    /// Nothing else than a stack in this process was asked for.
    pub fn is_linked(&self) -> bool {
        self.placement.is_none_or(|place| place == Placement::Linked)
            && !self.names_net_cores()
            && !self.is_several()
            && self.listen.is_empty()
    }

    /// By one of the options that only net cores have.
    fn names_net_cores(&self) -> bool {
        !self.net.is_empty() || self.net_cores > 1 || self.share
    }

    /// Several processes, or one of them.
    pub fn is_several(&self) -> bool {
        self.app_core || self.app_cores > 1
    }

    /// The placement that was asked for, or the one that can be had.
    ///
    /// # Errors
    /// What was asked for does not go together, and the remedy.
    pub fn chosen(&self, attach: &AttachArguments, what: &str) -> Result<Placement, String> {
        let place = match self.placement {
            Some(place @ (Placement::Kernel | Placement::Split)) => place,
            _ if self.names_net_cores() => Placement::Split,
            None if !self.listen.is_empty() => Placement::Kernel,
            None if !attach.can_be_had() => {
                log::warning!(
                    "placement",
                    "{what} runs over the kernel's TCP/IP (--placement kernel): this user may not make a card, and there is no daemon to \
                     ask for one (`sudo qanat up`, or start this with sudo)"
                );
                Placement::Kernel
            }
            _ if self.is_several() => Placement::Split,
            _ => Placement::Linked,
        };
        match place {
            Placement::Split | Placement::Kernel if self.emulate_crossing => {
                Err("--emulate-crossing is for the linked placement: the calls of the others leave the process anyway"
                    .to_owned())
            }
            Placement::Kernel if self.names_net_cores() => {
                Err("the kernel placement has no net cores: leave out --net, --net-cores and --share".to_owned())
            }
            Placement::Kernel if self.accept.is_some() => {
                Err("--accept is for net cores: the kernel spreads connections over --app-cores by a hash of both ends"
                    .to_owned())
            }
            Placement::Kernel => attach.check_unused().map(|()| place),
            _ if !self.listen.is_empty() => {
                Err("--listen is for the kernel placement: a card's addresses are --address and --also".to_owned())
            }
            _ if self.sockets.is_some() => {
                Err("--sockets is for the kernel placement (--placement kernel): the others have no sockets".to_owned())
            }
            _ => Ok(place),
        }
    }

    /// With others.
    pub fn shares(&self) -> bool {
        self.share || self.is_several()
    }

    /// How many net cores.
    fn count(&self) -> usize {
        self.net.len().max(self.net_cores as usize)
    }

    /// Queues of the one card that all net cores have, a queue each: where there is one address for all.
    fn queues(&self, attach: &AttachArguments) -> u32 {
        let is_one = attach.addresses_alike() == 1 && attach.suits_a_daemons_net_core();
        if self.net.is_empty() && is_one { self.net_cores } else { 1 }
    }

    /// What each net core's card is to be.
    pub fn cards(&self, attach: &AttachArguments) -> Result<Vec<AttachArguments>, String> {
        let is_theirs = attach.address_given().is_none() && attach.also.is_empty() && !self.net.is_empty();
        let are_alike = self.count() == 1 || is_theirs || self.queues(attach) > 1;
        if are_alike { Ok(vec![attach.clone(); self.count()]) } else { attach.deal(self.count()) }
    }

    /// Whether net cores of a service's own can be what is asked for.
    pub fn check_own(&self, attach: &AttachArguments) -> Result<(), String> {
        match self.queues(attach) {
            1 => Ok(()),
            count => Err(format!(
                "one address for {count} net cores is the daemon's affair, and none with net cores is to be asked (`qanat up`, \
                 [net] cores): name an address each by --address and --also"
            )),
        }
    }

    /// Attaches to the net cores named, or to some of this service's own, made as `attach` says.
    pub fn attach(
        &self,
        attach: &AttachArguments,
        request: &Request<'_>,
        privilege: &Privilege,
    ) -> Result<Placed, String> {
        self.end_with_parent();
        let cards = self.cards(attach)?;
        let queues = self.queues(attach);
        let mut duties = Vec::new();
        let mut connectors = Vec::new();
        let mut is_daemons = false;
        for (number, card) in cards.iter().enumerate() {
            // A net core's first card is as good as another; its own has the addresses that were asked for.
            let address = self.net.first().and(card.address_given());
            let connector: Connector = match self.net.get(number) {
                // Who may use it is known by the user.
                Some(path) if privilege.changes_user() => by_steward(NetCoreDuty::At(path.clone()), &mut duties),
                Some(path) => SplitRuntime::at(path.clone()),
                None => {
                    let queue = if queues > 1 { number as u32 } else { 0 };
                    let apart_from = if queues > 1 { Vec::new() } else { others(&cards, number) };
                    let (gateway, maximum_segment, share) = (card.gateway, card.mss, self.shares());
                    let stack = StackWish { gateway, maximum_segment, share, apart_from, queue };
                    match daemons_net_core(card, request, queues, stack)? {
                        Some(connector) => {
                            is_daemons = true;
                            connector
                        }
                        None => {
                            self.check_own(attach)?;
                            by_steward(own_net_core(card, request)?, &mut duties)
                        }
                    }
                }
            };
            connectors.push((connector, address));
        }
        privilege.start_steward(duties)?;
        let options = SplitOptions { share: self.shares(), ..request.options.clone() };
        let runtime = SplitRuntime::attach_all(connectors, options).map_err(|error| match self.net.is_empty() {
            // It has said why, on standard error.
            true if !is_daemons => format!("the net core did not start ({error})"),
            _ => error.to_string(),
        })?;
        Ok(Placed { runtime, _own: Farewell })
    }
}

/// The first addresses of a service's other cards.
fn others(cards: &[AttachArguments], number: usize) -> Vec<Address> {
    let others = cards.iter().enumerate().filter(|(other, _)| *other != number);
    others.map(|(_, card)| card.address.address.into()).collect()
}

/// A net core that the steward has: the service itself may be no longer able to.
fn by_steward(duty: NetCoreDuty, duties: &mut Vec<NetCoreDuty>) -> Connector {
    let number = duties.len();
    // The first time the service goes itself where there is one: it is known by its process there.
    let mut first = match &duty {
        NetCoreDuty::At(path) => Some(SplitRuntime::at(path.clone())),
        NetCoreDuty::Own(_) => None,
    };
    duties.push(duty);
    Box::new(move || {
        if let Some(mut connect) = first.take() {
            return connect();
        }
        steward::net_core(number).map_err(|failed| match failed.is_final {
            true => io::Error::other(Refusal(failed.error.to_string())),
            false => failed.error,
        })
    })
}

/// A net core of this service's own.
fn own_net_core(card: &AttachArguments, request: &Request<'_>) -> Result<NetCoreDuty, String> {
    let mut arguments = vec!["--inherit".to_owned(), "service".to_owned()];
    arguments.extend(forwarded(card)?);
    arguments.extend(request.services.iter().map(|range| service_argument(*range)));
    Ok(NetCoreDuty::Own(arguments))
}

/// Finds a net core by asking the daemon; `None`: there is no daemon to be asked, or it has no net cores. `queues`: of the card.
fn daemons_net_core(
    attach: &AttachArguments,
    request: &Request<'_>,
    queues: u32,
    stack: StackWish,
) -> Result<Option<Connector>, String> {
    if !attach.suits_a_daemons_net_core() {
        return Ok(None);
    }
    let wish = attach.vnic_wish(request.services.to_vec(), queues)?;
    match split::daemons_net_core(&default_socket(), wish, stack) {
        Ok(connector) => Ok(connector),
        Err(ClientError::Refused(why)) => Err(format!("the control plane refuses: {why}")),
        Err(_) => Ok(None),
    }
}

pub fn service_argument(range: PortRange) -> String {
    format!("--service={}:{}-{}", range.protocol, range.first, range.last)
}

/// The arguments by which another process attaches as this one would.
pub fn forwarded(attach: &AttachArguments) -> Result<Vec<String>, String> {
    let name = |value: &dyn ValueName| value.name();
    let mut arguments = vec![format!("--address={}/{}", attach.address.address, attach.address.length)];
    arguments.extend(attach.also.iter().map(|also| format!("--also={}/{}", also.address, also.length)));
    let mut option = |name: &str, value: Option<String>| {
        arguments.extend(value.map(|value| format!("--{name}={value}")));
    };
    option("interface", attach.interface.clone());
    option("gateway", attach.gateway.map(|gateway| gateway.to_string()));
    option("netns", attach.netns.clone());
    option("mtu", (attach.vnic.is_none() && attach.interface.is_none()).then(|| attach.mtu.to_string()));
    option("mss", attach.mss.map(|mss| mss.to_string()));
    option("vlan", attach.vlan.map(|vlan| vlan.to_string()));
    option("ipv6", (attach.ipv6 != Ipv6::Given).then(|| name(&attach.ipv6)));
    option("dad", attach.dad.map(|trial| name(&trial)));
    option("vnic", attach.vnic.as_ref().map(Card::to_string));
    option("queue", attach.queue.map(|queue| queue.to_string()));
    option("device", attach.device.map(|kind| name(&kind)));
    option("spin", Some(name(&attach.spin)));
    for (flag, given) in [("--force-copy", attach.force_copy), ("--direct", attach.direct)] {
        arguments.extend(given.then(|| flag.to_owned()));
    }
    Ok(arguments)
}

/// A value as it is written on the command line.
pub trait ValueName {
    fn name(&self) -> String;
}

macro_rules! value_name {
    ($($kind:ty),*) => {$(
        impl ValueName for $kind {
            fn name(&self) -> String {
                self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
            }
        }
    )*};
}
value_name!(Accept, Ipv6, OwnDeviceKind, Spin, Trial);
