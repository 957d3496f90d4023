//! Frames in: a stream of record batches, read as rows of samples.

mod chunk;
mod column;
mod fields;
mod letter;
mod order;
mod times;

pub(crate) use chunk::{Chunk, Chunks, Reading, converted};
pub(crate) use fields::{Field, Fields};
pub(crate) use letter::Letter;
pub(crate) use order::Order;
