//! What a runtime can do only if the stack is on net cores.

use crate::runtime::Runtime;
use crate::split::dial::dial;
use crate::split::service::error::SplitError;
#[cfg(feature = "harness")]
use crate::split::service::link::Link;
use crate::split::service::options::{Connector, SplitOptions};
use crate::split::service::placement::SplitPlacement;
use crate::split::service::remote::RemoteFigures;
use crate::split::service::seek::Seeker;
use qanat_nic::MonotonicClock;
#[cfg(feature = "harness")]
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

/// Runs a service whose stack is on a net core, or whose stacks are on several.
pub type SplitRuntime = Runtime<SplitPlacement>;

impl Runtime<SplitPlacement> {
    /// Attaches to the net core that `connector` finds; to the next one it finds when that one is gone.
    ///
    /// # Errors
    /// [`SplitError`].
    pub fn attach(connector: Connector, options: SplitOptions) -> Result<SplitRuntime, SplitError> {
        let address = options.address;
        SplitRuntime::attach_all(vec![(connector, address)], options)
    }

    /// As [`attach`](SplitRuntime::attach), to several, each with a card of its own, which may be named by an address it has.
    /// One that dies closes its own connections; the others go on.
    ///
    /// # Errors
    /// [`SplitError`], of the first that cannot be had.
    pub fn attach_all(
        connectors: Vec<(Connector, Option<IpAddr>)>,
        options: SplitOptions,
    ) -> Result<SplitRuntime, SplitError> {
        let seekers = connectors.into_iter().map(|(connector, address)| {
            let options = SplitOptions { address, ..options.clone() };
            Seeker::new(connector, options.attach())
        });
        let mut placement = SplitPlacement::new(seekers.collect(), options).map_err(SplitError::Unreachable)?;
        placement.find_all()?;
        Ok(Runtime::of(placement, MonotonicClock::new()))
    }

    /// With a link made by hand, and no other to follow.
    #[cfg(feature = "harness")]
    pub(crate) fn over(
        link: Link,
        attached: crate::split::handshake::Attached,
        options: SplitOptions,
    ) -> io::Result<SplitRuntime> {
        let seeker = Seeker::new(Box::new(|| Err(io::ErrorKind::NotFound.into())), options.attach());
        let mut placement = SplitPlacement::new(vec![seeker], options)?;
        let part = placement.remotes.part(0).ok_or(io::ErrorKind::NotFound)?;
        part.attach(link, attached).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Runtime::of(placement, MonotonicClock::new()))
    }

    /// A connector to a named net core: a path, or `@name`.
    pub fn at(path: PathBuf) -> Connector {
        Box::new(move || dial(&path))
    }

    /// The cards' addresses.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.placement.remotes.addresses()
    }

    /// The MTU that every card has.
    pub fn mtu(&self) -> u16 {
        self.placement.remotes.mtu()
    }

    /// The (first) card's interface: of a veth device, the kernel's end.
    pub fn interface(&self) -> &str {
        &self.placement.remotes.first().attached().interface
    }

    /// The (first) card's driver.
    pub fn driver(&self) -> &str {
        &self.placement.remotes.first().attached().driver
    }

    /// What went between service and net cores.
    pub fn figures(&self) -> RemoteFigures {
        self.placement.remotes.figures()
    }

    /// Net cores attached now.
    pub fn net_cores(&self) -> usize {
        self.placement.remotes.all().filter(|part| part.is_attached()).count()
    }

    /// Net cores that there are to be.
    pub fn net_cores_wanted(&self) -> usize {
        self.placement.remotes.count()
    }
}
