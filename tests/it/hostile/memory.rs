//! Inputs that are far larger than they look, or made to be retained: the program reads them in
//! bounded memory. It runs under a system limit that an ordinary run fits into, and that holding
//! any of these inputs would exceed. Only Linux has such a limit; it also counts mapped memory.

use std::io::{self, Read, Write};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::{letters, summary};
use crate::cli::{Folder, Ran, minutes};

/// Limit of a run's writable memory, KiB.
const LIMIT: u32 = 64 << 10;

/// The cache that a store of this size needs besides, as after good samples, KiB.
const CACHE: u32 = 64 << 10;

/// Bytes that exceed the limit.
const LARGE: u64 = 300 << 20;

/// Runs a command under a limit.
pub fn run_limited(folder: &Folder, words: &str, limit: u32) -> Ran {
    let inner = folder.command(words);
    let mut shell = Command::new("sh");
    let script = format!("ulimit -d {limit} && exec \"$@\"");
    shell.args(["-c", &script, "sh"]).arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.current_dir(inner.get_current_dir().unwrap()).stdin(std::process::Stdio::null());
    Ran::run(words, &mut shell)
}

fn ingest_limited(folder: &Folder, words: &str, code: i32) -> Value {
    summary(run_limited(folder, &format!("ingest {words} --json"), LIMIT), code)
}

/// Writes a head, `count` equal bytes, and a tail.
pub fn write_filled(mut out: impl Write, parts: [&str; 2], byte: u8, count: u64) {
    out.write_all(parts[0].as_bytes()).unwrap();
    io::copy(&mut io::repeat(byte).take(count), &mut out).unwrap();
    out.write_all(parts[1].as_bytes()).unwrap();
    out.flush().unwrap();
}

pub fn create(folder: &Folder, name: &str) -> io::BufWriter<std::fs::File> {
    io::BufWriter::new(std::fs::File::create(folder.path(name)).unwrap())
}

#[test]
fn the_limit_fits_an_ordinary_run_and_bites() {
    let folder = Folder::new();
    folder.write_fleet("log", "");
    assert_eq!(ingest_limited(&folder, "log", 0)["delivered"], 20_000);
    let ran = run_limited(
        &folder,
        "simulate --mix 46,34,19,1 --devices 2000000 --samples 1",
        LIMIT + CACHE,
    );
    assert!(ran.code != Some(0) && ran.stderr.contains("memory allocation"), "{ran}");
}

#[test]
fn samples_of_more_devices_than_fit_are_spilled() {
    let folder = Folder::new();
    let mut log = create(&folder, "log");
    for time in [1_700_000_000_000_u64, 1_700_000_060_000] {
        for device in 0..120_000 {
            let line = format!(r#"{{"device":"truck-{device}","ts":{time},"lat":52,"lon":13}}"#);
            writeln!(log, "{line}").unwrap();
        }
    }
    drop(log);
    // Half as much again as `--memory`, which is approximate.
    let limit = LIMIT + LIMIT / 2;
    let words = "ingest log --json --memory";
    let unbounded = run_limited(&folder, &format!("{words} 1GB --store sqlite:no.db"), limit);
    assert!(unbounded.code != Some(0), "they fit into the limit without spilling");
    let summary = summary(run_limited(&folder, &format!("{words} 64MB"), limit), 0);
    assert_eq!((&summary["applied"], &summary["trips"]), (&json!(240_000), &json!(120_000)));
}

#[test]
fn a_line_of_100_mb_is_skipped() {
    let folder = Folder::new();
    let [before, after] = [minutes("a", &[0]), minutes("a", &[1])];
    let parts = [format!("{before}{{\"x\":\""), format!("\"}}\n{after}")];
    let parts = [parts[0].as_str(), parts[1].as_str()];
    write_filled(create(&folder, "log"), parts, b'y', 100_000_000);
    let summary = ingest_limited(&folder, "log", 0);
    assert_eq!((&summary["applied"], &summary["delivered"]), (&json!(2), &json!(3)));
    let letters = letters(&folder, "trips.db");
    assert_eq!((letters[0].reason.as_str(), letters[0].line), ("oversize", 2));
    assert_eq!(letters[0].value_bytes, 100_000_008);
    assert!(letters[0].sha256.is_some());
    let head = format!("{{\"x\":\"{}", "y".repeat(1018));
    assert_eq!(letters[0].bytes(), head.as_bytes());
    // As the cell of a table, with and without quotes.
    for (quote, name) in [("\"", "quoted"), ("", "bare")] {
        let head = format!("device_id,time,lat,lon\na,2024-05-01T08:00:00Z,1,2\n{quote}");
        let tail = format!("{quote},2024-05-01T08:00:00Z,1,2\na,2024-05-01T08:01:00Z,1,2\n");
        write_filled(create(&folder, name), [&head, &tail], b'y', 100_000_000);
        let summary = ingest_limited(&folder, &format!("{name} --store sqlite:{name}.db"), 0);
        assert_eq!(summary["dead_letters"], json!({ "oversize": 1 }), "{name}");
        assert_eq!(summary["applied"], 2, "{name}");
    }
}

/// A gzip file whose content is a head, very many equal bytes, and a tail.
fn write_bomb(folder: &Folder, name: &str, parts: [&str; 2], byte: u8) {
    let encoder = |level| GzEncoder::new(Vec::new(), level);
    let packed = |text: &str| {
        let mut packed = encoder(Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        packed.finish().unwrap()
    };
    let mut filled = encoder(Compression::best());
    // Blank lines cost more each, so there are fewer of them, still more than fit.
    let count = if byte == b'\n' { LARGE / 3 } else { LARGE };
    io::copy(&mut io::repeat(byte).take(count / 20), &mut filled).unwrap();
    let filled = filled.finish().unwrap();
    // Members of one file follow each other.
    let bomb = [packed(parts[0]), filled.repeat(20), packed(parts[1])].concat();
    assert!((bomb.len() as u64) < LARGE / 500, "{} bytes", bomb.len());
    folder.write(name, bomb);
}

#[test]
fn a_bomb_of_one_line_is_one_dead_letter() {
    let folder = Folder::new();
    let (before, after) = (minutes("a", &[0]), format!("\n{}", minutes("a", &[1])));
    for (byte, name) in [(b'{', "line.gz"), (0, "zeros.gz"), (b'"', "quotes.gz")] {
        write_bomb(&folder, name, [&before, &after], byte);
        let summary = ingest_limited(&folder, &format!("{name} --store sqlite:{name}.db"), 0);
        assert_eq!(summary["dead_letters"], json!({ "oversize": 1 }), "{name}");
        assert_eq!(summary["applied"], 2, "{name}");
        let letter = &letters(&folder, &format!("{name}.db"))[0];
        assert_eq!((letter.line, letter.value_bytes), (2, LARGE), "{name}");
    }
    // Zeros only match neither format.
    write_bomb(&folder, "nothing.gz", ["", ""], 0);
    let ran = run_limited(&folder, "ingest nothing.gz --store sqlite:nothing.db", LIMIT).ends(65);
    ran.says(&["nothing.gz", "--input-format"]);
}

#[test]
fn a_bomb_of_blanks_is_nothing() {
    let folder = Folder::new();
    let (before, after) = (minutes("a", &[0]), minutes("a", &[1]));
    write_bomb(&folder, "lines.gz", [&before, &after], b'\n');
    let summary = ingest_limited(&folder, "lines.gz --store sqlite:lines.db", 0);
    assert_eq!((&summary["delivered"], &summary["applied"]), (&json!(2), &json!(2)));
    // At the start of the file, where its format is detected.
    write_bomb(&folder, "first.gz", ["", &after], b'\n');
    assert_eq!(ingest_limited(&folder, "first.gz --store sqlite:first.db", 0)["applied"], 1);
}

/// A zstd frame with a window of `window_log` bits, which holds one long line between good ones.
fn zstd_bomb(window_log: u32) -> Vec<u8> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(window_log).unwrap();
    let after = format!("\n{}", minutes("a", &[1]));
    write_filled(&mut encoder, [&minutes("a", &[0]), &after], b'{', LARGE / 2);
    encoder.finish().unwrap()
}

/// A frame may ask for a window of any size: zstd grants up to 128 MiB and refuses more.
#[test]
fn a_zstd_frame_gets_the_window_it_asks_for_up_to_a_bound() {
    let folder = Folder::new();
    for (window_log, limit) in [(20, LIMIT), (27, LIMIT + (128 << 10))] {
        folder.write("log.zst", zstd_bomb(window_log));
        let words = format!("ingest log.zst --json --store sqlite:{window_log}.db");
        let summary = summary(run_limited(&folder, &words, limit), 0);
        assert_eq!(summary["dead_letters"], json!({ "oversize": 1 }), "{window_log} bits");
        assert_eq!(summary["applied"], 2, "{window_log} bits");
    }
    folder.write("log.zst", zstd_bomb(28));
    let summary = ingest_limited(&folder, "log.zst", 65);
    assert_eq!(summary["dead_letters"], json!({ "truncated_input": 1 }));
    assert!(letters(&folder, "trips.db")[0].message.contains("memory"));
}

/// Each dead letter is small, and there are very many: they are not held until the end.
#[test]
fn a_million_bad_lines_are_stored_as_they_come() {
    let folder = Folder::new();
    let lines = 1_000_000;
    folder.write("log", format!("{}{}", minutes("a", &[0]), "x\n".repeat(lines)));
    // Flushes happen while many are pending, or few.
    for interval in ["", "--flush-interval 50ms"] {
        let words = format!("ingest log --json --store sqlite:trips{interval:.1}.db {interval}");
        let summary = summary(run_limited(&folder, &words, LIMIT + CACHE), 0);
        assert_eq!(summary["dead_letters"], json!({ "bad_json": lines }));
    }
}

/// Each line opens a quote that none closes, so the end of a row is searched from each. If every
/// search read the rest of the file, this would take a quarter of an hour.
#[test]
fn quotes_that_never_close_cost_each_line_its_own_length() {
    let folder = Folder::new();
    let lines = 500_000;
    let table = format!("device_id,time,lat,lon\n{}", "x\",\"\n".repeat(lines));
    folder.write("log", format!("{table}a,2024-05-01T08:01:00Z,1,2\n"));
    let summary = summary(run_limited(&folder, "ingest log --json", LIMIT + CACHE), 0);
    assert_eq!(summary["dead_letters"], json!({ "bad_csv": lines }));
    assert_eq!(summary["applied"], 1);
}
