//! [`Backend`]: a disk that a disk core serves areas of.

use crate::fault::Fault;
use crate::sim::Sim;
use crate::uring::Uring;
use crate::vsic::Vsic;
use qanat_nic::Region;
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
}

impl Backend for Uring {
    fn lend(&mut self, region: &Rc<Region>) -> io::Result<()> {
        Uring::lend(self, region)
    }

    fn take_back(&mut self, region: &Rc<Region>) {
        Uring::take_back(self, region);
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
}
