//! Bodies of requests, bounded.

use std::io::Read;

use axum::body::{Bytes, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use flate2::read::MultiGzDecoder;

use super::problem::{Fault, Problem};

/// Most bytes of a body that asks.
pub const MOST_ASKED: usize = 1 << 20;

/// Most bytes of a body that brings samples, unpacked.
pub const MOST_BROUGHT: usize = 16 << 20;

/// A body of at most so many bytes, unpacked where it came as gzip.
pub struct Limited<const MOST: usize>(pub Bytes);

fn too_large(most: usize) -> Problem {
    let detail = format!("the body is larger than {most} bytes; send it in parts");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
}

impl<S: Sync, const MOST: usize> FromRequest<S> for Limited<MOST> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let number = |value: &axum::http::HeaderValue| value.to_str().ok()?.parse::<usize>().ok();
        if parts.headers.get(header::CONTENT_LENGTH).and_then(number).is_some_and(|it| it > MOST) {
            return Err(too_large(MOST));
        }
        let bytes = to_bytes(body, MOST).await.map_err(|error| {
            let is_limit = std::error::Error::source(&error)
                .is_some_and(|it| it.is::<http_body_util::LengthLimitError>());
            match is_limit {
                true => too_large(MOST),
                false => Problem::faults(vec![Fault::new("body", "it broke off")]),
            }
        })?;
        match parts.headers.get(header::CONTENT_ENCODING).map(|it| it.as_bytes()) {
            None | Some(b"identity") => Ok(Self(bytes)),
            Some(b"gzip") => unpack(&bytes, MOST).map(|bytes| Self(bytes.into())),
            Some(other) => {
                let other = String::from_utf8_lossy(other);
                let detail = format!("content-encoding `{other}` is neither gzip nor identity");
                let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
                Err(Problem::new(status, "unsupported_encoding", detail))
            }
        }
    }
}

fn unpack(bytes: &[u8], most: usize) -> Result<Vec<u8>, Problem> {
    let mut unpacked = Vec::new();
    // One more than may be: so it shows that there is more.
    let mut reader = MultiGzDecoder::new(bytes).take(most as u64 + 1);
    let read = reader.read_to_end(&mut unpacked);
    read.map_err(|error| Problem::faults(vec![Fault::new("body", format!("no gzip: {error}"))]))?;
    if unpacked.len() > most { Err(too_large(most)) } else { Ok(unpacked) }
}
