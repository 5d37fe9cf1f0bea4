//! Sending on a stream.

use crate::calls::transfer::vectors::{PIECE_MAX, Source};
use crate::sockets::socket::{Kind, errno_of_command};
use crate::world::lock::{Guard, lock};
use crate::world::state::World;
use crate::world::wait::{block, block_for_rest};
use libc::c_int;
use qanat::{CommandError, ConnectionId, Time};
use qanat_nic::breakdown::{self, Phase};
use rustix::io::Errno;

/// Gives the stack as much as it takes of the vectors from `at` on. `None`: nothing now.
fn push(
    world: &mut World,
    now: Time,
    number: u32,
    (source, flags): (Source<'_>, c_int),
    (at, all): (usize, usize),
) -> Option<Result<usize, Errno>> {
    let Some(socket) = world.sockets.get_mut(number) else { return Some(Err(Errno::BADF)) };
    if let Some(error) = socket.take_error() {
        return Some(Err(error));
    }
    let Kind::Stream(stream) = &mut socket.kind else { return Some(Err(Errno::PIPE)) };
    let Some(connection) = stream.connection.filter(|_| !stream.write_shut) else { return Some(Err(Errno::PIPE)) };
    if stream.is_connecting {
        return None;
    }
    let more = flags & libc::MSG_MORE != 0;
    if (more || stream.more) && at < all {
        stream.more = more;
        let _ = world.stack.set_more(now, connection, more);
    }
    let mut done = 0;
    let _stack = breakdown::span(Phase::StackOut);
    while at + done < all {
        let room = world.room(now, number, done > 0);
        if room == 0 {
            break;
        }
        let Some(stream) = world.sockets.stream_mut(number) else { break };
        let length = (all - at - done).min(room).min(PIECE_MAX);
        let bytes = source.gather(at + done, length);
        match world.stack.send_owned(now, connection, bytes.into()) {
            Ok(()) => {
                stream.sent(length);
                if flags & libc::MSG_OOB != 0 {
                    // As Linux: the last byte that has been given so far is the one.
                    let _ = world.stack.mark_urgent(now, connection);
                }
            }
            Err(CommandError::Full) => break,
            Err(error) if done == 0 => return Some(Err(errno_of_command(error))),
            Err(_) => break,
        }
        done += length;
    }
    if flags & libc::MSG_EOR != 0 && all > 0 && at + done == all {
        let _ = world.stack.end_record(now, connection);
    }
    world.note_unsent(now, number);
    if done == 0 && at < all { None } else { Some(Ok(done)) }
}

impl World {
    /// Bytes that stream `number` takes now; `goes_on`: of a call that has given some already. With a mark
    /// (`TCP_NOTSENT_LOWAT`) as Linux: a call begins below it, and fills the buffers it has begun.
    fn room(&mut self, now: Time, number: u32, goes_on: bool) -> usize {
        self.note_unsent(now, number);
        let Some(stream) = self.sockets.stream_mut(number) else { return 0 };
        if stream.unsent_mark == 0 || stream.room() == 0 {
            return stream.room();
        }
        if !goes_on && !stream.is_below_mark() {
            return 0;
        }
        let info = stream.connection.and_then(|connection| self.stack.connection_info(connection));
        let goal = info.map_or(1, |(_, _, info)| {
            let segment = u32::from(info.maximum_segment.max(1));
            ((info.send_window / 2).min(PIECE_MAX as u32) / segment).max(1) * segment
        });
        let most = u64::from(stream.unsent_mark).next_multiple_of(goal.into());
        stream.room().min(usize::try_from(most.saturating_sub(stream.unsent)).unwrap_or(usize::MAX))
    }

    /// With a mark, and much that seems unsent: what can leave need not wait for others, and the rest is watched.
    fn note_unsent(&mut self, now: Time, number: u32) {
        let Some(stream) = self.sockets.stream_mut(number).filter(|stream| stream.unsent_mark > 0) else { return };
        if !stream.is_well_below_mark() {
            self.leave(now);
        }
        self.sockets.watch_unsent(number, &self.stack);
    }
}

/// Sends on a stream, waiting if that is wanted.
pub(super) fn send_stream(guard: Guard, number: u32, source: Source<'_>, flags: c_int) -> Result<isize, Errno> {
    go_on(guard, number, source, flags, 0)
}

/// Gives the stack, at once, the first `count` bytes of what is sent; how many those are.
pub(in crate::calls) fn give_to(
    guard: &mut Guard,
    number: u32,
    connection: ConnectionId,
    source: Source<'_>,
    count: usize,
) -> usize {
    let now = guard.clock_now();
    let bytes = source.gather(0, count);
    if count == 0 || guard.stack.send_owned(now, connection, bytes.into()).is_err() {
        return 0;
    }
    if let Some(stream) = guard.sockets.stream_mut(number) {
        stream.sent(count);
    }
    count
}

/// As [`send_stream`], but for the first `before` bytes, which have been given already.
pub(in crate::calls) fn go_on(
    mut guard: Guard,
    number: u32,
    source: Source<'_>,
    flags: c_int,
    before: usize,
) -> Result<isize, Errno> {
    let all = source.length();
    if before > 0 && before == all {
        return Ok(all as isize);
    }
    let what = (source, flags);
    let mut now = guard.clock_now();
    let mut first = push(&mut guard, now, number, what, (before, all));
    if first.is_none() {
        now = guard.drive_now();
        first = push(&mut guard, now, number, what, (before, all));
    }
    guard.sent(now);
    let socket = guard.sockets.get(number).ok_or(Errno::BADF)?;
    let waits = !socket.is_nonblocking && flags & libc::MSG_DONTWAIT == 0;
    let timeout = socket.send_timeout;
    drop(guard);
    let mut done = match first {
        Some(Ok(done)) => before + done,
        Some(Err(error)) => return Err(error),
        None if waits || before > 0 => before,
        None => return Err(Errno::AGAIN),
    };
    while waits && done < all {
        let attempt = |guard: &mut Guard| {
            let now = guard.clock_now();
            let pushed = push(guard, now, number, what, (done, all));
            if pushed.is_some() {
                guard.sent(now);
            }
            pushed
        };
        let more = match done {
            0 => block(number, timeout, None, attempt),
            _ => block_for_rest(number, timeout, attempt),
        };
        match more {
            Ok(more) => done += more,
            // What went before counts; the next call is told.
            Err(error) if done > 0 => {
                told_later(number, error);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(done as isize)
}

/// An error came behind what a call could do: the next one is told.
pub(in crate::calls) fn told_later(number: u32, error: Errno) {
    let is_the_connections = !matches!(error, Errno::AGAIN | Errno::INTR | Errno::PIPE);
    if is_the_connections
        && let Ok(mut guard) = lock()
        && let Some(socket) = guard.sockets.get_mut(number)
        && socket.error.is_none()
    {
        socket.error = Some(error);
    }
}
