//! Raw speed of a veth device between two AF_XDP ends: one thread sends 64-byte frames and takes them back, the other
//! echoes them. Needs root. Nothing but the driver is measured: it is the ceiling of every service on veth.
//!
//!     cargo run --release -p qanat-nic --example raw_echo -- [--seconds 3] [--batch 64] [--window 512] [--length 64]
//!         [--threaded] [--one-way] [--fill 2048] [--single] [--to-kernel [--gro]]
//!         [--ring]
//!
//! `--one-way`: the echo end only receives. `--threaded`: kernel thread instead of softirq on the generator's end.
//! `--single`: both ends in one thread, which never waits: processor time per echo, whatever else the machine does.
//! `--ring`: every batch by the AF_XDP ring, none injected.
//! `--to-kernel`: frames for a UDP socket of the kernel that nobody reads: the sender's processor time per frame.

use qanat_nic::af_xdp::{AttachConfig, Interface, QueueOpener, RingSizes, Rule};
use qanat_nic::link::{self, Feature, Namespace};
use qanat_nic::veth::{self, Veth, VethConfig};
use qanat_nic::{AfXdp, Frame, MemoryPlan, TransmitBuffer, TransmitOptions, Vnic, VnicStatistics};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const HOST: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
const DEVICE: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 2);

struct Arguments {
    seconds: u64,
    batch: usize,
    window: u64,
    length: usize,
    threaded: bool,
    one_way: bool,
    fill: u32,
    single: bool,
    to_kernel: bool,
    gro: bool,
    injection: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut result = Arguments {
        seconds: 3,
        batch: 64,
        window: 512,
        length: 64,
        threaded: false,
        one_way: false,
        fill: 2048,
        single: false,
        to_kernel: false,
        gro: false,
        injection: true,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64, String> {
            words.next().and_then(|text| text.parse().ok()).ok_or_else(|| format!("{word} needs a number"))
        };
        match word.as_str() {
            "--seconds" => result.seconds = number()?,
            "--batch" => result.batch = number()?.clamp(1, 1024) as usize,
            "--window" => result.window = number()?,
            "--length" => result.length = number()?.clamp(60, 1514) as usize,
            "--fill" => result.fill = number()? as u32,
            "--single" => result.single = true,
            "--to-kernel" => result.to_kernel = true,
            "--gro" => result.gro = true,
            "--ring" => result.injection = false,
            "--threaded" => result.threaded = true,
            "--one-way" => result.one_way = true,
            _ => return Err(format!("unknown argument {word}")),
        }
    }
    Ok(result)
}

/// Pins the calling thread and names the time it has used since it began, seconds.
fn pin(processor: usize) {
    // SAFETY: an all-zero set is valid; CPU_SET stays inside it for small numbers.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// An IPv4 frame to `DEVICE`; swapping the addresses makes the answer.
fn frame_bytes(source: [u8; 6], destination: [u8; 6], length: usize) -> Vec<u8> {
    let mut bytes = destination.to_vec();
    bytes.extend(source);
    bytes.extend([8, 0, 0x45, 0]);
    bytes.extend((length as u16 - 14).to_be_bytes());
    bytes.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    bytes.extend(HOST.octets());
    bytes.extend(DEVICE.octets());
    bytes.resize(length, 0);
    bytes
}

fn echo(frame: &mut Frame) {
    let bytes = frame.bytes_mut();
    let (source, destination): ([u8; 6], [u8; 6]) =
        (std::array::from_fn(|index| bytes[6 + index]), std::array::from_fn(|index| bytes[index]));
    bytes[..6].copy_from_slice(&source);
    bytes[6..12].copy_from_slice(&destination);
    for offset in 0..4 {
        bytes.swap(26 + offset, 30 + offset);
    }
}

fn single(
    mut client: AfXdp,
    mut server: AfXdp,
    template: &[u8],
    arguments: &Arguments,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut frames = Vec::with_capacity(arguments.batch);
    let (start, start_seconds) = (Instant::now(), thread_seconds());
    let mut echoed = 0u64;
    while start.elapsed() < Duration::from_secs(arguments.seconds) {
        for _ in 0..arguments.batch {
            let Some(mut frame) = client.transmit_pool().allocate(64) else { break };
            frame.append(template.len()).expect("fits").copy_from_slice(template);
            let _ = client.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default());
        }
        client.flush();
        server.receive(&mut frames, arguments.batch);
        for mut frame in frames.drain(..) {
            echo(&mut frame);
            let _ = server.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default());
        }
        server.flush();
        echoed += client.receive(&mut frames, arguments.batch) as u64;
        frames.clear();
    }
    let nanos = (thread_seconds() - start_seconds) * 1e9 / echoed.max(1) as f64;
    println!(
        "{nanos:.0} ns of processor per echo ({echoed} echoes, batch {}, fill {})",
        arguments.batch, arguments.fill
    );
    Ok(())
}

fn to_kernel(veth: &Veth, mut nic: AfXdp, arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let name = veth.host_name();
    let gro = arguments.gro || arguments.threaded;
    veth.host_namespace().within(|| link::set_feature(name, Feature::GenericReceive, gro))??;
    let _socket = veth.host_namespace().within(|| UdpSocket::bind((HOST, 9)))??;
    let mut template = frame_bytes(veth.device_mac().0, veth.host().mac.0, arguments.length);
    for offset in 0..4 {
        template.swap(26 + offset, 30 + offset);
    }
    let sum: u32 = template[14..34].chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    template[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    template[36..38].copy_from_slice(&9u16.to_be_bytes());
    template[38..40].copy_from_slice(&(arguments.length as u16 - 34).to_be_bytes());
    let (start, start_seconds) = (Instant::now(), thread_seconds());
    while start.elapsed() < Duration::from_secs(arguments.seconds) {
        for _ in 0..arguments.batch {
            let Some(mut frame) = nic.transmit_pool().allocate(64) else { break };
            frame.append(template.len()).expect("fits").copy_from_slice(&template);
            let _ = nic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default());
        }
        nic.flush();
    }
    let statistics = nic.statistics();
    let nanos = (thread_seconds() - start_seconds) * 1e9 / statistics.transmit_frames.max(1) as f64;
    println!("{nanos:.0} ns of the sender's processor per frame, batch {}, {statistics:?}", arguments.batch);
    Ok(())
}

/// Receives, and echoes unless `one_way`, until told to stop.
fn serve(opener: QueueOpener, batch: usize, one_way: bool, stop: &AtomicBool) -> (VnicStatistics, f64) {
    pin(0);
    let mut nic = opener.open(MemoryPlan::default()).expect("open the server's queue");
    let mut frames = Vec::with_capacity(batch);
    while !stop.load(Ordering::Relaxed) {
        nic.receive(&mut frames, batch);
        let is_idle = frames.is_empty();
        for mut frame in frames.drain(..) {
            if !one_way {
                echo(&mut frame);
                let _ = nic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default());
            }
        }
        if is_idle {
            std::hint::spin_loop();
        } else {
            nic.flush();
        }
    }
    (nic.statistics(), thread_seconds())
}

/// Sends whole batches (a kick costs a system call) as the window allows, and takes the echoes back.
fn generate(nic: &mut AfXdp, template: &[u8], arguments: &Arguments) {
    let (batch, one_way) = (arguments.batch, arguments.one_way);
    let mut frames = Vec::with_capacity(batch);
    let start = Instant::now();
    let (mut sent, mut received) = (0u64, 0u64);
    let mut last_progress = Instant::now();
    while start.elapsed() < Duration::from_secs(arguments.seconds) {
        let room = nic.transmit_room().min(batch);
        let mut queued = 0;
        if one_way || sent + batch as u64 <= received + arguments.window {
            while queued < room
                && let Some(mut frame) = nic.transmit_pool().allocate(64)
            {
                frame.append(template.len()).expect("fits").copy_from_slice(template);
                if nic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).is_err() {
                    break;
                }
                queued += 1;
            }
            sent += queued as u64;
        }
        if queued > 0 {
            nic.flush();
        }
        let count = nic.receive(&mut frames, batch);
        received += count as u64;
        frames.clear();
        if count > 0 || one_way {
            last_progress = Instant::now();
        } else if last_progress.elapsed() > Duration::from_millis(100) {
            // Lost frames (a full veth ring) would close the window for good.
            received = sent;
        }
    }
}

fn two_threads(
    server: QueueOpener,
    client: QueueOpener,
    template: &[u8],
    arguments: &Arguments,
) -> Result<(), Box<dyn std::error::Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    let server_stop = Arc::clone(&stop);
    let (batch, one_way) = (arguments.batch, arguments.one_way);
    let server = std::thread::spawn(move || serve(server, batch, one_way, &server_stop));
    pin(1);
    let mut nic = client.open(MemoryPlan::default())?;
    let start = Instant::now();
    generate(&mut nic, template, arguments);
    let seconds = start.elapsed().as_secs_f64();
    let client_seconds = thread_seconds();
    stop.store(true, Ordering::Relaxed);
    let (statistics, server_seconds) = server.join().map_err(|_| "the server thread panicked")?;
    let moved = if one_way { statistics.receive_frames } else { nic.statistics().receive_frames };
    println!(
        "{:.3} Mpps {} ({moved} frames in {seconds:.2} s; length {}, batch {batch}, window {}{})",
        moved as f64 / seconds / 1e6,
        if one_way { "one way" } else { "echoed" },
        arguments.length,
        arguments.window,
        if arguments.threaded { ", threaded" } else { "" },
    );
    println!("client: {:?}, {client_seconds:.2} s of processor", nic.statistics());
    println!("server: {statistics:?}, {server_seconds:.2} s of processor");
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = arguments()?;
    let config = VethConfig {
        host_addresses: vec![(IpAddr::V4(HOST), 24)],
        host_namespace: Some(Namespace::anonymous()?),
        threaded: arguments.threaded,
        ..VethConfig::default()
    };
    let veth = veth::create(&config)?;
    let rings = RingSizes { fill: arguments.fill, ..RingSizes::default() };
    let attach = AttachConfig { rings, injection: arguments.injection, ..AttachConfig::default() };
    let server = veth.attach(AttachConfig { rules: vec![Rule::whole(DEVICE.into())], ..attach.clone() })?;
    let client = Interface::attach(AttachConfig {
        interface: veth.host_name().to_owned(),
        namespace: Some(veth.host_namespace().clone()),
        rules: vec![Rule::whole(HOST.into())],
        ..attach
    })?;
    let plan = MemoryPlan::default();
    let template = frame_bytes(veth.host().mac.0, veth.device_mac().0, arguments.length);
    if arguments.to_kernel {
        drop(client);
        return to_kernel(&veth, server.openers().remove(0).open(plan)?, &arguments);
    }
    if arguments.single {
        return single(
            client.openers().remove(0).open(plan)?,
            server.openers().remove(0).open(plan)?,
            &template,
            &arguments,
        );
    }
    two_threads(server.openers().remove(0), client.openers().remove(0), &template, &arguments)
}
