//! Ids that are skipped because a writer was killed.
//!
//! A child of the bench issues one id for each line of input and is killed while it issues another.
//! The next writer's first id shows how many ids were skipped.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use crate::child::plain;
use crate::mint::COUNTERS;
use crate::schemes::Scheme;
use crate::stock::{Connected, Database};
use crate::table::ratio;

/// Number of ids after which each writer is killed.
const STOPS: [u32; 5] = [150, 420, 690, 960, 1230];

/// The arguments of a child that issues ids.
#[derive(Debug, Serialize, Deserialize)]
pub struct Issuer {
    scheme: Scheme,
    database: Database,
}

impl Issuer {
    /// Issues an id for each line of standard input.
    ///
    /// # Errors
    /// The database fails.
    pub fn issue(&self) -> anyhow::Result<()> {
        let mut stock = self.database.connect()?.writer()?;
        let mut minter = self.scheme.minter(0).context("the scheme mints ids")?;
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

/// Mean number of ids skipped per killed writer.
///
/// # Errors
/// The child fails before it is killed, or the database does.
pub fn skipped(scheme: Scheme, database: &Database, connected: &Connected) -> anyhow::Result<f64> {
    let mut skipped = 0;
    for stop in STOPS {
        connected.reset()?;
        let last = killed(&Issuer { scheme, database: database.clone() }, stop)?;
        let mut stock = connected.writer()?;
        let mut successor = scheme.minter(0).context("the scheme mints ids")?;
        let next = successor.mint(&mut || 0, stock.as_mut())?;
        let next = i64::from_be_bytes(next.as_slice().try_into()?);
        let stride = if scheme == Scheme::Counters { i64::from(COUNTERS) } else { 1 };
        ensure!(next > last, "{}: {next} was issued after {last}", scheme.label());
        skipped += ((next - last) / stride - 1).unsigned_abs();
    }
    Ok(ratio(skipped, STOPS.len() as u64))
}

/// The last id of a child that is killed after `stop` ids.
fn killed(issuer: &Issuer, stop: u32) -> anyhow::Result<i64> {
    let folder = std::env::temp_dir();
    let mut child = plain(&folder, &std::env::current_exe()?)
        .arg("--issue")
        .arg(serde_json::to_string(issuer)?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut requests = child.stdin.take().context("stdin is piped")?;
    let mut answers = BufReader::new(child.stdout.take().context("stdout is piped")?).lines();
    let mut last = 0;
    for _ in 0..stop {
        writeln!(requests)?;
        last = answers.next().context("the child exited early")??.parse()?;
    }
    writeln!(requests)?;
    // SIGKILL.
    child.kill()?;
    child.wait()?;
    if let Some(line) = answers.next() {
        last = line?.parse()?;
    }
    Ok(last)
}
