//! `forget`: erase the trips of a device, or of all devices, that ended before a time.

mod confirm;
mod file;
mod topic;

use std::io::IsTerminal;
use std::time::Duration;
use tstar::ops::{InvalidRequest, NoResult};

use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use tstar::identity::check_device_id;
use tstar::model::control::ControlKey;
use tstar::model::rules::Rules;
use tstar::model::time::{format_duration, format_time, parse_duration, parse_time};
use tstar::settings::{Origins, Settings};
use tstar::store::EpochStore;

use super::exit;
use super::flags::{BrokerFlags, Context, KeyFlag, ServerFlags, clock_ms};
use super::open;
use super::print::Printer;

const EXAMPLES: &str = "\
Examples:
  tstar forget truck-17 --yes
  tstar forget truck-17 --before 2026-11-01T00:00:00Z --yes --store sqlite:trips.db
  tstar forget truck-17 --yes --brokers 127.0.0.1:9092 --store scylla://127.0.0.1:9042/fleet --wait
  tstar forget --all-before 2026-05-01T00:00:00Z --yes
  tstar forget --new-key ops-2026

Trips that ended before the time go, and samples older than it are dropped from then on, replays
and imports included. A trip that reaches past the time stays whole. Ids of what went answer `gone`.
The time may lie ahead of the clock by max_future of the store's rules: no trip lies beyond that.
Asks on a terminal; elsewhere --yes is needed. A store of files is erased from at once. One of a
topic is asked to: a control record a device goes into the topic (the store's, where --topic is not
given), and `tstar run` carries it out; --wait waits for that. Topic, feed and dead letters hold the
samples until their own retention ends.
A control record counts only with a signature: by the first key of --control-key-file, which every
`tstar run` has to have in its own. --new-key prints a new key as a line of such a file, and does
nothing else.
Says on stderr what it is about to erase, then prints a line a device: {\"forgot\" or \"asked\": device, \"before\", \"partition\", \"offset\",
\"version\", \"at\", \"by\"}; `at` is the clock, `by` who ran it (USER or LOGNAME), else null; with
--wait `asked` and later `forgot`. Exits 1 where a store of files has no trip of the device, where
the answer is no, and where --wait-timeout is over. Stopped and run again, it erases the same.";

/// Flags of `forget`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ForgetArgs {
    /// Device id
    #[arg(required_unless_present_any = ["all_before", "new_key"], conflicts_with = "all_before")]
    pub device: Option<String>,
    /// Trips that ended before it go: RFC 3339, or ms since 1970 [default: now]
    #[arg(long, value_name = "TIME", conflicts_with = "all_before")]
    pub before: Option<String>,
    /// The same for every device
    #[arg(long, value_name = "TIME")]
    pub all_before: Option<String>,
    /// Print a new control key of this name, for a key file
    #[arg(long, value_name = "NAME", conflicts_with_all = ["device", "before", "all_before"])]
    pub new_key: Option<String>,
    /// Do not ask; needed where there is no terminal to ask on
    #[arg(long)]
    pub yes: bool,
    /// Wait until the trips are erased
    #[arg(long)]
    pub wait: bool,
    /// How long, at most
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub wait_timeout: String,
    #[command(flatten)]
    pub key: KeyFlag,
    #[command(flatten)]
    pub topic: BrokerFlags,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// What is to be erased, and how.
struct ForgetJob<'a> {
    /// `None`: every device.
    device: Option<&'a str>,
    before_ms: i64,
    yes: bool,
    /// How long to wait for it to be carried out.
    wait: Option<Duration>,
    settings: &'a Settings,
    origins: &'a Origins,
    context: &'a Context,
}

/// The line that tells what was done. Others parse it: names and order are fixed.
#[derive(Serialize)]
struct Audit<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    forgot: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<&'a str>,
    before: String,
    partition: i32,
    offset: Option<i64>,
    version: Option<i64>,
    at: String,
    by: Option<&'a str>,
}

/// A control record in the log.
struct Sent {
    device: String,
    partition: i32,
    offset: Option<i64>,
    version: Option<i64>,
}

/// Whether a record was carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Asked,
    Done,
}

/// Erases, or asks the log to.
pub async fn run(
    args: &ForgetArgs,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    if let Some(name) = &args.new_key {
        let key = ControlKey::generate(name).map_err(|error| InvalidRequest(error.to_string()))?;
        return Ok(printer.line(&key.to_line())?);
    }
    let flags = [&args.key.0[..], &args.topic.0, &args.server.0].concat();
    let (settings, origins) = context.settings(&flags)?;
    let limit_ms = parse_duration(&args.wait_timeout)?;
    let given = args.before.as_deref().or(args.all_before.as_deref());
    if let Some(device) = &args.device {
        check_device_id(device)?;
    }
    let job = ForgetJob {
        device: args.device.as_deref(),
        before_ms: given.map_or(Ok(context.now_ms), parse_time)?,
        yes: args.yes,
        wait: args.wait.then(|| Duration::from_millis(limit_ms.unsigned_abs())),
        settings: &settings,
        origins: &origins,
        context,
    };
    let reader = open::reader(&settings, context).await?;
    let epochs = reader.epochs().await?;
    match (epochs.last(), reader.embedded()) {
        (Some(newest), _) => {
            job.check_before(&newest.rules)?;
            topic::request_forget(&job, &reader, newest, printer).await
        }
        (None, Some(_)) => file::erase(&job, reader, printer).await,
        (None, None) => {
            let place = &settings.store;
            let reason = format!("store `{place}` has no epoch: no topic was read into it");
            Err(NoResult(reason).into())
        }
    }
}

impl ForgetJob<'_> {
    /// Refuses a time at which no trip can be, so a slip for another one.
    fn check_before(&self, rules: &Rules) -> Result<(), InvalidRequest> {
        let before = format_time(self.before_ms);
        if self.before_ms < 0 {
            return Err(InvalidRequest(format!(
                "{before} is before 1970: no trip is as old as that"
            )));
        }
        let ahead_ms = rules.max_future_ms;
        if self.before_ms > self.context.now_ms.saturating_add(ahead_ms) {
            return Err(InvalidRequest(format!(
                "{before} is more than max_future, {}, ahead of the clock: no trip is, and every \
                 sample up to then would be dropped",
                format_duration(ahead_ms)
            )));
        }
        Ok(())
    }

    /// What would be erased, for a person.
    fn what(&self) -> String {
        let (before, store) = (format_time(self.before_ms), &self.settings.store);
        let whose = match self.device {
            Some(device) => format!("device `{device}`"),
            None => "every device".to_owned(),
        };
        format!("the trips of {whose} that ended before {before} from store `{store}`")
    }

    async fn confirm(&self) -> anyhow::Result<()> {
        if self.yes {
            return Ok(());
        }
        confirm::on_terminal(&self.what(), self.device).await
    }

    /// Tells what is about to be done, before anything of it is: whatever comes next, even a kill
    /// between the erasure and its line, is told of.
    fn intend(&self) {
        let (at, by) = (format_time(clock_ms()), self.context.user.as_deref());
        let by = by.map_or_else(String::new, |user| format!(" for `{user}`"));
        exit::print_status(&format!("at {at}{by}: erasing {}", self.what()));
    }

    fn report(&self, sent: &Sent, state: State, printer: &mut Printer<'_>) -> anyhow::Result<()> {
        let device = Some(sent.device.as_str());
        let line = Audit {
            forgot: device.filter(|_| state == State::Done),
            asked: device.filter(|_| state == State::Asked),
            before: format_time(self.before_ms),
            partition: sent.partition,
            offset: sent.offset,
            version: sent.version,
            at: format_time(clock_ms()),
            by: self.context.user.as_deref(),
        };
        Ok(printer.line(&serde_json::to_string(&line)?)?)
    }
}

/// Counts devices where a person watches.
fn progress() -> ProgressBar {
    match std::io::stderr().is_terminal() {
        true => ProgressBar::new_spinner().with_message("devices"),
        false => ProgressBar::hidden(),
    }
}
