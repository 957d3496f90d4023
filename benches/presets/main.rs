//! Measures the cost of decoding each preset's records, and Avro and protobuf, and of canonical
//! NDJSON in the same run.
//!
//! ```sh
//! cargo bench --bench presets
//! cargo bench --bench presets -- traccar overland --runs 9
//! ```
//!
//! Every format has the same samples. Its baseline is canonical NDJSON in the same form: records of
//! a topic, or files. Runs of the formats take turns, so that a slow period affects them all.

#[allow(dead_code, reason = "the other benches use the rest")]
#[path = "../file_path/child.rs"]
mod child;
mod drive;
#[path = "../../tests/it/formats/encode.rs"]
mod encode;
mod fleet;
#[allow(dead_code, reason = "the other benches use the rest")]
#[path = "../file_path/machine.rs"]
mod machine;
#[allow(dead_code, reason = "the other benches use the rest")]
#[path = "../file_path/null.rs"]
mod null;
#[path = "../../tests/it/formats/read.rs"]
mod read;
#[allow(dead_code, reason = "the other benches use the rest")]
#[path = "../file_path/table.rs"]
mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Parser;

use child::own_cpu;
use encode::{BASELINES, Form, Format, Reader, formats};
use read::Input;
use table::{grouped, per_second, ratio, table};
use tstar::internals::model::schema::Encoding;

/// Measures the cost of decoding each preset's records
#[derive(Debug, Parser)]
struct Args {
    /// Formats to measure, by the begin of their names [default: all]
    formats: Vec<String>,
    /// Runs of each format
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Samples of each run
    #[arg(long, value_name = "N", default_value_t = 200_000,
          value_parser = clap::value_parser!(u32).range(10_000..))]
    samples: u32,
    /// Passed by cargo to benches, not to tests
    #[arg(long, hide = true)]
    bench: bool,
}

/// Resource usage of one run.
#[derive(Clone, Copy)]
struct Used {
    wall: Duration,
    cpu: Duration,
}

/// A format with its input and its runs.
struct Row {
    format: Format,
    input: Input,
    /// Only decoded.
    decode: Vec<Used>,
    /// Decoded, and applied to trips.
    trips: Vec<Used>,
}

fn main() -> ExitCode {
    match bench(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("presets: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(args: &Args) -> anyhow::Result<()> {
    if !args.bench {
        // `cargo test --all-targets` runs this program too.
        println!("presets measures only under `cargo bench`");
        return Ok(());
    }
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.context("cannot create a folder for the files of the bench")?;
    println!("{}", machine::describe(&child::version(folder.path())?)?);
    let points = fleet::points(args.samples);
    let is_chosen = |format: &Format| {
        args.formats.is_empty() || args.formats.iter().any(|name| format.name.starts_with(name))
    };
    let chosen = formats().into_iter().filter(is_chosen);
    let rows = BASELINES.into_iter().chain(chosen).enumerate().map(|(nth, format)| {
        let input = Input::new(&format, &points, &folder.path().join(nth.to_string()));
        let input = input.with_context(|| format.name)?;
        Ok(Row { format, input, decode: Vec::new(), trips: Vec::new() })
    });
    let mut rows = rows.collect::<anyhow::Result<Vec<_>>>()?;
    for _ in 0..args.runs {
        for row in &mut rows {
            row.measure(args.samples.into()).with_context(|| row.format.name)?;
        }
    }
    let samples = u64::from(args.samples);
    println!(
        "\n{} samples of {} devices in each format, the run of median CPU of {}; CPU is user and \
         system time of all threads\n\n{}",
        grouped(samples),
        fleet::DEVICES,
        args.runs,
        report(&rows, samples)
    );
    Ok(())
}

impl Row {
    fn measure(&mut self, samples: u64) -> anyhow::Result<()> {
        for with_trips in [false, true] {
            let (began, cpu) = (Instant::now(), own_cpu()?);
            let read = match with_trips {
                true => drive::build_trips(&self.format, &self.input)?,
                false => drive::decode(&self.format, &self.input)?,
            };
            let used = Used { wall: began.elapsed(), cpu: own_cpu()? - cpu };
            ensure!(read == samples, "{read} of {samples} samples were read");
            if with_trips { &mut self.trips } else { &mut self.decode }.push(used);
        }
        Ok(())
    }

    /// The most that it should cost, as a multiple of the baseline.
    fn target(&self) -> Option<f64> {
        match self.format.reader {
            Reader::Canonical | Reader::Feed => None,
            Reader::Schema(Encoding::Avro, _) => Some(1.0),
            // Those that are JSON.
            Reader::Preset(_) => {
                let is_json =
                    matches!(self.format.form, Form::Records(_) | Form::Files("geojson" | "rec"));
                is_json.then_some(1.5)
            }
            Reader::Schema(..) => None,
        }
    }
}

fn median(runs: &[Used]) -> Used {
    let mut runs = runs.to_vec();
    runs.sort_by_key(|used| used.cpu);
    runs[(runs.len() - 1) / 2]
}

fn report(rows: &[Row], samples: u64) -> String {
    let per_million = |used: Used| used.cpu.as_secs_f64() / ratio(samples, 1_000_000);
    let row = |row: &Row| {
        let is_file = matches!(row.format.form, Form::Files(_));
        let baseline = &rows[usize::from(is_file)];
        let (decode, trips) = (median(&row.decode), median(&row.trips));
        let times = |own: Used, other: &[Used]| per_million(own) / per_million(median(other));
        let (decode_times, trips_times) =
            (times(decode, &baseline.decode), times(trips, &baseline.trips));
        let target = row.target().map_or("-".into(), |most| {
            let met = if decode_times <= most { "met" } else { "missed" };
            format!("<= {most:.1}: {met}")
        });
        [
            row.format.name.to_owned(),
            format!("{:.0}", ratio(row.input.bytes, samples)),
            per_second(samples, decode.wall.as_secs_f64()),
            format!("{:.3}", per_million(decode)),
            format!("{decode_times:.2}"),
            target,
            format!("{:.3}", per_million(trips)),
            format!("{trips_times:.2}"),
        ]
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    let head = [
        "format",
        "bytes a sample",
        "decoded samples/s (wall)",
        "decode: CPU s per million",
        "times canonical",
        "target",
        "with trips: CPU s per million",
        "times canonical",
    ];
    table(head, &rows)
}
