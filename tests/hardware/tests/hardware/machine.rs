//! The machine: its devices, and how long it may take.

use super::parts::Parts;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long a machine may be silent, and take in all. Emulated on two busy processors it takes some 30 s.
const SILENCE: Duration = Duration::from_secs(180);
const WHOLE: Duration = Duration::from_secs(600);
/// What the lines of our program begin with.
const MARK: &str = "hardware: ";
/// Chooses cases by a word of their names.
const CHOICE: &str = "QANAT_CASE";
/// Lines that are kept, at most.
const LINES_MAX: usize = 10_000;

/// A drive of so many bytes, empty, and what QEMU is told of it.
const DRIVES: [(&str, u64, &str); 5] = [
    ("small", 512 * 512, ""),
    // Some requests a second, so that a few make a controller overdue.
    ("slow", 1 << 20, ",throttling.iops-total=8"),
    // Room for a table of areas, and some.
    ("roomy", 8 << 20, ""),
    ("shared", 1 << 20, ""),
    ("own", 1 << 20, ""),
];

/// The file that has the log of what was written to the drive for areas.
pub const LOG: &str = "log";
/// Bytes of the drive for areas.
const AREAS_BYTES: u64 = 64 << 20;

/// A machine that has not been started.
pub struct Machine {
    command: Command,
}

/// What a machine said, and how it ended.
pub struct Outcome {
    pub lines: Vec<String>,
    pub ended: String,
    /// QEMU ended itself, which says nothing about our cases.
    pub has_crashed: bool,
}

impl Outcome {
    /// The line of our program with these words, without its mark.
    pub fn said(&self, words: &str) -> Option<String> {
        let line = self.lines.iter().find(|line| line.starts_with(MARK) && line.contains(words))?;
        Some(line[MARK.len()..].to_owned())
    }

    /// How many cases passed.
    pub fn passed(&self) -> usize {
        self.lines.iter().filter(|line| line.starts_with("hardware: ok ")).count()
    }
}

/// A process that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Machine {
    /// # Errors
    /// What the system says.
    pub fn new(parts: &Parts, image: &Path, directory: &Path) -> io::Result<Machine> {
        let mut command = Command::new(&parts.qemu);
        // Emulated: a kernel of Debian's does not start under every KVM that is itself in a virtual machine.
        command.args(["-accel", "tcg,thread=single", "-machine", "q35,kernel-irqchip=split", "-cpu", "max"]);
        // One processor: with more, QEMU 10.0 now and then ends itself when virtual functions appear (an assertion in physmem.c).
        command.args(["-smp", "1", "-m", "768M", "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"]);
        command.arg("-kernel").arg(&parts.kernel).arg("-initrd").arg(image);
        // What the kernel doesn't know becomes a variable of its first program.
        let choice = std::env::var(CHOICE).unwrap_or_default();
        let parameters =
            format!("console=ttyS0 quiet panic=-1 intel_iommu=on iommu=nopt no_timer_check {CHOICE}={choice}");
        command.args(["-append", &parameters]);
        let mut device = |text: &str| {
            command.args(["-device", text]);
        };
        device("intel-iommu,intremap=on");
        for port in 1..=4 {
            device(&format!("pcie-root-port,id=port{port},chassis={port},slot={port}"));
        }
        device("nvme,id=plain,serial=plain,bus=port1");
        device("nvme-subsys,id=subsystem");
        // Two virtual functions with two queue pairs and two vectors each.
        device(
            "nvme,id=shared,serial=shared,bus=port2,subsys=subsystem,sriov_max_vfs=2,sriov_vq_flexible=4,sriov_vi_flexible=4,\
             max_ioqpairs=8,msix_qsize=9",
        );
        device("nvme,id=areas,serial=areas,bus=port4");
        command.args(["-netdev", "user,id=net,restrict=on", "-device", "igb,bus=port3,netdev=net"]);
        for (name, bytes, more) in DRIVES {
            let path: PathBuf = directory.join(name);
            File::create(&path)?.set_len(bytes)?;
            command.arg("-drive").arg(format!("file={},if=none,id={name},format=raw{more}", path.display()));
        }
        command.args([
            "-device",
            "nvme-ns,drive=small,bus=plain,nsid=1",
            "-device",
            "nvme-ns,drive=slow,bus=plain,nsid=2",
            "-device",
            "nvme-ns,drive=roomy,bus=plain,nsid=3",
        ]);
        command.args(["-device", "nvme-ns,drive=shared,bus=shared,nsid=1"]);
        // A namespace that was attached to the parent can't be attached to a virtual function (QEMU's issue 2976).
        command.args(["-device", "nvme-ns,drive=own,bus=shared,nsid=4,shared=on,detached=on"]);
        // What is written to the last one is logged, with its flushes.
        for (name, bytes) in [("areas", AREAS_BYTES), (LOG, 0)] {
            let path = directory.join(name);
            File::create(&path)?.set_len(bytes)?;
            command.arg("-blockdev").arg(format!("driver=file,filename={},node-name={name}-file", path.display()));
        }
        command.args([
            "-blockdev",
            "driver=blklogwrites,node-name=areas,file=areas-file,log=log-file,log-sector-size=512",
        ]);
        command.args(["-device", "nvme-ns,drive=areas,bus=areas,nsid=1"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        Ok(Machine { command })
    }

    /// Runs it to its end, or stops it.
    pub fn run(mut self) -> Outcome {
        let start = Instant::now();
        let mut running = Running(self.command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", self.command)));
        let stdout = running.0.stdout.take().expect("a pipe");
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                line.clear();
                if send.send(text).is_err() {
                    return;
                }
            }
        });
        let mut lines = Vec::new();
        let why = loop {
            let left = WHOLE.saturating_sub(start.elapsed());
            match receive.recv_timeout(SILENCE.min(left)) {
                Ok(line) if lines.len() < LINES_MAX => {
                    println!("{line}");
                    lines.push(line);
                }
                Ok(_) => break "stopped: it says too much",
                Err(RecvTimeoutError::Disconnected) => break "ended",
                Err(RecvTimeoutError::Timeout) => break "stopped: it takes too long",
            }
        };
        // The end of its output is not yet that of the process.
        let has_crashed = why == "ended" && running.0.wait().is_ok_and(|status| status.signal().is_some());
        Outcome { has_crashed, lines, ended: format!("the machine {why} after {:.1} s", start.elapsed().as_secs_f64()) }
    }
}
