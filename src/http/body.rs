//! Bodies of requests, bounded: each in its bytes and its time, all together in their memory.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use flate2::read::MultiGzDecoder;
use http_body_util::BodyExt;
use tokio::sync::OwnedSemaphorePermit;

use super::app::{App, ServableStore};
use super::budget::{Exhausted, Share};
use super::problem::{ParamError, Problem};

/// Maximum bytes of a login.
pub const MAX_LOGIN: usize = 4 << 10;

/// Maximum bytes of a body that asks.
pub const MAX_ASKED: usize = 1 << 20;

/// Maximum bytes of a body that brings samples, unpacked.
pub const MAX_BROUGHT: usize = 16 << 20;

/// Maximum time between two parts of a body.
const GAP: Duration = Duration::from_secs(10);

/// Bytes that are unpacked at once.
const PIECE: usize = 64 << 10;

/// A body of at most so many bytes, unpacked where it came as gzip.
pub struct Limited<const MAX: usize> {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Their share of the memory of all bodies.
    pub share: Share,
    /// That the request is one of those that are worked on; `None` until the body is there.
    pub permit: Option<OwnedSemaphorePermit>,
}

fn too_large(max: usize) -> Problem {
    let detail = format!("the body is larger than {max} bytes; send it in parts");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
}

impl From<Exhausted> for Problem {
    fn from(_: Exhausted) -> Self {
        Self::busy("memory", "requests and answers under way use all memory that they may")
    }
}

impl<S: ServableStore, const MAX: usize> FromRequest<Arc<App<S>>> for Limited<MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App<S>>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let is_packed = is_packed(&parts.headers)?;
        let number = |value: &HeaderValue| value.to_str().ok()?.parse::<usize>().ok();
        if parts.headers.get(header::CONTENT_LENGTH).and_then(number).is_some_and(|it| it > MAX) {
            return Err(too_large(MAX));
        }
        let mut received = receive(body, app.bodies.share()).await?;
        received.permit = Some(app.acquire()?);
        match is_packed {
            true => app.off_runtime(move || unpack(received)).await,
            false => Ok(received),
        }
    }
}

fn is_packed(headers: &HeaderMap) -> Result<bool, Problem> {
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

/// Reads a body into one piece of memory, which is paid for as it comes and not as it was promised.
async fn receive<const MAX: usize>(mut body: Body, share: Share) -> Result<Limited<MAX>, Problem> {
    let mut received = Limited { bytes: Vec::new(), share, permit: None };
    loop {
        let frame = tokio::time::timeout(GAP, body.frame()).await;
        let frame = frame.map_err(|_| {
            let detail = format!("no part of the body came for {} s", GAP.as_secs());
            Problem::cut_off(StatusCode::REQUEST_TIMEOUT, "slow_body", detail)
        })?;
        let Some(frame) = frame else { return Ok(received) };
        let broke_off = |_| Problem::faults(vec![ParamError::new("body", "it broke off")]);
        let Ok(data) = frame.map_err(broke_off)?.into_data() else { continue };
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

/// Unpacks gzip, counted piece by piece.
fn unpack<const MAX: usize>(packed: Limited<MAX>) -> Result<Limited<MAX>, Problem> {
    let mut unpacked = Limited { bytes: Vec::new(), share: packed.share, permit: packed.permit };
    let mut reader = MultiGzDecoder::new(&packed.bytes[..]);
    let mut piece = vec![0; PIECE];
    loop {
        let read = reader.read(&mut piece).map_err(|error| {
            Problem::faults(vec![ParamError::new("body", format!("no gzip: {error}"))])
        })?;
        if read == 0 {
            break;
        }
        unpacked.push(&piece[..read])?;
    }
    drop(reader);
    unpacked.share.shrink(packed.bytes.capacity());
    Ok(unpacked)
}
