//! This machine: the file, the disk it lies on, the clock.

use std::path::Path;

use tstar::model::epoch::Epoch;

use super::CheckResult;

/// Less room than this is told of, bytes.
const LITTLE_ROOM: u64 = 1 << 30;

/// The file of a store, and the disk.
pub(super) fn file(path: &Path) -> Vec<CheckResult> {
    let mut findings = Vec::new();
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        // The store itself tells that it is not there.
        Err(_) => return findings,
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    // SQLite makes files beside the store, and so does the lock of a writer.
    let writable = [path, folder].map(|place| {
        let access = rustix::fs::Access::WRITE_OK;
        rustix::fs::access(place, access).is_ok()
    });
    findings.push(match (writable, meta.permissions().readonly()) {
        ([true, true], false) => {
            CheckResult::ok("permissions", "file and folder may be written to")
        }
        _ => CheckResult::warn(
            "permissions",
            format!("`{}`, or its folder, may only be read", path.display()),
            "allow writing to both where `tstar ingest` or `tstar run` is to write",
        ),
    });
    match rustix::fs::statvfs(folder) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let (free_mb, size_mb) = (free >> 20, meta.len() >> 20);
            let detail = format!("{free_mb} MiB free, the store has {size_mb} MiB");
            findings.push(if free < LITTLE_ROOM.max(meta.len() / 10) {
                CheckResult::warn("disk", detail, "make room: a store that cannot grow stops")
            } else {
                CheckResult::ok("disk", detail)
            });
        }
        Err(error) => findings.push(CheckResult::warn(
            "disk",
            format!("the free room of `{}` cannot be told: {error}", folder.display()),
            "look yourself",
        )),
    }
    findings
}

/// The clock beside the newest epoch, which was made from a clock.
pub(super) fn clock(newest: &Epoch, now_ms: i64) -> Vec<CheckResult> {
    let now_us = now_ms.saturating_mul(1000);
    let behind_s = (newest.base - now_us) / 1_000_000;
    vec![if newest.base > now_us {
        CheckResult::fail(
            "clock",
            format!("epoch {} begins {behind_s} s ahead of this machine's clock", newest.epoch),
            "set the clock right; versions would not rise from one epoch to the next",
        )
    } else {
        CheckResult::ok("clock", "past the newest epoch")
    }]
}
