//! Mistakes on the way to a served page: what each message says of the cause, the value and the
//! next step.

use std::net::TcpListener;

use crate::cli::{Folder, minutes};
use crate::http::Server;

/// A mistake: the command, its exit code, and what it has to say.
type Mistake = (&'static str, i32, &'static [&'static str]);

const MISTAKES: &[Mistake] = &[
    (
        "serve --listen fleet.example.com:8080",
        2,
        &[
            "--listen: listen: `fleet.example.com:8080` has the name of a host",
            "write one of them, such as 127.0.0.1:8080 for this machine alone",
        ],
    ),
    (
        "serve --listen localhost",
        2,
        &["`localhost` is not a valid listen address; write 127.0.0.1:8080, or off"],
    ),
    (
        "serve --listen 0.0.0.0:8080",
        2,
        &[
            "--listen: listen 0.0.0.0:8080 is reachable from other machines",
            "token_file (--token-file), or set insecure (--insecure)",
        ],
    ),
    (
        "serve --port 8081",
        2,
        &["argument '--port'", "tip: `--listen 127.0.0.1:PORT` takes the port, with its address\n"],
    ),
    (
        "serve trips.db",
        2,
        &["argument 'trips.db'", "tip: `--store sqlite:trips.db` names the store\n"],
    ),
    ("serve sqlite:my.db", 2, &["tip: `--store sqlite:my.db` names the store\n"]),
    (
        "serve --tiles https://tiles.example.com/{z}/{x}/{y}.png",
        2,
        &[
            "tstar: --tiles: tiles need tiles_attribution (--tiles-attribution)",
            "set it to their text, such as `© [OpenStreetMap]",
        ],
    ),
    (
        "serve --tiles https://tiles.example.com/{z}/{x}/{y}.png --tiles-attribution x \
         --basemap town.pmtiles",
        2,
        &["basemap and tiles are both set", "set one of them"],
    ),
    (
        "serve --listen 127.0.0.1:0 --basemap town.pmtiles",
        78,
        &["basemap `town.pmtiles`: No such file or directory"],
    ),
    ("serve --listen 127.0.0.1:0 --basemap .", 78, &["basemap `.`: it is not a regular file"]),
    (
        "serve --listen 127.0.0.1:0 --basemap /dev/zero",
        78,
        &["basemap `/dev/zero`: it is not a regular file"],
    ),
    (
        "serve --listen 127.0.0.1:0 --basemap log",
        78,
        &["basemap `log`: it is not a PMTiles file; `pmtiles convert` and tippecanoe write one"],
    ),
    (
        "demo --listen 127.0.0.1:8081",
        2,
        &[
            "argument '--listen'",
            "tip: set the variable TSTAR_LISTEN, such as TSTAR_LISTEN=127.0.0.1:8081\n",
        ],
    ),
    (
        "trips --device truck-17",
        2,
        &["argument '--device'", "tip: `tstar trips DEVICE` takes the device without a flag\n"],
    ),
    (
        "trips",
        2,
        &[
            "<DEVICE>",
            "`tstar trips DEVICE` lists the trips",
            "`tstar trips --day 2026-11-20` those",
        ],
    ),
    ("ls", 2, &["'ls'", "tip: `tstar devices` lists devices, `tstar trips DEVICE` trips\n"]),
    ("id 4711", 2, &["'4711'", "tip: `tstar id decode 4711` decodes an id\n"]),
    (
        "run --schema-registry http://registry:8081 --schema-registry-auth-file login",
        2,
        &[
            "login in schema_registry_auth_file would be sent to `http://registry:8081` without TLS",
            "write https, or set schema_registry_plain_login (--schema-registry-plain-login)",
        ],
    ),
    (
        "ingest log --max-samples 2000001",
        2,
        &["max_samples must be 1 to 2000000, not 2000001", "set 2000000 at most"],
    ),
];

#[test]
fn a_mistake_is_answered_with_its_cause_and_what_to_write() {
    let folder = Folder::with("log", minutes("truck-17", &[0]));
    folder.ingest("log");
    for (words, code, said) in MISTAKES {
        let ran = folder.run(words).ends(*code).prints_nothing().says(said);
        assert!(!ran.stderr.contains("use '-- "), "{ran}");
    }
}

#[test]
fn localhost_is_listened_at_as_an_address_of_this_machine() {
    let folder = Folder::with("log", minutes("truck-17", &[0]));
    folder.ingest("log");
    let server = Server::start(&folder, "serve --listen localhost:0");
    assert!(server.said().contains("listening on http://127.0.0.1:"), "{}", server.said());
    server.get("/v1/devices").is(200);
}

/// Clients must not connect to a server that is about to end.
#[test]
fn files_are_checked_before_the_address_is_taken() {
    let folder = Folder::with("log", minutes("truck-17", &[0]));
    folder.ingest("log");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let serve = format!("serve --listen {}", taken.local_addr().unwrap());
    for (flags, code, said) in [
        ("--basemap log", 78, "basemap `log`: it is not a PMTiles file"),
        ("--token-file log", 78, "token_file `log`: line 1"),
        ("--token-file none", 74, "`none` cannot be read"),
        ("--tls-cert none --tls-key log", 74, "tls_cert `none` cannot be read"),
    ] {
        let ran = folder.run(&format!("{serve} {flags}")).ends(code).says(&[said]);
        assert!(!ran.stderr.contains("listen"), "{ran}");
    }
    folder.run(&serve).ends(74).says(&["cannot listen"]);
}
