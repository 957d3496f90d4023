//! What ids cost to give out: one writer, and eight at once.

use std::collections::HashSet;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};

use crate::child::own_cpu;
use crate::log::device_id;
use crate::mint::{Shelf, now_ms};
use crate::pass::{NONE, Seen};
use crate::process::cpu_of;
use crate::replay::WORKERS;
use crate::schemes::{Id, Scheme};
use crate::stock::Connected;
use crate::table::ratio;

/// Ids of a scheme that asks nobody.
pub const IDS: usize = 1_000_000;

/// How long writers take ids from a database.
const SPAN: Duration = Duration::from_secs(3);

/// How a number of writers fared.
#[derive(Clone, Copy, Debug)]
pub struct Race {
    /// Ids given.
    pub ids: u64,
    /// CPU time of this process, and of the server where there is one, s.
    pub cpu_s: f64,
    /// How often a database was asked.
    pub asked: u64,
    /// Ids that had been given before.
    pub twice: u64,
}

impl Race {
    /// Ids a second of CPU time.
    pub fn speed(&self) -> f64 {
        ratio(self.ids, 1) / self.cpu_s
    }

    /// Questions to a database for each id.
    pub fn round_trips(&self) -> f64 {
        ratio(self.asked, self.ids)
    }
}

/// Gives [`IDS`] ids in both forms, by so many writers at once.
///
/// # Errors
/// The scheme cannot.
pub fn alone(scheme: Scheme, writers: u32) -> anyhow::Result<Race> {
    let share = IDS / writers as usize;
    let before = own_cpu()?;
    let given = together(writers, |worker| {
        let mut ids = Vec::with_capacity(share);
        match scheme.minter(worker) {
            Some(mut minter) => {
                let (mut stock, mut clock) = (Shelf::default(), || now_ms().unwrap_or(0));
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
    let ids: Vec<Id> = given.into_iter().flatten().collect();
    let different: HashSet<_> = ids.iter().map(|id| &id.bytes).collect();
    let twice = (ids.len() - different.len()) as u64;
    Ok(Race { ids: ids.len() as u64, cpu_s, asked: 0, twice })
}

/// The id of a trip of some device: each a device of its own, all at one time, so that nothing but
/// the device tells them apart.
fn named(scheme: Scheme, worker: u32, nth: usize) -> anyhow::Result<Id> {
    let device = 1 + u32::try_from(nth)? * WORKERS + worker;
    let time_ms = tstar::simulate::START_MS;
    let (t_star_ms, start_ms, end_ms) = (time_ms, time_ms, time_ms);
    let (clock_ms, into, retired) = (time_ms, NONE, u64::MAX);
    let trip = Seen { device, t_star_ms, start_ms, end_ms, born: 0, clock_ms, into, retired };
    let id = scheme.natural(&trip, 1)?;
    id.with_context(|| format!("{} names no trip of {}", scheme.label(), device_id(device)))
}

/// Takes ids from a database for some time, by so many writers at once.
///
/// # Errors
/// The database fails.
pub fn stocked(
    scheme: Scheme,
    place: &Connected,
    writers: u32,
    server: Option<u32>,
) -> anyhow::Result<Race> {
    place.reset()?;
    let all_cpu = || {
        let server = server.map_or(Ok(0.0), cpu_of)?;
        anyhow::Ok(own_cpu()?.as_secs_f64() + server)
    };
    let ready = Barrier::new(writers as usize);
    let before = all_cpu()?;
    let given = together(writers, |worker| {
        let writer = place.writer();
        // Before anything can fail: the others wait.
        ready.wait();
        let (mut stock, mut ids) = (writer?, Vec::new());
        let mut minter = scheme.minter(worker).context("the scheme mints")?;
        let (began, mut clock) = (Instant::now(), || 0);
        // A batch costs less than a look at the clock.
        while !ids.len().is_multiple_of(16) || began.elapsed() < SPAN {
            let id = minter.mint(&mut clock, stock.as_mut())?;
            ids.push(i64::from_be_bytes(id.as_slice().try_into()?));
            if ids.len() >= IDS {
                break;
            }
        }
        Ok((ids, stock.asked()))
    })?;
    let cpu_s = all_cpu()? - before;
    let asked = given.iter().map(|(_, asked)| asked).sum();
    let ids: Vec<i64> = given.into_iter().flat_map(|(ids, _)| ids).collect();
    let different: HashSet<_> = ids.iter().collect();
    let twice = (ids.len() - different.len()) as u64;
    Ok(Race { ids: ids.len() as u64, cpu_s, asked, twice })
}

/// Runs writers at once, each in a thread of its own.
fn together<T: Send>(
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
