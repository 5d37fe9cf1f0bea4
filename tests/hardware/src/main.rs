//! What runs in the virtual machine of `make test-hardware`: drivers of PCI functions, against devices and the kernel's own drivers.
//!
//! Each case prints a line. The last line says how many there were, so that a machine that ends early is noticed.
#![forbid(unsafe_code)]

mod cases;
mod harness;
mod kernel;
mod program;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    // A process that is killed while its controller works.
    if let (Some("busy"), Some(address)) = (arguments.next().as_deref(), arguments.next()) {
        cases::killed::be_busy(&address);
    }
    harness::run(cases::all())
}
