//! The keeper of an export: a process with the one right to mount and unmount. It reads nothing of the service but two orders.

use super::words::{Order, Outcome};
use crate::log;
use clap::Args;
use qanat::confine::confine_export_keeper;
use qanat_control::protocol::{MESSAGE_BYTES_MAX, receive, send};
use qanat_export::mount::Claim;
use qanat_export::place::ExportName;
use qanat_export::probe::{Health, SILENCE_MAX, probe};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// How often it looks whether somebody answers.
const LOOKS: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Started by services
#[derive(Args)]
pub struct Arguments {}

/// Is one, until the service has ended.
pub fn run(_: &Arguments) -> Result<(), String> {
    let channel = std::io::stdin().as_fd().try_clone_to_owned();
    let channel = channel.map_err(|error| format!("standard input: {error}"))?;
    // It ends when the service does, and not before.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        flag::register(signal, Arc::default()).map_err(|error| format!("handling signals: {error}"))?;
    }
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    let Ok((Order::Claim(name), mut beside)) = receive(channel.as_fd(), &mut buffer) else { return Ok(()) };
    let Some((mut claim, mount)) = tell(channel.as_fd(), claim(&name, beside.pop())) else { return Ok(()) };
    let Ok((Order::Attach, _)) = receive(channel.as_fd(), &mut buffer) else { return Ok(()) };
    let attached = claim.attach(mount.as_fd()).map_err(|error| error.to_string());
    drop(mount);
    if tell(channel.as_fd(), attached).is_some() {
        watch(channel.as_fd(), &mut claim);
    }
    Ok(())
}

/// Has the directory, and gives up what is not needed for it.
fn claim(name: &str, mount: Option<OwnedFd>) -> Result<(Claim, OwnedFd), String> {
    let name: ExportName = name.parse().map_err(|error: qanat_export::place::ExportNameError| error.to_string())?;
    let mount = mount.ok_or("no mount came with the order")?;
    let claim = Claim::new(&name).map_err(|error| error.to_string())?;
    confine_export_keeper().map_err(|error| format!("giving up rights: {error}"))?;
    Ok((claim, mount))
}

/// Tells the service what came of an order.
fn tell<T>(channel: BorrowedFd<'_>, done: Result<T, String>) -> Option<T> {
    let (outcome, done) = match done {
        Ok(done) => (Outcome::Done, Some(done)),
        Err(why) => (Outcome::Failed(why), None),
    };
    send(channel, outcome, &[]).ok().and(done)
}

/// Until the service has ended, or is silent for too long.
fn watch(channel: BorrowedFd<'_>, claim: &mut Claim) {
    loop {
        let mut fds = [PollFd::from_borrowed_fd(channel, PollFlags::IN)];
        // There are no more orders, so whatever comes is the end.
        if poll(&mut fds, Some(&LOOKS)).is_ok_and(|count| count > 0) {
            return;
        }
        match probe(claim.path(), SILENCE_MAX) {
            Health::Answers => {}
            Health::Dead => return,
            Health::Silent => {
                claim.abort();
                log::warning!(
                    "export",
                    "{}: nobody answered for {} s, so it was unmounted, and readers got an error; start the service again to have it back",
                    claim.path().display(),
                    SILENCE_MAX.as_secs()
                );
                return;
            }
        }
    }
}
