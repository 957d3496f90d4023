//! Copies a store in a file, checks a copy, and puts it in the place of a store that is lost.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::row_check::{Fault, check_file};
use super::{BadData, InvalidRequest};
use crate::log::positions::ReadPosition;
use crate::store::files::NewFile;
use crate::store::{AnyStore, EmbeddedStore, StoreError, StoreUrl};

/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;

/// A copy of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BackupReport {
    /// Path of the copy.
    pub file: String,
    /// Size, bytes.
    pub bytes: u64,
    /// SHA-256, in hex.
    pub sha256: String,
    /// How far the copy has read its log.
    pub read: ReadPosition,
}

/// Copies a store to a file, which appears, or is replaced, once it is complete and checked.
///
/// # Errors
/// The store is not a file, or is that file; or the disk fails.
pub async fn back_up(
    store: &AnyStore,
    url: &StoreUrl,
    file: &Path,
) -> anyhow::Result<BackupReport> {
    let (Some(store), Some(path)) = (store.embedded(), url.path()) else {
        let problem = "`tstar backup` copies a store in a file; for a keyspace, take a snapshot of \
                       its nodes: see docs/operations.md";
        return Err(InvalidRequest(problem.into()).into());
    };
    if file.canonicalize().is_ok_and(|file| path.canonicalize().is_ok_and(|path| path == file)) {
        let problem = format!("`{}` is the store itself; name another file", file.display());
        return Err(InvalidRequest(problem).into());
    }
    let failed = || format!("`{}` cannot be written", file.display());
    let new = NewFile::create(file).with_context(failed)?;
    store.copy_to(new.path())?;
    let report = examine(new.path(), None, |fault| {
        format!("store `{}` is damaged: {}; {}", path.display(), fault.found, fault.repair)
    })
    .await?;
    EmbeddedStore::put_copy(new, file)?;
    Ok(BackupReport { file: file.display().to_string(), ..report })
}

/// Checks that a file is a store, whole, and of this hash if one is given.
///
/// # Errors
/// It is not.
pub async fn check(file: &Path, sha256: Option<&str>) -> anyhow::Result<BackupReport> {
    let name = file.display();
    examine(file, sha256, |fault| {
        format!("`{name}` is damaged: {}; take another backup", fault.found)
    })
    .await
}

async fn examine(
    file: &Path,
    sha256: Option<&str>,
    damaged: impl FnOnce(&Fault) -> String,
) -> anyhow::Result<BackupReport> {
    let name = file.display().to_string();
    let store = Arc::new(EmbeddedStore::open_reader(file).map_err(of_copy)?);
    if let Some(fault) = check_file(&store).await? {
        return Err(BadData(damaged(&fault)).into());
    }
    let read = ReadPosition::of_store(&store).await?;
    drop(store);
    let failed = || format!("`{name}` cannot be read");
    let (found, bytes) = copy(&mut File::open(file)?, &mut io::sink()).with_context(failed)?;
    let report = BackupReport { file: name, bytes, sha256: found, read };
    match sha256.filter(|expected| !expected.eq_ignore_ascii_case(&report.sha256)) {
        Some(expected) => {
            let BackupReport { file, sha256, .. } = report;
            let problem = format!(
                "`{file}` has SHA-256 {sha256}, not {expected}; it is another \
                                   file, or was changed"
            );
            Err(BadData(problem).into())
        }
        None => Ok(report),
    }
}

/// Converts an error of opening a copy: of a store, it would name the commands that create one.
fn of_copy(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Missing(location) | StoreError::InRoot { location } => {
            let problem =
                format!("`{location}` does not exist; name a copy that `tstar backup` made");
            io::Error::new(io::ErrorKind::NotFound, problem).into()
        }
        other => other.into(),
    }
}

/// Puts a copy in the place of a store that is lost.
///
/// # Errors
/// The copy is not a store that is whole, the store is not a file, or there is one.
pub async fn restore(
    file: &Path,
    sha256: Option<&str>,
    url: &StoreUrl,
) -> anyhow::Result<BackupReport> {
    let Some(path) = url.path() else {
        let problem =
            "`tstar restore` writes a store in a file; for a keyspace see docs/operations.md";
        return Err(InvalidRequest(problem.into()).into());
    };
    let report = check(file, sha256).await?;
    EmbeddedStore::put_in_place(path, |new| {
        let mut to = new.file();
        let (found, _) = copy(&mut File::open(file)?, &mut to)?;
        to.flush()?;
        match found == report.sha256 {
            true => Ok(()),
            false => Err(io::Error::other("the backup changed while it was read")),
        }
    })?;
    Ok(report)
}

/// Copies bytes; returns their SHA-256 and number.
fn copy(from: &mut File, to: &mut impl io::Write) -> io::Result<(String, u64)> {
    let (mut hash, mut chunk, mut bytes) = (Sha256::new(), vec![0; CHUNK], 0);
    loop {
        let read = from.read(&mut chunk)?;
        if read == 0 {
            return Ok((data_encoding::HEXLOWER.encode(&hash.finalize()), bytes));
        }
        hash.update(&chunk[..read]);
        to.write_all(&chunk[..read])?;
        bytes += read as u64;
    }
}
