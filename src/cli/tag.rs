//! `tag`: shows, sets and removes the tags of a trip or device.

use std::str::FromStr;

use clap::Args;

use super::flags::{Context, LetterFlags, ValueOutputFlags};
use super::print::Printer;
use crate::identity::{AnyId, DeviceId};
use crate::log::changes::TagFeed;
use crate::model::tag::{TagKey, TagProblem, TagValue};
use crate::ops::tags::{self, TagCondition, TagError, TagTarget, TagWriter};
use crate::ops::{InvalidRequest, NoResult};
use crate::ops::{lookup, trip_list};
use crate::store::Kinds;
use crate::views::{TagJson, TripTagJson, trip_tags};

const EXAMPLES: &str = "\
Examples:
  tstar tag truck-17~20261120T213800.123Z
  tstar tag truck-17~20261120T213800.123Z purpose=business note=toll
  tstar tag truck-17~20261120T213800.123Z --remove purpose
  tstar trips truck-17 --tag purpose=business
  tstar tag --device truck-17 name=Van-3 group=north

Any id that the trip ever had works, in any form. Prints the tags afterwards.";

/// Flags of `tag`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TagArgs {
    /// Trip id: text, bytes (base32hex) or UUID; with --device, a device id
    pub id: String,
    /// Tag the device instead of a trip
    #[arg(long)]
    pub device: bool,
    /// Tags to set: up to 64 keys of A-Z a-z 0-9 . _ - each, values of up to 4096 bytes
    #[arg(value_name = "KEY=VALUE")]
    pub tags: Vec<Assignment>,
    /// Remove this key, of a trip at every id that it had
    #[arg(long, value_name = "KEY")]
    pub remove: Vec<TagKey>,
    #[command(flatten)]
    pub output: ValueOutputFlags,
    #[command(flatten)]
    pub cluster: LetterFlags,
}

/// A key and its new value.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    key: TagKey,
    value: TagValue,
}

impl FromStr for Assignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((key, value)) = text.split_once('=') else {
            return Err(format!("`{text}` has no value; write KEY=VALUE"));
        };
        let parse = || -> Result<Self, TagProblem> {
            Ok(Self { key: key.parse()?, value: TagValue::new(value)? })
        };
        parse().map_err(|problem| problem.to_string())
    }
}

/// Changes the tags of a trip or device, then prints them.
pub(crate) async fn run(
    args: &TagArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let settings = context.settings(&[&args.cluster.0])?;
    let store = settings.reader().await?;
    let feed = TagFeed::of_store(&store, || settings.brokers()).await?;
    let format = printer.format(&args.output);
    let fresh = lookup::of_store(&store);
    let (id, target) = if args.device {
        let device = DeviceId::new(&*args.id)?;
        trip_list::check_known(&store, &device).await?;
        (None, tags::find_device(&fresh, &device).await.map_err(explained)?)
    } else {
        let found = lookup::by_id(&store, &args.id, Kinds::Trips).await?;
        (Some(AnyId::parse(&args.id)?), TagTarget::new(&found.row, found.t_star_ms))
    };
    let id = id.as_ref().map(|id| (&*args.id, id));
    let mut tags = TagWriter { store: fresh, feed: feed.as_ref(), id, target };
    for key in &args.remove {
        tags.remove(key, TagCondition::Any).await.map_err(explained)?;
    }
    for Assignment { key, value } in &args.tags {
        let set = tags.set((key, value), TagCondition::Any, settings.now_ms).await;
        set.map_err(explained)?;
    }
    let target = tags.target;
    let found = tags::of_target(&store, &target).await?;
    let columns = ["key", "value", "time", "id", "superseded"];
    printer.rows(&trip_tags(&target.device_id, &found)?, format, columns, cells)
}

/// An error with its exit code.
fn explained(error: TagError) -> anyhow::Error {
    match error {
        TagError::Store(error) => error.into(),
        TagError::TooMany => InvalidRequest(error.to_string()).into(),
        TagError::Announce(error) => (*error).into(),
        TagError::Random(_) | TagError::View(_) => error.into(),
        TagError::Changed(_)
        | TagError::None(_)
        | TagError::Contended
        | TagError::NoTrip(_)
        | TagError::NoDevice(_) => NoResult(error.to_string()).into(),
    }
}

fn cells(it: &TripTagJson) -> [String; 5] {
    let id = |tag: &TagJson| tag.id.clone().unwrap_or_default();
    let older = it.superseded.iter().map(|older| format!("{} ({})", older.value, id(older)));
    let older = older.collect::<Vec<_>>().join(", ");
    [it.key.clone(), it.tag.value.clone(), it.tag.time.clone(), id(&it.tag), older]
}
