//! The cost of each export format, and of the same trips as NDJSON.

use std::path::Path;

use crate::child::{Used, measured, tstar};
use crate::path::Input;
use crate::table::{grouped, ratio, table};

/// The formats; the first is the baseline.
const FORMATS: [&str; 11] = [
    "ndjson --path",
    "ndjson",
    "ndjson --points",
    "csv --points",
    "parquet",
    "parquet --points",
    "geojson",
    "kepler",
    "mfjson",
    "kml",
    "gpx",
];

/// Measures an export of all trips in each format, `runs` times. Formats are interleaved, so that a
/// slow period affects them all.
///
/// # Errors
/// A run fails.
pub fn measure(folder: &Path, input: &Input, runs: u32) -> anyhow::Result<String> {
    crate::path::ingest(input)?;
    let mut found: [Vec<(Used, u64)>; FORMATS.len()] = Default::default();
    for _ in 0..runs {
        for (format, found) in FORMATS.iter().zip(&mut found) {
            let mut args = vec!["export", "--store", "sqlite:path.db", "--out", "trips.out"];
            args.push("--format");
            args.extend(format.split(' '));
            let used = measured(folder, tstar(), &args)?;
            found.push((used, folder.join("trips.out").metadata()?.len()));
        }
    }
    for runs in &mut found {
        runs.sort_by(|(a, _), (b, _)| a.cpu_s.total_cmp(&b.cpu_s));
    }
    let median = |runs: &Vec<(Used, u64)>| runs[(runs.len() - 1) / 2].clone();
    let baseline = median(&found[0]).0.cpu_s;
    let row = |(format, runs): (&&str, &Vec<(Used, u64)>)| {
        let (used, bytes) = median(runs);
        [
            (*format).to_owned(),
            format!("{:.3}", used.cpu_s / ratio(input.samples(), 1_000_000)),
            format!("{:.2}", used.cpu_s / baseline),
            format!("{:.1}", ratio(bytes, input.samples())),
            format!("{:.1}", used.peak_mib()),
        ]
    };
    let rows: Vec<_> = FORMATS.iter().zip(&found).map(row).collect();
    let head = ["format", "CPU s per million", "times the first", "bytes a sample", "peak MiB"];
    let samples = grouped(input.samples());
    Ok(format!(
        "export: {samples} samples; the run of median CPU of {runs}\n\n{}",
        table(head, &rows)
    ))
}
