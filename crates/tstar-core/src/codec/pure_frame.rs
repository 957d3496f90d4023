//! Reads messages in zstd frames, in Rust alone.

use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::decode::bounded;
use super::{BlobError, MAX_MESSAGE_BYTES};

/// The first bytes of a frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// How much is decompressed at a time, bytes.
const STEP: usize = 1 << 20;

/// Decompresses exactly one frame, whose content must have exactly the declared size.
pub fn decompress(frame: &[u8]) -> Result<Vec<u8>, BlobError> {
    let broken = |reason: &str| BlobError::Frame(reason.to_owned());
    let failed = |error: FrameDecoderError| BlobError::Frame(error.to_string());
    let declared = content_size(frame).ok_or_else(|| broken("it has no frame header"))?;
    let size = bounded(declared.ok_or(BlobError::NoSize)?)?;
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(MAX_MESSAGE_BYTES as u64);
    let mut rest = frame;
    decoder.init(&mut rest).map_err(failed)?;
    let mut content = Vec::new();
    loop {
        let step = BlockDecodingStrategy::UptoBytes(STEP);
        let is_last = decoder.decode_blocks(&mut rest, step).map_err(failed)?;
        content.append(&mut decoder.collect().unwrap_or_default());
        if content.len() > size {
            return Err(broken("its content is longer than declared"));
        }
        if is_last {
            break;
        }
    }
    if !rest.is_empty() {
        return Err(broken("bytes follow it"));
    }
    if content.len() != size {
        return Err(broken("its content is shorter than declared"));
    }
    Ok(content)
}

/// The size that the header of a frame declares for its content; `None` if there is no header.
fn content_size(frame: &[u8]) -> Option<Option<u64>> {
    let rest = frame.strip_prefix(&MAGIC)?;
    let (&descriptor, rest) = rest.split_first()?;
    let is_single = descriptor & 0x20 != 0;
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let length = match descriptor >> 6 {
        0 => usize::from(is_single),
        flag => 1 << flag,
    };
    let field = rest.get(usize::from(!is_single) + dictionary..)?.get(..length)?;
    let mut bytes = [0; 8];
    bytes[..length].copy_from_slice(field);
    let size = u64::from_le_bytes(bytes).saturating_add(if length == 2 { 256 } else { 0 });
    Some((length > 0).then_some(size))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compressed(content: &[u8], level: i32) -> Vec<u8> {
        zstd::bulk::compress(content, level).unwrap()
    }

    #[test]
    fn sizes_and_ends_are_checked() {
        let content: Vec<u8> = (0..300_000_u32).flat_map(|it| (it / 7).to_le_bytes()).collect();
        let frame = compressed(&content, 3);
        assert_eq!(decompress(&frame).as_ref(), Ok(&content));
        for cut in [0, 3, 4, 5, 8, frame.len() / 2, frame.len() - 1] {
            assert!(matches!(decompress(&frame[..cut]), Err(BlobError::Frame(_))), "{cut}");
        }
        for tail in [&[0][..], &frame, &[0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]] {
            assert!(decompress(&[&frame, tail].concat()).is_err(), "{} more", tail.len());
        }
        for (length, size) in [(1, 255), (2, 256), (2, 65_791), (4, 65_792)] {
            let frame = compressed(&vec![7; size], 1);
            assert_eq!(content_size(&frame), Some(Some(size as u64)), "{length} bytes");
            assert_eq!(decompress(&frame).map(|it| it.len()), Ok(size));
        }
    }

    proptest! {
        #[test]
        fn reads_what_zstd_reads(
            numbers in prop::collection::vec(0..40_u16, 0..3_000),
            level in prop_oneof![Just(-5), Just(1), Just(3), Just(9), Just(19)],
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut: prop::sample::Index,
        ) {
            let content: Vec<u8> = numbers.iter().flat_map(|it| (it * it).to_le_bytes()).collect();
            let mut frame = compressed(&content, level);
            prop_assert_eq!(decompress(&frame), Ok(content));
            for (at, byte) in changes {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            // What it reads of a damaged frame, the checksum of the blob decides on: it never
            // panics, and reads no more than was declared.
            for frame in [&frame[..], &frame[..cut.index(frame.len())]] {
                let declared = content_size(frame).flatten().unwrap_or_default();
                let read = decompress(frame).map_or(0, |read| read.len());
                prop_assert!(read as u64 <= declared);
            }
        }
    }
}
