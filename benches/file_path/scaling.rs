//! The cost of more samples and more devices, and whether a memory limit changes the result.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use sha2::{Digest as _, Sha256};

use crate::child::{Used, plain, tstar};
use crate::path::{Summary, ingest_with, remove_store, simulate};
use crate::shuffle;
use crate::table::{grouped, per_second, ratio, table};

/// Number of devices in the runs with a growing number of samples.
const FEW: u32 = 1000;

/// Numbers of devices in the runs in random order.
const DEVICES: [u32; 3] = [FEW, 20_000, 200_000];

/// `--memory` of the bounded and of the unbounded runs.
const BOUND: &str = "256MB";
const NO_BOUND: &str = "64GB";

/// Millions of samples in the growing runs before the largest.
const MILLIONS: [u64; 2] = [1, 5];

/// Measures both parts and prints each when it is done, because they take long.
///
/// # Errors
/// The program fails, or the disk does.
pub fn measure(folder: &Path, million: u64, max_millions: u64) -> anyhow::Result<()> {
    let counts = MILLIONS.into_iter().filter(|&count| count < max_millions).chain([max_millions]);
    let mut rows = Vec::new();
    for samples in counts.map(|count| count * million) {
        let file = folder.join("scaling.ndjson");
        simulate(folder, &file, FEW, samples)?;
        rows.push(row(samples, FEW, "default", &ingest_with(folder, &file, "scaling", &[])?)?);
        std::fs::remove_file(&file)?;
        remove_store(folder, "scaling")?;
    }
    println!("\nscaling: ingest, one run each, in the fleet's order\n\n{}", table(HEAD, &rows));
    std::io::stdout().flush()?;
    random_order(folder, max_millions * million)
}

fn random_order(folder: &Path, samples: u64) -> anyhow::Result<()> {
    let bounded = knows_memory(folder)?;
    let bounds: &[&str] = if bounded { &[BOUND, NO_BOUND] } else { &["-"] };
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for devices in DEVICES {
        let file = folder.join("shuffled.ndjson");
        shuffle::write(&file, devices, samples)?;
        let mut digests = Vec::new();
        for &bound in bounds {
            let memory = ["--memory", bound];
            let more = if bounded { &memory[..] } else { &[] };
            let used = ingest_with(folder, &file, "shuffled", more)?;
            rows.push(row(samples, devices, bound, &used)?);
            digests.push(exported(folder, "shuffled")?);
            if digests.len() == 1 {
                let summary: Summary = serde_json::from_str(&used.stdout)?;
                notes.push(format!("{} devices: {}", grouped(devices.into()), {
                    summary.arrivals.mix()
                }));
            }
        }
        let last = notes.last_mut().context("a note for each number of devices")?;
        *last += match &digests[..] {
            [bounded, unbounded] if bounded == unbounded => "; both runs export the same bytes",
            [_, _] => "; THE TWO RUNS EXPORT DIFFERENT BYTES",
            _ => "; not compared: this tstar has no --memory",
        };
        std::fs::remove_file(&file)?;
        remove_store(folder, "shuffled")?;
    }
    println!("\nscaling: ingest, one run each, in random device order\n\n{}", table(HEAD, &rows));
    println!("\n{}", notes.join("\n"));
    Ok(())
}

const HEAD: [&str; 7] = [
    "samples",
    "devices",
    "--memory",
    "samples/s (wall)",
    "CPU s per million",
    "peak MiB",
    "trips",
];

fn row(samples: u64, devices: u32, memory: &str, used: &Used) -> anyhow::Result<[String; 7]> {
    let summary: Summary = serde_json::from_str(&used.stdout)?;
    Ok([
        grouped(samples),
        grouped(devices.into()),
        memory.to_owned(),
        per_second(samples, used.wall_s),
        format!("{:.3}", used.cpu_s / ratio(samples, 1_000_000)),
        format!("{:.1}", used.peak_mib()),
        grouped(summary.trips),
    ])
}

/// Whether this version of the program has `--memory`.
fn knows_memory(folder: &Path) -> anyhow::Result<bool> {
    let help = plain(folder, tstar()).args(["ingest", "--help"]).output()?;
    Ok(String::from_utf8_lossy(&help.stdout).contains("--memory"))
}

/// SHA-256 of the export of a store, paths included.
fn exported(folder: &Path, name: &str) -> anyhow::Result<[u8; 32]> {
    let mut export = plain(folder, tstar());
    export.args(["export", "--path", "--format", "ndjson", "--store"]);
    let mut export = export.arg(format!("sqlite:{name}.db")).stdout(Stdio::piped()).spawn()?;
    let mut stdout = export.stdout.take().context("stdout is piped")?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match stdout.read(&mut buffer)? {
            0 => break,
            read => hash.update(&buffer[..read]),
        }
    }
    ensure!(export.wait()?.success(), "tstar export failed");
    Ok(hash.finalize().into())
}
