//! Declares the settings of the HTTP server.

use std::net::SocketAddr;

use super::setting::{Kind, Syntax};
use super::values::{COUNT, FLAG, TEXT};
use crate::model::visible::without_credentials;

settings! {
    /// Settings of the HTTP server.
    #[derive(Clone, Debug, PartialEq, Eq)]
    HttpSettings in http {}

    /// Listen address; `None` for no HTTP server.
    listen: Option<SocketAddr> {
        key: "listen", default: "127.0.0.1:8080", syntax: LISTEN, flags: [Http],
        help: "HTTP listen address, ADDRESS:PORT, localhost:PORT or off; port 0: any free port",
    }

    /// Path of the token file; empty for none.
    token_file: String {
        key: "token_file", default: "", syntax: TEXT, flags: [Http],
        help: "File with HTTP tokens, a NAME:RIGHTS:SECRET per line; unset: no authentication",
    }

    /// Path of the certificate chain of the server; empty for HTTP without TLS.
    tls_cert: String {
        key: "tls_cert", default: "", syntax: TEXT, flags: [Http],
        help: "PEM file with the certificate of the HTTPS server and its intermediates; unset: HTTP without TLS",
    }

    /// Path of its private key.
    tls_key: String {
        key: "tls_key", default: "", syntax: TEXT, flags: [Http],
        help: "PEM file with the private key of tls_cert",
    }

    /// Allows access without a token from other machines and under any host name.
    insecure: bool {
        key: "insecure", default: "false", syntax: FLAG, flags: [Http],
        help: "Allow HTTP without a token from other machines and under any host name",
    }

    /// URL of map tiles, if there are any.
    tiles: Option<String> {
        key: "tiles", default: "", syntax: TILES, flags: [Http],
        help: "URL of map tiles for the page, with {z}, {x} and {y}; unset: coast lines only",
    }

    /// Attribution of the map tiles; empty for none on purpose.
    tiles_attribution: Option<String> {
        key: "tiles_attribution", default: "none", syntax: ATTRIBUTION, flags: [Http],
        help: "Who made the tiles, shown on the map: text, with links as [text](https://...)",
    }

    /// Path of the base map of the page; empty for none.
    basemap: String {
        key: "basemap", default: "", syntax: TEXT, flags: [Http],
        help: "PMTiles file with vector tiles (MVT), shown under the trips instead of tiles of a host",
    }

    /// Origins whose pages may read responses (CORS).
    cors: Vec<String> {
        key: "cors", default: "", syntax: ORIGINS, flags: [Http],
        help: "Origins whose pages may read responses (CORS), separated by commas",
    }

    /// Maximum concurrent connections.
    connections: usize {
        key: "max_connections", default: "2048", syntax: LIMIT, flags: [Http],
        help: "Maximum concurrent HTTP connections; more get 503",
    }

    /// Maximum concurrent requests.
    requests: usize {
        key: "max_requests", default: "64", syntax: LIMIT, flags: [Http],
        help: "Maximum concurrent HTTP requests; more get 503",
    }

    /// Maximum concurrent change streams.
    streams: usize {
        key: "max_streams", default: "256", syntax: LIMIT, flags: [Http],
        help: "Maximum concurrent change streams over HTTP",
    }

    /// Maximum connections per client; 0 for an eighth of `connections`.
    client_connections: usize {
        key: "max_client_connections", default: "0", syntax: LIMIT, flags: [Http],
        help: "Maximum HTTP connections per address; 0: an eighth of the total, this machine all",
    }

    /// Maximum change streams per client; 0 for an eighth of `streams`.
    client_streams: usize {
        key: "max_client_streams", default: "0", syntax: LIMIT, flags: [Http],
        help: "Maximum change streams per login or address; 0: as for connections",
    }
}

const LISTEN: Syntax<Option<SocketAddr>> =
    Syntax { kind: Kind::Text, read: listen, write: listen_text };

const LIMIT: Syntax<usize> = Syntax {
    kind: Kind::Count,
    read: |text| (COUNT.read)(text).map(|count| usize::try_from(count).unwrap_or(usize::MAX)),
    write: usize::to_string,
};

const TILES: Syntax<Option<String>> = Syntax {
    kind: Kind::Text,
    read: |text| Ok(Some(tiles(text)?).filter(|url| !url.is_empty())),
    write: |url| url.clone().unwrap_or_default(),
};

/// `none` is a value that is not set; an empty text is one on purpose.
const ATTRIBUTION: Syntax<Option<String>> = Syntax {
    kind: Kind::Text,
    read: |text| Ok((text != "none").then(|| text.to_owned())),
    write: |text| text.clone().unwrap_or_else(|| "none".into()),
};

const ORIGINS: Syntax<Vec<String>> =
    Syntax { kind: Kind::Text, read: origins, write: |origins| origins.join(",") };

fn listen(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    // The only name whose address is known without a name server.
    let parts = text.rsplit_once(':');
    let address = match parts {
        Some((name, port)) if name.eq_ignore_ascii_case("localhost") => format!("127.0.0.1:{port}"),
        _ => text.to_owned(),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok() && !port.starts_with('+');
    address.parse().map(Some).map_err(|_| match parts {
        Some((name, port)) if is_name(name) && is_port(port) => format!(
            "`{text}` has the name of a host, which may have several addresses; write one of \
             them, such as 127.0.0.1:{port} for this machine alone, or 0.0.0.0:{port} for all"
        ),
        _ => format!("`{text}` is not a valid listen address; write 127.0.0.1:8080, or off"),
    })
}

/// Whether a text may be the name of a host.
fn is_name(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    text.bytes().all(is_of_name) && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn listen_text(listen: &Option<SocketAddr>) -> String {
    listen.map_or_else(|| "off".to_owned(), |address| address.to_string())
}

fn tiles(text: &str) -> Result<String, String> {
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

fn origins(text: &str) -> Result<Vec<String>, String> {
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
