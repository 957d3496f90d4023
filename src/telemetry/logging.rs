//! Log events on stderr, as text or JSON: always one line per event.

use std::fmt;
use std::io::{self, Stderr, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{DefaultFields, Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, Layer as Lines, layer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use crate::model::visible::{is_hidden, visible};

static ON: AtomicBool = AtomicBool::new(false);

/// Starts to log events as lines of text. Works once in a process; a second call changes nothing.
pub(crate) fn init_text() {
    init(stderr_lines().event_format(Text));
}

/// Starts to log events as JSON objects. Works once in a process; a second call changes nothing.
pub(crate) fn init_json() {
    let lines = stderr_lines()
        .with_writer(|| JsonText(io::stderr()))
        .json()
        .flatten_event(true)
        .with_target(false)
        .with_current_span(false)
        .with_span_list(false);
    init(lines);
}

fn init(lines: impl Layer<Registry> + Send + Sync) {
    // Events of the drivers are left out: the code that calls them logs what matters.
    let ours = Targets::new().with_target("tstar", LevelFilter::INFO);
    let subscriber = tracing_subscriber::registry().with(lines.with_filter(ours));
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        ON.store(true, Ordering::Release);
    }
}

/// Lines on stderr. A closed stderr is ignored.
fn stderr_lines() -> Lines<Registry, DefaultFields, Format, fn() -> Stderr> {
    layer().with_writer(io::stderr as fn() -> Stderr).with_ansi(false).log_internal_errors(false)
}

/// Target of audit lines: who changed or erased what, and who was refused. Their messages begin
/// with `audit: `, and their field `audit` names the action.
pub(crate) const AUDIT: &str = concat!(env!("CARGO_CRATE_NAME"), "::audit");

/// Target of the log lines of stores: the path of their module.
const STORES: &str = concat!(env!("CARGO_CRATE_NAME"), "::store");

/// Starts to print the library's warnings about stores as lines of text, for a one-shot command.
pub(crate) fn init_store_warnings() {
    let stores = Targets::new().with_target(STORES, LevelFilter::WARN);
    let lines = stderr_lines().event_format(Text).with_filter(stores);
    // A second call changes nothing, and would be the same.
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines)).ok();
}

/// Prints a status line on stderr, or logs it. A closed stderr is ignored.
pub(crate) fn print_status(line: &str) {
    if is_on() {
        tracing::info!("{line}");
    } else {
        // A status may have several lines; control characters of the input are made visible.
        let lines: Vec<_> = line.split('\n').map(visible).collect();
        writeln!(io::stderr(), "tstar: {}", lines.join("\n")).ok();
    }
}

/// Whether lines are logged as events.
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Acquire)
}

/// The text format: `tstar: `, the message and the error, if there is one. Other fields are for
/// programs; the message has what a person needs.
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
        let mut text = EventText::default();
        event.record(&mut text);
        let error = text.error.map(|error| format!(": {error}")).unwrap_or_default();
        writeln!(writer, "tstar: {}", visible(&(text.message + &error)))
    }
}

/// The fields of an event that the text format prints.
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

/// Escapes hidden characters in JSON: the format itself requires that of ASCII control characters
/// only.
struct JsonText<W>(W);

impl<W: io::Write> io::Write for JsonText<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut shown = String::with_capacity(line.len());
        for character in String::from_utf8_lossy(line).chars() {
            match character {
                '\n' => shown.push('\n'),
                character if is_hidden(character) => {
                    // JSON writes a character beyond U+FFFF as a surrogate pair.
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
    use super::*;

    #[test]
    fn json_escapes_hidden_characters_and_keeps_the_value() {
        let hostile = "a\nb\u{1b}[31mc\u{9b}d\u{7f}e\u{2028}f\u{202e}g\"\\ Zürich 東京 \u{e0041}";
        let line = serde_json::to_string(hostile).unwrap() + "\n";
        let mut shown = JsonText(Vec::new());
        shown.write_all(line.as_bytes()).unwrap();
        let shown = String::from_utf8(shown.0).unwrap();
        assert_eq!(shown.chars().filter(|it| is_hidden(*it)).collect::<String>(), "\n");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), hostile);
    }
}
