//! Samples to rows: what joins source, timeline and store for one partition, and the workers that
//! run it for many.

pub mod daemon;
pub mod processor;
