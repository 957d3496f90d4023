//! Phrases and names that have to be read twice do not come back.

use std::path::{Path, PathBuf};

use crate::repository::{files, hold, read, rust_files};

/// Phrases banned in comments, messages and documents.
const PHRASES: &[&str] = &[
    "told",
    "tell",
    "tells",
    "anew",
    "so many",
    "nobody",
    "somebody",
    "everybody",
    "who asks",
    "set aside",
    "set right",
    "mended",
    "once more",
    "give back",
    "gives back",
    "given back",
    "at hand",
    "stands in",
    "stands still",
    "stands for",
    "stands at",
    "beside",
    "broke off",
    "break off",
    "breaks off",
    "goes on",
    "go on",
    "let go",
    "lets go",
    "shall",
    "by why",
    "lives of the log",
    "has had its say",
    "what stays",
    "all the same",
    "turn round",
    "turned round",
];

/// `X is no Y`, but for these.
const NO: &[&str] = &["longer", "more"];

/// Types whose names say nothing of what they are.
const TYPES: &[&str] = &[
    "Told",
    "Handed",
    "Held",
    "Owned",
    "Asked",
    "Kept",
    "Found",
    "Fit",
    "Placed",
    "Stated",
    "Stays",
    "Still",
    "Past",
    "Tried",
    "Seen",
    "Shown",
    "Said",
    "Settled",
    "Imported",
    "Compared",
    "Explained",
    "Measured",
    "Watched",
    "Judged",
    "Served",
    "Became",
    "Job",
];

/// Functions whose names say nothing of what they do.
const FUNCTIONS: &[&str] = &[
    "of", "take", "tell", "told", "say", "ask", "look", "note", "place", "beside", "back", "again",
    "some", "one", "own",
];

/// Texts of others, and lists of these phrases.
const EXEMPT: &[&str] = &["tests/tidy/words.rs", "src/http/page/vendor", "tests/data", "LICENSE"];

fn words(line: &str) -> Vec<String> {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let words = line.split(|c| !is_of_word(c)).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// The phrases of a line. Names between backquotes are not prose.
fn phrases(line: &str) -> Vec<String> {
    let prose: Vec<_> = line.split('`').step_by(2).collect();
    let words = words(&prose.join(" x "));
    let has = |phrase: &&&str| {
        let phrase: Vec<_> = phrase.split(' ').collect();
        words.windows(phrase.len()).any(|found| found == phrase)
    };
    let mut found: Vec<_> = PHRASES.iter().filter(has).map(ToString::to_string).collect();
    let mut before = "";
    for trio in words.windows(3) {
        let is_denial = ["is", "are"].contains(&trio[0].as_str()) && trio[1] == "no";
        if is_denial && before != "there" && !NO.contains(&trio[2].as_str()) {
            found.push(trio.join(" "));
        }
        before = &trio[0];
    }
    found
}

/// The banned names that a line of code defines.
fn names(line: &str) -> Vec<String> {
    let words: Vec<_> = line.split_whitespace().collect();
    let defined = |keywords: &[&str], banned: &[&str]| {
        let pair = words.windows(2).find(|pair| keywords.contains(&pair[0]))?;
        let end = pair[1].find(|c: char| !c.is_alphanumeric() && c != '_');
        let name = &pair[1][..end.unwrap_or(pair[1].len())];
        banned.contains(&name).then(|| name.to_owned())
    };
    let types = defined(&["struct", "enum", "trait", "type"], TYPES);
    types.into_iter().chain(defined(&["fn"], FUNCTIONS)).collect()
}

fn unclear(text: &str, find: fn(&str) -> Vec<String>) -> Vec<String> {
    let of_line = |(line, nth): (&str, usize)| {
        find(line).into_iter().map(move |what| format!("line {nth}: `{what}`")).collect::<Vec<_>>()
    };
    text.lines().zip(1..).flat_map(of_line).collect()
}

#[test]
fn words_are_plain() {
    assert_eq!(phrases("// Tells who asks, once more."), ["tells", "who asks", "once more"]);
    assert_eq!(phrases("`x` is no origin; there is no `anew`"), ["is no origin"]);
    assert_eq!(phrases("fn teller() { is_told } // a hotel"), [""; 0]);
    assert_eq!(phrases("which is no longer held, and is no more than that"), [""; 0]);
    let is_text = |path: &PathBuf| {
        let is_exempt = EXEMPT.iter().any(|exempt| path.starts_with(exempt));
        let kind = path.extension().and_then(|it| it.to_str());
        !is_exempt && matches!(kind, Some("rs" | "md" | "toml" | "yml" | "sql" | "cql" | "proto"))
    };
    let texts: Vec<_> = files().into_iter().filter(is_text).collect();
    assert!(texts.contains(&PathBuf::from("README.md")), "{texts:?}");
    hold(texts, |text| unclear(text, phrases));
}

#[test]
fn names_say_what_they_name() {
    assert_eq!(names("pub struct Told {"), ["Told"]);
    assert_eq!(names("    pub async fn of<T>(x: T) -> Self {"), ["of"]);
    assert_eq!(names("let told = offer();"), [""; 0]);
    let sources = rust_files("").into_iter().filter(|path| path != Path::new(EXEMPT[0]));
    assert!(!read(Path::new("src/lib.rs")).is_empty());
    hold(sources.collect(), |text| unclear(text, names));
}
