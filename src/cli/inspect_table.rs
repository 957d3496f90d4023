//! The table of `inspect`, with bar charts.

use super::print::Printer;
use super::table;
use crate::advice::about;
use crate::model::visible::visible;
use crate::ops::inspect::{
    FieldFound, FileFound, InputFound, InspectOutcome, IntervalBin, Proposal, Spread, TripsUnder,
};

/// Width of the longest bar, characters.
const BAR: usize = 30;

/// Prints what was found, for people.
pub(crate) fn print(
    outcome: &InspectOutcome,
    (command, partial): (Option<&str>, Option<&str>),
    printer: &mut Printer,
) -> anyhow::Result<()> {
    for line in input(&outcome.input) {
        printer.line(&visible(&line))?;
    }
    printer.line("")?;
    let pairs = pairs(outcome);
    printer.line(&table::pairs(&pairs))?;
    if !outcome.fields.is_empty() {
        printer.line("\nFields:")?;
        printer.line(&fields(outcome))?;
    }
    if !outcome.histogram.is_empty() {
        printer.line("\nIntervals between samples of a device:")?;
        for line in chart(&outcome.histogram) {
            printer.line(&line)?;
        }
    }
    if !outcome.dead_letters.is_empty() {
        printer.line("\nCannot be used:")?;
        for (reason, dead) in &outcome.dead_letters {
            let first = &dead.first;
            let origin = match first.line {
                0 => first.origin.clone(),
                line => format!("{}:{line}", first.origin),
            };
            let text = format!("  {reason} ({}), first {origin}: {}", dead.count, first.message);
            printer.line(&visible(&text))?;
        }
    }
    for note in &outcome.notes {
        printer.line(&format!("\nNote: {}", visible(note)))?;
    }
    match command {
        Some(command) => {
            printer.line(&format!("\nCommand:\n  {}", visible(command)))?;
            for Proposal { flag, value, why } in &outcome.flags {
                let value = value.as_deref().filter(|value| value.len() <= BAR);
                let flag = value.map_or((*flag).to_owned(), |value| format!("{flag} {value}"));
                printer.line(&visible(&format!("  {flag}: {why}")))?;
            }
            printer.line("\nTrips of these records, by rules:")?;
            printer.line(&trips_under(&outcome.trips_under))?;
        }
        None => {
            for line in unread(outcome, partial) {
                printer.line(&visible(&line))?;
            }
        }
    }
    Ok(())
}

fn input(input: &InputFound) -> Vec<String> {
    match input {
        InputFound::Files { files, files_not_read } => {
            let file = |file: &FileFound| {
                let FileFound { name, format, encoding, compression, bytes, whole } = file;
                let format = format.unwrap_or("format not known");
                let compression = compression.map_or_else(String::new, |it| format!(", {it}"));
                let part = if *whole { "" } else { " (its beginning)" };
                format!("{name}: {format}, {encoding}{compression}, {bytes} bytes{part}")
            };
            let more = (*files_not_read > 0).then(|| format!("files not read: {files_not_read}"));
            files.iter().map(file).chain(more).collect()
        }
        InputFound::Topic { topic, partitions, partitions_read, log_records } => vec![format!(
            "topic {topic}: the first {log_records} records, of {partitions_read} of {partitions} \
             partitions"
        )],
    }
}

fn pairs(outcome: &InspectOutcome) -> Vec<(&'static str, String)> {
    let mut pairs = Vec::new();
    let reads = match (outcome.reads, outcome.preset) {
        (Some(_), Some(preset)) => format!("preset {preset}"),
        (Some(reads), None) => reads.to_owned(),
        (None, _) => "nothing that is known".to_owned(),
    };
    pairs.push(("read by", reads));
    let dead: u64 = outcome.dead_letters.values().map(|dead| dead.count).sum();
    let dropped: u64 = outcome.dropped.values().sum();
    let InspectOutcome { records, samples, skipped, .. } = outcome;
    let records = format!(
        "{records}: {samples} samples, {skipped} skipped, {dropped} dropped, {dead} cannot be used"
    );
    pairs.push(("records", records));
    if *samples == 0 {
        return pairs;
    }
    pairs.push(("devices", outcome.devices.to_string()));
    if let (Some(from), Some(to)) = (&outcome.from, &outcome.to) {
        pairs.push(("times", format!("{from} to {to}")));
    }
    pairs.push(("intervals", spread(&outcome.intervals)));
    let late = &outcome.late;
    let late = format!("{:.1} % of samples; {}", late.share * 100.0, spread(&late.behind));
    pairs.push(("late", late));
    let heartbeat = match &outcome.heartbeat {
        Some(it) => format!("every {} at {} stops", about(it.interval_s), it.stops),
        None => "none: no device keeps sending while it stands".into(),
    };
    pairs.push(("heartbeat", heartbeat));
    let zero = format!("{}; dropped unless --keep-zero-position is set", outcome.zero_positions);
    pairs.push(("at (0,0)", if outcome.zero_positions > 0 { zero } else { "0".into() }));
    pairs.push(("jumps", outcome.jumps.to_string()));
    if let Some(speed) = &outcome.speed {
        let unit = speed.unit.map_or("no unit explains it".into(), |unit| format!("unit {unit}"));
        pairs.push((
            "speed",
            format!(
                "{:.2} times that along the track, read as {} ({} legs): {unit}",
                speed.factor, speed.read_as, speed.legs
            ),
        ));
    }
    pairs
}

fn spread(spread: &Spread) -> String {
    match (spread.median_s, spread.p95_s, spread.max_s) {
        (Some(median), Some(p95), Some(max)) => {
            format!("median {}, 95 % within {}, longest {}", about(median), about(p95), about(max))
        }
        _ => "none".into(),
    }
}

fn fields(outcome: &InspectOutcome) -> String {
    let row = |it: &FieldFound| {
        let from = it.from.clone().unwrap_or_default();
        [it.field.to_owned(), from, it.unit.unwrap_or_default().to_owned(), it.samples.to_string()]
    };
    let rows: Vec<_> = outcome.fields.iter().map(row).collect();
    table::rows(["field", "from", "unit", "samples"], &[3], &rows)
}

fn trips_under(rows: &[TripsUnder]) -> String {
    let row = |it: &TripsUnder| {
        [
            it.rules.to_owned(),
            it.trips.to_string(),
            it.trips_per_device_day.to_string(),
            it.median_s.map_or_else(String::new, about),
            it.short_trips.to_string(),
            it.flags.clone(),
        ]
    };
    let columns = ["rules", "trips", "a day a device", "median", "under 100 m", "flags"];
    let rows: Vec<_> = rows.iter().map(row).collect();
    table::rows(columns, &[1, 2, 3, 4], &rows)
}

/// A line for each bin, with a bar.
fn chart(bins: &[IntervalBin]) -> Vec<String> {
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0).max(1);
    let line = |bin: &IntervalBin| {
        let name = bin.upto_s.map_or("more".into(), |upto| format!("up to {}", about(upto)));
        let eighths = usize::try_from(bin.count * (BAR as u64) * 8 / most).unwrap_or(0);
        let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
        let least = if bin.count > 0 && eighths == 0 { "▏" } else { rest };
        let bar = "█".repeat(eighths / 8) + least;
        format!("  {name:<10} {:>6} {bar}", bin.count).trim_end().to_owned()
    };
    bins.iter().map(line).collect()
}

/// What is missing, if nothing reads the records.
fn unread(outcome: &InspectOutcome, command: Option<&str>) -> Vec<String> {
    let mut lines = vec![String::new()];
    let partial = outcome.partial.clone().unwrap_or_default();
    if !partial.lines.is_empty() {
        lines.push("The first lines:".into());
        lines.extend(partial.lines.iter().map(|line| format!("  {line}")));
        lines.push(String::new());
    }
    if !outcome.missing.is_empty() {
        lines.push(format!("Not found: {}.", outcome.missing.join(", ")));
    }
    for (field, names) in &partial.candidates {
        lines.push(format!("{field} may be `{}`.", names.join("`, `")));
    }
    if let Some(command) = command {
        let what = match outcome.missing.is_empty() {
            true => "Fields were found, but no value can be read; see the reasons above:",
            false => "Write the name of a field for each `?`; `a+b` joins a date and a time:",
        };
        lines.extend([what.into(), format!("  {command}")]);
    }
    let names = match outcome.other_names.is_empty() {
        true => "No names of fields were found.".into(),
        false => format!("Names in the records: {}.", outcome.other_names.join(", ")),
    };
    lines.push(names);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_counts() {
        let bin = |upto_s, count| IntervalBin { upto_s, count };
        let lines =
            chart(&[bin(Some(60.0), 80), bin(Some(120.0), 40), bin(Some(300.0), 0), bin(None, 1)]);
        assert_eq!(lines[0], format!("  up to 60s      80 {}", "█".repeat(30)));
        assert_eq!(lines[1], format!("  up to 2m       40 {}", "█".repeat(15)));
        assert_eq!(lines[2], "  up to 5m        0");
        assert_eq!(lines[3], "  more            1 ▍");
    }
}
