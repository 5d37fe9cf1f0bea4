//! Round trips by datagrams, whatever is in them: what `qanat load udp` and `qanat load dns` have in common.
//!
//! * [`pace`]: how many at once, how fast, how long
//! * [`traffic`]: what is sent, and what counts as its answer
//! * [`trips`]: what a run saw
//! * [`window`]: what is on its way: sent when, lost when; closed loop and open loop
//! * [`frame`]: headers of a datagram, written from a template
//! * [`native`]: over a virtual card directly, no stack: the sender must not be what is measured
//! * [`kernel`]: over a kernel socket
//! * [`link`]: veth, memif, or a pair with the server at its other end

pub mod frame;
pub mod kernel;
pub mod link;
pub mod native;
pub mod pace;
pub mod traffic;
pub mod trips;
pub mod window;
