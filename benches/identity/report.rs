//! The tables, as Markdown.

use std::path::Path;

use anyhow::Context as _;

use crate::form::{Form, probability};
use crate::index::Index;
use crate::names::{Changes, Course};
use crate::order::Inversions;
use crate::prefix::Search;
use crate::race::Race;
use crate::schemes::Scheme;
use crate::table::{grouped, ratio, table};

/// Markers of the tables in a file.
const BEGIN: &str = "<!-- identity: begin -->";
const END: &str = "<!-- identity: end -->";

/// The results of a scheme on the log.
pub struct SchemeResult {
    /// The scheme.
    pub scheme: Scheme,
    /// How late data changed its ids.
    pub course: Course,
    /// Shares of equal ids in the replays: straight, in batches, taken over; percent.
    pub equal: [f64; 3],
    /// How its ids sort.
    pub order: Inversions,
    /// Search for a day of a device.
    pub day: Search,
    /// Search for the newest trips of a device.
    pub newest: Search,
    /// Cost of a unique index.
    pub index: Index,
    /// Lengths and characters of its ids.
    pub form: Form,
}

/// The cost of generating ids.
pub struct Cost {
    /// The scheme.
    pub scheme: Scheme,
    /// The database, if any.
    pub database: Option<&'static str>,
    /// With one writer, and with eight; `None` without such a database.
    pub races: Option<[Race; 2]>,
    /// Ids skipped by a killed writer, for counters.
    pub skipped: Option<f64>,
    /// Whether the CPU time of all processes is known.
    pub knows_cpu: bool,
}

/// All results.
pub struct Report {
    /// Machine, program and log, one line each.
    pub head: String,
    /// Number of trips that started.
    pub begun: u64,
    /// Arrivals that are neither new nor duplicates.
    pub arrivals: u64,
    /// Results of each scheme.
    pub measured: Vec<SchemeResult>,
    /// Costs of each scheme and database.
    pub costs: Vec<Cost>,
}

impl Report {
    /// The tables and the conclusions.
    pub fn text(&self) -> String {
        [
            self.head.clone(),
            format!("Late data, and the same log again:\n\n{}", self.late()),
            format!("Order, and search by the id alone:\n\n{}", self.search()),
            format!("Form, and what a database pays:\n\n{}", self.database()),
            format!("Giving ids out:\n\n{}", self.coordination()),
            self.conclusion(),
        ]
        .join("\n\n")
    }

    fn late(&self) -> String {
        let rows: Vec<_> = self
            .measured
            .iter()
            .map(|measured| {
                let Course { changes, fate, .. } = measured.course;
                let Changes { end, beginning, merge, other } = changes;
                let share = |count| percent(count, self.arrivals);
                [
                    measured.scheme.label().to_owned(),
                    measured.scheme.names_from().to_owned(),
                    share(beginning),
                    share(end),
                    share(merge),
                    share(other),
                    grouped(fate.published),
                    grouped(fate.lost),
                    grouped(fate.strayed),
                    whole(measured.equal[0]),
                    whole(measured.equal[1]),
                    whole(measured.equal[2]),
                ]
            })
            .collect();
        let head = [
            "id",
            "names a trip for good once",
            "% changed by beginning",
            "by end",
            "by merge",
            "else",
            "ids published",
            "find no trip",
            "find another",
            "% equal again",
            "other batches",
            "other worker",
        ];
        table(head, &rows)
    }

    fn search(&self) -> String {
        let search = |search: &Search| {
            let read = format!("{:.1}", search.cost());
            let found = percent(search.found, search.wanted);
            match search.is_narrowed {
                true => [read, found],
                false => [format!("cannot: {read}"), found],
            }
        };
        let rows: Vec<_> = self
            .measured
            .iter()
            .map(|measured| {
                let Inversions { fleet_bytes, fleet_text, device_bytes, device_text } =
                    measured.order;
                let [day_read, day_found] = search(&measured.day);
                let [newest_read, newest_found] = search(&measured.newest);
                [
                    measured.scheme.label().to_owned(),
                    format!("{fleet_bytes:.1}"),
                    format!("{fleet_text:.1}"),
                    format!("{device_bytes:.1}"),
                    format!("{device_text:.1}"),
                    day_read,
                    day_found,
                    newest_read,
                    newest_found,
                ]
            })
            .collect();
        let head = [
            "id",
            "% inverted, bytes",
            "text",
            "in a device, bytes",
            "text",
            "a device's day: rows read per row",
            "% found",
            "its newest 100: rows read per row",
            "% right",
        ];
        table(head, &rows)
    }

    fn database(&self) -> String {
        let rows: Vec<_> = self
            .measured
            .iter()
            .map(|measured| {
                let Form { bytes, text, is_url_safe, is_digits } = measured.form;
                let yes = |is_yes| if is_yes { "yes" } else { "no" }.to_owned();
                let alone = self
                    .costs
                    .iter()
                    .find(|cost| cost.scheme == measured.scheme && cost.database.is_none());
                let clashes = alone.and_then(|cost| cost.races).map(|[_, eight]| eight.twice);
                let probability = probability(measured.scheme);
                [
                    measured.scheme.label().to_owned(),
                    range(bytes),
                    range(text),
                    yes(is_url_safe),
                    yes(is_digits),
                    clashes.map_or_else(|| "counted".to_owned(), grouped),
                    probability.map_or_else(|| "none".to_owned(), likely),
                    format!("{:.2}", ratio(measured.index.pages, self.begun)),
                    format!("{:.1}", ratio(measured.index.bytes, 1 << 20)),
                    format!("{:.2}", ratio(measured.course.moves, self.begun)),
                ]
            })
            .collect();
        let head = [
            "id",
            "bytes",
            "characters",
            "in a URL as it is",
            "digits alone",
            "clashes in 10^6",
            "computed for 10^9",
            "index: pages written per trip",
            "MiB",
            "row moves per trip",
        ];
        table(head, &rows)
    }

    fn coordination(&self) -> String {
        // Random digits without a database were only drawn to count their clashes.
        let is_listed = |cost: &&Cost| cost.database.is_some() || !cost.scheme.is_coordinated();
        let rows: Vec<_> = self.costs.iter().filter(is_listed).map(Cost::row).collect();
        let head = [
            "id",
            "database",
            "round trips per id, 1 writer",
            "8 writers",
            "ids per CPU s, 1 writer",
            "8 writers",
            "skipped by kill -9",
            "given twice",
        ];
        table(head, &rows)
    }

    /// The conclusions, derived from the figures.
    fn conclusion(&self) -> String {
        let keeps = |measured: &SchemeResult| {
            measured.course.fate.lost == 0 && measured.course.fate.strayed == 0
        };
        #[expect(clippy::float_cmp, reason = "100 times one is 100")]
        let repeats = |measured: &SchemeResult| measured.equal.iter().all(|&equal| equal == 100.0);
        let finds = |measured: &SchemeResult| measured.day.is_narrowed && measured.day.cost() < 2.0;
        let newest = |measured: &SchemeResult| {
            let Search { found, wanted, .. } = measured.newest;
            found == wanted && measured.newest.cost() < 2.0
        };
        let lines = [
            ("Every published id still finds its trip", self.those(keeps)),
            (
                "The same log gives the same ids, whatever the batches and workers",
                self.those(repeats),
            ),
            (
                "A device's day by the id alone, at less than 2 rows read for each",
                self.those(finds),
            ),
            ("The newest 100 of a device likewise", self.those(newest)),
            (
                "No trip of a device sorts before an earlier one, as bytes or text",
                self.those(|measured| {
                    measured.order.device_bytes + measured.order.device_text <= 0.0
                }),
            ),
            ("Needs no database", self.those(|measured| !measured.scheme.is_coordinated())),
            ("Digits alone", self.those(|measured| measured.form.is_digits)),
            ("At most 22 characters", self.those(|measured| measured.form.text.1 <= 22)),
            (
                "All of the first four",
                self.those(|measured| {
                    keeps(measured) && repeats(measured) && finds(measured) && newest(measured)
                }),
            ),
        ];
        lines.map(|(what, those)| format!("- {what}: {those}.")).join("\n")
    }

    /// Labels of the schemes that meet a condition.
    fn those(&self, condition: impl Fn(&SchemeResult) -> bool) -> String {
        let those = self.measured.iter().filter(|measured| condition(measured));
        let those: Vec<_> = those.map(|measured| measured.scheme.label()).collect();
        match &those[..] {
            [] => "none".to_owned(),
            all if all.len() == self.measured.len() => "all".to_owned(),
            those => those.join("; "),
        }
    }
}

impl Cost {
    fn row(&self) -> [String; 8] {
        let database = self.database.unwrap_or("none").to_owned();
        let Some([one, eight]) = &self.races else {
            let none = || "no CQL server".to_owned();
            let id = self.scheme.label().to_owned();
            return [id, database, none(), none(), none(), none(), none(), none()];
        };
        let speed = |race: &Race| match self.knows_cpu {
            true => grouped(rounded(race.speed())),
            false => "server's CPU unknown".to_owned(),
        };
        let trips = |race: &Race| format!("{:.3}", race.round_trips());
        [
            self.scheme.label().to_owned(),
            database,
            trips(one),
            trips(eight),
            speed(one),
            speed(eight),
            self.skipped.map_or_else(|| "-".to_owned(), |skipped| format!("{skipped:.1}")),
            grouped(one.twice + eight.twice),
        ]
    }
}

fn percent(count: u64, total: u64) -> String {
    whole(100.0 * ratio(count, total))
}

/// Formats a percentage. Only exact values are written as 0 or 100.
fn whole(share: f64) -> String {
    match share {
        0.0 => "0".to_owned(),
        100.0 => "100".to_owned(),
        share => format!("{:.2}", share.clamp(0.01, 99.99)),
    }
}

fn range((min, max): (usize, usize)) -> String {
    if min == max { min.to_string() } else { format!("{min}-{max}") }
}

/// Formats a probability.
fn likely(probability: f64) -> String {
    if probability > 0.999 { "1".to_owned() } else { format!("{probability:.0e}") }
}

/// Rounds to three digits.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a speed")]
fn rounded(speed: f64) -> u64 {
    let unit = 10_f64.powf((speed.log10().floor() - 2.0).max(0.0));
    ((speed / unit).round() * unit) as u64
}

/// Writes a text between the markers of a file.
///
/// # Errors
/// The file has no markers, or cannot be written.
pub fn into(file: &Path, text: &str) -> anyhow::Result<()> {
    let shown = file.display();
    let old = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let no_marker =
        |marker| format!("{shown} has no line {marker}; add both markers where the tables belong");
    let (before, rest) = old.split_once(BEGIN).with_context(|| no_marker(BEGIN))?;
    let (_, after) = rest.split_once(END).with_context(|| no_marker(END))?;
    let new = format!("{before}{BEGIN}\n{text}\n{END}{after}");
    std::fs::write(file, new).with_context(|| format!("cannot write {shown}"))
}
