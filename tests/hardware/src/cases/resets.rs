//! Resets of the function and of the controller while requests are under way.

use super::rig::{drain, fill, nvme, options};
use qanat_disk::nvme::{NvmeError, NvmeOptions};
use qanat_disk::{StorageError, Vsic};
use qanat_disk_suite::read;
use std::time::Duration;

pub fn function_reset_under_load() {
    for _ in 0..5 {
        let (mut disk, pool) = nvme(options());
        let depth = fill(&mut disk, &pool);
        disk.transport_mut().function().reset().expect("it can be reset");
        let completions = drain(&mut disk);
        assert_eq!(completions.len(), depth);
        let known = |result: Result<(), StorageError>| matches!(result, Ok(()) | Err(StorageError::Gone));
        assert!(completions.iter().all(|completion| known(completion.result)), "{completions:?}");
        drop(completions);
        assert_eq!((pool.in_use_count(), disk.withheld()), (0, 0), "every buffer is back");
        // What comes now is refused, and says why.
        let result = read(&mut disk, &pool, 0, 512).map(drop);
        if result.is_err() {
            assert_eq!((result, disk.failure()), (Err(StorageError::Gone), Some(&NvmeError::Failed)));
        }
    }
    let (mut disk, pool) = nvme(options());
    assert!(read(&mut disk, &pool, 0, 512).is_ok(), "it starts again");
}

pub fn an_overdue_controller_is_reset() {
    // Namespace 2 does a few requests a second.
    let slow = NvmeOptions { namespace: Some(2), time_out: Duration::from_millis(1_500), ..options() };
    let (mut disk, pool) = nvme(slow);
    let depth = fill(&mut disk, &pool);
    let completions = drain(&mut disk);
    assert_eq!(completions.len(), depth);
    let overdue = completions.iter().filter(|completion| completion.result == Err(StorageError::TimedOut)).count();
    assert!(overdue > 0 && disk.resets() > 0, "{overdue} overdue, {} resets", disk.resets());
    drop(completions);
    assert_eq!((pool.in_use_count(), disk.withheld(), disk.failure()), (0, 0, None));
    // What was too much at once delays what comes, too.
    crate::kernel::eventually("it goes on", || {
        disk.complete(&mut Vec::new(), 1);
        (disk.room() > 0 && read(&mut disk, &pool, 0, 512).is_ok()).then_some(())
    });
}
