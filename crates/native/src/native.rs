//! [`Native`]: what stands behind a program's `struct qanat`, without a pointer.

use crate::event::Event;
use crate::inbox::{Inbox, WAKE_TOKEN};
use crate::memory::Loan;
use crate::options::Options;
use crate::place::{Place, PlaceError, with_runtime};
use crate::status::Refused;
use qanat::nic::Time;
use qanat::{
    Block, Bytes, CommandError, Commands, ConnectOptions, ConnectionId, Context, Doorbell, Pace, Runtime, SpinPolicy,
    UdpSocketId,
};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A runtime, what has happened, and what is lent.
pub struct Native {
    place: Place,
    inbox: Inbox,
    pace: Pace,
    /// When the last turn was, or the first command after it.
    now: Time,
    /// No command was given since the last turn.
    is_between: bool,
    /// Why it can't go on.
    failure: Option<String>,
    addresses: Vec<IpAddr>,
}

impl Native {
    /// As the options ask for it.
    pub(crate) fn open(options: &Options, waker: &Doorbell) -> Result<Native, PlaceError> {
        let mut place = Place::open(options)?;
        place.watch_waker(waker, WAKE_TOKEN)?;
        let (spin, addresses) = (place.spin(options), place.addresses(options));
        Ok(Native::of(place, waker, spin, addresses))
    }

    /// Over a device of the caller's: a benchmark's, say.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn over(runtime: Runtime) -> std::io::Result<Native> {
        let waker = Doorbell::new()?;
        Ok(Native::of(Place::Linked(Box::new(runtime), None), &waker, SpinPolicy::Never, Vec::new()))
    }

    fn of(place: Place, waker: &Doorbell, spin: SpinPolicy, addresses: Vec<IpAddr>) -> Native {
        let now = with_runtime!(&place, runtime => runtime.now());
        let inbox = Inbox::new(waker.clone());
        Native { place, inbox, pace: Pace::new(spin), now, is_between: true, failure: None, addresses }
    }

    /// The events of the next turn that has any. Waits for them so long at most; `None`: without end. There are none if nothing has come.
    #[inline]
    pub(crate) fn next(&mut self, patience: Option<Duration>) -> Result<&[Event], Refused> {
        self.inbox.events.clear();
        if let Some(why) = &self.failure {
            return Err(Refused::Failed(why.clone()));
        }
        let inbox = &mut self.inbox;
        let pace = &mut self.pace;
        let ended = with_runtime!(&mut self.place, runtime => {
            let until = match patience {
                Some(Duration::ZERO) => Time::ZERO,
                Some(patience) => {
                    let patience = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
                    Time::from_nanos(runtime.now().as_nanos().saturating_add(patience))
                }
                None => Time::from_nanos(u64::MAX),
            };
            runtime.run_until(inbox, pace, until, |inbox| !inbox.events.is_empty())
        });
        self.is_between = true;
        match ended {
            Ok(now) => self.now = now,
            Err(error) => {
                let why = error.to_string();
                self.failure = Some(why.clone());
                return Err(Refused::Failed(why));
            }
        }
        Ok(&self.inbox.events)
    }

    /// Gives a command.
    #[inline]
    pub(crate) fn command<T>(&mut self, command: impl FnOnce(&mut Context<'_>) -> T) -> T {
        // The program may have been busy for long.
        if std::mem::take(&mut self.is_between) {
            self.look_at_clock();
        }
        let now = self.now;
        with_runtime!(&mut self.place, runtime => runtime.between_turns(now, command))
    }

    /// Reads the clock: what is commanded next is from then on.
    pub(crate) fn look_at_clock(&mut self) {
        self.now = self.now();
    }

    /// Connects to a peer.
    pub(crate) fn connect(&mut self, peer: SocketAddr, options: ConnectOptions) -> Result<ConnectionId, Refused> {
        self.look_at_clock();
        let connection = self.command(|context| context.connect(peer, options))?;
        self.inbox.open.insert(connection.to_token());
        Ok(connection)
    }

    /// Resets what has not ended, and sends what is left.
    pub(crate) fn finish(&mut self) {
        for connection in std::mem::take(&mut self.inbox.open) {
            // It may have ended: the program has not been told yet.
            let _ = self.command(|context| context.abort(ConnectionId::from_token(connection)));
        }
        with_runtime!(&mut self.place, runtime => runtime.finish());
    }

    /// The time by the clock that timers go by.
    pub(crate) fn now(&self) -> Time {
        with_runtime!(&self.place, runtime => runtime.now())
    }

    pub(crate) fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Has `token` told as long as `fd` is readable.
    pub(crate) fn watch(&mut self, fd: BorrowedFd<'_>, token: u64) -> Result<(), Refused> {
        if token >= WAKE_TOKEN {
            return Err(Refused::Argument("token: the three highest numbers are the library's own"));
        }
        let watched = with_runtime!(&mut self.place, runtime => runtime.watch(fd, token));
        watched.map_err(|error| Refused::Failed(format!("the descriptor can't be watched: {error}")))
    }

    /// Ends that.
    pub(crate) fn unwatch(&mut self, token: u64) -> Result<(), Refused> {
        if token >= WAKE_TOKEN {
            return Err(Refused::Argument("token: the three highest numbers are the library's own"));
        }
        with_runtime!(&mut self.place, runtime => runtime.unwatch(token));
        Ok(())
    }

    /// Sends bytes that the stack keeps until they are acknowledged.
    #[inline]
    pub(crate) fn send(&mut self, connection: ConnectionId, bytes: Bytes) -> Result<(), Refused> {
        Ok(self.command(|context| context.send(connection, bytes))?)
    }

    /// Lends a block to be filled, and says where it is.
    pub(crate) fn lend_block(&mut self, mut block: Block) -> (u64, *mut u8, usize) {
        let room = block.room();
        block.append_with(room, |_| ());
        let (data, length) = (block.bytes_mut().as_mut_ptr(), block.len());
        (self.inbox.memory.lend(Loan::Block(block)), data, length)
    }

    /// Lends a block to send.
    pub(crate) fn block(&mut self, length: usize) -> (u64, *mut u8, usize) {
        let block = self.command(|context| context.block(length));
        self.lend_block(block)
    }

    /// Ends the filling of a block, which has so many bytes.
    pub(crate) fn seal(&mut self, memory: u64, length: usize) -> Result<(), Refused> {
        let loan = self.inbox.memory.get(memory)?;
        let Loan::Block(block) = loan else {
            return Err(Refused::Argument("memory: only a block can be sealed, and once"));
        };
        if length > block.len() {
            return Err(CommandError::TooLong.into());
        }
        block.truncate(length);
        let block = std::mem::replace(block, Block::own(0));
        *loan = Loan::Sealed(block.filled());
        Ok(())
    }

    /// Makes received or own memory so long, to be written.
    pub(crate) fn writable(&mut self, memory: u64, length: usize) -> Result<*mut u8, Refused> {
        match self.inbox.memory.get(memory)? {
            // Its window is opened by as much as it has, and a net core's is only to be read.
            Loan::Received(..) => Err(Refused::Argument("memory: what a connection has received is only to be read")),
            Loan::Datagram(chunk) => {
                chunk.resize(length).map(|bytes| bytes.as_mut_ptr()).ok_or_else(|| CommandError::TooLong.into())
            }
            Loan::Block(block) => {
                if length > block.len() + block.room() {
                    return Err(CommandError::TooLong.into());
                }
                let missing = length.saturating_sub(block.len());
                block.append_with(missing, |_| ());
                block.truncate(length);
                Ok(block.bytes_mut().as_mut_ptr())
            }
            Loan::Sealed(_) => Err(Refused::Argument("memory: what is sealed is not written any more")),
        }
    }

    /// Takes memory back. What a connection has received opens its window.
    #[inline]
    pub(crate) fn release(&mut self, memory: u64) -> Result<(), Refused> {
        match self.inbox.memory.take(memory)? {
            Loan::Received(connection, chunk) => self.command(|context| context.consume(connection, chunk)),
            Loan::Datagram(_) | Loan::Block(_) | Loan::Sealed(_) => {}
        }
        Ok(())
    }

    /// Sends a sealed block, which stays lent.
    pub(crate) fn send_block(&mut self, connection: ConnectionId, memory: u64) -> Result<(), Refused> {
        let Loan::Sealed(filled) = self.inbox.memory.get(memory)? else {
            return Err(Refused::Argument("memory: only a sealed block can be sent on a connection"));
        };
        let filled = filled.clone();
        Ok(self.command(|context| context.send_block(connection, filled))?)
    }

    /// Sends a datagram's memory back, or on. It is not lent any more, unless it is of another kind.
    #[inline]
    pub(crate) fn send_memory_to(&mut self, socket: UdpSocketId, peer: SocketAddr, memory: u64) -> Result<(), Refused> {
        if !matches!(self.inbox.memory.get(memory)?, Loan::Datagram(_)) {
            return Err(Refused::Argument("memory: only a datagram's can be sent as one"));
        }
        let Loan::Datagram(chunk) = self.inbox.memory.take(memory)? else { return Ok(()) };
        Ok(self.command(|context| context.send_chunk_to(socket, peer, chunk))?)
    }

    /// Takes a block, whose first `length` bytes are to be written to an area: at most so many.
    pub(crate) fn take_block(&mut self, memory: u64, length: usize, most: usize) -> Result<Block, Refused> {
        let Loan::Block(block) = self.inbox.memory.get(memory)? else {
            return Err(Refused::Argument("memory: only a block that is not sealed can be written to an area"));
        };
        if length > block.len().min(most) {
            return Err(CommandError::TooLong.into());
        }
        block.truncate(length);
        match self.inbox.memory.take(memory)? {
            Loan::Block(block) => Ok(block),
            Loan::Received(..) | Loan::Datagram(_) | Loan::Sealed(_) => Err(CommandError::Stale.into()),
        }
    }
}
