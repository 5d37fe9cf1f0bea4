//! The application's side: ask the daemon, get handles.

use crate::address::Address;
use crate::filter::{Accepted, Direction, Filter, FilterFlags, Peer, Rate, volumes};
use crate::protocol::StackWish;
use crate::protocol::{
    ANSWER_BYTES_MAX, Answer, AreaFence, AreaPath, AreaStatus, AreaWish, DEFAULT_SOCKET, DiskPlace, DiskStatus, Fault,
    Limits, Place, QueueWish, Request, Status, VERSION, VnicStatus, VnicWish, mismatch, receive, send,
};
use crate::refusal::{Cause, Refusal};
use crate::steward::service as steward;
use qanat_disk::shared::SharedArea;
use qanat_disk::{DiskFile, OpenError, Uring};
use qanat_nic::af_xdp::{HandedCard, HandedInjector, HandedQueue, RingSizes};
use qanat_nic::tap::HandedTap;
use qanat_nic::vfio::FunctionDescriptors;
use qanat_nic::{AfXdp, FrameMemory, LendableFiles, MemoryPlan, Region, Tap};
use qanat_wire::ethernet::MacAddress;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error;

/// A daemon that takes longer hangs. One that has just started answers when it has loaded the fence: seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why the daemon did not do it; the text has the remedy.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No daemon, or it may not be asked.
    #[error("{}: {_1}; {}", _0.display(), how_to_reach(_1))]
    Unreachable(PathBuf, std::io::Error),
    /// The daemon refused.
    #[error("the control plane refuses: {0}")]
    Refused(Refusal),
    /// The conversation broke down.
    #[error("{}", in_words(_0))]
    Fault(#[from] Fault),
    /// The daemon's answer makes no sense here.
    #[error("the control plane's answer makes no sense: restart it")]
    Unexpected,
    /// Frame memory, or the queue.
    #[error(transparent)]
    Device(qanat_nic::DeviceError),
}

/// The remedy if the daemon's socket can't be connected to.
fn how_to_reach(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "become a member of the socket's group (usually `usermod -aG qanat USER`, then log in anew)"
        }
        std::io::ErrorKind::InvalidFilename => "name a socket by a path of at most 107 bytes (--socket)",
        _ => "start the daemon with `sudo qanat up`",
    }
}

fn in_words(fault: &Fault) -> String {
    match fault {
        Fault::Version(daemon) => mismatch(*daemon, VERSION),
        fault => format!("the control plane: {fault}"),
    }
}

impl ClientError {
    /// Why the daemon refused, if that is what it did.
    pub fn refused(&self) -> Option<Cause> {
        if let ClientError::Refused(refusal) = self { Some(refusal.cause) } else { None }
    }

    /// Whether somebody else has what was asked for.
    pub fn is_taken(&self) -> bool {
        self.refused() == Some(Cause::Taken)
    }

    /// Whether the same may be granted in a moment, when a program that has ended is known to have: an address that somebody has, or
    /// a count that is full. What the policy refuses, it refuses again.
    pub fn may_pass(&self) -> bool {
        matches!(self.refused(), Some(Cause::Taken | Cause::Full))
    }

    /// Whether the policy refuses it: the next time it does so, too.
    pub fn is_forbidden(&self) -> bool {
        matches!(self.refused(), Some(Cause::Forbidden | Cause::NoRule))
    }

    /// Whether a card of another provider may be had.
    pub fn is_about_provider(&self) -> bool {
        self.refused() == Some(Cause::Provider)
    }

    /// Whether the daemon knows nothing of a handle that was to be exchanged.
    pub fn is_forgotten(&self) -> bool {
        self.refused() == Some(Cause::Forgotten)
    }
}

/// How long the card of a process that has ended, or the queue of a socket that is closed, may take to be given up, and how often it is
/// looked at.
const GIVEN_UP: Duration = Duration::from_secs(2);
const GIVEN_UP_LOOK: Duration = Duration::from_millis(5);

/// Where the daemon is: `$QANAT_SOCKET`, or [`DEFAULT_SOCKET`].
pub fn default_socket() -> PathBuf {
    let named = std::env::var_os("QANAT_SOCKET").filter(|name| !name.is_empty());
    named.map_or_else(|| PathBuf::from(DEFAULT_SOCKET), PathBuf::from)
}

/// What this process has asked the daemon for by a connection of its own, each once.
static ASKED: Mutex<Vec<Request>> = Mutex::new(Vec::new());
/// An area that has been opened, by the way that it is used.
#[derive(Debug)]
pub enum OpenedArea {
    /// A queue pair in memory that is shared with the disk's core.
    Shared(SharedArea),
    /// A descriptor of the area's own, which the kernel fences.
    Own(OwnArea),
}

/// A partition or file that is an area.
#[derive(Debug)]
pub struct OwnArea {
    /// Open for direct I/O.
    pub file: OwnedFd,
    /// Open as long as the area is used: the daemon counts it as a handle.
    pub lease: OwnedFd,
    /// Bytes that can be used.
    pub bytes: u64,
}

impl OwnArea {
    /// Drives it by io_uring: `memory`: what all buffers will be of; `depth`: requests under way at once. The lease is to be kept as long.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(self, path: &AreaPath, depth: u32, memory: &Rc<Region>) -> Result<(Uring, OwnedFd), OpenError> {
        let OwnArea { file, lease, bytes } = self;
        let file = DiskFile::over(file, Path::new(&path.to_string()), depth)?.limited(bytes);
        Ok((Uring::over(file, std::slice::from_ref(memory))?, lease))
    }
}

/// A service has no more cards and areas than this.
const ASKED_MAX: usize = 64;

/// Cards, net cores and areas that this process has asked the daemon for so far: what its [steward](crate::steward) may ask for again.
pub fn asked() -> Vec<Request> {
    ASKED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn note(request: &Request) {
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    let text = |request: &Request| serde_json::to_vec(request).ok();
    if asked.len() < ASKED_MAX && !asked.iter().any(|known| text(known) == text(request)) {
        asked.push(request.clone());
    }
}

/// Asks one thing on a descriptor and waits for the answer.
fn ask(
    socket: BorrowedFd<'_>,
    request: Request,
    beside: &[BorrowedFd<'_>],
) -> Result<(Answer, Vec<OwnedFd>), ClientError> {
    send(socket, request, beside)?;
    let mut buffer = vec![0; ANSWER_BYTES_MAX];
    match receive(socket, &mut buffer)? {
        (Answer::Refused(why), _) => Err(ClientError::Refused(why)),
        (Answer::Ended(_), _) => Err(Fault::Closed.into()),
        answer => Ok(answer),
    }
}

fn done(answer: (Answer, Vec<OwnedFd>)) -> Result<(), ClientError> {
    match answer {
        (Answer::Done, _) => Ok(()),
        _ => Err(ClientError::Unexpected),
    }
}

/// Where the next part begins: not where one did before, or there would be no end.
fn later(place: Place, next: Option<Place>) -> Result<Option<Place>, ClientError> {
    match next {
        Some(next) if next <= place => Err(ClientError::Unexpected),
        next => Ok(next),
    }
}

/// A connection to the daemon, with the rights of this process's user.
#[derive(Debug)]
pub struct Session {
    socket: OwnedFd,
    path: PathBuf,
}

/// The connection: as long as it is open, in whichever process, the daemon is in use.
impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Session {
    /// The connection to the daemon at `path` that `socket` is, made by whomever.
    pub fn over(socket: OwnedFd, path: &Path) -> Session {
        Session { socket, path: path.to_owned() }
    }

    /// Connects to the daemon at `path`. If this process has a [steward](crate::steward), that one does it.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`].
    pub fn connect(path: &Path) -> Result<Session, ClientError> {
        let open = || -> std::io::Result<OwnedFd> {
            let new = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
            let (socket, is_connected) = match steward::connect() {
                Some(socket) => (socket?, true),
                None => (new()?, false),
            };
            sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
            sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(PATIENCE))?;
            if !is_connected {
                connect(&socket, &SocketAddrUnix::new(path)?)?;
            }
            Ok(socket)
        };
        let socket = open().map_err(|error| ClientError::Unreachable(path.to_owned(), error))?;
        Ok(Session { socket, path: path.to_owned() })
    }

    /// Asks for somebody else, who sends the descriptors and gets those of the answer.
    pub(crate) fn pass(
        &self,
        request: Request,
        beside: &[BorrowedFd<'_>],
    ) -> Result<(Answer, Vec<OwnedFd>), ClientError> {
        match &request {
            Request::AttachNetCore { card, .. } => self.ask_for_card(&card.addresses.clone(), request),
            _ => ask(self.socket.as_fd(), request, beside),
        }
    }

    /// Asks anything.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ask(&self, request: Request) -> Result<Answer, ClientError> {
        Ok(ask(self.socket.as_fd(), request, &[])?.0)
    }

    /// Makes a VNIC.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn create_vnic(&self, wish: VnicWish) -> Result<VnicHandle, ClientError> {
        let request = Request::CreateVnic(wish);
        note(&request);
        VnicHandle::from_answer(&self.path, ask(self.socket.as_fd(), request, &[])?)
    }

    /// A socket to one of the daemon's net cores, which has a card as `card` says for this service; `None`: the daemon has no
    /// net cores.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn attach_net_core(&self, card: VnicWish, stack: StackWish) -> Result<Option<OwnedFd>, ClientError> {
        let addresses = card.addresses.clone();
        let request = Request::AttachNetCore { card, stack };
        note(&request);
        match self.ask_for_card(&addresses, request)? {
            (Answer::Done, mut beside) => Ok(beside.pop()),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Asks for a card on a net core; again for a while, if one with such an address is of a process that has ended: its net core
    /// is about to notice. So a service that is started again at once has its address.
    fn ask_for_card(
        &self,
        addresses: &[(Address, u8)],
        request: Request,
    ) -> Result<(Answer, Vec<OwnedFd>), ClientError> {
        // A process that is ending has nothing left to read. If this one may not look, it takes the other for one that runs.
        let runs = |process| match std::fs::read(format!("/proc/{process}/cmdline")) {
            Ok(words) => !words.is_empty(),
            Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
        };
        let is_same = |own: &(IpAddr, u8)| addresses.iter().any(|(address, _)| *address == own.0.into());
        let is_ending = |vnic: &VnicStatus| vnic.addresses.iter().any(is_same) && !runs(vnic.process);
        let begun = Instant::now();
        loop {
            let answer = ask(self.socket.as_fd(), request.clone(), &[]);
            if !matches!(answer, Err(ClientError::Refused(_))) || begun.elapsed() > GIVEN_UP {
                return answer;
            }
            // A steward, who has looked itself, tells nobody how things are.
            if !self.status().is_ok_and(|status| status.vnics.iter().any(is_ending)) {
                // It may have gone between the answer and the look.
                return ask(self.socket.as_fd(), request, &[]);
            }
            std::thread::sleep(GIVEN_UP_LOOK);
        }
    }

    /// A new handle of a VNIC of this user.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn open_vnic(&self, vnic: u32) -> Result<VnicHandle, ClientError> {
        let request = Request::OpenVnic { vnic };
        note(&request);
        VnicHandle::from_answer(&self.path, ask(self.socket.as_fd(), request, &[])?)
    }

    /// Makes a filter that covers what these `peers` and these own `services` have to do with each other: the paper's
    /// `create_filter(flags, peerlist, servicelist)`. An empty list is a wildcard.
    ///
    /// # Errors
    /// [`ClientError`]; also of a part the flags' level does not have.
    pub fn create_filter(
        &self,
        flags: FilterFlags,
        peers: &[Peer],
        services: &[Accepted],
    ) -> Result<FilterHandle, ClientError> {
        let filters =
            volumes(flags.level, peers, services).map_err(|why| ClientError::Refused(why.to_string().into()))?;
        self.create_filter_of(flags.direction, filters)
    }

    /// Makes a filter that covers these sub-volumes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn create_filter_of(&self, direction: Direction, filters: Vec<Filter>) -> Result<FilterHandle, ClientError> {
        match ask(self.socket.as_fd(), Request::CreateFilter { direction, filters }, &[])? {
            (Answer::Filter(_), mut beside) => match beside.pop() {
                Some(handle) => Ok(FilterHandle { handle }),
                None => Err(ClientError::Unexpected),
            },
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Exchanges a handle that an earlier daemon gave out, and that is proof by itself, for one of this daemon's.
    ///
    /// # Errors
    /// [`ClientError`]; also if its object is gone.
    pub fn reclaim(&self, handle: BorrowedFd<'_>) -> Result<OwnedFd, ClientError> {
        match ask(self.socket.as_fd(), Request::Reclaim, &[handle])? {
            (Answer::Vnic(_) | Answer::Filter(_), mut beside) => beside.pop().ok_or(ClientError::Unexpected),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// What there is.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn status(&self) -> Result<Status, ClientError> {
        match self.ask(Request::Status) {
            Ok(Answer::Status(status)) => Ok(status),
            // Too long for one message; a daemon that knows of no parts has one that is short enough, or hangs up.
            Err(ClientError::Refused(_)) => self.long_status(),
            Ok(_) => Err(ClientError::Unexpected),
            Err(error) => Err(error),
        }
    }

    fn long_status(&self) -> Result<Status, ClientError> {
        let (mut whole, mut from) = (None::<Status>, Some(Place::default()));
        while let Some(place) = from {
            let Answer::StatusPart { status, next } = self.ask(Request::StatusPart { from: place })? else {
                return Err(ClientError::Unexpected);
            };
            let whole = whole.get_or_insert_with(|| Status { vnics: Vec::new(), ..status.clone() });
            for part in status.vnics {
                match whole.vnics.last_mut().filter(|last| last.vnic == part.vnic) {
                    Some(last) => {
                        last.transmit.filters.extend(part.transmit.filters);
                        last.receive.filters.extend(part.receive.filters);
                    }
                    None => whole.vnics.push(part),
                }
            }
            from = later(place, next)?;
        }
        whole.ok_or(ClientError::Unexpected)
    }

    /// What there is to count, in Prometheus' text format; for root.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn metrics(&self) -> Result<String, ClientError> {
        let (mut whole, mut from) = (String::new(), Some(Place::default()));
        while let Some(place) = from {
            let Answer::TextPart { text, next } = self.ask(Request::MetricsPart { from: place })? else {
                return Err(ClientError::Unexpected);
            };
            whole += &text;
            from = later(place, next)?;
        }
        Ok(whole)
    }

    /// The daemon's disks, with the areas that this user may see.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn disks(&self) -> Result<Vec<DiskStatus>, ClientError> {
        let (mut whole, mut from) = (Vec::<DiskStatus>::new(), Some(DiskPlace::default()));
        while let Some(place) = from {
            let Answer::Disks { disks, next } = self.ask(Request::Disks { from: place })? else {
                return Err(ClientError::Unexpected);
            };
            for part in disks {
                match whole.last_mut().filter(|last| last.number == part.number) {
                    Some(last) => last.areas.extend(part.areas),
                    None => whole.push(part),
                }
            }
            // Not where one did before, or there would be no end.
            from = match next {
                Some(next) if next <= place => return Err(ClientError::Unexpected),
                next => next,
            };
        }
        Ok(whole)
    }

    /// Opens an area of this user's: its status, and what is needed to use it. It is held until that is dropped.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn open_area(&self, wish: AreaWish) -> Result<(AreaStatus, OpenedArea), ClientError> {
        let layout = wish.layout;
        let request = Request::OpenArea(wish);
        note(&request);
        let (Answer::Area(status), beside) = ask(self.socket.as_fd(), request, &[])? else {
            return Err(ClientError::Unexpected);
        };
        let [first, second] = <[OwnedFd; 2]>::try_from(beside).map_err(|_| ClientError::Unexpected)?;
        let opened = match status.fence {
            AreaFence::Core => OpenedArea::Shared(SharedArea { memory: first, doorbell: second, layout }),
            AreaFence::Partition | AreaFence::File => {
                OpenedArea::Own(OwnArea { file: first, lease: second, bytes: status.bytes })
            }
        };
        Ok((status, opened))
    }

    /// What this user may have.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn limits(&self) -> Result<Limits, ClientError> {
        match self.ask(Request::Limits)? {
            Answer::Limits(limits) => Ok(limits),
            _ => Err(ClientError::Unexpected),
        }
    }
}

/// A filter: the right to use it is this descriptor. Closing the last one gives it up.
#[derive(Debug)]
pub struct FilterHandle {
    handle: OwnedFd,
}

impl AsFd for FilterHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// A VNIC. Clones are the same handle; closing the last gives the VNIC up, unless it is persistent. A daemon that crashed
/// or was replaced is noticed when it is asked next: the handle is exchanged then.
#[derive(Clone, Debug)]
pub struct VnicHandle {
    handle: Arc<Link>,
    status: Arc<VnicStatus>,
    /// Where the daemon listens.
    path: Arc<Path>,
    /// Held from a question to its answer, so that two threads that ask at once each get their own answer.
    asking: Arc<Mutex<()>>,
}

/// A handle, and what it was exchanged for. The old one stays open: it is proof as long as it exists, and whoever borrowed
/// it keeps something that is one.
#[derive(Debug)]
struct Link {
    handle: OwnedFd,
    next: OnceLock<Box<Link>>,
}

impl Link {
    fn new(handle: OwnedFd) -> Link {
        Link { handle, next: OnceLock::new() }
    }

    fn last(&self) -> &Link {
        let mut link = self;
        while let Some(next) = link.next.get() {
            link = next;
        }
        link
    }
}

impl AsFd for VnicHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.last().handle.as_fd()
    }
}

impl VnicHandle {
    fn from_answer(path: &Path, answer: (Answer, Vec<OwnedFd>)) -> Result<VnicHandle, ClientError> {
        match answer {
            (Answer::Vnic(status), mut beside) => match beside.pop() {
                Some(handle) => Ok(VnicHandle {
                    handle: Arc::new(Link::new(handle)),
                    status: Arc::new(status),
                    path: path.into(),
                    asking: Arc::default(),
                }),
                None => Err(ClientError::Unexpected),
            },
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Asks on the handle, and if its daemon has ended, its successor. A VNIC deleted meanwhile is refused there.
    fn ask(&self, request: Request, beside: &[BorrowedFd<'_>]) -> Result<(Answer, Vec<OwnedFd>), ClientError> {
        let _alone = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let last = self.handle.last();
        match ask(last.handle.as_fd(), request.clone(), beside) {
            Err(ClientError::Fault(Fault::Closed)) => {
                let new = Session::connect(&self.path)?.reclaim(last.handle.as_fd())?;
                // Somebody else was quicker: just as good.
                let _ = last.next.set(Box::new(Link::new(new)));
                ask(self.as_fd(), request, beside)
            }
            outcome => outcome,
        }
    }

    /// Where its daemon listens, and the next one will.
    pub(crate) fn daemon(&self) -> &Path {
        &self.path
    }

    /// Gives the VNIC up for everybody who has the handle, in whatever process.
    pub fn give_up(&self) {
        // A daemon that is gone has none to be given up.
        let _ = rustix::net::shutdown(self.as_fd(), rustix::net::Shutdown::Both);
    }

    /// What the VNIC was when made or opened.
    pub fn status(&self) -> &VnicStatus {
        &self.status
    }

    /// Maps frame memory, opens a queue on this thread, and starts receiving. Needs no privilege.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn open_queue(&self, queue: u32, plan: MemoryPlan) -> Result<AfXdp, ClientError> {
        let (memory, file) = plan.allocate_in_memory_file().map_err(memory_error)?;
        self.open_queue_over(queue, plan, memory, &[file.as_fd()], true)
    }

    /// As [`open_queue`](VnicHandle::open_queue), without an injector: for processes that share the queue with others, who might have
    /// fewer rights than who opened it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn open_shared_queue(&self, queue: u32, plan: MemoryPlan) -> Result<AfXdp, ClientError> {
        let (memory, file) = plan.allocate_in_memory_file().map_err(memory_error)?;
        self.open_queue_over(queue, plan, memory, &[file.as_fd()], false)
    }

    /// As [`open_queue`](VnicHandle::open_queue), with received frames that can be lent to another process.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn open_lendable_queue(&self, queue: u32, plan: MemoryPlan) -> Result<(AfXdp, LendableFiles), ClientError> {
        let (memory, files) = plan.allocate_lendable().map_err(memory_error)?;
        let opened = self.open_queue_over(queue, plan, memory, &[files.receive.as_fd(), files.rest.as_fd()], true)?;
        Ok((opened, files))
    }

    /// Maps frame memory of this process's own and opens the queue of a card that is a TAP device. Needs no privilege.
    ///
    /// # Errors
    /// [`ClientError`]; also of a card that is none.
    pub fn open_tap(&self, queue: u32, memory: FrameMemory) -> Result<Tap, ClientError> {
        let wish = QueueWish { queue, frame_size: 0, receive_frames: 0, transmit_frames: 0, prepared_frames: 0 };
        let (Answer::Tap, mut beside) = self.ask(Request::OpenQueue(wish), &[])? else {
            return Err(ClientError::Unexpected);
        };
        let fd = beside.pop().ok_or(ClientError::Unexpected)?;
        let (mac, mtu) = (MacAddress(self.status.mac), self.status.mtu);
        Ok(HandedTap { fd, mac, mtu }.open_over(memory))
    }

    /// The descriptors by which a card is driven that is a virtual function. Once.
    ///
    /// # Errors
    /// [`ClientError`]; also of a card that is none.
    pub fn open_function(&self) -> Result<FunctionDescriptors, ClientError> {
        let wish = QueueWish { queue: 0, frame_size: 0, receive_frames: 0, transmit_frames: 0, prepared_frames: 0 };
        let (Answer::Function { address, identity }, beside) = self.ask(Request::OpenQueue(wish), &[])? else {
            return Err(ClientError::Unexpected);
        };
        let beside = <[OwnedFd; 3]>::try_from(beside).map_err(|_| ClientError::Unexpected)?;
        let [device, group, container] = beside;
        Ok(FunctionDescriptors { address, identity, device, group, container })
    }

    fn open_queue_over(
        &self,
        queue: u32,
        plan: MemoryPlan,
        memory: FrameMemory,
        files: &[BorrowedFd<'_>],
        injects: bool,
    ) -> Result<AfXdp, ClientError> {
        let MemoryPlan { frame_size, receive_frames, transmit_frames, prepared_frames } = plan;
        let wish = QueueWish { queue, frame_size, receive_frames, transmit_frames, prepared_frames };
        let begun = Instant::now();
        let (answer, beside) = loop {
            match self.ask(Request::OpenQueue(wish), files) {
                // The kernel takes its time to give back a queue whose socket is closed. The daemon, which serves all, does not wait for it.
                Err(error) if error.is_taken() && begun.elapsed() < GIVEN_UP => std::thread::sleep(GIVEN_UP_LOOK),
                outcome => break outcome?,
            }
        };
        let mut beside = beside.into_iter();
        let (Answer::Queue(status), Some(socket)) = (answer, beside.next()) else {
            return Err(ClientError::Unexpected);
        };
        let injector = HandedInjector::from_descriptors(beside).filter(|_| injects);
        let rings = RingSizes {
            fill: status.fill,
            receive: status.receive,
            transmit: status.transmit,
            completion: status.completion,
        };
        let (metadata_bytes, scatter) = (status.metadata_bytes, status.scatter);
        let handed = HandedQueue { socket, rings, metadata_bytes, scatter, injector };
        let is_veth = self.status.driver == "veth";
        let card = HandedCard { mac: MacAddress(self.status.mac), mtu: self.status.mtu, queue, is_veth };
        handed.open(memory, card).map_err(ClientError::Device)
    }

    /// Lets a filter count for this VNIC. What a receive filter covers is received by `queue`, or by the flow. Done again,
    /// for another queue or on another VNIC of the same user, that one has it: at run time, without losing a packet.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn assign(&self, filter: &FilterHandle, queue: Option<u32>) -> Result<(), ClientError> {
        done(self.ask(Request::Assign { queue }, &[filter.as_fd()])?)
    }

    /// Lets a filter count no more.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn unassign(&self, filter: &FilterHandle) -> Result<(), ClientError> {
        done(self.ask(Request::Unassign, &[filter.as_fd()])?)
    }

    /// Adds a filter of the VNIC's own.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn add_filter(&self, direction: Direction, filter: Filter) -> Result<(), ClientError> {
        done(self.ask(Request::AddFilter { vnic: None, direction, filter, queue: None }, &[])?)
    }

    /// Takes one away.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn remove_filter(&self, direction: Direction, filter: Filter) -> Result<(), ClientError> {
        done(self.ask(Request::RemoveFilter { vnic: None, direction, filter }, &[])?)
    }

    /// Limits it, now.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn set_rate(&self, direction: Direction, rate: Rate) -> Result<(), ClientError> {
        done(self.ask(Request::SetRate { vnic: None, direction, rate }, &[])?)
    }
}

fn memory_error(error: std::io::Error) -> ClientError {
    ClientError::Fault(Fault::System(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_refusal_means_is_its_cause_whatever_names_are_in_its_text() {
        let refused = |cause| {
            ClientError::Refused(Refusal::new(cause, "rule \" is taken allows \" does not allow \"no rule is for \""))
        };
        let means = |cause| {
            let error = refused(cause);
            (error.may_pass(), error.is_forbidden(), error.is_taken(), error.is_forgotten())
        };
        assert_eq!(means(Cause::Taken), (true, false, true, false));
        assert_eq!(means(Cause::Full), (true, false, false, false));
        assert_eq!(means(Cause::Forbidden), (false, true, false, false));
        assert_eq!(means(Cause::NoRule), (false, true, false, false));
        assert_eq!(means(Cause::Forgotten), (false, false, false, true));
        assert_eq!(means(Cause::Other), (false, false, false, false));
    }
}
