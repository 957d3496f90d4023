//! The pipeline from samples to rows. [`processor`] connects source, timeline and store for one
//! partition; [`daemon`] runs one worker for each assigned partition;
//! [`schemas`] finds the schemas that their records name.

pub mod daemon;
pub mod processor;
pub mod schemas;
