//! The cost of generating ids: with one writer, and with eight concurrent ones.

use std::collections::HashSet;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};

use crate::child::own_cpu;
use crate::log::device_id;
use crate::mint::{MemoryStock, now_ms};
use crate::pass::{NONE, TripRecord};
use crate::process::cpu_of;
use crate::replay::WORKERS;
use crate::schemes::{Id, Scheme};
use crate::stock::Connected;
use crate::table::ratio;

/// Number of ids of a scheme without a database.
pub const IDS: usize = 1_000_000;

/// Duration of a run with a database.
const SPAN: Duration = Duration::from_secs(3);

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Race {
    /// Number of ids.
    pub ids: u64,
    /// CPU time of this process and, if known, of the server, s.
    pub cpu_s: f64,
    /// Number of requests to the database.
    pub requests: u64,
    /// Number of duplicate ids.
    pub twice: u64,
}

impl Race {
    /// Ids per second of CPU time.
    pub fn speed(&self) -> f64 {
        ratio(self.ids, 1) / self.cpu_s
    }

    /// Requests to the database per id.
    pub fn round_trips(&self) -> f64 {
        ratio(self.requests, self.ids)
    }
}

/// Generates [`IDS`] ids in both forms, by `writers` concurrent writers.
///
/// # Errors
/// The scheme fails.
pub fn alone(scheme: Scheme, writers: u32) -> anyhow::Result<Race> {
    let share = IDS / writers as usize;
    let before = own_cpu()?;
    let results = concurrently(writers, |worker| {
        let mut ids = Vec::with_capacity(share);
        match scheme.minter(worker) {
            Some(mut minter) => {
                let (mut stock, mut clock) = (MemoryStock::default(), || now_ms().unwrap_or(0));
                for _ in 0..share {
                    ids.push(scheme.minted(minter.mint(&mut clock, &mut stock)?)?);
                }
            }
            None => {
                for nth in 0..share {
                    ids.push(named(scheme, worker, nth)?);
                }
            }
        }
        Ok(ids)
    })?;
    let cpu_s = (own_cpu()? - before).as_secs_f64();
    let ids: Vec<Id> = results.into_iter().flatten().collect();
    let different: HashSet<_> = ids.iter().map(|id| &id.bytes).collect();
    let twice = (ids.len() - different.len()) as u64;
    Ok(Race { ids: ids.len() as u64, cpu_s, requests: 0, twice })
}

/// The id of a trip of a device. All trips have the same time and different devices, so only the
/// device distinguishes them.
fn named(scheme: Scheme, worker: u32, nth: usize) -> anyhow::Result<Id> {
    let device = 1 + u32::try_from(nth)? * WORKERS + worker;
    let time_ms = tstar::internals::simulate::START_MS;
    let (t_star_ms, start_ms, end_ms) = (time_ms, time_ms, time_ms);
    let (clock_ms, into, retired) = (time_ms.ms(), NONE, u64::MAX);
    let trip = TripRecord { device, t_star_ms, start_ms, end_ms, born: 0, clock_ms, into, retired };
    let id = scheme.natural(&trip, 1)?;
    id.with_context(|| format!("{} names no trip of {}", scheme.label(), device_id(device)))
}

/// Generates ids with a database for [`SPAN`], by `writers` concurrent writers.
///
/// # Errors
/// The database fails.
pub fn stocked(
    scheme: Scheme,
    database: &Connected,
    writers: u32,
    server: Option<u32>,
) -> anyhow::Result<Race> {
    database.reset()?;
    let all_cpu = || {
        let server = server.map_or(Ok(0.0), cpu_of)?;
        anyhow::Ok(own_cpu()?.as_secs_f64() + server)
    };
    let ready = Barrier::new(writers as usize);
    let before = all_cpu()?;
    let results = concurrently(writers, |worker| {
        let writer = database.writer();
        // Before any error is returned, because the others wait at the barrier.
        ready.wait();
        let (mut stock, mut ids) = (writer?, Vec::new());
        let mut minter = scheme.minter(worker).context("the scheme mints ids")?;
        let (began, mut clock) = (Instant::now(), || 0);
        // Reading the clock costs more than an id of a batch.
        while !ids.len().is_multiple_of(16) || began.elapsed() < SPAN {
            let id = minter.mint(&mut clock, stock.as_mut())?;
            ids.push(i64::from_be_bytes(id.as_slice().try_into()?));
            if ids.len() >= IDS {
                break;
            }
        }
        Ok((ids, stock.requests()))
    })?;
    let cpu_s = all_cpu()? - before;
    let requests = results.iter().map(|(_, requests)| requests).sum();
    let ids: Vec<i64> = results.into_iter().flat_map(|(ids, _)| ids).collect();
    let different: HashSet<_> = ids.iter().collect();
    let twice = (ids.len() - different.len()) as u64;
    Ok(Race { ids: ids.len() as u64, cpu_s, requests, twice })
}

/// Runs writers concurrently, each in its own thread.
fn concurrently<T: Send>(
    writers: u32,
    write: impl Fn(u32) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Vec<T>> {
    std::thread::scope(|scope| {
        let write = &write;
        let threads: Vec<_> =
            (0..writers).map(|worker| scope.spawn(move || write(worker))).collect();
        let ended = threads.into_iter().map(|thread| {
            thread.join().map_err(|_| anyhow!("a writer panicked")).and_then(|written| written)
        });
        ended.collect()
    })
}
