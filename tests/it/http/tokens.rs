//! Authentication.

use super::{Server, worked_example};
use crate::cli::Folder;

const SECRET: &str = "correct-horse-battery";

fn guarded(folder: &Folder) -> Server {
    worked_example(folder);
    folder.write("token", format!("ops:read,write:{SECRET}\n"));
    Server::start(folder, "serve --store sqlite:trips.db --token-file token")
}

#[test]
fn reads_need_the_token() {
    let folder = Folder::new();
    let server = guarded(&folder);
    for target in ["/v1/devices", "/v1/changes/stream", "/metrics", "/v1/page", "/v1/trips?day=x"] {
        server.get(target).fails(401, "unauthorized");
    }
    for target in ["/livez", "/readyz", "/version", "/", "/openapi.json", "/assets/app.js"] {
        server.get(target).is(200);
    }
    let bearer = |secret: &str| format!("authorization: Bearer {secret}\r\n");
    server.request("GET", "/v1/devices", &bearer(SECRET), b"").is(200);
    for wrong in ["", "x", &SECRET[1..], &format!("{SECRET}x"), "\u{e9}"] {
        server.request("GET", "/v1/devices", &bearer(wrong), b"").fails(401, "unauthorized");
    }
    server.request("GET", "/v1/devices", "authorization: Basic eDp5\r\n", b"").is(401);
    assert!(!server.said().contains(SECRET), "the log contains the token");
}

#[test]
fn a_login_sets_a_cookie_that_scripts_cannot_read() {
    let folder = Folder::new();
    let server = guarded(&folder);
    let login = |token: &str| {
        let body = serde_json::json!({ "token": token }).to_string();
        server.request("POST", "/v1/login", "", body.as_bytes())
    };
    login("wrong").fails(401, "unauthorized");
    server.request("POST", "/v1/login", "", b"token=x").fails(400, "bad_request");
    let answer = login(SECRET).is(204);
    let set = answer.header("set-cookie").unwrap();
    assert!(set.contains("; HttpOnly; SameSite=Strict; Path=/"), "{set}");
    assert!(!set.contains(SECRET), "{set}");
    let cookie = set.split(';').next().unwrap();
    let with =
        |cookie: &str| server.request("GET", "/v1/devices", &format!("cookie: {cookie}\r\n"), b"");
    with(&format!("other=1; {cookie}")).is(200);
    with(&format!("{cookie}0")).is(401);
    with("tstar=").is(401);
}

#[test]
fn beyond_this_machine_it_answers_with_a_token_alone() {
    let folder = Folder::new();
    worked_example(&folder);
    let serve = "serve --store sqlite:trips.db";
    let refused = folder.run(&format!("{serve} --listen 0.0.0.0:0")).ends(2);
    refused.says(&["token_file", "insecure"]).prints_nothing();
    folder.write("short", "1234567890\n");
    let short = format!("{serve} --listen 127.0.0.1:0 --token-file short");
    folder.run(&short).ends(78).says(&["token_file `short`: line 1", "/dev/urandom"]);
    let none = format!("{serve} --listen 127.0.0.1:0 --token-file none");
    folder.run(&none).ends(74).says(&["`none` cannot be read"]);
    folder
        .run("serve --store sqlite:none.db --listen 127.0.0.1:0")
        .ends(74)
        .says(&["does not exist"]);
    folder.run(&format!("{serve} --listen off")).ends(2).says(&["nothing to serve"]);

    let server = Server::start(&folder, serve);
    let taken = folder.run(&format!("{serve} --listen {}", server.address)).ends(74);
    taken.says(&["cannot listen", "--listen"]);
    // A page of another site that names this machine as its own.
    let host = |host: &str| {
        let request =
            format!("GET /v1/devices HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        super::Answer::read(&server.raw(request.as_bytes()))
    };
    host("evil.example.com").fails(421, "foreign_name");
    host("127.0.0.1.evil.example.com:8080").fails(421, "foreign_name");
    for own in ["localhost:8080", "LOCALHOST", "127.0.0.1", "[::1]:8080", "192.168.1.7:80"] {
        host(own).is(200);
    }
}

#[test]
fn pages_of_other_origins_read_only_where_they_are_named() {
    let folder = Folder::new();
    worked_example(&folder);
    let words = "serve --store sqlite:trips.db --cors https://maps.example.com";
    let server = Server::start(&folder, words);
    let from = |origin: &str| {
        let answer =
            server.request("GET", "/v1/devices", &format!("origin: {origin}\r\n"), b"").is(200);
        answer.header("access-control-allow-origin").map(str::to_owned)
    };
    assert_eq!(from("https://maps.example.com").as_deref(), Some("https://maps.example.com"));
    assert_eq!(from("https://evil.example.com"), None);
}
