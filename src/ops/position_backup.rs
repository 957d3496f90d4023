//! Copies the positions of a keyspace to a file before a snapshot of it is taken, and puts them
//! back with the snapshot.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::{BadData, InvalidRequest, PreconditionFailed};
use crate::model::epoch::Epoch;
use crate::model::scalar::{Offset, Version};
use crate::store::files::NewFile;
use crate::store::positions::{devices_erased_since, lower_positions, replace};
use crate::store::{AnyStore, SideTables as _, StoreUrl, TripStore as _};

/// Maximum size of a file of positions, bytes: those of 100,000 partitions fit.
const MAX_BYTES: u64 = 4 << 20;

/// Maximum number of devices that an error names.
const MAX_NAMED: usize = 5;

/// How far a keyspace had read its topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PositionBackup {
    /// Name of the topic.
    pub topic: String,
    /// Number of the newest epoch.
    pub epoch: i32,
    /// Version of offset 0 of that epoch, which no other keyspace has.
    pub base: Version,
    /// The next offset of each partition.
    pub next_offsets: BTreeMap<i32, i64>,
}

/// Checks that a store is a keyspace.
///
/// # Errors
/// It is a file.
pub(crate) fn check(url: &StoreUrl) -> anyhow::Result<()> {
    if url.path().is_some() {
        let problem = "a store in a file has its positions in that file: tstar backup FILE";
        return Err(InvalidRequest(problem.into()).into());
    }
    Ok(())
}

/// The newest epoch of a keyspace, and the next offset of each partition.
async fn positions(store: &AnyStore) -> anyhow::Result<(Epoch, BTreeMap<i32, i64>)> {
    let newest = store.epochs().await?.pop().ok_or_else(|| {
        PreconditionFailed("the keyspace has read no topic, so it has no positions".into())
    })?;
    let kept = store.positions(newest.epoch).await?;
    let mut next_offsets = BTreeMap::new();
    for partition in 0..newest.partitions {
        let Some(Offset(next)) = kept.position_of(&newest, partition) else {
            let problem = format!(
                "partition {partition} has no position yet, as epoch {} was imported; start \
                 `tstar run` on every partition first",
                newest.epoch
            );
            return Err(PreconditionFailed(problem).into());
        };
        next_offsets.insert(partition, next);
    }
    Ok((newest, next_offsets))
}

/// Copies the positions of a keyspace to a file.
///
/// # Errors
/// The store has no positions, or the file cannot be written.
pub(crate) async fn back_up(store: &AnyStore, file: &Path) -> anyhow::Result<PositionBackup> {
    let (Epoch { topic, epoch, base, .. }, next_offsets) = positions(store).await?;
    let backup = PositionBackup { topic, epoch, base, next_offsets };
    let failed = || format!("`{}` cannot be written", file.display());
    let new = NewFile::create(file).with_context(failed)?;
    let mut text = serde_json::to_vec(&backup)?;
    text.push(b'\n');
    new.file().write_all(&text).with_context(failed)?;
    new.persist(file).with_context(failed)?;
    Ok(backup)
}

/// Puts positions back that were copied before the snapshot that a keyspace was restored from: of
/// each partition the lower one counts, the copied one or the one that the snapshot has. Returns
/// them.
///
/// # Errors
/// The file is not a copy of the positions of this keyspace; devices were erased while the snapshot
/// was taken, which `allows_erased` accepts; or the store fails.
pub(crate) async fn restore(
    store: &AnyStore,
    file: &Path,
    allows_erased: bool,
) -> anyhow::Result<PositionBackup> {
    let backup = read(file)?;
    let newest = positions(store).await?.0;
    let of_store = (&newest.topic, newest.epoch, newest.base);
    if of_store != (&backup.topic, backup.epoch, backup.base) {
        let problem = format!(
            "`{}` has positions of epoch {} of topic `{}` (base {}), but the store has epoch {} of \
             `{}` (base {}); name the file that was written before this snapshot",
            file.display(),
            backup.epoch,
            backup.topic,
            backup.base,
            newest.epoch,
            newest.topic,
            newest.base
        );
        return Err(PreconditionFailed(problem).into());
    }
    let next_offsets = lower_positions(store, &newest, &backup.next_offsets).await?;
    let erased = devices_erased_since(store, &newest, &next_offsets).await?;
    if !(erased.is_empty() || allows_erased) {
        return Err(PreconditionFailed(erased_problem(&erased)).into());
    }
    replace(store, &newest, &next_offsets).await?;
    Ok(PositionBackup { next_offsets, ..backup })
}

/// Why positions are not restored, and what to do.
fn erased_problem(devices: &[String]) -> String {
    let named = devices.iter().take(MAX_NAMED).map(|device| format!("`{device}`"));
    let named = named.collect::<Vec<_>>().join(", ");
    let others = match devices.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        count => format!(" and {count} others"),
    };
    format!(
        "trips of devices were erased while the snapshot was taken, so that it has them of before \
         and after, and reading again does not correct that: {named}{others}; restore another \
         snapshot, or continue with --allow-erased, and run tstar verify --repair once the \
         positions have caught up"
    )
}

fn read(file: &Path) -> anyhow::Result<PositionBackup> {
    let failed = || format!("`{}` cannot be read", file.display());
    let mut text = Vec::new();
    File::open(file)
        .and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text))
        .with_context(failed)?;
    serde_json::from_slice(&text).map_err(|error| {
        let problem = format!(
            "`{}` is not a file that `tstar backup positions` wrote: {error}",
            file.display()
        );
        BadData(problem).into()
    })
}
