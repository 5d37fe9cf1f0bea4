//! Whether the program can have what its user names: an address, an interface. It is found out before the program begins, since a
//! program that is at other addresses than it was told to be is worse than one that has not begun.

use crate::control::programs::has_program_at;
use crate::exit::NOT_BEGUN;
use crate::host::attach::Prefixed;
use crate::run::failure::Failure;
use qanat::{AttachOptions, CardSource, DaemonCard, OwnDevice, WantedCard, check_addresses};
use qanat_control::client::{Session, default_socket};
use qanat_control::protocol::VnicStatus;
use qanat_nic::link;
use rustix::thread::CapabilitySet;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the card of a program that has ended may take to be free.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// What the program's card is to be, as its user names it.
pub(super) struct Named<'a> {
    /// None: they are found later.
    pub addresses: &'a [Prefixed],
    /// What a program has that names none, or one beside it.
    pub everybodys: (IpAddr, u8),
    pub interface: Option<&'a str>,
    pub gateway: Option<IpAddr>,
    pub mtu: u32,
    pub device: OwnDevice,
}

/// Checks what is named on the command line. `session`: with the daemon that is to give the card.
pub(super) fn check(named: &Named<'_>, session: Option<&Session>) -> Result<(), Failure> {
    let refused = |reason| Failure { code: NOT_BEGUN, reason };
    let addresses: Vec<(IpAddr, u8)> = named.addresses.iter().map(|prefix| (prefix.address, prefix.length)).collect();
    // What is found later is in the network that everybody's is.
    let expected = if addresses.is_empty() { vec![named.everybodys] } else { addresses };
    check_addresses(&expected, named.gateway).map_err(|error| refused(error.to_string()))?;
    named.addresses.iter().try_for_each(|prefix| is_nobodys(prefix, named.interface)).map_err(refused)?;
    if let Some(interface) = named.interface {
        check_interface(interface).map_err(refused)?;
    }
    match (session, named.addresses.split_first()) {
        (Some(session), Some((first, rest))) => {
            try_card(session, first, rest, (named.mtu, named.device)).map_err(refused)
        }
        _ => Ok(()),
    }
}

/// Whether the kernel leaves `prefix`'s address to others.
fn is_nobodys(prefix: &Prefixed, interface: Option<&str>) -> Result<(), String> {
    let Prefixed { address, length } = *prefix;
    if !link::route_to(address).is_ok_and(|route| route.is_local) {
        return Ok(());
    }
    let owner = link::owner_of(address).ok().flatten().and_then(|index| link::link_by_index(index).ok());
    let owner = owner.map_or_else(|| "lo".to_owned(), |link| link.name);
    let by_port = match interface {
        Some(_) => "; only `qanat web`, `dns` and `echo` can share one with it, a port at a time",
        None => "",
    };
    Err(format!(
        "--address {address}/{length}: the kernel has {address}, on {owner}, so the program's sockets there would be the kernel's: \
         name one that nobody has, or take it from the kernel first (`ip address del {address}/{length} dev {owner}`){by_port}"
    ))
}

/// Whether this process could attach to `interface`.
fn check_interface(interface: &str) -> Result<(), String> {
    if let Err(error) = link::link(interface) {
        return Err(format!("--interface {interface}: {error}; `ip link` shows those there are"));
    }
    let has_right =
        rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN));
    match has_right {
        true => Ok(()),
        false => Err(format!(
            "--interface {interface}: only root may attach to an interface: run this with sudo, or without --interface behind \
             a daemon (`sudo qanat up`)"
        )),
    }
}

/// Whether the daemon gives this user a card with these addresses: one is made, and given back.
fn try_card(
    session: &Session,
    first: &Prefixed,
    rest: &[Prefixed],
    (mtu, device): (u32, OwnDevice),
) -> Result<(), String> {
    let mut options = AttachOptions::new(first.address, first.length);
    options.more_addresses = rest.iter().map(|prefix| (prefix.address, prefix.length)).collect();
    let copy = session.as_fd().try_clone_to_owned().map_err(|error| format!("the daemon's connection: {error}"))?;
    let (session_of, card) = (Some(Arc::new(copy)), WantedCard::New(device));
    let daemon = DaemonCard { session: session_of, mtu, card, ..DaemonCard::new(default_socket()) };
    options.source = CardSource::Daemon(daemon);
    options.offer_everything().map_err(|error| error.to_string())?;
    let start = Instant::now();
    loop {
        let error = match options.create_card(session, options.vnic_wish()) {
            Ok(card) => {
                let number = card.status().vnic;
                card.give_up();
                drop(card);
                return wait_until_gone(session, number);
            }
            Err(error) => error,
        };
        // The address may be that of another program of the user's, which shares it.
        if error.is_taken() && has_own(session, &options) {
            return Ok(());
        }
        if !error.may_pass() || start.elapsed() > PATIENCE {
            return Err(error.to_string());
        }
        std::thread::sleep(LOOK);
    }
}

/// Whether a program of this user's has a card with the first address, by which others find it: a service does not share its card.
fn has_own(session: &Session, options: &AttachOptions) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let address = options.address.0;
    let has = |vnic: &VnicStatus| vnic.user == user && vnic.addresses.iter().any(|(own, _)| *own == address);
    session.status().is_ok_and(|status| status.vnics.iter().any(has)) && has_program_at(address)
}

/// The program asks for the same card in a moment.
fn wait_until_gone(session: &Session, number: u32) -> Result<(), String> {
    let start = Instant::now();
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let is_there = |vnic: &VnicStatus| vnic.vnic == number && vnic.process == own;
    while session.status().map_err(|error| error.to_string())?.vnics.iter().any(is_there) {
        if start.elapsed() > PATIENCE {
            return Err(format!("the daemon does not take card {number} back; `qanat doctor` may tell why"));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
