//! `tests/scoreboard.toml`: each row names tests that exist, and the counts that they print;
//! `docs/guarantees.md` refers to each row, and each promise on that page to its rows.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{page, root};
use tstar_sim::counts::{self, Count};

const BOARD: &str = "tests/scoreboard.toml";
const PAGE: &str = "docs/guarantees.md";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    promise: String,
    bar: u64,
    unit: String,
    /// Tests and scripts.
    proof: Vec<String>,
    /// Where the logs of `tests/all` have the counts: "suite: expression".
    #[serde(default)]
    counts: Vec<String>,
    usual: Option<u64>,
    night: Option<u64>,
    once: Option<u64>,
    how: Option<String>,
    below: Option<String>,
}

impl Row {
    /// The names of its tests.
    fn tests(&self) -> Vec<&str> {
        self.proof.iter().map(String::as_str).filter(|it| !it.contains('/')).collect()
    }

    /// Whether it counts the tests that passed.
    fn is_of_tests(&self) -> bool {
        self.unit.starts_with("tests")
    }

    /// The count of each run, as the row says.
    fn usual(&self) -> Option<u64> {
        if self.is_of_tests() { Some(self.tests().len() as u64) } else { self.usual }
    }

    fn is_at_its_bar(&self) -> bool {
        self.usual().max(self.night).max(self.once) >= Some(self.bar)
    }
}

/// R1 to R26, in this order.
fn rows() -> Vec<(String, Row)> {
    let text = std::fs::read_to_string(root().join(BOARD)).unwrap();
    let mut rows: BTreeMap<String, Row> = toml::from_str(&text).unwrap();
    let ids = (1..=26).map(|nth| format!("R{nth}"));
    let sorted: Vec<_> =
        ids.map(|id| rows.remove(&id).map(|row| (id.clone(), row)).expect(&id)).collect();
    assert!(rows.is_empty(), "{:?}", rows.keys());
    sorted
}

/// A number with its thousands separated.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let separated = |(at, digit): (usize, char)| {
        let separator = (at > 0 && (digits.len() - at).is_multiple_of(3)).then_some(',');
        separator.into_iter().chain([digit])
    };
    digits.char_indices().flat_map(separated).collect()
}

/// The table of the page.
pub fn table() -> String {
    let mut table = String::from(
        "| row | what is promised | bar | each landing | each night | once | below its bar, because | suites |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (id, row) in rows() {
        let number = |count: Option<u64>| count.map_or("-".to_owned(), grouped);
        let once = match (row.once, &row.how) {
            (Some(count), Some(how)) => format!("{} ({how})", grouped(count)),
            _ => "-".to_owned(),
        };
        let mut suites: Vec<_> =
            row.proof.iter().map(|it| it.split("::").next().unwrap()).collect();
        suites.dedup();
        let suites: Vec<_> = suites.iter().map(|it| format!("`{it}`")).collect();
        writeln!(
            table,
            "| {id} | {} | {} {} | {} | {} | {once} | {} | {} |",
            row.promise,
            grouped(row.bar),
            row.unit,
            number(row.usual()),
            number(row.night),
            row.below.as_deref().unwrap_or_default(),
            suites.join(", ")
        )
        .unwrap();
    }
    table
}

/// Checks a count in a log that a script of tests/nightly writes itself; false if it is not one.
fn is_of_script(suite: &str, found: &str) -> bool {
    let Some(log) = suite.strip_prefix("nightly_") else { return false };
    let (script, variable, value, line) = match log {
        "fuzz" => {
            let target = found.split([' ', ':']).nth(2).unwrap();
            ("tests/nightly/fuzz", "$target", target, "inputs of $target: ")
        }
        mode => ("tests/nightly/mutants", "$mode", mode, "mutation score of $mode: "),
    };
    let text = std::fs::read_to_string(root().join(script)).unwrap();
    assert!(text.contains(line), "{script} does not print {line}");
    let has_value = |line: &str| {
        let line = line.trim_start();
        let mut values = line.strip_prefix("[ $# != 0 ] || set -- ").into_iter();
        line.starts_with(&format!("{value}) "))
            || values.any(|values| values.split(' ').any(|it| it == value))
    };
    assert!(text.lines().any(has_value), "{script} has no {value}");
    assert!(found.starts_with(&(line.replace(variable, value) + "([0-9]+)")), "{found}");
    true
}

/// The expression that finds a count in the log of its suite.
fn expression(count: Count) -> String {
    format!("{}([0-9]+)", count.line(0).trim_end_matches('0'))
}

#[test]
fn every_row_is_whole_and_says_why_it_is_below_its_bar() {
    for (id, row) in rows() {
        assert_eq!(row.below.is_none(), row.is_at_its_bar(), "{id}: below, where it is below");
        assert!(!row.proof.is_empty() || row.below.is_some(), "{id} has no proof");
        assert!(row.once.is_none() || row.how.is_some(), "{id} does not say how it was counted");
        if row.is_of_tests() {
            assert!(row.counts.is_empty() && row.usual.is_none() && row.once.is_none(), "{id}");
            assert_eq!(row.bar, row.tests().len() as u64, "{id} counts its tests");
        } else {
            // What ran once by another program, as `how` says, is in the log of no suite.
            let is_elsewhere = row.once.is_some() && row.usual.is_none();
            let has_count = !row.counts.is_empty() || is_elsewhere;
            assert!(has_count || row.below.is_some(), "{id} counts nothing");
        }
    }
}

/// Each count that a test prints is in one suite, which the rows name, and no row expects another.
#[test]
fn every_count_is_printed_by_a_test_of_its_suite() {
    let rows = rows();
    let mut seen = Vec::new();
    for (id, row) in &rows {
        for count in &row.counts {
            let (suite, found) = count.split_once(": ").unwrap();
            if is_of_script(suite, found) {
                continue;
            }
            let known = counts::ALL.iter().find(|it| expression(**it) == found);
            let known = known.unwrap_or_else(|| panic!("{id}: no test prints {found}"));
            let prints = format!("counts::{}.print(", known.constant);
            let is_printed = |test: &&str| {
                test.starts_with(&format!("{suite}::")) && source(test).contains(&prints)
            };
            assert!(row.tests().iter().any(is_printed), "{id}: no test of it prints {found}");
            seen.push(known.name);
        }
    }
    for count in counts::ALL {
        assert!(seen.contains(&count.name), "no row has the count of {}", count.name);
    }
}

/// The file of a test.
fn source(test: &str) -> String {
    let (module, _) = test.rsplit_once("::").unwrap();
    let file = Path::new(&module.replace("::", "/")).with_extension("rs");
    let path = ["tests/it", "tests/sim"].map(|folder| root().join(folder).join(&file));
    let path = path.iter().find(|it| it.is_file()).unwrap_or_else(|| panic!("no {file:?}"));
    std::fs::read_to_string(path).unwrap()
}

/// A row names tests of `tests/it`, `tests/sim` or the library, or scripts.
#[test]
fn every_test_of_the_board_exists() {
    let folders = ["src", "crates/tstar-core/src"];
    let library: String = folders.iter().flat_map(|it| sources(&root().join(it))).collect();
    let exists = |proof: &str| match proof.rsplit_once("::") {
        None => root().join(proof).exists(),
        Some((module, name)) => {
            let head = format!("fn {name}(");
            let is_unit = module.starts_with("unit::");
            // In the table of kills, a row is a test.
            let row = format!("    {name}: ");
            let is_of = |text: &str| text.contains(&head) || text.contains(&row);
            if is_unit { library.contains(&head) } else { is_of(&source(proof)) }
        }
    };
    assert!(!exists("fuzz::no_such_test") && !exists("unit::x::no_such_test"));
    assert!(!exists("tests/no_such_script"));
    for (id, row) in rows() {
        for proof in &row.proof {
            assert!(exists(proof), "{id}: there is no {proof}");
        }
    }
}

/// The text of each file under a folder.
fn sources(folder: &Path) -> Vec<String> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| match path.is_dir() {
        true => sources(&path),
        // Pictures are none.
        false => std::fs::read_to_string(&path).into_iter().collect(),
    };
    paths.flat_map(read).collect()
}

/// Each promise of the page refers to its rows, and each row is referred to.
#[test]
fn every_promise_has_its_row() {
    let page = page(PAGE);
    let (prose, _) = page.text.split_once("<!-- generated: scoreboard").unwrap();
    let ids = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        let is_id = |word: &&str| {
            word.strip_prefix('R').is_some_and(|it| it.parse::<u8>().is_ok_and(|it| it <= 26))
        };
        words.filter(is_id).map(str::to_owned).collect()
    };
    let (_, promises) = prose.split_once("\n## ").unwrap();
    let named = ids(promises);
    for (id, _) in rows() {
        assert!(named.contains(&id), "no promise refers to {id}");
    }
    let mut bullets = 0;
    for section in promises.split("\n## ") {
        let heading = section.lines().next().unwrap();
        if ["Trips and ids", "Imports", "Clocks"].contains(&heading) {
            for bullet in section.lines().filter(|line| line.starts_with("- ")) {
                assert!(!ids(bullet).is_empty(), "which row proves this? {bullet}");
                bullets += 1;
            }
        }
    }
    assert!(bullets >= 10, "{bullets} promises");
}
