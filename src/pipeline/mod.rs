//! The pipeline from samples to rows. [`processor`] connects source, timeline and store for one
//! partition; [`daemon`] runs one worker for each assigned partition;
//! [`schemas`] finds the schemas that their records name; `rules_watch` compares the rules with
//! what the first samples show.

pub mod daemon;
pub mod processor;
pub(crate) mod rules_watch;
pub mod schemas;
