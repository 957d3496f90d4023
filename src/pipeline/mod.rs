//! The pipeline from samples to rows. [`processor`] connects source, timeline and store for one
//! partition; [`daemon`] runs one worker for each assigned partition.

pub mod daemon;
pub mod processor;
