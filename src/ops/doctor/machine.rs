//! This machine: the file of the store, its disk, the clock.

use std::fs::Metadata;
use std::path::Path;

use super::CheckResult;
use crate::model::epoch::Epoch;
use crate::model::scalar::Version;

/// Minimum free space of the disk, bytes.
const MIN_FREE: u64 = 1 << 30;

/// The file of a store, and its disk; nothing if there is no file, which opening the store reports.
pub(super) fn check_file(path: &Path) -> Vec<CheckResult> {
    let Ok(metadata) = std::fs::metadata(path) else { return Vec::new() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    vec![check_permissions(path, folder, &metadata), check_disk(folder, &metadata)]
}

fn check_permissions(path: &Path, folder: &Path, metadata: &Metadata) -> CheckResult {
    // SQLite makes files in the folder of the store, and so does the lock of a writer.
    let writable = [path, folder].map(|path| {
        let access = rustix::fs::Access::WRITE_OK;
        rustix::fs::access(path, access).is_ok()
    });
    match (writable, metadata.permissions().readonly()) {
        ([true, true], false) => {
            CheckResult::ok("permissions", "file and folder may be written to")
        }
        _ => CheckResult::warn(
            "permissions",
            format!("`{}`, or its folder, may only be read", path.display()),
            "allow writing to both where `tstar ingest` or `tstar run` is to write",
        ),
    }
}

fn check_disk(folder: &Path, metadata: &Metadata) -> CheckResult {
    match rustix::fs::statvfs(folder) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let (free_mb, size_mb) = (free >> 20, metadata.len() >> 20);
            let detail = format!("{free_mb} MiB free, the store has {size_mb} MiB");
            if free < MIN_FREE.max(metadata.len() / 10) {
                CheckResult::warn("disk", detail, "free space: a store that cannot grow stops")
            } else {
                CheckResult::ok("disk", detail)
            }
        }
        Err(error) => CheckResult::warn(
            "disk",
            format!("the free space of `{}` is unknown: {error}", folder.display()),
            "check it yourself",
        ),
    }
}

/// The clock against the base of the newest epoch, which was made from a clock.
pub(super) fn check_clock(newest: &Epoch, now_ms: i64) -> CheckResult {
    let now_us = now_ms.saturating_mul(1000);
    let behind_s = (newest.base.get() - now_us) / 1_000_000;
    if newest.base > Version(now_us) {
        CheckResult::fail(
            "clock",
            format!("epoch {} begins {behind_s} s ahead of this machine's clock", newest.epoch),
            "correct the clock; versions would not rise from one epoch to the next",
        )
    } else {
        CheckResult::ok("clock", "past the newest epoch")
    }
}
