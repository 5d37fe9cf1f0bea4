//! [`Backend`]: a disk that a disk core serves areas of.

use crate::fault::Fault;
use crate::nvme::vfio::FunctionTransport;
use crate::nvme::{Mapping, Nvme};
use crate::sim::Sim;
use crate::uring::Uring;
use crate::vsic::Vsic;
use qanat_nic::{Clock, Region};
use std::io;
use std::rc::Rc;

/// A disk to whose requests memory can be added, and taken away, while it is open.
pub trait Backend: Vsic {
    /// From now on buffers may be of this memory.
    ///
    /// # Errors
    /// What the kernel says; then they may not.
    fn lend(&mut self, region: &Rc<Region>) -> io::Result<()>;

    /// From now on they may not. What is under way is not disturbed.
    fn take_back(&mut self, region: &Rc<Region>);

    /// Whether it will never do anything any more.
    fn is_gone(&self) -> bool {
        false
    }
}

impl Backend for Uring {
    fn lend(&mut self, region: &Rc<Region>) -> io::Result<()> {
        Uring::lend(self, region)
    }

    fn take_back(&mut self, region: &Rc<Region>) {
        Uring::take_back(self, region);
    }
}

/// A function of the machine: memory is mapped for it, whole, as long as it is lent.
impl<C: Clock> Backend for Nvme<FunctionTransport, C> {
    fn lend(&mut self, region: &Rc<Region>) -> io::Result<()> {
        let address = self.transport_mut().function_mut().map(region).map_err(io::Error::other)?;
        self.add_memory(Mapping { region: Rc::clone(region), address });
        Ok(())
    }

    fn take_back(&mut self, region: &Rc<Region>) {
        self.remove_memory(region);
        // What can't be unmapped is kept for good.
        let _ = self.transport_mut().function_mut().unmap(region);
    }

    fn is_gone(&self) -> bool {
        self.has_failed()
    }
}

/// It takes any memory.
impl Backend for Sim {
    fn lend(&mut self, _region: &Rc<Region>) -> io::Result<()> {
        Ok(())
    }

    fn take_back(&mut self, _region: &Rc<Region>) {}
}

impl<V: Backend> Backend for Fault<V> {
    fn lend(&mut self, region: &Rc<Region>) -> io::Result<()> {
        self.inner_mut().lend(region)
    }

    fn take_back(&mut self, region: &Rc<Region>) {
        self.inner_mut().take_back(region);
    }

    fn is_gone(&self) -> bool {
        self.inner().is_gone()
    }
}
