//! Settings of the HTTP server.

use std::net::SocketAddr;

use super::setting::{Kind, Setting};
use super::values::{count, flag, text};
use super::{Problem, Settings};
use crate::model::visible::without_credentials;

/// Settings of the HTTP server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpSettings {
    /// Listen address; `None` for no HTTP server.
    pub listen: Option<SocketAddr>,
    /// Path of the token file; empty for none.
    pub token_file: String,
    /// Allows access without a token from other machines and under any host name.
    pub insecure: bool,
    /// URL of map tiles; empty for none.
    pub tiles: String,
    /// Origins whose pages may read responses (CORS).
    pub cors: Vec<String>,
    /// Maximum concurrent connections.
    pub connections: u64,
    /// Maximum concurrent requests.
    pub requests: u64,
    /// Maximum concurrent change streams.
    pub streams: u64,
    /// Maximum connections per client; 0 for an eighth of `connections`.
    pub client_connections: u64,
    /// Maximum change streams per client; 0 for an eighth of `streams`.
    pub client_streams: u64,
}

/// Violated rules of the HTTP settings.
pub(super) fn problems(settings: &Settings) -> Vec<Problem> {
    let http = &settings.http;
    let mut problems = Vec::new();
    let mut check = |holds: bool, keys: &'static [&'static str], message: String| {
        if !holds {
            problems.push(Problem { keys, message });
        }
    };
    if let Some(address) = http.listen {
        check(
            address.ip().is_loopback() || !http.token_file.is_empty() || http.insecure,
            &["listen"],
            format!(
                "listen {address} is reachable from other machines; set token_file, or set \
                 insecure to allow access without a token"
            ),
        );
    }
    for (keys, value) in [
        (&["max_connections"], http.connections),
        (&["max_requests"], http.requests),
        (&["max_streams"], http.streams),
    ] {
        let message = format!("{} must be 1 to 100000, not {value}", keys[0]);
        check((1..=100_000).contains(&value), keys, message);
    }
    for (keys, value, max) in [
        (&["max_client_connections"], http.client_connections, http.connections),
        (&["max_client_streams"], http.client_streams, http.streams),
    ] {
        let message = format!("{} must be 0 to {max} (the total), not {value}", keys[0]);
        check(value <= max, keys, message);
    }
    problems
}

pub(super) fn listen(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        format!("`{text}` is not a valid listen address; write 127.0.0.1:8080, or off")
    })
}

pub(super) fn listen_text(listen: &Option<SocketAddr>) -> String {
    listen.map_or_else(|| "off".to_owned(), |address| address.to_string())
}

pub(super) fn tiles(text: &str) -> Result<String, String> {
    let is_url = text.starts_with("https://") || text.starts_with("http://");
    let has_names = ["{z}", "{x}", "{y}"].iter().all(|name| text.contains(name));
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"'\";,".contains(&byte));
    if text.is_empty() || (is_url && has_names && is_plain) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{}` is not a valid tile URL; write https://tiles.example.com/{{z}}/{{x}}/{{y}}.png",
        without_credentials(text)
    ))
}

pub(super) fn origins(text: &str) -> Result<Vec<String>, String> {
    let given = text.split(',').map(str::trim).filter(|origin| !origin.is_empty());
    let origin = |text: &str| {
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let is_host = |it: &str| {
            !it.is_empty()
                && it.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
        };
        match host.is_some_and(is_host) {
            true => Ok(text.to_owned()),
            false => Err(format!(
                "`{}` is not a valid origin; write https://maps.example.com",
                without_credentials(text)
            )),
        }
    };
    given.map(origin).collect()
}

#[expect(clippy::ptr_arg, reason = "the table calls it with what the settings hold")]
pub(super) fn origins_text(origins: &Vec<String>) -> String {
    origins.join(",")
}

/// The HTTP settings.
pub(super) static SETTINGS: &[Setting] = &[
    setting!(
        "listen",
        "--listen",
        "TSTAR_LISTEN",
        "127.0.0.1:8080",
        Text,
        http.listen,
        listen,
        listen_text,
        "HTTP listen address, ADDRESS:PORT or off; port 0: any free port"
    ),
    setting!(
        "token_file",
        "--token-file",
        "TSTAR_TOKEN_FILE",
        "",
        Text,
        http.token_file,
        text,
        String::clone,
        "File with the HTTP bearer token; unset: no authentication"
    ),
    setting!(
        "insecure",
        "--insecure",
        "TSTAR_INSECURE",
        "false",
        Flag,
        http.insecure,
        flag,
        bool::to_string,
        "Allow HTTP without a token from other machines and under any host name"
    ),
    setting!(
        "tiles",
        "--tiles",
        "TSTAR_TILES",
        "",
        Text,
        http.tiles,
        tiles,
        String::clone,
        "URL of map tiles for the page, with {z}, {x} and {y}; unset: coast lines only"
    ),
    setting!(
        "cors",
        "--cors",
        "TSTAR_CORS",
        "",
        Text,
        http.cors,
        origins,
        origins_text,
        "Origins whose pages may read responses (CORS), separated by commas"
    ),
    setting!(
        "max_connections",
        "--max-connections",
        "TSTAR_MAX_CONNECTIONS",
        "2048",
        Count,
        http.connections,
        count,
        u64::to_string,
        "Maximum concurrent HTTP connections; more get 503"
    ),
    setting!(
        "max_requests",
        "--max-requests",
        "TSTAR_MAX_REQUESTS",
        "64",
        Count,
        http.requests,
        count,
        u64::to_string,
        "Maximum concurrent HTTP requests; more get 503"
    ),
    setting!(
        "max_streams",
        "--max-streams",
        "TSTAR_MAX_STREAMS",
        "256",
        Count,
        http.streams,
        count,
        u64::to_string,
        "Maximum concurrent change streams over HTTP"
    ),
    setting!(
        "max_client_connections",
        "--max-client-connections",
        "TSTAR_MAX_CLIENT_CONNECTIONS",
        "0",
        Count,
        http.client_connections,
        count,
        u64::to_string,
        "Maximum HTTP connections per address; 0: an eighth of the total, this machine all"
    ),
    setting!(
        "max_client_streams",
        "--max-client-streams",
        "TSTAR_MAX_CLIENT_STREAMS",
        "0",
        Count,
        http.client_streams,
        count,
        u64::to_string,
        "Maximum change streams per login or address; 0: as for connections"
    ),
];
