//! Messages as zstd frames. The contexts are reused per thread: creating one costs as much as a
//! short path.

use std::cell::RefCell;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{
    compress_bound, find_frame_compressed_size, get_error_name, get_frame_content_size,
};

use super::BlobError;
use super::decode::bounded;

/// zstd level. Higher levels cost more time than the smaller size is worth.
const LEVEL: i32 = 3;

thread_local! {
    static COMPRESSOR: RefCell<Compressor<'static>> =
        RefCell::new(Compressor::new(LEVEL).expect("level 3 is valid; zstd allocates its context"));
    static DECOMPRESSOR: RefCell<Decompressor<'static>> =
        RefCell::new(Decompressor::new().expect("zstd allocates its context"));
}

/// Writes the frame of a message. Returns whether it is smaller.
pub fn compress(message: &[u8], frame: &mut Vec<u8>) -> bool {
    frame.clear();
    frame.reserve(compress_bound(message.len()));
    let size = COMPRESSOR
        .with_borrow_mut(|compressor| compressor.compress_to_buffer(message, frame))
        .expect("the buffer fits the worst case");
    size < message.len()
}

/// Decompresses exactly one frame, whose content must have exactly the declared size.
pub fn decompress(frame: &[u8]) -> Result<Vec<u8>, BlobError> {
    let broken = |reason: &str| BlobError::Frame(reason.to_owned());
    let declared = get_frame_content_size(frame)
        .map_err(|_| broken("it has no frame header"))?
        .ok_or(BlobError::NoSize)?;
    let size = bounded(declared)?;
    let frame_size =
        find_frame_compressed_size(frame).map_err(|code| broken(get_error_name(code)))?;
    if frame_size != frame.len() {
        return Err(broken("bytes follow it"));
    }
    let content = DECOMPRESSOR.with_borrow_mut(|decompressor| decompressor.decompress(frame, size));
    let content = content.map_err(|error| BlobError::Frame(error.to_string()))?;
    if content.len() != size {
        return Err(broken("its content is shorter than declared"));
    }
    Ok(content)
}
