//! Several tokens: what each permits, and how one is replaced while the server runs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};

use serde_json::json;

use super::apps::basic;
use super::{Answer, Server, worked_example};
use crate::cli::{Folder, minutes};
use crate::servers::LIMIT;
use crate::servers::ready::until;

const MAPS: &str = "token-of-the-maps";
const GATEWAY: &str = "token-of-the-gateway";
const OPS: &str = "token:of:operators";

const TAG: &str = "/v1/trips/truck-17~20240501T080000.000Z/tags/purpose";
const DEVICE_TAG: &str = "/v1/devices/truck-17/tags/name";

fn start(folder: &Folder, tokens: &str) -> Server {
    worked_example(folder);
    folder.write("tokens", tokens);
    Server::start(folder, "serve --store sqlite:trips.db --token-file tokens")
}

fn all_tokens() -> String {
    format!("# of a test\nmaps:read:{MAPS}\ngateway:write:{GATEWAY}\n\nops:read,write:{OPS}\n")
}

fn bearer(secret: &str) -> String {
    format!("authorization: Bearer {secret}\r\n")
}

fn send(server: &Server, method: &str, target: &str, secret: &str, body: &str) -> Answer {
    server.request(method, target, &bearer(secret), body.as_bytes())
}

/// Logs in; returns the header of the cookie and of the page that sends it.
fn log_in(server: &Server, secret: &str) -> String {
    let body = json!({ "token": secret }).to_string();
    let answer = server.request("POST", "/v1/login", "", body.as_bytes()).is(204);
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    format!("cookie: {cookie}\r\norigin: http://{}\r\n", server.address)
}

#[track_caller]
fn lacks(answer: Answer, token: &str, right: &str) {
    let problem = answer.fails(403, "forbidden");
    assert_eq!((&problem["token"], &problem["right"]), (&json!(token), &json!(right)));
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(token) && detail.contains(right), "{detail}");
}

#[test]
fn each_right_opens_its_routes() {
    let folder = Folder::new();
    let server = start(&folder, &all_tokens());
    let reads = [
        "/v1/devices",
        "/v1/page",
        "/metrics",
        "/v1/changes",
        "/v1/changes/stream",
        "/v1/trips?day=2024-05-01",
        TAG.strip_suffix("/purpose").unwrap(),
        DEVICE_TAG.strip_suffix("/name").unwrap(),
    ];
    for target in reads {
        lacks(send(&server, "GET", target, GATEWAY, ""), "gateway", "read");
        if !target.ends_with("/stream") {
            send(&server, "GET", target, MAPS, "").is(200);
            send(&server, "GET", target, OPS, "").is(200);
        }
    }
    let pairs = r#"{"pairs":[{"device":"truck-17","at":"2024-05-01T08:05:00Z"}]}"#;
    send(&server, "POST", "/v1/trips/lookup", MAPS, pairs).is(200);
    lacks(send(&server, "POST", "/v1/trips/lookup", GATEWAY, pairs), "gateway", "read");
    send(&server, "HEAD", "/v1/devices", GATEWAY, "").is(403);

    let sample = minutes("new", &[1]);
    lacks(send(&server, "POST", "/v1/samples", MAPS, &sample), "maps", "write");
    for tag in [TAG, DEVICE_TAG] {
        lacks(send(&server, "PUT", tag, MAPS, r#"{"value":"private"}"#), "maps", "write");
        lacks(send(&server, "DELETE", tag, MAPS, ""), "maps", "write");
    }
    send(&server, "POST", "/v1/samples", GATEWAY, &sample).is(200);
    for (secret, tag) in [(GATEWAY, TAG), (OPS, TAG), (GATEWAY, DEVICE_TAG), (OPS, DEVICE_TAG)] {
        send(&server, "PUT", tag, secret, r#"{"value":"private"}"#).is(200);
        send(&server, "DELETE", tag, secret, "").is(204);
    }
    let osmand = "/v1/in/traccar-client?id=phone&lat=52.5&lon=13.4&timestamp=1714550400";
    server.request("GET", osmand, &basic(GATEWAY), b"").is(200);
    send(&server, "GET", osmand, OPS, "").is(200);
    lacks(server.request("GET", osmand, &basic(MAPS), b""), "maps", "write");
    lacks(server.request("POST", "/v1/in/owntracks", &bearer(MAPS), b"{}"), "maps", "write");
    server.request("GET", osmand, &basic("token-of-no-one-here"), b"").fails(401, "unauthorized");

    // A session has the rights of its token.
    let cookie = log_in(&server, MAPS);
    server.request("GET", "/v1/devices", &cookie, b"").is(200);
    lacks(server.request("POST", "/v1/samples", &cookie, sample.as_bytes()), "maps", "write");
    let body = json!({ "token": GATEWAY }).to_string();
    lacks(server.request("POST", "/v1/login", "", body.as_bytes()), "gateway", "read");
    let verbose = |secret| send(&server, "GET", "/readyz?verbose", secret, "").status;
    assert_eq!([verbose(MAPS), verbose(GATEWAY)], [200, 200]);
    let said = server.drain();
    for secret in [MAPS, GATEWAY, OPS] {
        assert!(!said.contains(secret), "the log contains a token: {said}");
    }
}

/// A change stream; `is_open` reads what there is of it.
fn follow(server: &Server, secret: &str) -> BufReader<std::net::TcpStream> {
    let mut stream = server.connect();
    let request = format!(
        "GET /v1/changes/stream HTTP/1.1\r\nhost: {}\r\n{}\r\n",
        server.address,
        bearer(secret)
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 200 OK\r\n");
    stream
}

#[test]
fn tokens_are_replaced_without_a_restart() {
    const OLD: &str = "the:old:secret:of:all";
    let folder = Folder::new();
    let server = start(&folder, &format!("token:read,write:{OLD}\n"));
    let devices = |secret: &str| send(&server, "GET", "/v1/devices", secret, "").status;
    let become_status = |secret: &str, status: u16| {
        let what = format!("{secret} to be answered with {status}");
        until(&what, LIMIT, || (devices(secret) == status).then_some(()), || None);
    };
    let (of_old, mut stream) = (log_in(&server, OLD), follow(&server, OLD));
    assert_eq!([devices(OLD), devices(OPS)], [200, 401]);

    // The new one is added, and clients change to it.
    folder.write("tokens", format!("token:read,write:{OLD}\nops:read,write:{OPS}\n"));
    become_status(OPS, 200);
    assert_eq!(devices(OLD), 200);
    server.request("GET", "/v1/devices", &of_old, b"").is(200);
    let of_ops = log_in(&server, OPS);

    // A file that cannot be used changes nothing.
    folder.write("tokens", format!("ops:read,write:{OPS}\nmaps:admin:{MAPS}\n"));
    let failed = || {
        let text = send(&server, "GET", "/metrics", OPS, "").is(200).text();
        text.contains("tstar_reload_failed{setting=\"token_file\"} 1").then_some(())
    };
    until("the reload to fail", LIMIT, failed, || None);
    assert_eq!([devices(OLD), devices(OPS), devices(MAPS)], [200, 200, 401]);
    let said = server.said();
    let warning = "token_file has changed and cannot be used";
    assert_eq!(said.matches(warning).count(), 1, "{said}");
    assert!(said.contains("line 2") && !said.contains(MAPS), "{said}");

    // The old one is removed: its logins and streams end.
    folder.write("tokens", format!("ops:read,write:{OPS}\nmaps:read:{MAPS}\n"));
    become_status(OLD, 401);
    assert_eq!([devices(OPS), devices(MAPS)], [200, 200]);
    server.request("GET", "/v1/devices", &of_old, b"").fails(401, "unauthorized");
    server.request("GET", "/v1/devices", &of_ops, b"").is(200);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&rest));
    let text = send(&server, "GET", "/metrics", OPS, "").is(200).text();
    assert!(text.contains("tstar_reload_failed{setting=\"token_file\"} 0"), "{text}");

    // A right that is taken away is taken from logins, too.
    folder.write("tokens", format!("ops:write:{OPS}\nmaps:read:{MAPS}\n"));
    become_status(OPS, 403);
    lacks(server.request("GET", "/v1/devices", &of_ops, b""), "ops", "read");

    // An emptied file revokes all of them.
    let of_maps = log_in(&server, MAPS);
    folder.write("tokens", "# none, for now\n");
    become_status(MAPS, 401);
    server.request("GET", "/v1/devices", &of_maps, b"").fails(401, "unauthorized");
    server.request("GET", "/v1/devices", "", b"").fails(401, "unauthorized");
    assert!(server.said().contains("every request is refused"), "{}", server.said());
    folder.write("tokens", format!("maps:read:{MAPS}\n"));
    become_status(MAPS, 200);
    server.request("GET", "/v1/devices", &of_maps, b"").fails(401, "unauthorized");
    let said = server.drain();
    for secret in [OLD, OPS, MAPS] {
        assert!(!said.contains(secret), "the log contains a token: {said}");
    }
}

#[test]
fn a_token_file_that_cannot_be_used_is_reported_at_start() {
    let folder = Folder::new();
    worked_example(&folder);
    let serve = "serve --store sqlite:trips.db --listen 127.0.0.1:0 --token-file tokens";
    for (tokens, problem) in [
        ("", "it has no line with a token"),
        ("# maps:read:token-of-the-maps", "it has no line with a token"),
        ("maps:read:short", "line 1: its secret"),
        ("maps:read:token-of-the-maps\nops:all:token-of-the-ops", "line 2: it is not NAME:RIGHTS"),
        ("maps:read:token-of-the-maps\nmaps:write:token-of-the-ops", "defined twice"),
        ("a:read:token-of-the-maps\nb:write:token-of-the-maps", "has the secret of `a`"),
    ] {
        folder.write("tokens", tokens);
        let refused = folder.run(serve).ends(78).prints_nothing();
        let words = ["token_file `tokens`: ", problem, "NAME:RIGHTS:SECRET", "/dev/urandom"];
        let refused = refused.says(&words);
        assert!(!refused.stderr.contains("token-of"), "{}", refused.stderr);
    }
}
