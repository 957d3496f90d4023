//! Audit lines: who did what over HTTP, without secrets, values and positions.

use serde_json::{Value, json};

use super::apps::basic;
use super::{Answer, Server, worked_example};
use crate::cli::Folder;
use crate::servers::LIMIT;
use crate::servers::ready::until;

const MAPS: &str = "token-of-the-maps";
const OPS: &str = "token-of-operators";
const WRONG: &str = "token-of-an-attacker";

const TRIP: &str = "truck-17~20240501T080000.000Z";

struct Site {
    server: Server,
    _folder: Folder,
}

impl Site {
    fn start() -> Self {
        let folder = Folder::new();
        worked_example(&folder);
        folder.write("tokens", format!("maps:read:{MAPS}\nops:read,write:{OPS}\n"));
        let words = "serve --store sqlite:trips.db --token-file tokens --log-format json";
        Self { server: Server::start(&folder, words), _folder: folder }
    }

    fn send(&self, method: &str, target: &str, secret: &str, body: &str) -> Answer {
        let bearer = format!("authorization: Bearer {secret}\r\n");
        self.server.request(method, target, &bearer, body.as_bytes())
    }

    fn log_in(&self, secret: &str) -> Answer {
        let body = json!({ "token": secret }).to_string();
        self.server.request("POST", "/v1/login", "", body.as_bytes())
    }

    /// The audit lines so far.
    fn lines(&self) -> Vec<Value> {
        let said = self.server.said();
        // The last line may be incomplete.
        let lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines: Vec<_> = lines.filter(|line| line["audit"].is_string()).collect();
        for line in &lines {
            let message = line["message"].as_str().unwrap();
            assert!(message.starts_with("audit: "), "{line}");
            assert_eq!(line["client"], "127.0.0.1", "{line}");
        }
        lines
    }

    /// Waits for the next line after `count`; returns it.
    fn next(&self, count: usize) -> Value {
        until("an audit line", LIMIT, || self.lines().into_iter().nth(count), || None)
    }

    fn refused(&self, reason: &str) -> f64 {
        let text = self.send("GET", "/metrics", OPS, "").is(200).text();
        let series = format!("tstar_http_unauthorized_total{{reason=\"{reason}\"}} ");
        let value = |line: &str| line.strip_prefix(&series)?.parse().ok();
        text.lines().find_map(value).unwrap_or(0.0)
    }
}

fn fields<'a>(line: &'a Value, names: &[&str]) -> Vec<&'a str> {
    names.iter().map(|name| line[name].as_str().unwrap_or("none")).collect()
}

#[test]
fn logins_and_changes_have_a_line_each() {
    let site = Site::start();
    let target = format!("/v1/trips/{TRIP}/tags/purpose");
    let value = r#"{"value":"a private visit"}"#;
    site.send("PUT", &target, OPS, value).is(200);
    let condition = format!("authorization: Bearer {OPS}\r\nif-none-match: *\r\n");
    site.server.request("PUT", &target, &condition, value.as_bytes()).fails(412, "changed");
    site.send("DELETE", &target, OPS, "").is(204);
    let value = r#"{"value":"a private van"}"#;
    site.send("PUT", "/v1/devices/truck%2d17/tags/name", OPS, value).is(200);
    let answer = site.log_in(MAPS).is(204);
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let own = format!("cookie: {cookie}\r\norigin: http://{}\r\n", site.server.address);
    site.server.request("POST", "/v1/logout", &own, b"").is(204);

    let lines = site.lines();
    let found: Vec<_> =
        lines.iter().map(|line| fields(line, &["level", "audit", "token", "outcome"])).collect();
    let expected = [
        ["INFO", "tag.set", "ops", "ok"],
        ["INFO", "tag.set", "ops", "changed"],
        ["INFO", "tag.remove", "ops", "ok"],
        ["INFO", "tag.set", "ops", "ok"],
        ["INFO", "login", "maps", "ok"],
        ["INFO", "logout", "maps", "ok"],
    ];
    assert_eq!(found, expected);
    assert_eq!(fields(&lines[0], &["trip", "key"]), [TRIP, "purpose"]);
    let message =
        format!("audit: tag `purpose` of trip `{TRIP}` set by token `ops` from 127.0.0.1");
    assert_eq!(lines[0]["message"], message);
    assert_eq!(fields(&lines[3], &["device", "key", "trip"]), ["truck-17", "name", "none"]);
    let message = "audit: tag `name` of device `truck-17` set by token `ops` from 127.0.0.1";
    assert_eq!(lines[3]["message"], message);
    let said = site.server.drain();
    for hidden in [MAPS, OPS, "a private visit", "a private van", cookie.split_once('=').unwrap().1]
    {
        assert!(!said.contains(hidden), "the log contains {hidden}: {said}");
    }
}

#[test]
fn refusals_are_counted_and_have_a_line_a_second() {
    let site = Site::start();
    site.log_in(WRONG).fails(401, "unauthorized");
    let line = site.next(0);
    assert_eq!(
        fields(&line, &["level", "audit", "token", "outcome"]),
        ["WARN", "login", "none", "refused"]
    );
    // Many of one client, by each way.
    let osmand = "/v1/in/traccar-client?id=phone&lat=52.5&lon=13.4&timestamp=1714550400";
    for _ in 0..5 {
        site.log_in(WRONG).fails(401, "unauthorized");
        site.send("GET", "/v1/devices", WRONG, "").fails(401, "unauthorized");
        site.server.request("GET", osmand, &basic(WRONG), b"").fails(401, "unauthorized");
        site.send("POST", "/v1/samples", MAPS, "{}").fails(403, "forbidden");
    }
    assert_eq!((site.refused("token"), site.refused("forbidden")), (16.0, 5.0));
    // The next line after a second has the number of those without one. A slow machine may have
    // needed several seconds until here: together the lines account for all.
    let total = || -> u64 {
        let suppressed = |line: &Value| line["suppressed"].as_u64().unwrap();
        site.lines().iter().map(|line| 1 + suppressed(line)).sum()
    };
    let mut sent = 21;
    let all_are_logged = || {
        site.send("GET", "/v1/devices", WRONG, "").fails(401, "unauthorized");
        sent += 1;
        (total() == sent).then_some(())
    };
    until("a line that counts the others", LIMIT, all_are_logged, || None);
    let lines = site.lines();
    assert!(lines.len() < 21, "{} lines", lines.len());
    let last = &lines[lines.len() - 1];
    let message = last["message"].as_str().unwrap();
    assert!(message.contains("a wrong token for GET /v1/devices from 127.0.0.1"), "{message}");
    let counts = lines.iter().find(|line| line["suppressed"] != 0).unwrap();
    let message = counts["message"].as_str().unwrap();
    assert!(message.contains("more since its last line"), "{message}");

    // No line for a browser that has no session yet, or none any more.
    let before = site.lines().len();
    site.server.get("/v1/page").fails(401, "unauthorized");
    site.server.request("GET", "/v1/page", "cookie: tstar=0\r\n", b"").fails(401, "unauthorized");
    assert_eq!((site.refused("missing"), site.refused("session")), (1.0, 1.0));
    assert_eq!(site.lines().len(), before);
    let said = site.server.drain();
    for hidden in [MAPS, OPS, WRONG, "52.5"] {
        assert!(!said.contains(hidden), "the log contains {hidden}: {said}");
    }
}
