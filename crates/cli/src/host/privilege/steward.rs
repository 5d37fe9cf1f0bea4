//! The process that keeps a service's user, by which a daemon knows it, and the right to start its net cores. It reads no packet and
//! serves nobody but the service that started it; it ends with it, however that ends, and removes what is to be removed then.

use super::paths::directory_of;
use crate::host::own_net_core::OwnNetCore;
use crate::log;
use clap::Args;
use qanat::confine::{Places, confine_steward};
use qanat::split::{Refusal, SplitRuntime};
use qanat_control::steward::{Duties, NetCoreDuty, NoNetCore, begin, channel, serve};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Started by services
#[derive(Args)]
pub struct Arguments {}

/// A net core that the service has.
enum NetCore {
    At(std::path::PathBuf),
    Own(OwnNetCore, Vec<String>),
}

/// Starts one.
pub fn start(duties: Duties) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("the steward of this service does not start: {error}");
    let (ours, its) = channel().map_err(failed)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg("steward").args(log::forwarded()).stdin(Stdio::from(its)).stdout(Stdio::null());
    // A terminal's Ctrl-C is for the service.
    command.process_group(0).spawn().map_err(failed)?;
    Ok(begin(ours, duties)?)
}

/// Is one.
pub fn run(_: &Arguments) -> Result<(), String> {
    let channel = std::io::stdin().as_fd().try_clone_to_owned();
    let channel = channel.map_err(|error| format!("standard input: {error}"))?;
    // It ends when the service does, and not before.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        flag::register(signal, Arc::default()).map_err(|error| format!("handling signals: {error}"))?;
    }
    let net_cores: RefCell<Vec<NetCore>> = RefCell::default();
    let ready = |duties: &Duties| {
        net_cores.borrow_mut().extend(duties.net_cores.iter().map(|duty| match duty {
            NetCoreDuty::At(path) => NetCore::At(path.clone()),
            NetCoreDuty::Own(arguments) => NetCore::Own(OwnNetCore::default(), arguments.clone()),
        }));
        // A net core needs all rights to open its card, and gives them up itself.
        let starts_some = net_cores.borrow().iter().any(|net_core| matches!(net_core, NetCore::Own(..)));
        if starts_some { Ok(()) } else { confine_steward(&places(duties)) }
    };
    let duties = serve(channel.as_fd(), ready, &mut |number, service| have(net_cores.borrow().get(number), service))?;
    for net_core in net_cores.borrow().iter() {
        if let NetCore::Own(own, _) = net_core {
            own.wait();
        }
    }
    // It may be gone already.
    duties.remove.iter().for_each(|path| drop(std::fs::remove_file(path)));
    Ok(())
}

/// Files that it removes; and processes that hold a card, of which it looks whether they run.
fn places(duties: &Duties) -> Places {
    let write = duties.remove.iter().map(|path| directory_of(path)).collect();
    Places { read: vec!["/proc".into()], write }
}

fn have(net_core: Option<&NetCore>, service: BorrowedFd<'_>) -> Result<Option<OwnedFd>, NoNetCore> {
    let had = match net_core {
        Some(NetCore::At(path)) => SplitRuntime::at(path.clone())().map(Some),
        Some(NetCore::Own(own, arguments)) => service.try_clone_to_owned().and_then(|socket| {
            own.start(arguments, socket)?;
            Ok(None)
        }),
        None => Err(std::io::ErrorKind::NotFound.into()),
    };
    had.map_err(|error| {
        let is_final = error.get_ref().is_some_and(|error| error.is::<Refusal>());
        NoNetCore { error, is_final }
    })
}
