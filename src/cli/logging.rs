//! What a program that runs on and on says: entries on stderr, one line each whatever is in them,
//! as text or as JSON.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber, error, info, warn};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, layer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;

use tstar::kafka::consumer::ConsumerEvent;
use tstar::model::visible::{is_hidden, visible};
use tstar::pipeline::daemon::DaemonEvent;
use tstar::settings::LogFormat;

static ON: AtomicBool = AtomicBool::new(false);

/// Lines from now on are entries of this form. Once in the life of the process; a second call
/// changes nothing.
pub fn init_logging(format: LogFormat) {
    // Those of the drivers are theirs; what matters of them is told by those who use them.
    let ours = Targets::new().with_target("tstar", LevelFilter::INFO);
    // A closed stderr is no reason to stop, let alone to panic.
    let lines = layer().with_writer(std::io::stderr).with_ansi(false).log_internal_errors(false);
    let lines = match format {
        LogFormat::Text => lines.event_format(Text).boxed(),
        LogFormat::Json => lines
            .with_writer(|| JsonText(std::io::stderr()))
            .json()
            .flatten_event(true)
            .with_target(false)
            .with_current_span(false)
            .with_span_list(false)
            .boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(lines.with_filter(ours));
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        ON.store(true, Ordering::Release);
    }
}

/// What the library logs of a store from now on is a line of text, of a command that ends.
pub fn begin_notes() {
    let of_stores = Targets::new().with_target("tstar::store", LevelFilter::WARN);
    let lines = layer().with_writer(std::io::stderr).with_ansi(false).log_internal_errors(false);
    let lines = lines.event_format(Text).with_filter(of_stores);
    // Of two only the first counts, and it is the same.
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines)).ok();
}

/// Whether lines are entries.
pub fn is_on() -> bool {
    ON.load(Ordering::Acquire)
}

/// An entry of what the daemon tells.
pub fn log_event(notice: &DaemonEvent) {
    match notice {
        DaemonEvent::Consumer(ConsumerEvent::Stopped { partition, .. }) => {
            error!(partition, "{notice}")
        }
        DaemonEvent::Consumer(
            ConsumerEvent::Assigned { partition, .. }
            | ConsumerEvent::Revoked { partition, late: false, .. },
        ) => {
            info!(partition, "{notice}");
        }
        DaemonEvent::Consumer(
            ConsumerEvent::Revoked { partition, .. }
            | ConsumerEvent::Lost { partition }
            | ConsumerEvent::Expired { partition, .. },
        ) => warn!(partition, "{notice}"),
        _ => warn!("{notice}"),
    }
}

/// The text form: `tstar: `, the message and the error, where there is one; other fields are for
/// programs, and the message says what a person needs of them.
struct Text;

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut said = EventText::default();
        event.record(&mut said);
        let error = said.error.map(|error| format!(": {error}")).unwrap_or_default();
        writeln!(writer, "tstar: {}", visible(&(said.message + &error)))
    }
}

/// What an event says to a person.
#[derive(Default)]
struct EventText {
    message: String,
    error: Option<String>,
}

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "error" => self.error = Some(format!("{value:?}")),
            _ => (),
        }
    }
}

/// JSON whose strings show as they read: JSON asks for the escapes of old control characters alone.
struct JsonText<W>(W);

impl<W: io::Write> io::Write for JsonText<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut shown = String::with_capacity(line.len());
        for character in String::from_utf8_lossy(line).chars() {
            match character {
                '\n' => shown.push('\n'),
                character if is_hidden(character) => {
                    // As JSON writes it: beyond four hex digits it is a pair.
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        shown.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                character => shown.push(character),
            }
        }
        self.0.write_all(shown.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use io::Write as _;

    use super::*;

    #[test]
    fn json_shows_as_it_reads_and_means_what_it_meant() {
        let hostile = "a\nb\u{1b}[31mc\u{9b}d\u{7f}e\u{2028}f\u{202e}g\"\\ Zürich 東京 \u{e0041}";
        let line = serde_json::to_string(hostile).unwrap() + "\n";
        let mut shown = JsonText(Vec::new());
        shown.write_all(line.as_bytes()).unwrap();
        let shown = String::from_utf8(shown.0).unwrap();
        assert_eq!(shown.chars().filter(|it| is_hidden(*it)).collect::<String>(), "\n");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), hostile);
    }
}
