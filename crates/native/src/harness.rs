//! [`EchoProgram`]: an echo server as a program in C writes it, for whoever counts what that costs beside one in Rust.

use crate::address::Address;
use crate::calls::{Qanat, qanat_end, qanat_lend, qanat_listen, qanat_next, qanat_release};
use crate::event::{Event, EventKind};
use crate::status::{Code, Status};
use qanat::Runtime;
use std::hint::black_box;
use std::io;
use std::net::SocketAddr;
use std::ptr::{null, null_mut};

/// Answers whatever comes with the same bytes.
pub struct EchoProgram {
    qanat: *mut Qanat,
    payload: &'static [u8],
}

fn checked(status: Code) -> io::Result<()> {
    if status == Status::Ok as Code { Ok(()) } else { Err(io::Error::other(format!("status {status}"))) }
}

impl EchoProgram {
    /// Listens at `local`.
    ///
    /// # Errors
    /// It can't listen there, or the process is out of descriptors.
    pub fn start(runtime: Runtime, local: SocketAddr, payload: &'static [u8]) -> io::Result<EchoProgram> {
        let qanat = Qanat::over(runtime)?;
        let local = Address::from(local);
        // SAFETY: `qanat` was just made, `local` is an address, and nobody wants the listener.
        checked(unsafe { qanat_listen(qanat, &raw const local, 0, null_mut()) })?;
        Ok(EchoProgram { qanat, payload })
    }

    /// Handles the events of one turn. Returns how many pieces were answered.
    ///
    /// # Errors
    /// A call was refused.
    pub fn turn(&mut self) -> io::Result<u64> {
        // As a program finds them: by addresses that the compiler does not know.
        let (next, lend, release) = black_box((
            qanat_next as unsafe extern "C" fn(_, i64, _, *mut usize) -> _,
            qanat_lend as unsafe extern "C" fn(_, _, _, _, _, _) -> _,
            qanat_release as unsafe extern "C" fn(_, _) -> _,
        ));
        let (mut events, mut count, mut answers) = (null::<Event>(), 0, 0);
        // SAFETY: `self` has a `qanat` that is not ended; both places are to be written.
        checked(unsafe { next(self.qanat, 0, &raw mut events, &raw mut count) })?;
        for place in 0..count {
            // SAFETY: the call said that there are so many, until the next one.
            let event = unsafe { &*events.add(place) };
            if event.kind != EventKind::Data as u32 {
                continue;
            }
            // SAFETY: the payload stays as long as the program, and the memory was lent by this event.
            unsafe {
                checked(release(self.qanat, event.memory))?;
                checked(lend(self.qanat, event.object, self.payload.as_ptr(), self.payload.len(), None, null_mut()))?;
            }
            answers += 1;
        }
        Ok(answers)
    }
}

impl Drop for EchoProgram {
    fn drop(&mut self) {
        // SAFETY: it is not ended yet, and used no more. It can only be refused on another thread, which it never gets to.
        let _ = unsafe { qanat_end(self.qanat) };
    }
}
