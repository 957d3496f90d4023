//! The page, embedded in the binary.

use std::io::Write;
use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use utoipa::ToSchema;

use super::problem::Problem;

/// What the page needs to begin.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PageSettings {
    /// Where map tiles come from; null shows the outline of the world alone.
    pub tiles: Option<String>,
    /// Whether `/v1/changes/stream` is there.
    pub stream: bool,
    /// Of the program.
    pub version: &'static str,
    /// Samples at most this far apart share a trip, ms.
    pub max_gap_ms: i64,
    /// The clock of the server.
    pub now: String,
    /// Whether there is a session to log out of.
    pub logged_in: bool,
}

/// A file of the page.
struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
    packed: LazyLock<Vec<u8>>,
}

macro_rules! assets {
    ($($name:literal: $kind:literal),+ $(,)?) => {
        static ASSETS: [Asset; [$($name),+].len()] = [$(Asset {
            name: $name,
            kind: $kind,
            bytes: include_bytes!(concat!("page/", $name)),
            packed: LazyLock::new(|| pack(include_bytes!(concat!("page/", $name)))),
        }),+];
    };
}

assets! {
    "LICENSES.txt": "text/plain; charset=utf-8",
    "api.js": "text/javascript; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "chart.js": "text/javascript; charset=utf-8",
    "detail.js": "text/javascript; charset=utf-8",
    "devices.js": "text/javascript; charset=utf-8",
    "format.js": "text/javascript; charset=utf-8",
    "frame.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "index.html": "text/html; charset=utf-8",
    "lane.js": "text/javascript; charset=utf-8",
    "leaflet.css": "text/css; charset=utf-8",
    "leaflet.js": "text/javascript; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "map.js": "text/javascript; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "timeline.js": "text/javascript; charset=utf-8",
    "trips.js": "text/javascript; charset=utf-8",
    "world.json": "application/json",
}

/// The page itself.
pub async fn index(headers: HeaderMap) -> Response {
    asset(Path("index.html".to_owned()), headers).await.into_response()
}

/// A file of the page.
pub async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, Problem> {
    let found = ASSETS.iter().find(|asset| asset.name == name);
    let Some(asset) = found else {
        let detail = format!("the page has no file `{name}`");
        return Err(Problem::new(StatusCode::NOT_FOUND, "not_found", detail));
    };
    Ok(constant(&headers, asset.kind, asset.bytes, &asset.packed))
}

/// Bytes as gzip, as small as it gets: they are packed once.
pub fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    // Memory takes everything.
    packer.write_all(bytes).and_then(|()| packer.finish()).unwrap_or_default()
}

/// Whether a client takes gzip.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let given = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    let mut codings = given.filter_map(|it| it.to_str().ok()).flat_map(|text| text.split(','));
    codings.any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let quality = quality.trim().strip_prefix("q=").and_then(|it| it.parse::<f32>().ok());
        matches!(name.trim(), "gzip" | "*") && quality.is_some_and(|quality| quality > 0.0)
    })
}

/// An answer that is the same for as long as the program runs: plain, or as it was packed once.
pub fn constant(
    headers: &HeaderMap,
    kind: &'static str,
    plain: &'static [u8],
    packed: &'static [u8],
) -> Response {
    // The same for all files of a build: another build has another commit.
    let tag = concat!("W/\"", env!("CARGO_PKG_VERSION"), "-", env!("TSTAR_COMMIT"), "\"");
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|it| it == tag);
    let about = [
        (header::CONTENT_TYPE, kind),
        (header::ETAG, tag),
        (header::CACHE_CONTROL, "no-cache"),
        (header::VARY, "accept-encoding"),
    ];
    if is_known {
        (StatusCode::NOT_MODIFIED, about).into_response()
    } else if takes_gzip(headers) {
        (about, [(header::CONTENT_ENCODING, "gzip")], packed).into_response()
    } else {
        (about, plain).into_response()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn gzip_is_sent_to_those_who_take_it() {
        for (given, is_taken) in [
            ("gzip", true),
            ("br, gzip;q=0.5", true),
            ("*", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0, br", false),
            ("identity", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(given));
            assert_eq!(takes_gzip(&headers), is_taken, "{given}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
