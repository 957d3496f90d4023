//! Tables as Markdown.

/// A table with a head and rows. The first column is left-aligned, the others right-aligned.
pub fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let head = head.map(str::to_owned);
    let all = || std::iter::once(&head).chain(rows);
    let widths: [usize; N] =
        std::array::from_fn(|at| all().map(|row| row[at].chars().count()).max().unwrap_or(0));
    let mut lines: Vec<_> = all().map(|row| line(row, &widths)).collect();
    let rule = (0..N).map(|at| match at {
        0 => format!(":{}", "-".repeat(widths[at] + 1)),
        _ => format!("{}:", "-".repeat(widths[at] + 1)),
    });
    lines.insert(1, format!("|{}|", rule.collect::<Vec<_>>().join("|")));
    lines.join("\n")
}

fn line<const N: usize>(row: &[String; N], widths: &[usize; N]) -> String {
    let cells = row.iter().zip(widths).enumerate().map(|(at, (cell, &width))| match at {
        0 => format!(" {cell:<width$} "),
        _ => format!(" {cell:>width$} "),
    });
    format!("|{}|", cells.collect::<Vec<_>>().join("|"))
}

/// A count with its digits in groups of three.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A count per second, rounded to thousands.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
pub fn per_second(count: u64, seconds: f64) -> String {
    grouped((ratio(count, 1) / seconds / 1000.0).round() as u64 * 1000)
}

/// The ratio of two counts.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
pub fn ratio(count: u64, total: u64) -> f64 {
    count as f64 / total as f64
}
