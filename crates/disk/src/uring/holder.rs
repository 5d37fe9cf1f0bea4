//! Who has a file or device that can't be had: for error messages only.

use std::fs;

/// Who has a block device, as far as the kernel says.
pub(super) fn of_device(device: u64) -> String {
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    if let Some(place) = mounted_at(&number) {
        return format!("it is mounted at {place}");
    }
    let holders = fs::read_dir(format!("/sys/dev/block/{number}/holders"));
    if let Some(holder) = holders.into_iter().flatten().flatten().next() {
        return format!("it is part of {}", holder.file_name().to_string_lossy());
    }
    "another program has opened it for itself, or one of its partitions is in use".to_owned()
}

fn mounted_at(number: &str) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(2);
        (words.next()? == number).then(|| words.nth(1).unwrap_or_default().to_owned())
    })
}

/// Who has locked a file, as far as the kernel says.
pub(super) fn of_file(device: u64, inode: u64) -> String {
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
            format!("process {process} ({}) has locked it", name.trim())
        }
        None => "another program has locked it".to_owned(),
    }
}
