//! `export`: prints trips or their samples, by device id (in byte order), then start time.

use std::ffi::OsStr;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use indicatif::ProgressBar;

use super::flags::{Context, FilterFlags, KindFlag, PathFlag, ServerFlags, SpanFlags, ZoneFlag};
use super::print::Printer;
use super::progress::{is_shown, style};
use super::{exit, stop};
use crate::identity::DeviceId;
use crate::model::tag::TripTags;
use crate::model::visible::visible;
use crate::ops::export::{Selection, export};
use crate::ops::{BadData, Cancel, InvalidRequest, PartialResult, trip_list};
use crate::store::TripRow;
use crate::store::files;
use crate::store::files::NewFile;
use crate::store::skip::Missing;
use crate::views::{Extras, Form, FormSpec, TagValues, TripWriter, enumerated, tag_values};

const EXAMPLES: &str = "\
Examples:
  tstar export
  tstar export --format csv --prefix 202611
  tstar export --device truck-17 --format gpx
  tstar export --day 2026-11-20 --format geojson --out day.geojson
  tstar export --out trips.parquet
  tstar export --day 2026-11-20 --tz Europe/Berlin --format csv --points
  tstar export --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z --format csv --points

--from, --to and --day select trips that overlap the range, both ends inclusive; --prefix selects by
the t_star in the id. A trip is printed once, and whole, however many days it touches. Exits 65, and
writes no file, if a trip cannot be read.";

/// Flags of `export`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExportArgs {
    /// Only the trips of this device
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    #[command(flatten)]
    pub span: SpanFlags,
    #[command(flatten)]
    pub kind: KindFlag,
    #[command(flatten)]
    pub filter: FilterFlags,
    /// One row for each sample, with the id of its trip
    #[arg(long, conflicts_with = "path", help = points_help())]
    pub points: bool,
    /// Write to this file, which appears, or is replaced, once it is complete
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Leave malformed trips out, and exit 0 without them
    #[arg(long)]
    pub skip_malformed: bool,
    /// Output format [default: that of the suffix of --out, else ndjson]
    #[arg(long, value_name = "FORMAT", value_parser = form_parser())]
    pub format: Option<Form>,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    #[command(flatten)]
    pub path: PathFlag,
    #[command(flatten)]
    pub zone: ZoneFlag,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// The formats that a row for each sample can have.
fn point_forms() -> Vec<&'static str> {
    Form::names(FormSpec::has_points)
}

fn points_help() -> String {
    let forms = enumerated(&point_forms(), "and");
    format!("One row for each sample, with the id of its trip ({forms})")
}

/// The formats of an export: all but the table.
fn form_parser() -> impl TypedValueParser<Value = Form> {
    let value = |form: &Form| PossibleValue::new(form.spec().name).help(form.spec().help);
    PossibleValuesParser::new(Form::ALL.iter().map(value)).map(|name| {
        let named = Form::ALL.into_iter().find(|form| form.spec().name == name);
        named.expect("it is one of the possible values")
    })
}

/// Prints the selected trips, in bounded memory.
pub(crate) async fn run(
    args: &ExportArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let form = args.form()?;
    let settings = context.settings(&[&args.zone.0, &args.server.0])?;
    let (store, zone) = (settings.reader().await?, settings.tz);
    let device = args.device.as_deref().map(DeviceId::new).transpose()?;
    let (kinds, span) = (args.kind.kind, args.span.span(zone)?);
    let selection = Selection::new(device.clone(), kinds, span, args.filter.filter())?;
    if let Some(device) = &device {
        trip_list::check_known(&store, device).await?;
    }
    let Some(path) = &args.out else {
        let is_hidden = printer.is_terminal();
        let mut progress = ExportProgress::new(is_hidden, None);
        let mut writer = args.writer(printer.data(form)?, form)?.in_zone(zone);
        let left_out = export(&store, &selection, |trip| progress.write(trip, &mut writer)).await?;
        writer.finish()?;
        progress.finish(left_out.changed);
        return args.check(&left_out.missing);
    };
    let path = target(path)?;
    let failed = || format!("`{}` cannot be written", path.display());
    let cancel = stop::on_signals(PartialResult::Nothing)?;
    let new = NewFile::create(&path).with_context(failed)?;
    let mut out = BufWriter::with_capacity(1 << 16, new.file());
    let mut progress = ExportProgress::new(false, Some(cancel));
    let mut writer = args.writer(&mut out, form)?.in_zone(zone);
    let left_out = export(&store, &selection, |trip| progress.write(trip, &mut writer)).await?;
    writer.finish().with_context(failed)?;
    drop(out);
    args.check(&left_out.missing).with_context(failed)?;
    new.persist(&path).with_context(failed)?;
    progress.finish(left_out.changed);
    Ok(())
}

impl ExportArgs {
    /// The format, which must be able to hold what is asked for.
    fn form(&self) -> Result<Form, InvalidRequest> {
        let named = self.format.or(self.json.then_some(Form::Json));
        // A table needs its widest row first, so the default is NDJSON, on a terminal, too.
        let form = match &self.out {
            Some(out) => form_of(out, named)?,
            None => named.unwrap_or(Form::Ndjson),
        };
        self.path.check(form.into())?;
        if self.points && !form.spec().has_points() {
            let (name, forms) = (form.spec().name, enumerated(&point_forms(), "or"));
            let problem = format!("--points --format {name} is not supported by export");
            return Err(InvalidRequest(format!("{problem}; use {forms}")));
        }
        Ok(form)
    }

    /// Refuses an output without some trips, or reports them.
    fn check(&self, missing: &Missing) -> anyhow::Result<()> {
        match missing.problem() {
            Some(problem) if self.skip_malformed => exit::print_status(&problem),
            Some(problem) => {
                let hint = "or add --skip-malformed";
                return Err(BadData(format!("{problem}; {hint}")).into());
            }
            None => (),
        }
        Ok(())
    }

    fn writer<W: Write>(&self, out: W, form: Form) -> anyhow::Result<TripWriter<W>> {
        if self.points {
            return Ok(TripWriter::points(out, form)?);
        }
        let writer = TripWriter::new(out, form, self.path.detail())?;
        Ok(writer.expecting(Extras::tagged(TagValues::new())))
    }
}

/// The format of a file: the named one, else that of its suffix. They must not contradict.
fn form_of(out: &Path, named: Option<Form>) -> Result<Form, InvalidRequest> {
    let Some(suffix) = out.extension().and_then(OsStr::to_str) else {
        return Ok(named.unwrap_or(Form::Ndjson));
    };
    let (file, of_suffix) = (out.display(), Form::of_suffix(suffix));
    let problem = match (named, of_suffix) {
        (Some(named), Some(_)) if !named.spec().has_suffix(suffix) => {
            let FormSpec { name, suffixes, .. } = named.spec();
            format!(
                "`--out {file}` does not have a suffix of format {name}; leave out --format and \
                 --json for the format of .{suffix}, or name the file .{}",
                suffixes[0]
            )
        }
        (None, None) => format!(
            "`--out {file}`: .{suffix} is not the suffix of a format; add --format with {}",
            enumerated(&Form::names(|_| true), "or")
        ),
        (Some(form), _) | (None, Some(form)) => return Ok(form),
    };
    Err(InvalidRequest(problem))
}

/// The file to write: of a symbolic link, the file that it leads to. Only a regular file is
/// replaced, and no database: most likely it is a store.
fn target(path: &Path) -> anyhow::Result<PathBuf> {
    let Ok(meta) = path.metadata() else { return Ok(path.to_owned()) };
    let problem = if !meta.is_file() {
        "is not a regular file; leave out --out and redirect the output"
    } else if files::is_foreign_link(path) {
        "is a symbolic link of another user; name the file that it leads to"
    } else if files::is_database(path)? {
        "is a database, such as a store; name another file, or remove this one"
    } else {
        return Ok(path.canonicalize()?);
    };
    Err(InvalidRequest(format!("`{}` {problem}", path.display())).into())
}

/// The progress of an export, on a terminal's stderr.
struct ExportProgress {
    bar: ProgressBar,
    cancel: Option<Cancel>,
    trips: u64,
    samples: u64,
}

impl ExportProgress {
    /// Hidden also where stderr is not a terminal.
    fn new(is_hidden: bool, cancel: Option<Cancel>) -> Self {
        let bar = match is_hidden || !is_shown() {
            true => ProgressBar::hidden(),
            false => ProgressBar::new_spinner().with_style(style("{spinner} {msg}")),
        };
        Self { bar, cancel, trips: 0, samples: 0 }
    }

    /// Writes a trip and counts it.
    fn write<W: Write>(
        &mut self,
        (row, tags): (&TripRow, &TripTags),
        writer: &mut TripWriter<W>,
    ) -> anyhow::Result<()> {
        let extras = Extras::tagged(tag_values(tags));
        writer.write(row, &extras)?;
        self.trips += 1;
        self.samples += u64::try_from(row.samples).unwrap_or_default();
        if !self.bar.is_hidden() {
            let (trips, samples, device) = (self.trips, self.samples, &row.device_id);
            let device = visible(device);
            self.bar.set_message(format!("{trips} trips, {samples} samples, at {device}"));
            self.bar.tick();
        }
        let stopped = self.cancel.as_ref().and_then(|it| it.stopped(PartialResult::Nothing));
        stopped.map_or(Ok(()), |stopped| Err(stopped.into()))
    }

    /// Removes the bar, and reports trips that changed too fast to be printed once and whole.
    fn finish(self, changed: u64) {
        self.bar.finish_and_clear();
        if changed > 0 {
            exit::print_status(&format!(
                "{changed} trips changed while their device was read, and are not in the output; \
                 run it again for them"
            ));
        }
    }
}
