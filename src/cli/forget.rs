//! `forget`: erase the trips of a device, or of all devices, that ended before a time.

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;

use super::flags::{BrokerFlags, Context, KeyFlag, ServerFlags, clock_ms};
use super::print::Printer;
use super::times::parse_flag_time;
use super::{confirm, exit};
use crate::identity::DeviceId;
use crate::log::forget::{ForgetEvent, ForgetRequest, SendFailed};
use crate::model::control::ControlKey;
use crate::model::scalar::DeviceTime;
use crate::model::time::{format_time, parse_duration};
use crate::model::zone::Zone;
use crate::ops::InvalidRequest;
use crate::ops::forget::{self, AuditLine};
use crate::settings::Settings;

const EXAMPLES: &str = "\
Examples:
  tstar forget truck-17 --yes
  tstar forget truck-17 --before 2026-11-01T00:00:00Z --yes --store sqlite:trips.db
  tstar forget truck-17 --yes --brokers 127.0.0.1:9092 --store scylla://127.0.0.1:9042/fleet --wait
  tstar forget --all-before 2026-05-01T00:00:00Z --yes
  tstar forget --new-key ops-2026

Erases the trips that ended before the time; from then on, samples older than it are dropped, also
by replays and imports. A trip that extends past the time stays whole. Erased ids answer `gone`. The
time may be at most max_future of the store's rules ahead of the clock: no trip is later. One over
ten years past the last sample needs --beyond-data: a wrong clock would drop all samples until then.
Requires confirmation on a terminal, or --yes. A store of files is erased from at once. For a store
of a topic, one control record per device is sent to the topic (--topic; default: the store's), and
`tstar run` erases; --wait waits for that. The topic, its change feed and its dead letters keep the
samples until their own retention ends.
A control record counts only with a signature of the first key in --control-key-file; every `tstar
run` needs that key in its own file. --new-key only prints a new key as a line of such a file.
Prints on stderr what it will erase, then a line per device: {\"forgot\" or \"requested\": device,
\"before\", \"partition\", \"offset\", \"version\", \"at\", \"by\"}; `at` is the clock, `by` the user (USER
or LOGNAME) or null; with --wait first `requested`, later `forgot`. Exits 1 if a store of files has
no trip of the device, if the confirmation is refused, or if --wait-timeout expires. It is safe to
rerun.";

/// Flags of `forget`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ForgetArgs {
    /// Device id
    #[arg(required_unless_present_any = ["all_before", "new_key"], conflicts_with = "all_before")]
    pub device: Option<String>,
    /// Erase trips that ended before it: RFC 3339, or ms since 1970 [default: now]
    #[arg(long, value_name = "TIME", conflicts_with = "all_before")]
    pub before: Option<String>,
    /// Erase trips of every device that ended before it
    #[arg(long, value_name = "TIME")]
    pub all_before: Option<String>,
    /// Print a new control key of this name, for a key file
    #[arg(long, value_name = "NAME", conflicts_with_all = ["device", "before", "all_before"])]
    pub new_key: Option<String>,
    /// Accept a time over ten years past the last sample
    #[arg(long)]
    pub beyond_data: bool,
    /// Skip the confirmation; required without a terminal
    #[arg(long)]
    pub yes: bool,
    /// Wait until the trips are erased
    #[arg(long)]
    pub wait: bool,
    /// Time limit of --wait
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub wait_timeout: String,
    #[command(flatten)]
    pub key: KeyFlag,
    #[command(flatten)]
    pub topic: BrokerFlags,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Erases, or sends the control records that do.
pub(crate) async fn run(
    args: &ForgetArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    if let Some(name) = &args.new_key {
        let key = ControlKey::generate(name).map_err(|error| InvalidRequest(error.to_string()))?;
        return Ok(printer.line(&key.to_line())?);
    }
    let settings = context.settings(&[&args.key.0, &args.topic.0, &args.server.0])?;
    let limit_ms = parse_duration(&args.wait_timeout)?;
    let request = request(args, &settings)?;
    let store = settings.reader().await?;
    let plan = forget::prepare(&request, store).await?;
    if !args.yes {
        confirm::erasure(&request.description(), request.device.as_deref()).await?;
    }
    let bar = progress(&request);
    let mut on_event = |event: ForgetEvent<'_>| -> anyhow::Result<()> {
        match event {
            ForgetEvent::Begin => bar.suspend(|| print_intent(&request, context)),
            ForgetEvent::Notice(line) => bar.suspend(|| exit::print_status(line)),
            ForgetEvent::Devices(devices) => bar.set_position(devices as u64),
            ForgetEvent::Records { state, records } => {
                for record in records {
                    let (at_ms, user) = (clock_ms(), context.user.as_deref());
                    let line = AuditLine::new(&request, record, state, at_ms, user);
                    printer.json(&line)?;
                }
                // What is done is printed, whatever comes next.
                printer.flush()?;
            }
        }
        Ok(())
    };
    let forgotten = plan.carry_out(&mut on_event).await.map_err(interrupted)?;
    bar.finish_and_clear();
    exit::print_status(&plan.summary(forgotten.devices));
    if !args.wait {
        return Ok(());
    }
    let timeout = Duration::from_millis(limit_ms.unsigned_abs());
    plan.wait(&forgotten.pending, timeout, &mut on_event).await
}

fn request<'a>(args: &ForgetArgs, settings: &'a Settings) -> anyhow::Result<ForgetRequest<'a>> {
    let device = args.device.as_deref().map(DeviceId::new).transpose()?;
    let before = args.before.as_deref().map(|text| ("--before", text));
    let before = before.or(args.all_before.as_deref().map(|text| ("--all-before", text)));
    let before_ms =
        before.map(|(flag, text)| parse_flag_time(flag, text, Zone::UTC)).transpose()?;
    Ok(ForgetRequest {
        device,
        before_ms: DeviceTime(before_ms.unwrap_or(settings.now_ms)),
        beyond_data: args.beyond_data,
        settings,
    })
}

/// Prints what is about to be erased before anything is: even if the command is killed before it
/// prints a result, the attempt is on record.
fn print_intent(request: &ForgetRequest<'_>, context: &Context) {
    let (at, what) = (format_time(clock_ms()), request.description());
    let by = context.user.as_ref().map_or_else(String::new, |user| format!(" for `{user}`"));
    exit::print_status(&format!("at {at}{by}: erasing {what}"));
}

/// Adds what remains of the work if the brokers went away.
fn interrupted(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<SendFailed>() {
        Ok(SendFailed { error, records }) => {
            let partial = format!(
                "the devices printed are requested, and some of the next {records} may be; rerun \
                 to request all, which erases the same"
            );
            exit::with_partial_result(error, &partial)
        }
        Err(error) => error,
    }
}

/// Counts devices on a terminal, if there are several.
fn progress(request: &ForgetRequest<'_>) -> ProgressBar {
    match request.device.is_none() && std::io::stderr().is_terminal() {
        true => ProgressBar::new_spinner().with_message("devices"),
        false => ProgressBar::hidden(),
    }
}
