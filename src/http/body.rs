//! Request bodies, with limits of size, time and total memory.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use flate2::read::MultiGzDecoder;
use http_body_util::BodyExt;
use tokio::sync::OwnedSemaphorePermit;

use super::app::App;
use super::budget::{MAX_BODIES, Share};
use super::problem::Problem;

/// Maximum size of a login, in bytes.
pub(crate) const MAX_LOGIN: usize = 4 << 10;

/// Maximum size of a lookup of many pairs, in bytes.
pub(crate) const MAX_LOOKUP: usize = 1 << 20;

/// Maximum size of a tag, in bytes: a value of which each character is escaped.
pub(crate) const MAX_TAG: usize = 32 << 10;

/// Maximum size of a body of samples, in bytes, decompressed.
pub(crate) const MAX_SAMPLES: usize = MAX_BODIES / 4;

/// Maximum time between two frames of a body.
const FRAME_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that are decompressed at once.
const CHUNK: usize = 64 << 10;

/// A body of at most `MAX` bytes; gzip is decompressed.
pub(crate) struct Limited<const MAX: usize> {
    /// The decompressed body.
    pub bytes: Vec<u8>,
    /// Its share of the memory of all bodies.
    pub share: Share,
    /// Permit of the request; `None` until the body is complete.
    pub permit: Option<OwnedSemaphorePermit>,
}

pub(super) fn too_large(max: usize) -> Problem {
    let detail = format!("the body is larger than {max} bytes; send it in parts");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
}

impl<const MAX: usize> FromRequest<Arc<App>> for Limited<MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let is_gzip = is_gzip(&parts.headers)?;
        let number = |value: &HeaderValue| value.to_str().ok()?.parse::<usize>().ok();
        if parts.headers.get(header::CONTENT_LENGTH).and_then(number).is_some_and(|it| it > MAX) {
            return Err(too_large(MAX));
        }
        let mut received = receive(body, app.bodies.share()).await?;
        received.permit = Some(app.acquire()?);
        match is_gzip {
            true => app.run_blocking(move || decompress(received)).await,
            false => Ok(received),
        }
    }
}

/// Rejects a body that the client calls something else than JSON. Programs that do not say what
/// they send, or send JSON as a form or as text, are understood.
pub(crate) fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    const UNSPECIFIC: [&str; 4] = [
        "application/octet-stream",
        "application/x-ndjson",
        "application/x-www-form-urlencoded",
        "text/plain",
    ];
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let text = String::from_utf8_lossy(value.as_bytes());
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence.contains("json") || UNSPECIFIC.contains(&&*essence) {
        return Ok(());
    }
    Err(not_json(&essence))
}

pub(super) fn not_json(essence: &str) -> Problem {
    let detail = format!("content-type `{essence}` is not JSON; send application/json");
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_type", detail)
}

fn is_gzip(headers: &HeaderMap) -> Result<bool, Problem> {
    match headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(false),
        Some(b"gzip") => Ok(true),
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            let detail = format!("content-encoding `{other}` is neither gzip nor identity");
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            Err(Problem::new(status, "unsupported_encoding", detail))
        }
    }
}

/// Reads a body into one buffer. Memory is reserved as data arrives, not by `Content-Length`.
async fn receive<const MAX: usize>(mut body: Body, share: Share) -> Result<Limited<MAX>, Problem> {
    let mut received = Limited { bytes: Vec::new(), share, permit: None };
    loop {
        let frame = tokio::time::timeout(FRAME_TIMEOUT, body.frame()).await;
        let frame = frame.map_err(|_| {
            let detail = format!("no data of the body for {} s", FRAME_TIMEOUT.as_secs());
            Problem::cut_off(StatusCode::REQUEST_TIMEOUT, "slow_body", detail)
        })?;
        let Some(frame) = frame else { return Ok(received) };
        let incomplete = |_| Problem::fault("body", "it is incomplete");
        let Ok(data) = frame.map_err(incomplete)?.into_data() else { continue };
        received.push(&data)?;
    }
}

impl<const MAX: usize> Limited<MAX> {
    fn push(&mut self, data: &[u8]) -> Result<(), Problem> {
        let needed = self.bytes.len() + data.len();
        if needed > MAX {
            return Err(too_large(MAX));
        }
        if needed > self.bytes.capacity() {
            let capacity = (self.bytes.capacity() * 2).min(MAX).max(needed);
            self.share.grow(capacity - self.bytes.capacity())?;
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }
}

/// Decompresses gzip; each chunk counts against the limits.
fn decompress<const MAX: usize>(gzip: Limited<MAX>) -> Result<Limited<MAX>, Problem> {
    let mut plain = Limited { bytes: Vec::new(), share: gzip.share, permit: gzip.permit };
    let mut reader = MultiGzDecoder::new(&gzip.bytes[..]);
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = reader
            .read(&mut chunk)
            .map_err(|error| Problem::fault("body", format!("not valid gzip: {error}")))?;
        if read == 0 {
            break;
        }
        plain.push(&chunk[..read])?;
    }
    drop(reader);
    plain.share.shrink(gzip.bytes.capacity());
    Ok(plain)
}
