//! The base map: ranges of its file, and what happens when that is replaced, cut or removed.

use std::thread;

use super::{Answer, Server, worked_example};
use crate::cli::Folder;

/// The most bytes of an answer.
const MAX: usize = 4 << 20;

/// A `PMTiles` archive without compression, whose only tile covers the world.
pub fn archive(metadata: &str, tile: &[u8]) -> Vec<u8> {
    // One entry: id 0, a run of 1, the length of the tile (14 bits), offset 0.
    let length = [tile.len() & 127 | 128, tile.len() >> 7].map(|it| u8::try_from(it).unwrap());
    let directory = [1, 0, 1, length[0], length[1], 1];
    let (root, metadata) = (127, metadata.as_bytes());
    let data = root + directory.len() + metadata.len();
    let mut bytes = b"PMTiles\x03".to_vec();
    let metadata_at = root + directory.len();
    let spans = [root, directory.len(), metadata_at, metadata.len(), data, 0, data, tile.len()];
    for number in spans.into_iter().chain([1, 1, 1]) {
        bytes.extend((number as u64).to_le_bytes());
    }
    bytes.extend([1, 1, 1, 1, 0, 0]);
    bytes.resize(root, 0);
    [&bytes[..], &directory, metadata, tile].concat()
}

/// The same, with more bytes at its end that no two places have alike.
fn long_archive(length: usize) -> Vec<u8> {
    let mut bytes = archive("{}", b"x");
    let numbers = (0_u32..).flat_map(|nth| nth.to_le_bytes());
    bytes.extend(numbers.take(length - bytes.len()));
    bytes
}

fn start(folder: &Folder, content: &[u8]) -> Server {
    worked_example(folder);
    folder.write("town.pmtiles", content);
    Server::start(folder, "serve --store sqlite:trips.db --basemap town.pmtiles")
}

fn get(server: &Server, headers: &str) -> Answer {
    server.request("GET", "/v1/basemap", headers, b"")
}

#[test]
fn ranges_of_the_base_map_are_served() {
    let folder = Folder::new();
    let content = long_archive(MAX + 5000);
    let server = start(&folder, &content);
    assert_eq!(server.get("/v1/page").json()["basemap"], true);
    let length = content.len();
    for (range, from, to) in [
        ("0-0", 0, 1),
        ("0-126", 0, 127),
        ("4000000-4100000", 4_000_000, 4_100_001),
        ("-100", length - 100, length),
        ("4194304-", MAX, length),
        // Shortened.
        ("0-", 0, MAX),
        ("1-18446744073709551615", 1, MAX + 1),
        ("0-99999999999999999999999999", 0, MAX),
    ] {
        let headers = format!("range: bytes={range}\r\naccept-encoding: gzip\r\n");
        let answer = get(&server, &headers).is(206);
        assert!(answer.body == content[from..to], "{range}: {} bytes", answer.body.len());
        let described = format!("bytes {from}-{}/{length}", to - 1);
        assert_eq!(answer.header("content-range"), Some(&*described));
        assert_eq!(answer.header("content-encoding"), None);
        assert_eq!(answer.header("cache-control"), Some("private, no-cache"));
    }
    let many = format!("range: bytes={}\r\n", vec!["0-9"; 1000].join(","));
    let beyond = format!("range: bytes={length}-\r\n");
    let twice = "range: bytes=0-1\r\nrange: bytes=4-5\r\n".to_owned();
    for headers in [many, beyond, twice, "range: bytes=-0\r\n".into()] {
        let answer = get(&server, &headers);
        let described = answer.header("content-range").map(str::to_owned);
        answer.fails(416, "no_range");
        assert_eq!(described, Some(format!("bytes */{length}")));
    }
    // None, or one that is not valid: the whole file, which is too long.
    for headers in ["", "range: bytes=9-1\r\n", "range: bytes=-1-2\r\n", "range: tiles=0-1\r\n"] {
        get(&server, headers).fails(400, "bad_request");
    }
    let head = server.request("HEAD", "/v1/basemap", "range: bytes=0-9\r\n", b"");
    assert_eq!((head.status, head.body.len()), (206, 0));
    server.drain();
}

#[test]
fn a_short_base_map_is_served_whole_and_only_to_readers() {
    let folder = Folder::new();
    worked_example(&folder);
    let content = long_archive(10_000);
    folder.write("town.pmtiles", &content);
    folder.write("token", "maps:read:token-of-the-maps\nvan:write:token-of-the-van");
    let server = Server::start(
        &folder,
        "serve --store sqlite:trips.db --basemap town.pmtiles --token-file token",
    );
    let bearer = "authorization: Bearer token-of-the-maps\r\n";
    let answer = get(&server, &format!("{bearer}accept-encoding: gzip\r\n")).is(200);
    assert!(answer.body == content);
    assert_eq!(answer.header("accept-ranges"), Some("bytes"));
    let tag = answer.header("etag").unwrap();
    get(&server, &format!("{bearer}if-none-match: {tag}\r\n")).is(304);
    // The range is of another version.
    get(&server, &format!("{bearer}range: bytes=0-9\r\nif-range: \"x\"\r\n")).is(200);
    get(&server, &format!("{bearer}range: bytes=0-9\r\nif-range: {tag}\r\n")).is(206);
    get(&server, "range: bytes=0-9\r\n").fails(401, "unauthorized");
    get(&server, "authorization: Bearer token-of-the-van\r\n").fails(403, "forbidden");
}

#[test]
fn without_a_base_map_there_is_none() {
    let folder = Folder::new();
    worked_example(&folder);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    assert_eq!(server.get("/v1/page").json()["basemap"], false);
    get(&server, "range: bytes=0-9\r\n").fails(404, "no_basemap");
}

#[test]
fn a_file_that_changes_is_never_served_in_parts_of_two_versions() {
    let folder = Folder::new();
    let server = start(&folder, &long_archive(9000));
    let tag = get(&server, "range: bytes=0-9\r\n").is(206).header("etag").unwrap().to_owned();
    let matching = format!("if-match: {tag}\r\nrange: bytes=8000-8999\r\n");
    get(&server, &matching).is(206);
    // Cut.
    folder.write("town.pmtiles", &long_archive(9000)[..5000]);
    get(&server, &matching).fails(412, "changed");
    get(&server, "range: bytes=8000-8999\r\n").fails(416, "no_range");
    // Written while it is read: an answer has the bytes of one version.
    let versions = [vec![1; 300_000], vec![2; 300_000]];
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for nth in 0..200 {
                folder.write("new", &versions[nth % 2]);
                std::fs::rename(folder.path("new"), folder.path("town.pmtiles")).unwrap();
            }
        });
        while !writing.is_finished() {
            let answer = get(&server, "range: bytes=0-299999\r\n");
            if answer.status == 206 && answer.body.len() == 300_000 {
                let is_one = versions.contains(&answer.body);
                assert!(is_one, "bytes of two versions");
            }
        }
    });
    // Removed, and another kind of file.
    std::fs::remove_file(folder.path("town.pmtiles")).unwrap();
    get(&server, "range: bytes=0-9\r\n").fails(404, "no_basemap");
    std::fs::create_dir(folder.path("town.pmtiles")).unwrap();
    get(&server, "range: bytes=0-9\r\n").fails(404, "no_basemap");
    server.drain();
}
