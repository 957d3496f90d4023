//! Lines of the text format, for metrics that are computed on scrape.

use std::fmt::Write;

use super::Metric;

/// Writes a metric with its values by labels; writes nothing if there are no values.
pub(super) fn family<'a, const LABELS: usize>(
    text: &mut String,
    name: &str,
    values: impl IntoIterator<Item = ([(&'a str, &'a str); LABELS], f64)>,
) {
    let mut values = values.into_iter().peekable();
    let (Some(metric), Some(_)) = (Metric::by_name(name), values.peek()) else { return };
    let kind = metric.kind.name();
    let mut put = |line: std::fmt::Arguments<'_>| {
        text.write_fmt(line).expect("writing to a String cannot fail");
    };
    put(format_args!("# HELP {name} {}\n# TYPE {name} {kind}\n", metric.help));
    for (labels, value) in values {
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        match labels.as_slice() {
            [] => put(format_args!("{name} {value}\n")),
            labels => put(format_args!("{name}{{{}}} {value}\n", labels.join(","))),
        }
    }
    put(format_args!("\n"));
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
