//! Row (a): the minimum cost of reading lines and parsing their JSON, without any validation.

use std::borrow::Cow;
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

/// Bytes per read, the same as in the reader of tstar.
const CHUNK: usize = 64 << 10;

#[derive(Deserialize)]
struct Four<'a> {
    #[serde(borrow)]
    device_id: Cow<'a, str>,
    time: &'a str,
    lat: f64,
    lon: f64,
}

/// Parses every line of a file, and returns their number.
///
/// # Errors
/// The file cannot be read, or a line is not a sample.
pub fn decode(file: &Path) -> anyhow::Result<u64> {
    let mut input = File::open(file).with_context(|| file.display().to_string())?;
    let mut buffer = vec![0; 2 * CHUNK];
    let (mut filled, mut lines) = (0, 0);
    loop {
        let read = input.read(&mut buffer[filled..])?;
        if read == 0 {
            break;
        }
        filled += read;
        let mut start = 0;
        while let Some(length) = memchr::memchr(b'\n', &buffer[start..filled]) {
            parse(&buffer[start..start + length])?;
            start += length + 1;
            lines += 1;
        }
        anyhow::ensure!(start > 0, "a line is longer than {} bytes", buffer.len());
        buffer.copy_within(start..filled, 0);
        filled -= start;
    }
    if filled > 0 {
        parse(&buffer[..filled])?;
        lines += 1;
    }
    Ok(lines)
}

fn parse(line: &[u8]) -> anyhow::Result<()> {
    let four: Four<'_> = serde_json::from_str(std::str::from_utf8(line)?)?;
    black_box((&four.device_id, four.time, four.lat, four.lon));
    Ok(())
}
