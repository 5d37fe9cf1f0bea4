//! A service, as the host knows it. Whatever is not said here is the host's business: where the card comes from, in which process
//! the stack runs, rights, signals, the live figures, and how a card that is lost comes back.

use crate::host::export::ExportArguments;
use crate::host::privilege::Privilege;
use crate::host::privilege::access::Need;
use crate::live::Printer;
use qanat::confine::Places;
use qanat::{Service, Storage};
use qanat_export::parts::Part;
use qanat_nic::af_xdp::PortRange;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

/// Frames of a queue, each way, unless the application says otherwise.
const FRAMES: u32 = 8_192;

/// An application of the native API, with what a command line wants to know of it.
///
/// The host calls these in the order in which they stand here. [`service`](Application::service) is called for each queue of a card,
/// on the thread that runs it, and anew for the card that takes the place of a lost one.
pub trait Application: Sync {
    /// What handles its events.
    type Service: Service;
    /// What it counts.
    type Figures: Figures;

    /// The command's name. Figures are told under it, and net cores know the service by it.
    const NAME: &'static str;
    /// The event of [`notes`](Application::notes) in JSON.
    const NOTE: &'static str = "note";
    /// In the kernel placement it listens at all of the machine's addresses unless it is told otherwise. If not, it listens at the machine's
    /// own ones only (127.0.0.1, ::1): it is not for strangers.
    const IS_PUBLIC: bool = false;
    /// JSON figures tell what the card and the stack hold, too.
    const TELLS_PLACE: bool = false;

    /// What it needs of the card and of the stack.
    fn requirements(&self) -> Requirements;

    /// Frames of a linked queue that are kept ready, each of so many bytes.
    fn prepared_frames(&self, _frame_size: u32) -> u32 {
        0
    }

    /// What it goes on needing of the file system.
    fn files(&self) -> Files {
        Files::default()
    }

    /// Whether it exports a directory; `None`: it can't.
    fn export(&self) -> Option<&ExportArguments> {
        None
    }

    /// What it exports besides its figures.
    fn parts(&self) -> Vec<(String, Part)> {
        Vec::new()
    }

    /// Makes what takes the rights of whoever started the service.
    ///
    /// # Errors
    /// What can't be made, and the remedy.
    fn open(&mut self, _privilege: &Privilege) -> Result<(), String> {
        Ok(())
    }

    /// The storage areas of its service, opened while there are rights, on the thread that runs the service. Only a service of one queue
    /// has any. When the card is lost they are kept for the next.
    ///
    /// # Errors
    /// What can't be opened, and the remedy.
    fn storage(&self) -> Result<Storage, String> {
        Ok(Storage::default())
    }

    /// There is a card, the first or the next: makes what the services of its queues have in common.
    ///
    /// # Errors
    /// What can't be made.
    fn prepare(&self, _queues: u32) -> Result<(), String> {
        Ok(())
    }

    /// The service of one queue.
    ///
    /// # Errors
    /// Why there is none, and the remedy.
    fn service(&self, place: &Place) -> Result<Self::Service, String>;

    /// What wakes the service besides packets, and what that is watched for.
    fn doorbell(_service: &Self::Service) -> Option<(BorrowedFd<'_>, &'static str)> {
        None
    }

    /// The rights are given up: threads of its own begin.
    ///
    /// # Errors
    /// There is no thread to be had.
    fn begin(&self) -> Result<(), String> {
        Ok(())
    }

    /// What SIGHUP does, on a thread of its own; `None`: nothing.
    fn reload(&self) -> Option<Box<dyn FnMut() + Send>> {
        None
    }

    /// The service listens.
    fn announcement(&self, place: &Place) -> Announcement;

    /// What the service has counted.
    fn figures(service: &mut Self::Service) -> Self::Figures;

    /// News for the operator since the last call.
    fn notes(_service: &mut Self::Service) -> Vec<String> {
        Vec::new()
    }

    /// How fast it is.
    fn rates(period: &Period<'_, Self::Figures>) -> Rates;

    /// The figures in JSON.
    fn json(figures: &Self::Figures) -> Value;

    /// The figures in Prometheus' format, for another thread.
    fn metrics(&self) -> Option<MetricsText<Self::Figures>> {
        None
    }

    /// What it has done, in lines of text; `each`: by queue.
    fn summary(all: &Self::Figures, each: &[Self::Figures]) -> Vec<String>;

    /// What else the last line of JSON tells.
    fn last_json(_all: &Self::Figures) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
}

/// Writes figures for Prometheus.
pub type MetricsText<F> = Box<dyn Fn(&F) -> String + Send>;

/// Counters of a service.
pub trait Figures: Copy + Default + PartialEq + Send + 'static {
    /// Adds what another queue, or the service on a card before this one, has counted.
    fn add(&mut self, other: &Self);

    /// The card is gone, and what was open on it.
    fn end(&mut self);

    /// Of all.
    fn sum(all: &[Self]) -> Self {
        all.iter().fold(Self::default(), |mut sum, one| {
            sum.add(one);
            sum
        })
    }
}

/// What a service needs of the card and of the stack.
pub struct Requirements {
    /// Ports that it takes of an address shared with the kernel.
    pub ports: Vec<PortRange>,
    /// Its own limit of connections. The stack takes some more, which the service resets at once.
    pub connections_max: Option<usize>,
    /// Ports of its own connections.
    pub ephemeral_ports: Option<RangeInclusive<u16>>,
    /// Frames of a linked queue, to receive into and as many to send from.
    pub frames: u32,
    /// Frames taken from the device at once, at most.
    pub receive_batch: Option<usize>,
    /// Queues of the card, each with a stack, a service and a thread of its own.
    pub queues: u32,
    /// Where figures can be fetched.
    pub metrics: Option<SocketAddr>,
}

impl Requirements {
    /// One queue, whose service listens at these ports.
    pub fn new(ports: Vec<PortRange>) -> Requirements {
        Requirements {
            ports,
            connections_max: None,
            ephemeral_ports: None,
            frames: FRAMES,
            receive_batch: None,
            queues: 1,
            metrics: None,
        }
    }
}

/// What a service goes on needing of the file system.
#[derive(Default)]
pub struct Files {
    /// Whether it can be used is found out by whoever goes on.
    pub needs: Vec<Need>,
    /// Where it may be.
    pub places: Places,
}

impl Files {
    /// As the system's calls name them.
    pub fn new(needs: Vec<Need>, read: Vec<PathBuf>, write: Vec<PathBuf>) -> Files {
        Files { needs, places: Places { read, write } }
    }
}

/// Where a service's stack is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackPlace {
    /// In its threads.
    Linked,
    /// In a net core.
    NetCore,
    /// It is the kernel's.
    Kernel,
}

/// Where a service runs.
pub struct Place {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The card's interface.
    pub interface: String,
    /// The card's driver.
    pub driver: String,
    /// Over IPv6 too, or perhaps.
    pub serves_six: bool,
    /// Where the stack is.
    pub stack: StackPlace,
    /// Which queue of the card.
    pub queue: u32,
}

impl Place {
    /// The addresses with a port.
    pub fn sockets(&self, port: u16) -> Vec<String> {
        self.addresses.iter().map(|address| SocketAddr::new(*address, port).to_string()).collect()
    }
}

/// What is said when a service listens.
pub struct Announcement {
    /// For programs.
    pub json: Value,
    /// For people.
    pub lines: Vec<String>,
}

impl Announcement {
    /// Prints it.
    pub fn tell(self, printer: &Printer) {
        match printer.is_json() {
            true => printer.lasting(self.json.to_string()),
            false => self.lines.into_iter().for_each(|line| printer.lasting(line)),
        }
    }
}

/// Figures now, and at the last look.
pub struct Period<'a, F> {
    pub now: &'a F,
    pub before: &'a F,
    pub elapsed_s: f64,
}

impl<F> Period<'_, F> {
    /// Of something counted, a second.
    pub fn rate(&self, count: impl Fn(&F) -> u64) -> f64 {
        count(self.now).saturating_sub(count(self.before)) as f64 / self.elapsed_s
    }
}

/// How fast a service is.
pub struct Rates {
    /// For programs.
    pub json: Value,
    /// For people.
    pub text: String,
    /// Something was done.
    pub is_busy: bool,
}
