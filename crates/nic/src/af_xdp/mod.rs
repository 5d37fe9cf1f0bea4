//! The AF_XDP driver: frames between an interface's queues and this process without the kernel's network stack.
//!
//! [`Interface::attach`] loads the XDP program once and hands out one [`QueueOpener`] per queue; each is sent to the
//! thread that will use the queue and opened there into an [`AfXdp`], which is a [`Vnic`](crate::Vnic). The program stays
//! attached as long as the interface or one of its queues is open, and never longer than the process lives.

mod account;
mod batch;
mod call;
mod config;
mod copies;
mod handed;
mod inject;
mod injection;
mod interface;
mod migration;
mod object;
mod open;
mod pace;
mod program;
mod queue;
mod ring;
mod socket;
mod take_over;

pub use batch::is_injectable;
pub use config::{AttachConfig, Mode, RingSizes};
pub use handed::{HandedCard, HandedQueue, MemoryFiles, hand_over};
pub use injection::{
    HandedInjector, INJECT, INJECTION_BYTES, INJECTION_OBJECT, INJECTION_ROWS_MAX, Injection, PreparedBatch,
};
pub use interface::{Interface, QueueOpener};
pub use object::load_program;
pub use open::open_pair;
pub use program::{ADDRESSES_MAX, PortRange, QUEUES_MAX, Rule, SERVICES_MAX, Take, Verdicts};
pub use queue::AfXdp;
