//! Transcripts: commands after `$ `, and their output.

/// A command, and the part of its output that the page shows.
pub struct Step {
    pub command: String,
    pub shown: String,
}

/// The steps of a transcript.
pub fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push(Step { command: command.into(), shown: String::new() }),
            None => {
                let step = steps.last_mut().expect("a transcript begins with a command");
                step.shown += line;
                step.shown.push('\n');
            }
        }
    }
    steps
}

/// Output without what pages omit: table rules, trailing spaces, the clock.
fn plain(text: &str) -> String {
    let is_rule = |line: &&str| !line.is_empty() && line.chars().all(|c| "─═".contains(c));
    let lines = text.lines().filter(|line| !is_rule(line)).map(str::trim_end);
    let mut plain = lines.collect::<Vec<_>>().join("\n");
    // As long as an RFC 3339 time in UTC with milliseconds.
    const TIME: usize = "2026-11-21T23:25:40.671Z".len();
    for before in ["\"at\":\"", "tstar: at "] {
        let places: Vec<_> = plain.match_indices(before).map(|(at, _)| at + before.len()).collect();
        for at in places.into_iter().rev() {
            let end = plain.len().min(at + TIME);
            plain.replace_range(at..end, "TIME");
        }
    }
    plain
}

/// Whether an output matches what is shown, in which `...` matches anything.
pub fn is_shown(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (plain(shown), plain(printed));
    let parts: Vec<_> = shown.split("...").collect();
    let [first, between @ .., last] = &parts[..] else { return shown == printed };
    let Some(mut rest) = printed.strip_prefix(*first) else { return false };
    for part in between {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn a_transcript_is_compared_with_its_gaps() {
    assert!(is_shown("a\nb\n", "a  \n───\nb\n"));
    assert!(!is_shown("a\nb\n", "a\nc\n"));
    assert!(is_shown("{\"a\":1,...\n", "{\"a\":1,\"b\":2}\n"));
    assert!(!is_shown("{\"a\":1,...\nend\n", "{\"a\":1,\"b\":2}\n"));
    assert!(is_shown("...\n b\n...\n", "a\n b\nc\n"));
    let at = |time: &str| format!("{{\"at\":\"{time}\",\"by\":null}}");
    assert!(is_shown(&at("2026-11-21T23:25:40.671Z"), &at("2025-01-01T00:00:00.000Z")));
}
