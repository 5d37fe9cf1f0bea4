//! Who has a file or device that can't be had.

use std::fs;
use std::path::Path;

/// Who has it.
pub(super) struct Holder {
    /// As a clause, for an error message.
    pub(super) clause: String,
    /// It has ended, or may have: the kernel lets go of a ring, and of the files registered with it, some milliseconds later.
    pub(super) may_have_ended: bool,
}

/// Who has a block device, as far as the kernel says.
pub(super) fn of_device(device: u64) -> Holder {
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    if let Some(place) = mounted_at(&number) {
        return Holder { clause: format!("it is mounted at {place}"), may_have_ended: false };
    }
    let holders = fs::read_dir(format!("/sys/dev/block/{number}/holders"));
    if let Some(holder) = holders.into_iter().flatten().flatten().next() {
        let clause = format!("it is part of {}", holder.file_name().to_string_lossy());
        return Holder { clause, may_have_ended: false };
    }
    let clause = "another program has opened it for itself, or one of its partitions is in use".to_owned();
    Holder { clause, may_have_ended: true }
}

fn mounted_at(number: &str) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(2);
        (words.next()? == number).then(|| words.nth(1).unwrap_or_default().to_owned())
    })
}

/// Who has locked a file, as far as the kernel says.
pub(super) fn of_file(device: u64, inode: u64) -> Holder {
    let place = format!("{:02x}:{:02x}:{inode}", rustix::fs::major(device), rustix::fs::minor(device));
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let holder = locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == place)?;
        words.get(at.checked_sub(1)?)?.parse::<u32>().ok()
    });
    match holder {
        Some(process) => {
            let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            let clause = format!("process {process} ({}) has locked it", name.trim());
            // A daemon that has started itself anew is the process that it was: the kernel is about to let go of what it had.
            let is_us = process == std::process::id();
            Holder { clause, may_have_ended: is_us || !Path::new(&format!("/proc/{process}")).exists() }
        }
        None => Holder { clause: "another program has locked it".to_owned(), may_have_ended: true },
    }
}
