//! `verify-trip`: checks whether a trip follows from its records, without a store.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use tstar_core::evidence::{Evidence, Verified};

use super::flags::{Format, ValueOutputFlags};
use super::print::Printer;
use crate::model::visible::visible;
use crate::ops::{BadData, NoResult};

const EXAMPLES: &str = "\
Examples:
  tstar verify-trip trip.json
  tstar verify-trip trip.json --json

Decides the trip again from the records and rules in the file alone: its ids, its span, its samples
and their log positions, its length and times. Exits 0 if it follows, 1 if it does not, 65 if the
file contradicts itself or is not such a file. The file has all records of the device within two
days of the trip, at most 1000000, as the one who made it says: records that were left out are not
excluded.";

/// Maximum size of a file, bytes: enough for [`MAX_RECORDS`](tstar_core::evidence::MAX_RECORDS).
const MAX_BYTES: u64 = 256 << 20;

/// What is said of every trip that follows.
const NOT_EXCLUDED: &str = "records that were left out of the file are not excluded";

/// Flags of `verify-trip`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VerifyTripArgs {
    /// What `tstar explain --evidence` printed; - is stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub output: ValueOutputFlags,
}

/// The answer. Clients parse it: names and order are fixed.
#[derive(Serialize)]
struct Answer<'a> {
    id: &'a str,
    follows: bool,
    #[serde(flatten)]
    verified: &'a Verified,
    note: &'static str,
}

/// Checks the trip of a file.
pub(crate) fn run(args: &VerifyTripArgs, printer: &mut Printer) -> anyhow::Result<()> {
    let name = args.file.display();
    let format = printer.format(&args.output);
    let text = read(&args.file).with_context(|| format!("cannot read `{name}`"))?;
    let verified = Evidence::from_json(&text).and_then(|it| Ok((it.verify()?, it)));
    let (verified, evidence) = verified.map_err(|error| {
        BadData(format!("`{name}` is refused: {:#}", anyhow::Error::new(error)))
    })?;
    let (id, follows) = (&*evidence.trip.id, verified.follows());
    match format {
        Format::Table => {
            for it in &verified.differences {
                let line =
                    format!("{}: the file says {}, {} follows", it.fact, it.said, it.follows);
                printer.line(&visible(&line))?;
            }
            if follows {
                let (records, kept) = (verified.records, verified.kept);
                printer.line(&format!(
                    "{} follows from {records} records, {kept} of them its samples; \
                     {NOT_EXCLUDED}\nrules {}",
                    visible(id),
                    verified.rules_hash
                ))?;
            }
        }
        _ => printer.json(&Answer { id, follows, verified: &verified, note: NOT_EXCLUDED })?,
    }
    match follows {
        true => Ok(()),
        false => Err(NoResult(format!(
            "the trip of `{name}` does not follow from its records and rules: it was changed, or \
             records are missing; write it again with tstar explain --evidence"
        ))
        .into()),
    }
}

/// The text of a file, or of stdin.
fn read(path: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes)?,
        _ => std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?,
    };
    if read as u64 > MAX_BYTES {
        return Err(BadData(format!("it has more than {MAX_BYTES} bytes")).into());
    }
    String::from_utf8(bytes).map_err(|_| BadData("it is not UTF-8".into()).into())
}
