//! Echoes without a host, to compare with: in the driver, and over kernel sockets.

use super::server::{Echo, FRAMES};
use crate::host::application::Application;
use crate::host::attach::Spin;
use crate::host::card::{self, Card, Failure};
use crate::host::privilege::Privilege;
use crate::host::{Control, HostArguments, Meter, finish, obey};
use crate::live::Printer;
use crate::signals::{Signals, hangups};
use clap::ValueEnum;
use qanat::confine::Places;
use qanat_echo::kernel::{self, KernelMode};
use qanat_echo::{Figures, RawEcho};
use qanat_nic::{MemoryPlan, Vnic, metered};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// How often a link, or a card, is looked at.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const SHOW_INTERVAL_S: f64 = 1.0;

/// How kernel sockets are used.
#[derive(Clone, Copy, ValueEnum)]
pub enum Kernel {
    /// Behind epoll: recvfrom and sendto, or recvmmsg and sendmmsg
    Epoll,
    /// io_uring: one receive that goes on, buffers the kernel takes itself
    Uring,
}

/// An echo with what it tells and obeys.
pub struct Bare<'a> {
    pub options: &'a HostArguments,
    pub echo: Echo,
    pub control: Control<Figures>,
    pub printer: Printer,
    meter: Meter<Figures>,
    /// Reports that were asked for until now.
    pub reports: u32,
    /// Until they are obeyed.
    signals: Option<Signals>,
}

fn show(control: &Control<Figures>, printer: &Printer, meter: &mut Meter<Figures>, figures: &Figures) {
    control.put(0, *figures);
    if meter.age_s() >= SHOW_INTERVAL_S {
        meter.show::<Echo>(printer, &control.each(), Vec::new);
    }
}

impl<'a> Bare<'a> {
    /// Signals are caught from now on.
    pub fn new(options: &'a HostArguments, echo: Echo) -> Result<Bare<'a>, String> {
        Ok(Bare {
            options,
            echo,
            control: Control::new(1)?,
            printer: Printer::new(options.json),
            meter: Meter::new(),
            reports: 0,
            signals: Some(hangups()?.of_led(options.placement.app_core)),
        })
    }

    /// Begins to obey signals, by a thread: once the rights are given up.
    pub fn obey(&mut self) -> Result<(), String> {
        self.signals.take().map_or(Ok(()), |signals| obey(signals, self.control.clone(), None))
    }

    /// Frames for a device.
    pub fn memory(&self) -> MemoryPlan {
        let frame_size = MemoryPlan::frame_size_for(self.options.attach.mtu);
        MemoryPlan { frame_size, receive_frames: FRAMES, transmit_frames: FRAMES, prepared_frames: 0 }
    }

    /// What the device that there is now has done.
    pub fn show(&mut self, figures: &Figures) {
        show(&self.control, &self.printer, &mut self.meter, figures);
    }

    /// The last line.
    pub fn finish(&self) {
        finish::<Echo>(&self.printer, &self.control.each(), Vec::new());
    }

    /// Over a kernel socket.
    pub fn run_kernel(&mut self, kernel: Kernel, batch: bool) -> Result<(), String> {
        self.obey()?;
        let mode = match (kernel, batch) {
            (Kernel::Epoll, false) => KernelMode::Single,
            (Kernel::Epoll, true) => KernelMode::Batch,
            (Kernel::Uring, false) => KernelMode::UringSingle,
            (Kernel::Uring, true) => KernelMode::UringBatch,
        };
        let polls = self.options.attach.spin == Spin::Always;
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), self.echo.config.port);
        let stop = self.control.stop_of(0)?;
        let Bare { echo, control, printer, meter, .. } = self;
        let (control, printer) = (&*control, &*printer);
        let mut ready = |address: SocketAddr| echo.announce(&address.to_string(), "kernel sockets").tell(printer);
        let mut observe = |figures: &Figures| show(control, printer, meter, figures);
        let figures = kernel::run(local, mode, polls, &stop, &mut ready, &mut observe);
        control.put(0, figures.map_err(|error| format!("port {local}: {error}"))?);
        Ok(())
    }

    /// In the driver of a card.
    pub fn run_raw(&mut self) -> Result<(), String> {
        let options = self.options;
        let privilege = Privilege::of(&options.privilege, Echo::NAME, options.placement.app_core)?;
        let control = self.control.clone();
        let ports = self.echo.requirements().ports;
        card::serve(&options.attach, ports, 1, &|| control.is_stopped(), |card| {
            let vnic = card.attachment.open_queue(0, self.memory()).map_err(|error| error.to_string())?;
            privilege.give_up(Places::default())?;
            self.obey()?;
            if !card.tell_return() {
                let place = card.place(0);
                self.echo.announce(&self.echo.address(&place), &place.driver).tell(&self.printer);
            }
            self.run_on_card(card, metered(vnic))
        })
    }

    fn run_on_card<V: Vnic>(&mut self, card: &Card, vnic: V) -> Result<(), Failure> {
        let is_lost = Cell::new(false);
        self.run_in_driver(vnic, |vnic| {
            is_lost.set(card.is_lost(vnic));
            !is_lost.get()
        })?;
        if is_lost.get() { Err(card.failure()) } else { Ok(()) }
    }

    /// Until told to stop, or the device is no longer there.
    pub fn run_in_driver<V: Vnic>(&mut self, vnic: V, is_there: impl Fn(&V) -> bool) -> Result<(), String> {
        self.control.begin()?;
        let stop = self.control.stop_of(0)?;
        let (looked_at, last) = (Cell::new(Instant::now()), Cell::new(true));
        let goes_on = |vnic: &V| {
            if looked_at.get().elapsed() >= LOOK_INTERVAL {
                looked_at.set(Instant::now());
                last.set(is_there(vnic));
            }
            last.get()
        };
        let mut echo = RawEcho::new(vnic);
        let spin = self.options.attach.spin.into();
        let outcome = echo.run(&stop, spin, &goes_on, &mut |figures| self.show(figures));
        self.control.put(0, echo.figures());
        outcome.map_err(|error| format!("waiting for packets: {error}"))
    }
}
