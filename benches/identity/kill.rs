//! Ids that nobody ever gets because a writer died.
//!
//! A child of the bench gives ids out, one for each line that it is sent, and is killed while it is
//! about to give another. What a writer after it is given tells what is missing between them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use crate::child::plain;
use crate::mint::COUNTERS;
use crate::schemes::Scheme;
use crate::stock::{Connected, Place};
use crate::table::ratio;

/// After how many ids the writers are killed.
const STOPS: [u32; 5] = [150, 420, 690, 960, 1230];

/// What a child of the bench gives out.
#[derive(Debug, Serialize, Deserialize)]
pub struct Giver {
    scheme: Scheme,
    place: Place,
}

impl Giver {
    /// Gives an id for each line that comes in, until there is none.
    ///
    /// # Errors
    /// The database fails.
    pub fn give(&self) -> anyhow::Result<()> {
        let mut stock = self.place.connect()?.writer()?;
        let mut minter = self.scheme.minter(0).context("the scheme mints")?;
        for line in std::io::stdin().lines() {
            line?;
            let id = minter.mint(&mut || 0, stock.as_mut())?;
            let mut out = std::io::stdout().lock();
            writeln!(out, "{}", i64::from_be_bytes(id.as_slice().try_into()?))?;
            out.flush()?;
        }
        Ok(())
    }
}

/// Ids skipped by one death, on average.
///
/// # Errors
/// The child fails before it is killed, or the database does.
pub fn skipped(scheme: Scheme, place: &Place, connected: &Connected) -> anyhow::Result<f64> {
    let mut skipped = 0;
    for stop in STOPS {
        connected.reset()?;
        let last = killed(&Giver { scheme, place: place.clone() }, stop)?;
        let mut stock = connected.writer()?;
        let mut successor = scheme.minter(0).context("the scheme mints")?;
        let next = successor.mint(&mut || 0, stock.as_mut())?;
        let next = i64::from_be_bytes(next.as_slice().try_into()?);
        let apart = if scheme == Scheme::Counters { i64::from(COUNTERS) } else { 1 };
        ensure!(next > last, "{}: {next} was given after {last}", scheme.label());
        skipped += ((next - last) / apart - 1).unsigned_abs();
    }
    Ok(ratio(skipped, STOPS.len() as u64))
}

/// The last id of a child that is killed once it has given so many.
fn killed(giver: &Giver, stop: u32) -> anyhow::Result<i64> {
    let folder = std::env::temp_dir();
    let mut child = plain(&folder, &std::env::current_exe()?)
        .arg("--give")
        .arg(serde_json::to_string(giver)?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut asks = child.stdin.take().context("it was asked for")?;
    let mut answers = BufReader::new(child.stdout.take().context("it was asked for")?).lines();
    let mut last = 0;
    for _ in 0..stop {
        writeln!(asks)?;
        last = answers.next().context("the child ended too soon")??.parse()?;
    }
    writeln!(asks)?;
    // SIGKILL.
    child.kill()?;
    child.wait()?;
    if let Some(line) = answers.next() {
        last = line?.parse()?;
    }
    Ok(last)
}
