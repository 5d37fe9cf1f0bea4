//! A process that ends without a word while its controller works.

use super::rig::{fill, function, nvme, nvme_at, options};
use qanat_disk::Vsic;
use qanat_disk_suite::read;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Reads for ever: what the process that is killed does.
pub fn be_busy(address: &str) -> ! {
    let (mut disk, pool) = nvme_at(address.parse().expect("an address"), options());
    println!("busy");
    loop {
        fill(&mut disk, &pool);
        disk.complete(&mut Vec::new(), usize::MAX);
    }
}

pub fn starts_again() {
    let address = function().to_string();
    for _ in 0..3 {
        let mut child =
            Command::new("/proc/self/exe").args(["busy", &address]).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert_eq!(line, "busy\n");
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        let (mut disk, pool) = nvme(options());
        assert!(read(&mut disk, &pool, 0, 512).is_ok(), "it starts again");
    }
}
