//! smoltcp as a node of the simulator: an implementation of TCP that we didn't write.

use qanat_nic::{Frame, Time, TransmitBuffer, TransmitOptions, Vnic};
use qanat_tests::sim::streams::{FlowPlan, PORT, client_port, flow_of_port, own_address};
use qanat_tests::sim::{Device, Node, pattern};
use qanat_tests::smoltcp_device::{Frames, instant};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, RecvError, Socket, SocketBuffer, State};
use smoltcp::time::Duration as SmolDuration;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};
use std::cell::Cell;
use std::net::IpAddr;
use std::time::Duration;

thread_local! {
    /// smoltcp's timestamp generator takes no argument: the virtual time goes by this way.
    static MILLISECONDS: Cell<u32> = const { Cell::new(0) };
}

/// Ethernet, IPv6 and the longest TCP header without data; data makes frames longer often enough.
const LONGEST_WITHOUT_DATA: usize = 14 + 40 + 60;

/// What smoltcp is started with.
#[derive(Clone, Copy, Debug)]
pub struct SmoltcpOptions {
    /// Bytes of each socket's receive buffer.
    pub receive_bytes: usize,
    /// Bytes of each socket's send buffer.
    pub send_bytes: usize,
    /// Use timestamps.
    pub timestamps: bool,
    /// Use CUBIC; else no congestion control.
    pub cubic: bool,
    /// Nagle's algorithm.
    pub nagle: bool,
    /// Of its randomness.
    pub seed: u64,
    /// Between two looks at the receive buffers; zero: at once.
    pub read_every: Duration,
}

/// One side of a flow.
struct Flow {
    plan: FlowPlan,
    index: usize,
    sent: u64,
    received: u64,
    closed: bool,
    peer_closed: bool,
    /// The socket, once it is known.
    socket: Option<SocketHandle>,
}

/// smoltcp and one side of the flows.
pub struct SmoltcpNode {
    side: usize,
    server: IpAddr,
    options: SmoltcpOptions,
    interface: Interface,
    sockets: SocketSet<'static>,
    handles: Vec<SocketHandle>,
    frames: Frames,
    flows: Vec<Flow>,
    started: Time,
    next_read: Time,
    /// When it last sent a segment with data.
    data_sent: Time,
    scratch: Vec<Frame>,
}

impl SmoltcpNode {
    /// The client's side (0) or the server's (1) of `plans`.
    pub fn new(
        side: usize,
        server: IpAddr,
        plans: &[FlowPlan],
        options: SmoltcpOptions,
        device: &mut Device,
        now: Time,
    ) -> SmoltcpNode {
        let own = if side == 0 { own_address(server) } else { server };
        let mut frames = Frames::new(usize::from(device.capabilities().mtu));
        let mut config = Config::new(EthernetAddress(device.capabilities().mac.0).into());
        config.random_seed = options.seed;
        let mut interface = Interface::new(config, &mut frames, instant(now));
        let prefix = if own.is_ipv4() { 24 } else { 64 };
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(IpAddress::from(own), prefix)).expect("room for an address");
        });
        let mut sockets = SocketSet::new(Vec::new());
        let handles = plans.iter().map(|_| sockets.add(socket(&options))).collect();
        let flows = plans.iter().enumerate().map(|(index, &plan)| Flow {
            plan,
            index,
            sent: 0,
            received: 0,
            closed: false,
            peer_closed: false,
            socket: None,
        });
        SmoltcpNode {
            side,
            server,
            options,
            interface,
            handles,
            frames,
            flows: flows.collect(),
            started: now,
            next_read: now,
            data_sent: now,
            scratch: Vec::new(),
            sockets,
        }
    }

    /// What isn't finished.
    pub fn unfinished(&self) -> Vec<String> {
        let open = self.flows.iter().filter(|flow| !self.is_done(flow));
        open.map(|flow| {
            let socket = flow.socket.map(|handle| self.sockets.get::<Socket>(handle));
            let state = socket.map(|socket| (socket.state(), socket.send_queue(), socket.recv_queue()));
            format!(
                "smoltcp flow {}: sent {}, received {}, {state:?} of {:?}",
                flow.index, flow.sent, flow.received, flow.plan
            )
        })
        .collect()
    }

    /// smoltcp 0.14 knows two ways to fall silent for ever with data still to send: in CLOSING it retransmits nothing, and
    /// a zero window (an old ACK come late) while data is in flight stops its timers. Whether that is what is left: it has
    /// data queued on every unfinished flow, and has sent none for ten minutes.
    pub fn is_stuck(&self, now: Time) -> bool {
        let queued = |flow: &Flow| {
            let socket = flow.socket.map(|handle| self.sockets.get::<Socket>(handle));
            socket.is_some_and(|socket| socket.send_queue() > 0)
        };
        let silent = now.since(self.data_sent) > Duration::from_secs(600);
        silent && self.flows.iter().all(|flow| self.is_done(flow) || queued(flow))
    }

    fn is_done(&self, flow: &Flow) -> bool {
        let Some(handle) = flow.socket else { return false };
        let state = self.sockets.get::<Socket>(handle).state();
        flow.closed && flow.peer_closed && matches!(state, State::Closed | State::TimeWait)
    }

    /// Opens what is due, and finds out whose connection a socket has.
    fn open(&mut self, now: Time) {
        if self.side == 0 {
            for flow in &mut self.flows {
                if flow.socket.is_none() && now >= self.started + flow.plan.start {
                    let handle = self.handles[flow.index];
                    let socket = self.sockets.get_mut::<Socket>(handle);
                    let remote = (IpAddress::from(self.server), PORT);
                    socket.connect(self.interface.context(), remote, client_port(flow.index)).expect("a connection");
                    flow.socket = Some(handle);
                }
            }
            return;
        }
        for &handle in &self.handles {
            let socket = self.sockets.get_mut::<Socket>(handle);
            if !socket.is_open() {
                let taken = self.flows.iter().any(|flow| flow.socket == Some(handle));
                if !taken {
                    socket.listen(PORT).expect("a listener");
                }
            } else if let Some(remote) = socket.remote_endpoint()
                && socket.may_send()
                && let Some(flow) = self.flows.get_mut(flow_of_port(remote.port))
                && flow.socket.is_none()
            {
                flow.socket = Some(handle);
            }
        }
    }

    /// Sends and receives; whether anything moved.
    fn work(&mut self, now: Time) -> bool {
        let may_read = now >= self.next_read;
        let mut moved = false;
        for flow in &mut self.flows {
            let Some(handle) = flow.socket else { continue };
            let socket = self.sockets.get_mut::<Socket>(handle);
            let to_send = flow.plan.bytes[self.side];
            let salt = FlowPlan::salt(flow.index, self.side);
            while socket.can_send() && flow.sent < to_send {
                let sent = socket.send(|buffer| {
                    let count = buffer.len().min((to_send - flow.sent) as usize);
                    pattern::fill(salt, flow.sent, &mut buffer[..count]);
                    (count, count)
                });
                flow.sent += sent.expect("an open socket") as u64;
                moved = true;
            }
            if flow.sent == to_send && !flow.closed && socket.may_send() {
                socket.close();
                flow.closed = true;
                moved = true;
            }
            while may_read && socket.can_recv() {
                let salt = FlowPlan::salt(flow.index, 1 - self.side);
                let count = socket.recv(|bytes| {
                    let difference = pattern::first_difference(salt, flow.received, bytes);
                    assert_eq!(difference, None, "smoltcp flow {}: at {} + this", flow.index, flow.received);
                    (bytes.len(), bytes.len())
                });
                flow.received += count.expect("can receive") as u64;
                moved = true;
            }
            if !flow.peer_closed
                && !socket.can_recv()
                && !socket.may_recv()
                && flow.socket.is_some()
                && flow.started(socket)
            {
                let end = socket.recv(|_| (0, ()));
                assert_eq!(end, Err(RecvError::Finished), "smoltcp flow {}: {:?}", flow.index, socket.state());
                assert_eq!(flow.received, flow.plan.bytes[1 - self.side], "smoltcp flow {}", flow.index);
                flow.peer_closed = true;
                moved = true;
            }
        }
        if may_read && !self.options.read_every.is_zero() {
            self.next_read = now + self.options.read_every;
        }
        moved
    }

    fn exchange(&mut self, now: Time, device: &mut Device) -> bool {
        device.receive(&mut self.scratch, 256);
        let mut moved = !self.scratch.is_empty();
        self.frames.inbox.extend(self.scratch.drain(..).map(|frame| frame.bytes().to_vec()));
        self.interface.poll(instant(now), &mut self.frames, &mut self.sockets);
        for bytes in self.frames.outbox.drain(..) {
            moved = true;
            if bytes.len() > LONGEST_WITHOUT_DATA {
                self.data_sent = now;
            }
            let Some(mut frame) = device.transmit_pool().allocate(64) else { continue };
            let Some(target) = frame.append(bytes.len()) else { continue };
            target.copy_from_slice(&bytes);
            // No room: lost, as on any wire.
            drop(device.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()));
        }
        device.flush();
        moved
    }
}

impl Flow {
    /// Whether the handshake is over.
    fn started(&self, socket: &Socket<'_>) -> bool {
        !matches!(socket.state(), State::SynSent | State::SynReceived | State::Listen)
    }
}

fn socket(options: &SmoltcpOptions) -> Socket<'static> {
    let buffer = |length: usize| SocketBuffer::new(vec![0; length]);
    let mut socket = Socket::new(buffer(options.receive_bytes), buffer(options.send_bytes));
    socket.set_nagle_enabled(options.nagle);
    if options.timestamps {
        socket.set_tsval_generator(Some(|| MILLISECONDS.with(Cell::get)));
    }
    if options.cubic {
        socket.set_congestion_control(CongestionControl::Cubic);
    }
    socket.set_ack_delay(Some(SmolDuration::from_millis(10)));
    socket
}

impl Node for SmoltcpNode {
    fn poll(&mut self, now: Time, device: &mut Device) -> bool {
        MILLISECONDS.with(|cell| cell.set(now.as_millis() as u32));
        self.open(now);
        let mut moved = self.exchange(now, device);
        self.open(now);
        if self.work(now) {
            moved = true;
            self.exchange(now, device);
        }
        moved
    }

    fn next_deadline(&mut self, now: Time) -> Option<Time> {
        let at = self.interface.poll_at(instant(now), &self.sockets);
        let at = at.map(|at| Time::from_micros(u64::try_from(at.total_micros()).unwrap_or(0)));
        // It may ask to be polled now for what it can't do yet.
        let at = at.map(|at| if at <= now { now + Duration::from_millis(1) } else { at });
        let read = (self.next_read > now).then_some(self.next_read);
        let starts = self.flows.iter().filter(|flow| self.side == 0 && flow.socket.is_none());
        let start = starts.map(|flow| self.started + flow.plan.start).min().map(|time| time.max(now));
        at.into_iter().chain(read).chain(start).min()
    }

    fn is_finished(&self) -> bool {
        self.flows.iter().all(|flow| self.is_done(flow))
    }

    fn leftovers(&self) -> Option<String> {
        None
    }
}
