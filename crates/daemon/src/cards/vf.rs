//! Provider `vf`: a virtual function of a NIC (SR-IOV) as a VNIC, for those the policy trusts.
//!
//! The application drives the function itself, over VFIO. What it sends is judged by the NIC alone: its source Ethernet address and its
//! VLAN are those that the daemon gave the function, and its rate is at most the rule's. Nothing looks at IP addresses, ports or filters,
//! so a rule must say `trusted = true`. The IOMMU bounds the memory that the function reaches.
//!
//! A descriptor that was handed out can't be taken back. When a card ends, its function gets an address that nobody knows, so that nothing
//! reaches it and nothing of what it sends is let through; and nobody else gets the function until its holder has let go.

use crate::cards::maker::Maker;
use crate::cards::uplink::default_gateways;
use crate::cards::vnic::{Frame, Site, Vnic};
use crate::daemon::Daemon;
use crate::error::{DaemonError, say};
use crate::fence::tables::FLAG_QUEUE;
use crate::log::Event;
use crate::policy::{Rule, VfPolicy};
use qanat_control::address::Address;
use qanat_control::filter::{Direction, Rate};
use qanat_control::protocol::{Provider, VnicWish};
use qanat_control::refusal::{Cause, Refusal};
use qanat_nic::link::{self, Link};
use qanat_nic::tap;
use qanat_nic::vfio::{FunctionDescriptors, PciAddress, Sysfs, VfioError};
use std::time::{Duration, Instant};

/// How long the daemon's end waits for those who have functions, and between two looks.
const LAST_PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(50);
/// Bits a second that a NIC counts by.
const MEGABIT: u64 = 1_000_000;

/// The NIC and the number of a function, if a VNIC is one.
pub(crate) fn function(provider: &Provider) -> Option<(&str, u32)> {
    match provider {
        Provider::Vf { interface, number } => Some((interface, number.unwrap_or(u32::MAX))),
        _ => None,
    }
}

/// Mbit/s of a rate, at least 1; 0: no limit.
fn megabits(rate: Rate) -> u32 {
    u32::try_from(rate.bits_per_s.div_ceil(MEGABIT)).unwrap_or(u32::MAX)
}

/// What a NIC can't do for a function.
fn check_rate(direction: Direction, rate: Rate) -> Result<(), Refusal> {
    let is_bits = rate.packets_per_s == 0;
    if rate == Rate::UNLIMITED || direction == Direction::Transmit && is_bits {
        return Ok(());
    }
    Err("a virtual function's NIC limits what it sends, in Mbit/s, and nothing else: leave out packets, and what is received".into())
}

/// Makes the functions of a NIC that the policy gives away, and gives them to vfio-pci.
fn prepare(policy: &VfPolicy) -> Result<(), VfioError> {
    let sysfs = Sysfs::default();
    let parent = parent_of(&sysfs, policy)?;
    if sysfs.functions(parent) < policy.functions {
        // Those that are there have no place among more: the kernel makes all at once.
        if sysfs.functions(parent) > 0 {
            sysfs.make_functions(parent, 0)?;
        }
        sysfs.make_functions(parent, policy.functions)?;
    }
    for number in 0..policy.functions {
        let Some(address) = sysfs.virtual_function(parent, number) else { continue };
        sysfs.give_to_vfio(address)?;
    }
    Ok(())
}

fn parent_of(sysfs: &Sysfs, policy: &VfPolicy) -> Result<PciAddress, VfioError> {
    let VfPolicy { interface, functions, .. } = policy;
    let parent = sysfs.of_interface(interface).filter(|parent| sysfs.functions_max(*parent) >= *functions);
    parent.ok_or_else(|| VfioError::NoFunctions { interface: interface.clone(), wanted: *functions })
}

impl Daemon {
    /// Makes the functions that the policy gives away. What can't be made is told of; the daemon starts without it.
    pub(crate) fn prepare_functions(&self) {
        for policy in &self.policy.vf {
            let said = match prepare(policy) {
                Ok(()) => {
                    Event::new("functions", "done", format!("{}: {} of them", policy.interface, policy.functions))
                }
                Err(error) => Event::new("functions", "failed", format!("{}: {error}", policy.interface)),
            };
            (self.log)(&said);
        }
    }

    /// Removes the functions of a NIC none of whose functions anybody has.
    pub(crate) fn remove_functions(&self) {
        let sysfs = Sysfs::default();
        for policy in &self.policy.vf {
            let Ok(parent) = parent_of(&sysfs, policy) else { continue };
            let addresses: Vec<PciAddress> =
                (0..sysfs.functions(parent)).filter_map(|number| sysfs.virtual_function(parent, number)).collect();
            // The kernel would wait for who has one. Whoever had a card was told just now that it is no more.
            let is_held =
                |address: &PciAddress| matches!(FunctionDescriptors::open(*address), Err(VfioError::Busy { .. }));
            let begun = Instant::now();
            while addresses.iter().any(is_held) && begun.elapsed() < LAST_PATIENCE {
                std::thread::sleep(LOOK);
            }
            if addresses.iter().any(is_held) {
                let text = format!(
                    "{}: somebody has one still; `qanat doctor` says how to remove them then",
                    policy.interface
                );
                (self.log)(&Event::new("functions-end", "failed", text));
                continue;
            }
            if let Err(error) = sysfs.make_functions(parent, 0) {
                (self.log)(&Event::new("functions-end", "failed", format!("{}: {error}", policy.interface)));
            }
        }
    }

    /// The NIC a function of which is wished for, if it may be had.
    pub(crate) fn wanted_function(&self, wish: &VnicWish, rule: &Rule) -> Result<Option<(Link, VfPolicy)>, Refusal> {
        let Some((name, _)) = function(&wish.provider) else { return Ok(None) };
        rule.check_trusted()?;
        let Some(policy) = self.policy.vf.iter().find(|policy| policy.interface == name) else {
            return Err(format!("functions of {name}: the policy gives away none of it ([[vf]])").into());
        };
        if wish.queues > 1 || wish.priority_queues > 0 {
            return Err("a virtual function has one queue: leave out the queues".into());
        }
        if wish.persistent || wish.shared {
            return Err("a virtual function's card ends with who has it, and its addresses are its own: --interface vf:NIC of a service".into());
        }
        check_rate(Direction::Receive, rule.receive)?;
        check_rate(Direction::Transmit, rule.transmit)?;
        let found = link::link(name).map_err(|error| say(&format!("NIC {name}"), error))?;
        if !found.is_up {
            return Err(format!("NIC {name} is down: ip link set {name} up").into());
        }
        let own = link::addresses(found.index).map_err(|error| say(&format!("NIC {name}"), error))?;
        let own: Vec<(Address, u8)> = own.into_iter().map(|(own, length)| (own.into(), length)).collect();
        for (address, length) in &wish.addresses {
            address.check_claim(*length, &own)?;
            if own.iter().any(|(other, _)| other == address) {
                return Err(format!("address {address} is the kernel's: choose another (--address)").into());
            }
        }
        Ok(Some((found, policy.clone())))
    }

    /// A function of a NIC that nobody has, open: for a card that is about to be made.
    pub(crate) fn take_function(&self, policy: &VfPolicy) -> Result<(u32, FunctionDescriptors), Refusal> {
        let sysfs = Sysfs::default();
        let parent = parent_of(&sysfs, policy).map_err(|error| error.to_string())?;
        let has = |number: &u32| {
            self.vnics.values().any(|vnic| function(&vnic.wish.provider) == Some((policy.interface.as_str(), *number)))
        };
        let mut why = format!("all {} functions of {} are taken", policy.functions, policy.interface);
        for number in (0..policy.functions).filter(|number| !has(number)) {
            let Some(address) = sysfs.virtual_function(parent, number) else { continue };
            match FunctionDescriptors::open(address) {
                Ok(descriptors) => return Ok((number, descriptors)),
                // Who had a card has not let go of its function yet.
                Err(error) => why = error.to_string(),
            }
        }
        Err(Refusal::new(Cause::Taken, why))
    }
}

impl Vnic {
    /// Whether it is a virtual function.
    pub(crate) fn is_function(&self) -> bool {
        function(&self.wish.provider).is_some()
    }

    /// Makes a function of `nic` a VNIC.
    pub(crate) fn of_function(
        site: &mut Site<'_>,
        slot: u32,
        mut wish: VnicWish,
        (nic, policy): (Link, VfPolicy),
        (number, descriptors): (u32, FunctionDescriptors),
        maker: Maker,
    ) -> Result<Vnic, Refusal> {
        wish.queues = 1;
        wish.mtu = u32::from(qanat_nic::igbvf::MTU);
        wish.provider = Provider::Vf { interface: nic.name.clone(), number: Some(number) };
        let mac = tap::random_address().map_err(|error| say("find an Ethernet address", error))?;
        let set = |what: &str, error| say(&format!("{what} of function {number} of {}", nic.name), error);
        link::set_function(nic.index, number, mac, policy.vlan).map_err(|error| set("set address and VLAN", error))?;
        let rate = megabits(maker.rule.transmit);
        // A driver without rates is told of only if there is to be one.
        let limited = link::set_function_rate(nic.index, number, rate);
        if rate > 0 {
            limited.map_err(|error| set("limit the rate", error))?;
        }
        let row = maker.write_row(site.tables, slot, &wish, [mac.0, nic.mac.0], FLAG_QUEUE)?;
        let gateways = default_gateways(nic.index).into_iter().map(Address::ip).collect();
        let end = Link { mac, ..nic.clone() };
        let mut vnic = Vnic::assemble(slot, wish, maker, Frame { host: nic, end, gateways, row });
        vnic.function = Some(descriptors);
        Ok(vnic)
    }

    /// The descriptors of its function, once: who has them drives it.
    pub(crate) fn open_function(&mut self) -> Result<FunctionDescriptors, Refusal> {
        let taken = || Refusal::new(Cause::Taken, "the card's function is driven already, by who opened it first");
        let descriptors = self.function.take().ok_or_else(taken)?;
        self.queues.insert(0, 0);
        Ok(descriptors)
    }

    /// Limits what its function sends.
    pub(crate) fn set_function_rate(&self, direction: Direction, rate: Rate) -> Result<(), Refusal> {
        let Some((_, number)) = function(&self.wish.provider) else { return Ok(()) };
        check_rate(direction, rate)?;
        if direction == Direction::Receive {
            return Ok(());
        }
        let set = link::set_function_rate(self.host.index, number, megabits(rate));
        set.map_err(|error| say("limit a function's rate", error).into())
    }

    /// Nothing reaches its function any more, and nothing of it is let through.
    pub(crate) fn cut_off_function(&self) -> Result<(), DaemonError> {
        let Some((_, number)) = function(&self.wish.provider) else { return Ok(()) };
        let mac = tap::random_address().map_err(|error| say("find an Ethernet address", error))?;
        link::set_function(self.host.index, number, mac, 0).map_err(|error| say("cut a function off", error))
    }
}
