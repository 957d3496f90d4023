//! Logins: what a page may do with one, and how it ends.

use serde_json::json;

use super::{Answer, Server, worked_example};
use crate::cli::{Folder, minutes};

const SECRET: &str = "correct-horse-battery";

fn guarded(folder: &Folder) -> Server {
    worked_example(folder);
    folder.write("token", format!("ops:read,write:{SECRET}"));
    Server::start(folder, "serve --store sqlite:trips.db --token-file token")
}

fn log_in_with(server: &Server, headers: &str) -> Answer {
    let body = json!({ "token": SECRET }).to_string();
    server.request("POST", "/v1/login", headers, body.as_bytes())
}

/// The cookie of a login.
fn log_in(server: &Server) -> String {
    let answer = log_in_with(server, "").is(204);
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    format!("cookie: {cookie}\r\n")
}

fn origin(server: &Server) -> String {
    format!("origin: http://{}\r\n", server.address)
}

#[test]
fn with_a_cookie_only_the_page_of_this_server_changes_anything() {
    let folder = Folder::new();
    let server = guarded(&folder);
    let (cookie, own) = (log_in(&server), origin(&server));
    let body = minutes("new", &[1]);
    let post = |headers: &str| server.request("POST", "/v1/samples", headers, body.as_bytes());
    let foreign = [
        "",
        // Other ports, and other names under the same one, are same-site.
        "origin: http://127.0.0.1:1\r\n",
        "origin: null\r\n",
        "sec-fetch-site: same-site\r\n",
        "sec-fetch-site: cross-site\r\n",
        "sec-fetch-site: none\r\n",
    ];
    for headers in foreign {
        post(&format!("{cookie}{headers}")).fails(403, "foreign_origin");
    }
    post(&format!("{cookie}{own}sec-fetch-site: same-site\r\n")).fails(403, "foreign_origin");
    let target = "/v1/trips/lookup?device=new&at=2024-05-01T08:01:00Z";
    server.request("GET", target, &cookie, b"").fails(404, "no_device");
    for headers in foreign[1..].iter() {
        log_in_with(&server, headers).fails(403, "foreign_origin");
        server.request("POST", "/v1/logout", headers, b"").fails(403, "foreign_origin");
    }
    for headers in [&*own, "sec-fetch-site: same-origin\r\n"] {
        post(&format!("{cookie}{headers}")).is(200);
    }
    server.request("GET", target, &cookie, b"").is(200);
    // A program sends the token, from any origin.
    post(&format!("authorization: Bearer {SECRET}\r\norigin: http://elsewhere\r\n")).is(200);
}

#[test]
fn behind_tls_the_cookie_is_of_this_host_alone() {
    let folder = Folder::new();
    let server = guarded(&folder);
    let secure = [
        "origin: https://maps.example.com\r\nsec-fetch-site: same-origin\r\n",
        "x-forwarded-proto: https\r\n",
    ];
    for headers in secure {
        let answer = log_in_with(&server, headers).is(204);
        let set = answer.header("set-cookie").unwrap();
        assert!(set.starts_with("__Host-tstar="), "{set}");
        assert!(set.contains("; Secure; HttpOnly; SameSite=Strict; Path=/; Max-Age="), "{set}");
        let cookie = set.split(';').next().unwrap();
        server.request("GET", "/v1/devices", &format!("cookie: {cookie}\r\n"), b"").is(200);
    }
    let answer = log_in_with(&server, &origin(&server)).is(204);
    let set = answer.header("set-cookie").unwrap();
    assert!(set.starts_with("tstar=") && !set.contains("Secure"), "{set}");
}

#[test]
fn a_logout_ends_one_login() {
    let folder = Folder::new();
    let server = guarded(&folder);
    let (one, other, own) = (log_in(&server), log_in(&server), origin(&server));
    assert_ne!(one, other);
    let page = |cookie: &str| server.request("GET", "/v1/page", cookie, b"");
    assert_eq!(page(&one).is(200).json()["logged_in"], true);
    server.request("POST", "/v1/logout", &one, b"").fails(403, "foreign_origin");
    page(&one).is(200);
    let answer = server.request("POST", "/v1/logout", &format!("{one}{own}"), b"").is(204);
    let removed = answer.header("set-cookie").unwrap();
    assert!(removed.contains("tstar=;") && removed.contains("Max-Age=0"), "{removed}");
    page(&one).fails(401, "unauthorized");
    page(&other).is(200);
    // A logout can be repeated, and a second login replaces the first.
    server.request("POST", "/v1/logout", &format!("{one}{own}"), b"").is(204);
    log_in_with(&server, &format!("{other}{own}")).is(204);
    page(&other).fails(401, "unauthorized");
    let bearer = format!("authorization: Bearer {SECRET}\r\n");
    assert_eq!(page(&bearer).is(200).json()["logged_in"], false);
}

#[test]
fn a_restart_ends_all_logins() {
    let folder = Folder::new();
    let server = guarded(&folder);
    let cookie = log_in(&server);
    server.request("GET", "/v1/devices", &cookie, b"").is(200);
    server.drain();
    let server = Server::start(&folder, "serve --store sqlite:trips.db --token-file token");
    server.request("GET", "/v1/devices", &cookie, b"").fails(401, "unauthorized");
}

#[test]
fn logins_of_one_token_end_none_of_another_and_flood_no_log() {
    let folder = Folder::new();
    worked_example(&folder);
    let other = "token-of-many-logins";
    folder.write("token", format!("ops:read:{SECRET}\nother:read:{other}"));
    let server = Server::start(&folder, "serve --store sqlite:trips.db --token-file token");
    let cookie = log_in(&server);
    let body = json!({ "token": other }).to_string();
    for _ in 0..1_100 {
        server.request("POST", "/v1/login", "", body.as_bytes()).is(204);
    }
    server.request("GET", "/v1/page", &cookie, b"").is(200);
    let said = server.drain();
    let lines = said.matches("audit: login with token `other`").count();
    assert!((1..400).contains(&lines), "{lines} lines");
}
