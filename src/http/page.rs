//! The page, embedded in the binary.

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
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
}

/// A file of the page.
struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal: $kind:literal),+ $(,)?) => {
        const ASSETS: &[Asset] = &[$(Asset {
            name: $name,
            kind: $kind,
            bytes: include_bytes!(concat!("page/", $name)),
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
    // The same for all files of a build: another build has another commit.
    let tag = concat!("W/\"", env!("CARGO_PKG_VERSION"), "-", env!("TSTAR_COMMIT"), "\"");
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|it| it == tag);
    let headers = [
        (header::CONTENT_TYPE, asset.kind),
        (header::ETAG, tag),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    Ok(if is_known {
        (StatusCode::NOT_MODIFIED, headers).into_response()
    } else {
        (headers, asset.bytes).into_response()
    })
}
