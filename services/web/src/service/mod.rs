//! The service: events in, commands out. Never blocks; what blocks is done by [`Readers`].

mod authentication;
mod connection;
mod desk;
mod file_reads;
mod flat;
mod flat_range;
mod guesses;
mod input;
mod layers;
mod output;
mod request_rate;
mod respond;
mod secure;
mod sites;
mod substitute;
mod tick;

#[cfg(test)]
mod file_reads_tests;
#[cfg(test)]
mod flat_tests;
#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use crate::access_log::AccessLog;
use crate::config::{Caching, CopyMode, WebConfig, WebError};
use crate::content::object::PAYLOAD_BYTES_MIN;
use crate::content::resource::{Found, LookUp, LookupRules};
use crate::content::window::{ALIGNMENT, WindowPool};
use crate::content::{DeviceMemory, Library, Resource, ResourceKey, Store};
use crate::figures::Figures;
use crate::http::date::DateCache;
use crate::http::parse::ParseLimits;
use crate::readers::{Done, Job, Readers};
use crate::rules::{Rules, Site};
use connection::{Connections, Phase};
use desk::Desk;
use file_reads::FileReads;
use guesses::Guesses;
use layers::Layers;
use qanat::{
    CloseReason, Commands, ConnectionId, Context, Doorbell, Event, ListenOptions, ListenerId, Service, Setting,
    StartError, Time,
};
use qanat_tls::Loaded;
use request_rate::RequestRate;
use sites::{SitePlan, Sites};
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Room for the stack's headers before a ready frame's payload, the driver's own headroom not counted.
const HEADROOM: usize = 128;
/// The tick's timer.
const TICK_TOKEN: u64 = 1;
/// Directories below each other that preloading follows.
const PRELOAD_DEPTH_MAX: usize = 64;

type Waiters = Vec<ConnectionId>;

/// Milliseconds, wrapping after 49 days: only differences are used.
#[inline]
fn milliseconds(now: Time) -> u32 {
    now.as_millis() as u32
}

#[derive(Debug, Default)]
struct Shared {
    reload: AtomicBool,
    /// What TLS begins with from now on.
    tls: Mutex<Option<Loaded>>,
    /// What is served from now on.
    sites: Mutex<Option<Sites>>,
    figures: Mutex<Figures>,
}

/// Reaches a running service from any thread.
#[derive(Clone, Debug)]
pub struct WebHandle {
    shared: Arc<Shared>,
    plan: SitePlan,
    doorbell: Doorbell,
}

impl WebHandle {
    /// Asks for [`WebService::reload`] (on SIGHUP).
    pub fn reload(&self) {
        self.shared.reload.store(true, Ordering::Release);
        self.doorbell.ring();
    }

    /// From now on, connections begin with these certificates, keys and settings. Those that there are go on.
    pub fn set_tls(&self, tls: Loaded) {
        *self.shared.tls.lock().unwrap_or_else(PoisonError::into_inner) = Some(tls);
        self.doorbell.ring();
    }

    /// From now on, these rules hold, for these hosts. What it needs is opened by the caller's thread; [`reload`](WebHandle::reload) is to
    /// follow. It may name no directory that the process can't read any more.
    ///
    /// # Errors
    /// [`WebError`]; then all stays as it is.
    pub fn set_sites(&self, rules: &Rules, sites: &[Site]) -> Result<(), WebError> {
        let sites = Sites::open(&self.plan, rules, sites)?;
        *self.shared.sites.lock().unwrap_or_else(PoisonError::into_inner) = Some(sites);
        Ok(())
    }

    /// The figures, at most a quarter of a second old.
    pub fn figures(&self) -> Figures {
        *self.shared.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A static web server.
///
/// Watch [`doorbell_fd`](WebService::doorbell_fd) with the runtime: files read by the reader threads are noticed at
/// once then, and else by the next event or tick (250 ms).
#[derive(Debug)]
pub struct WebService {
    config: WebConfig,
    parse_limits: ParseLimits,
    plan: SitePlan,
    sites: Sites,
    guesses: Guesses,
    request_rate: Option<RequestRate>,
    store: Store,
    memory: Option<Rc<DeviceMemory>>,
    readers: Option<Readers>,
    doorbell: Doorbell,
    shared: Arc<Shared>,
    connections: Connections,
    waiters: HashMap<ResourceKey, Waiters>,
    windows: WindowPool,
    file_reads: FileReads,
    windows_scarce: bool,
    window_queue: VecDeque<ConnectionId>,
    /// Content of a storage area; `None`: it is all in files.
    desk: Option<Desk>,
    dates: DateCache,
    wall_clock: (Time, u64),
    log: Option<AccessLog>,
    log_reopen: bool,
    figures: Figures,
    listeners: Vec<ListenerId>,
    /// Of these, those whose requests are told to ask by HTTPS.
    redirecting: Vec<ListenerId>,
    /// Below the service, while it is not called.
    layers: Option<Box<Layers>>,
    epoch: u64,
    share: usize,
    tick_armed: bool,
    stopping: bool,
}

impl WebService {
    /// Checks the configuration and opens what it names.
    ///
    /// # Errors
    /// [`WebError`], which names the place and the remedy.
    pub fn new(config: WebConfig) -> Result<WebService, WebError> {
        let root = Some(config.root.clone());
        WebService::build(config, root, None)
    }

    /// The same, with the content of a library instead of files. `pieces_max`: its pieces that are in memory at once, those on their way
    /// from the disk and to peers. The area has as many buffers, and some for the library.
    ///
    /// # Errors
    /// As [`new`](WebService::new).
    pub fn of_library(config: WebConfig, library: Box<dyn Library>, pieces_max: usize) -> Result<WebService, WebError> {
        let desk = Desk::new(library, pieces_max, &config.read_cache);
        WebService::build(WebConfig { copy_mode: CopyMode::PerSend, ..config }, None, Some(desk))
    }

    fn build(mut config: WebConfig, root: Option<PathBuf>, desk: Option<Desk>) -> Result<WebService, WebError> {
        check(&config)?;
        if desk.is_some() && config.rules.basic_auth.is_some() {
            return Err(WebError::Value { field: "basic_auth", remedy: "a library has no protected paths" });
        }
        let layers = Layers::new(&config)?;
        if layers.is_some() {
            // What is sent is sealed for each connection: no frame of it serves another.
            config.copy_mode = CopyMode::PerSend;
        }
        // In plain text, nobody is told to ask by HTTPS alone: anybody could have said it (RFC 6797, 7.2).
        let seconds = config.https.as_ref().map_or(0, |https| https.hsts_seconds);
        let strict =
            if seconds > 0 { format!("Strict-Transport-Security: max-age={seconds}\r\n") } else { String::new() };
        let plan = SitePlan { root, hidden_files: config.hidden_files, strict };
        let sites = Sites::open(&plan, &config.rules, &config.sites)?;
        let log = match &config.access_log {
            Some(path) => {
                Some(AccessLog::open(path).map_err(|error| WebError::AccessLog { path: path.clone(), error })?)
            }
            None => None,
        };
        let windows = WindowPool::new(config.window_bytes, config.windows_max);
        let doorbell = Doorbell::new().map_err(|error| WebError::System { what: "a doorbell", error })?;
        Ok(WebService {
            parse_limits: ParseLimits {
                head_bytes_max: config.limits.head_bytes_max,
                target_bytes_max: config.limits.target_bytes_max,
            },
            plan,
            sites,
            guesses: Guesses::default(),
            request_rate: RequestRate::new(config.limits.requests_per_peer, config.limits.requests_burst),
            store: Store::new(config.memory_bytes_max),
            memory: None,
            readers: None,
            doorbell,
            shared: Arc::new(Shared::default()),
            connections: Connections::default(),
            waiters: HashMap::new(),
            file_reads: FileReads::new(windows.clone(), &config.read_cache),
            windows,
            windows_scarce: false,
            window_queue: VecDeque::new(),
            desk,
            dates: DateCache::new(),
            wall_clock: (Time::ZERO, 0),
            log,
            log_reopen: false,
            figures: Figures::default(),
            listeners: Vec::new(),
            redirecting: Vec::new(),
            layers,
            epoch: 0,
            share: 0,
            tick_armed: false,
            stopping: false,
            config,
        })
    }

    /// Readable when a reader thread has finished something, or the handle asks for something: watch it with the
    /// runtime (any token), which then calls [`Service::doorbell`].
    pub fn doorbell_fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }

    /// A handle for other threads.
    pub fn handle(&self) -> WebHandle {
        WebHandle { shared: Arc::clone(&self.shared), plan: self.plan.clone(), doorbell: self.doorbell.clone() }
    }

    /// Live figures.
    pub fn figures(&self) -> Figures {
        let mut figures = self.figures;
        figures.connections_open = self.connections.open() as u64;
        figures.cached_bytes = self.store.memory_bytes() as u64;
        figures.cached_objects = self.store.count() as u64;
        figures.evictions = self.store.evictions();
        figures.windows_in_use = self.windows.in_use() as u64;
        figures.windows_read = self.file_reads.read_count();
        figures.windows_read_by_kernel_cache = self.file_reads.refused_count();
        figures.read_cache = self.file_reads.cache_figures();
        if let Some(desk) = &self.desk {
            figures.streams = desk.streams() as u64;
            figures.windows_in_use = desk.held_count() as u64;
            figures.read_cache = desk.cache_figures();
            (figures.pieces_read, figures.piece_bytes_read) = desk.read();
        }
        if let Some(memory) = &self.memory {
            figures.ready_frames = memory.frames.get();
            figures.ready_hits = memory.hits.get();
            figures.ready_misses = memory.misses.get();
        }
        if let Some(log) = &self.log {
            figures.log_lines = log.lines();
            figures.log_drops = log.drops();
        }
        figures
    }

    fn publish(&self) {
        *self.shared.figures.lock().unwrap_or_else(PoisonError::into_inner) = self.figures();
    }

    fn on_start<C: Commands>(&mut self, context: &mut C) -> Result<(), WebError> {
        self.set_wall_clock(context.now());
        let capabilities = context.capabilities();
        let pool = context.prepared_pool().clone();
        let headroom = HEADROOM + usize::from(capabilities.transmit_headroom);
        let mut payload_bytes = usize::from(capabilities.mtu.saturating_sub(self.config.packet_overhead));
        if self.config.copy_mode == CopyMode::Pre {
            let room = (pool.region().frame_size() as usize).saturating_sub(headroom);
            if pool.frame_count() == 0 || room < PAYLOAD_BYTES_MIN {
                return Err(WebError::Value {
                    field: "copy_mode",
                    remedy: "the device set no frames aside for prepared content; plan some when opening it, or copy per send",
                });
            }
            payload_bytes = payload_bytes.min(room);
        }
        self.memory = Some(Rc::new(DeviceMemory {
            pool: (self.config.copy_mode == CopyMode::Pre).then_some(pool),
            headroom,
            copies_max: self.config.copies_max,
            dates: DateCache::new(),
            frames: Cell::new(0),
            hits: Cell::new(0),
            misses: Cell::new(0),
            exhausted: Cell::new(false),
        }));
        let rules = LookupRules {
            precompressed: self.config.precompressed,
            // One file must not put out all others.
            object_bytes_max: self.config.object_bytes_max.min(self.config.memory_bytes_max as u64 / 4),
            payload_bytes,
            reads_around: self.config.read_cache != Caching::Kernel,
            index: self.config.index.clone(),
        };
        if self.config.preload {
            self.preload(&rules, context.now());
        }
        let readers = Readers::start(self.config.reader_threads, rules, &self.doorbell)
            .map_err(|error| WebError::System { what: "reader threads", error })?;
        self.readers = Some(readers);
        // The stack's unspecified addresses stand for one family each.
        let every_family = self.config.address.is_unspecified();
        let other: IpAddr =
            if self.config.address.is_ipv4() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let redirect_port = self.config.https.as_ref().and_then(|https| https.redirect_port);
        for address in [Some(self.config.address), every_family.then_some(other)].into_iter().flatten() {
            for port in [Some(self.config.port), redirect_port].into_iter().flatten() {
                let listener = context
                    .listen(SocketAddr::new(address, port), ListenOptions::default())
                    .map_err(|error| WebError::Listen { port, error })?;
                self.listeners.push(listener);
                if Some(port) == redirect_port {
                    self.redirecting.push(listener);
                }
            }
        }
        self.arm_tick(context);
        Ok(())
    }

    /// Prepares every file, root by root, while the budget lasts.
    fn preload(&mut self, rules: &LookupRules, now: Time) {
        let seconds = self.seconds(now);
        let sites: Vec<_> = self.sites.iter().map(|site| (site.root.clone(), Arc::clone(&site.rules))).collect();
        for (root_index, (root, site)) in sites.iter().enumerate() {
            let Some(root) = root else { continue };
            let look_up = LookUp { root, path: b"", rules, site, now_seconds: seconds };
            let mut pending: Vec<(PathBuf, usize)> = vec![(PathBuf::new(), 0)];
            while let Some((directory, depth)) = pending.pop() {
                let Ok(entries) = std::fs::read_dir(root.path().join(&directory)) else { continue };
                for entry in entries.flatten() {
                    let name = entry.file_name();
                    let hidden = name.as_bytes().starts_with(b".") && name != ".well-known";
                    if hidden && !self.config.hidden_files {
                        continue;
                    }
                    let path = directory.join(&name);
                    match entry.file_type() {
                        Ok(kind) if kind.is_dir() && depth < PRELOAD_DEPTH_MAX => pending.push((path, depth + 1)),
                        Ok(kind) if kind.is_file() && !self.preload_file(root_index, look_up, &path) => {
                            return;
                        }
                        // Symbolic links are followed when asked for.
                        _ => {}
                    }
                }
            }
        }
    }

    /// `false` when the budget is spent.
    fn preload_file(&mut self, root_index: usize, look_up: LookUp<'_>, path: &Path) -> bool {
        let size = std::fs::metadata(look_up.root.path().join(path)).map_or(0, |metadata| metadata.len());
        let expected = if size > look_up.rules.object_bytes_max { 0 } else { size as usize };
        if self.store.memory_bytes() + expected > self.config.memory_bytes_max / 10 * 9 {
            return false;
        }
        let path = path.as_os_str().as_bytes();
        let look_up = LookUp { path, ..look_up };
        let found = look_up.find();
        if let (Found::File(_), Some(memory)) = (&found, self.memory.clone()) {
            let key = ResourceKey { root: root_index, path: path.into() };
            self.store.insert(Resource::new(key, found, &memory, look_up.now_seconds), 0);
        }
        true
    }

    fn submit(&self, job: Job) -> bool {
        self.readers.as_ref().is_some_and(|readers| readers.submit(job))
    }

    fn take_done<C: Commands>(&mut self, context: &mut C) {
        let Some(readers) = &self.readers else { return };
        for done in readers.take_done() {
            match done {
                Done::LookUp { epoch, root_index, path, found } => {
                    self.on_looked_up(epoch, ResourceKey { root: root_index, path }, found, context);
                }
                Done::Read { token, bytes } => self.on_read(token, bytes, context),
                Done::Verified { guess, is_right } => self.on_verified(&guess, is_right, context),
            }
        }
    }

    fn on_event<C: Commands>(&mut self, event: Event, context: &mut C) {
        match event {
            Event::Data { connection, chunk } => self.on_data(connection, chunk, context),
            Event::Acked { connection, bytes } => self.on_acknowledged(connection, bytes, context),
            Event::Accepted { connection, listener, peer } => self.on_accepted(connection, listener, peer, context),
            Event::PeerClosed { connection } => self.on_peer_closed(connection, context),
            Event::Closed { connection, why } => {
                self.forget_pieces(connection);
                self.connections.remove(connection);
                self.figures.connections_broken += u64::from(why != CloseReason::Finished);
            }
            Event::Timer { token: TICK_TOKEN, .. } => self.on_tick(context),
            // Nothing else was asked for.
            _ => {}
        }
        self.take_done(context);
        if !self.tick_armed && !self.stopping {
            self.arm_tick(context);
        }
    }

    fn on_accepted<C: Commands>(&mut self, id: ConnectionId, listener: ListenerId, peer: SocketAddr, context: &mut C) {
        if self.stopping || self.connections.open() >= self.config.limits.connections_max {
            self.figures.connections_refused += 1;
            let _ = context.refuse(id);
            return;
        }
        let share = self.config.limits.connections_per_peer;
        if share > 0 && self.connections.has_share(peer, share) {
            self.figures.connections_refused += 1;
            self.figures.connections_refused_peer += 1;
            let _ = context.refuse(id);
            return;
        }
        self.figures.connections_accepted += 1;
        self.connections.insert(id, peer, milliseconds(context.now()));
        if let Some(algorithm) = self.config.congestion {
            // Refused only if it is gone already: then `Closed` is on its way.
            let _ = context.set(id, Setting::Congestion(algorithm));
        }
        if self.redirecting.contains(&listener)
            && let Some(connection) = self.connections.get(id)
        {
            connection.is_redirected = true;
        }
    }

    fn on_doorbell<C: Commands>(&mut self, context: &mut C) {
        self.doorbell.take();
        if self.shared.reload.swap(false, Ordering::AcqRel) {
            self.reload();
        }
        self.take_done(context);
    }

    fn on_stop<C: Commands>(&mut self, context: &mut C) {
        self.stopping = true;
        for listener in self.listeners.drain(..) {
            let _ = context.close_listener(listener);
        }
        for index in 0..self.connections.slot_count() {
            let Some(id) = self.connections.id_at(index) else { continue };
            let Some(connection) = self.connections.get(id) else { continue };
            match connection.phase {
                // Held requests came before the stop: they are answered, the last with close.
                Phase::Idle if !connection.has_held() => self.close(id, context),
                Phase::Head | Phase::Carrying => self.close(id, context),
                Phase::Output => connection.extra().close_after = true,
                _ => {}
            }
        }
    }
}

fn check(config: &WebConfig) -> Result<(), WebError> {
    let wrong = |field, remedy| Err(WebError::Value { field, remedy });
    if config.https.as_ref().is_some_and(|https| https.redirect_port == Some(config.port)) {
        return wrong("redirect_port", "another port than the one of HTTPS; 80 is usual");
    }
    if config.packet_overhead < 40 {
        return wrong("packet_overhead", "at least 40 bytes (IPv4 and TCP headers); 52 with timestamps, 72 for IPv6");
    }
    if config.window_bytes == 0 || config.windows_max == 0 {
        return wrong("window_bytes", "windows need a size and a number; 262144 bytes and 256 are usual");
    }
    if config.read_cache != Caching::Kernel && !config.window_bytes.is_multiple_of(ALIGNMENT) {
        return wrong(
            "window_bytes",
            "a multiple of 4096, because files are read around the page cache; 262144 is usual",
        );
    }
    if config.limits.head_bytes_max < 256 || config.limits.target_bytes_max == 0 {
        return wrong("limits", "heads need at least 256 bytes; 16384 is usual");
    }
    if config.index.is_empty() || config.index.contains('/') {
        return wrong("index", "a file's name without a slash, such as index.html");
    }
    Ok(())
}

impl Service for WebService {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        if let Some(desk) = &mut self.desk {
            desk.open(context).map_err(StartError::of)?;
        }
        self.start_over(context).map_err(StartError::of)
    }

    #[inline]
    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        let event = match &mut self.desk {
            None => Some(event),
            Some(desk) => desk.handle(event, context),
        };
        let Some(event) = event else { return };
        match self.layers.take() {
            None => self.on_event(event, context),
            Some(layers) => self.handle_over(layers, event, context),
        }
    }

    fn turn_ended(&mut self, context: &mut Context<'_>) {
        self.turn_library(context);
    }

    fn doorbell(&mut self, _token: u64, context: &mut Context<'_>) {
        self.doorbell_over(context);
    }

    fn leave(&mut self, id: ConnectionId, _context: &mut Context<'_>) -> bool {
        // Nobody else has its keys, and the handles are those of the layers.
        if self.layers.is_some() {
            return false;
        }
        let Some(connection) = self.connections.get(id) else { return false };
        connection.tidy();
        // Between two requests there is nothing that the next owner would have to know.
        let is_idle = connection.phase == Phase::Idle && connection.extra.is_none() && !connection.peer_closed;
        is_idle && connection.blank_bytes == 0 && self.connections.remove(id)
    }

    fn stop(&mut self, context: &mut Context<'_>) {
        self.stop_over(context);
    }

    fn is_finished(&self) -> bool {
        self.connections.open() == 0
    }
}
