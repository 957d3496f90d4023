//! The map page, embedded in the binary.

use std::io::Write;
use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use utoipa::ToSchema;

use super::problem::Problem;
use crate::model::rules::Rules;

/// Settings of the map page.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(crate) struct PageSettings {
    /// URL of the map tiles; null: the page shows country outlines only.
    pub tiles: Option<String>,
    /// Who made the tiles: text, with links as `[text](https://...)`; null without tiles.
    pub tiles_attribution: Option<String>,
    /// Whether `/v1/basemap` has a map of vector tiles.
    pub basemap: bool,
    /// Whether `/v1/changes/stream` is available.
    pub stream: bool,
    /// Version of the program.
    pub version: &'static str,
    /// Samples at most this far apart share a trip, ms.
    pub max_gap_ms: i64,
    /// The other rules of the store that part samples into trips and stops.
    pub rules: PageRules,
    /// Current time of the server.
    #[schema(format = DateTime)]
    pub now: String,
    /// Whether the request has a session, which can be logged out.
    pub logged_in: bool,
}

/// Rules by which the page computes trips from samples.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct PageRules {
    /// Standing at least this long ends a trip, ms; null: standing alone ends none.
    pub min_stop_ms: Option<i64>,
    /// A vehicle stands while it reports a lower speed, m/s.
    pub stop_speed_mps: f64,
    /// Maximum number of samples of a trip.
    pub max_samples: u32,
    /// Faster legs do not count for distances, m/s; null: all count.
    pub max_leg_speed_mps: Option<f64>,
}

impl From<&Rules> for PageRules {
    fn from(rules: &Rules) -> Self {
        let mps = |cmps| f64::from(cmps) / 100.0;
        Self {
            min_stop_ms: rules.min_stop_ms,
            stop_speed_mps: mps(rules.stop_speed_cmps),
            max_samples: rules.max_samples,
            max_leg_speed_mps: rules.max_leg_speed_cmps.map(mps),
        }
    }
}

impl Default for PageRules {
    fn default() -> Self {
        Self::from(&Rules::default())
    }
}

/// A file of the page.
struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
    gzip: LazyLock<Vec<u8>>,
}

macro_rules! assets {
    ($($folder:literal $name:literal: $kind:literal),+ $(,)?) => {
        static ASSETS: [Asset; [$($name),+].len()] = [$(Asset {
            name: $name,
            kind: $kind,
            bytes: include_bytes!(concat!($folder, $name)),
            gzip: LazyLock::new(|| gzip(include_bytes!(concat!($folder, $name)))),
        }),+];
    };
}

assets! {
    "page/vendor/" "LICENSES.txt": "text/plain; charset=utf-8",
    "page/" "api.js": "text/javascript; charset=utf-8",
    "page/" "app.js": "text/javascript; charset=utf-8",
    "page/" "area.js": "text/javascript; charset=utf-8",
    "page/" "base.js": "text/javascript; charset=utf-8",
    "page/" "basemap.js": "text/javascript; charset=utf-8",
    "page/" "basemap-style.js": "text/javascript; charset=utf-8",
    "page/" "changes.js": "text/javascript; charset=utf-8",
    "page/" "chart.js": "text/javascript; charset=utf-8",
    "page/" "day.css": "text/css; charset=utf-8",
    "page/" "daytable.js": "text/javascript; charset=utf-8",
    "page/" "days.js": "text/javascript; charset=utf-8",
    "page/" "detail.js": "text/javascript; charset=utf-8",
    "page/" "device-view.js": "text/javascript; charset=utf-8",
    "page/" "device.js": "text/javascript; charset=utf-8",
    "page/" "devices.js": "text/javascript; charset=utf-8",
    "page/" "downloads.js": "text/javascript; charset=utf-8",
    "page/" "fleet.css": "text/css; charset=utf-8",
    "page/" "fleet.js": "text/javascript; charset=utf-8",
    "page/" "fleet-data.js": "text/javascript; charset=utf-8",
    "page/" "fleet-day.js": "text/javascript; charset=utf-8",
    "page/" "fleet-find.js": "text/javascript; charset=utf-8",
    "page/" "fleet-help.js": "text/javascript; charset=utf-8",
    "page/" "fleet-layer.js": "text/javascript; charset=utf-8",
    "page/" "fleet-map.js": "text/javascript; charset=utf-8",
    "page/" "fleet-news.js": "text/javascript; charset=utf-8",
    "page/" "fleet-paths.js": "text/javascript; charset=utf-8",
    "page/" "fleet-states.js": "text/javascript; charset=utf-8",
    "page/" "fleet-trips.js": "text/javascript; charset=utf-8",
    "page/" "format.js": "text/javascript; charset=utf-8",
    "page/" "frame.js": "text/javascript; charset=utf-8",
    "page/" "history.js": "text/javascript; charset=utf-8",
    "page/" "icon.svg": "image/svg+xml",
    "page/" "index.html": "text/html; charset=utf-8",
    "page/" "lane.js": "text/javascript; charset=utf-8",
    "page/vendor/" "leaflet.css": "text/css; charset=utf-8",
    "page/vendor/" "leaflet.js": "text/javascript; charset=utf-8",
    "page/" "live.js": "text/javascript; charset=utf-8",
    "page/" "lookups.js": "text/javascript; charset=utf-8",
    "page/" "map.js": "text/javascript; charset=utf-8",
    "page/" "marks.js": "text/javascript; charset=utf-8",
    "page/" "pmtiles.js": "text/javascript; charset=utf-8",
    "page/" "replay.js": "text/javascript; charset=utf-8",
    "page/" "rows.js": "text/javascript; charset=utf-8",
    "page/" "settings.js": "text/javascript; charset=utf-8",
    "page/" "state.js": "text/javascript; charset=utf-8",
    "page/" "style.css": "text/css; charset=utf-8",
    "page/" "tags.js": "text/javascript; charset=utf-8",
    "page/" "timeline.js": "text/javascript; charset=utf-8",
    "page/" "track.js": "text/javascript; charset=utf-8",
    "page/" "trips.js": "text/javascript; charset=utf-8",
    "../../crates/tstar-wasm/npm/" "tstar.js": "text/javascript; charset=utf-8",
    "../../crates/tstar-wasm/npm/" "tstar.wasm": "application/wasm",
    "page/" "what-if.css": "text/css; charset=utf-8",
    "page/" "what-if.js": "text/javascript; charset=utf-8",
    "page/" "what-if-data.js": "text/javascript; charset=utf-8",
    "page/" "what-if-worker.js": "text/javascript; charset=utf-8",
    "page/vendor/" "world.json": "application/json",
    "page/" "zone.js": "text/javascript; charset=utf-8",
}

/// The file that computes trips.
const WORKER: &str = "what-if-worker.js";

/// Its `Content-Security-Policy`: it runs WebAssembly, which the page itself may not.
const WORKER_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; \
                             connect-src 'self'";

/// The `Content-Security-Policy` of the page: resources from this server only, and tiles from the
/// host of `tiles`.
pub(crate) fn policy(tiles: Option<&str>) -> String {
    let origin = tiles.and_then(|url| {
        let (scheme, rest) = url.split_once("://")?;
        let host = rest.split('/').next()?.replace("{s}", "*");
        let is_host = |it: &str| {
            it.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:*[]".contains(&byte))
        };
        is_host(&host).then(|| format!(" {scheme}://{host}"))
    });
    format!(
        "default-src 'self'; img-src 'self' data:{}; object-src 'none'; base-uri 'none'; \
         form-action 'self'; frame-ancestors 'none'",
        origin.unwrap_or_default()
    )
}

/// Serves the page.
pub(crate) async fn index(headers: HeaderMap) -> Response {
    asset(Path("index.html".to_owned()), headers).await.into_response()
}

/// Serves a file of the page.
pub(crate) async fn asset(
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = ASSETS.iter().find(|asset| asset.name == name);
    let Some(asset) = found else {
        let detail = format!("the page has no file `{name}`");
        return Err(Problem::new(StatusCode::NOT_FOUND, "not_found", detail));
    };
    let mut response = static_response(&headers, asset.kind, asset.bytes, &asset.gzip);
    if asset.name == WORKER {
        let policy = HeaderValue::from_static(WORKER_POLICY);
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    Ok(response)
}

/// Compresses bytes at the best level: each file is compressed once.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to a Vec cannot fail.
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
}

/// Whether the client accepts gzip.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    let mut codings = values.filter_map(|it| it.to_str().ok()).flat_map(|text| text.split(','));
    codings.any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let quality = quality.trim().strip_prefix("q=").and_then(|it| it.parse::<f32>().ok());
        matches!(name.trim(), "gzip" | "*") && quality.is_some_and(|quality| quality > 0.0)
    })
}

/// Serves content that does not change while the program runs: plain or compressed.
pub(crate) fn static_response(
    headers: &HeaderMap,
    kind: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
) -> Response {
    // One tag for all files of a build: another build has another commit.
    let tag = concat!("W/\"", env!("CARGO_PKG_VERSION"), "-", env!("TSTAR_COMMIT"), "\"");
    let is_unchanged = headers.get(header::IF_NONE_MATCH).is_some_and(|it| it == tag);
    let fields = [
        (header::CONTENT_TYPE, kind),
        (header::ETAG, tag),
        (header::CACHE_CONTROL, "no-cache"),
        (header::VARY, "accept-encoding"),
    ];
    if is_unchanged {
        (StatusCode::NOT_MODIFIED, fields).into_response()
    } else if accepts_gzip(headers) {
        (fields, [(header::CONTENT_ENCODING, "gzip")], gzip).into_response()
    } else {
        (fields, plain).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_clients_that_accept_it() {
        for (value, is_accepted) in [
            ("gzip", true),
            ("br, gzip;q=0.5", true),
            ("*", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0, br", false),
            ("identity", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(accepts_gzip(&headers), is_accepted, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
