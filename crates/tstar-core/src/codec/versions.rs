//! The columns of versions: sorted, with the rank of each sample among them.
//!
//! Bursts that arrive late, or in another order, make most steps from sample to sample large.
//! Sorted versions have small steps, and ranks are small numbers.

use super::BlobError;
use crate::model::column::{entries, push, take_varint};
use crate::model::scalar::Version;
use crate::timeline::Sample;

/// Writes the versions in ascending order, as first differences, and the rank of each sample, as
/// first differences; no ranks if samples later in time arrived later or together.
pub fn fill(samples: &[Sample], versions: &mut Vec<u8>, ranks: &mut Vec<u8>) {
    let mut before = 0;
    let mut push_version = |version: Version| {
        push(versions, version.get().wrapping_sub(before));
        before = version.get();
    };
    if samples.is_sorted_by_key(|sample| sample.version) {
        return samples.iter().for_each(|sample| push_version(sample.version));
    }
    let mut order: Vec<(Version, u32)> =
        samples.iter().zip(0..).map(|(sample, at)| (sample.version, at)).collect();
    // Stable, which is fast where bursts are sorted already.
    order.sort_by_key(|(version, _)| *version);
    let mut rank_of = vec![0; order.len()];
    for (rank, (version, at)) in (0..).zip(order) {
        push_version(version);
        rank_of[at as usize] = rank;
    }
    let mut before = 0;
    for rank in rank_of {
        push(ranks, rank - before);
        before = rank;
    }
}

fn wrong<T>(reason: &'static str) -> Result<T, BlobError> {
    Err(BlobError::Column { column: "version", reason })
}

/// Reads the version of each sample.
pub fn read(versions: &[u8], ranks: &[u8], count: usize) -> Result<Vec<Version>, BlobError> {
    let sorted = values(versions, count)?;
    if !sorted.is_sorted() {
        return wrong("its values do not ascend");
    }
    if ranks.is_empty() {
        return Ok(sorted.into_iter().map(Version).collect());
    }
    let ranks = values(ranks, count)?;
    if ranks.is_sorted() {
        return wrong("its ranks are redundant: the samples are in order");
    }
    let mut of_rank: Vec<Option<usize>> = vec![None; count];
    for (at, &rank) in ranks.iter().enumerate() {
        match usize::try_from(rank).ok().and_then(|rank| of_rank.get_mut(rank)) {
            Some(place) if place.is_none() => *place = Some(at),
            _ => return wrong("two samples have the same rank"),
        }
    }
    let is_tie = |rank: usize| sorted[rank] == sorted[rank - 1];
    if (1..count).any(|rank| is_tie(rank) && of_rank[rank] < of_rank[rank - 1]) {
        return wrong("samples of one record are not in order");
    }
    let of_sample = |&rank: &i64| usize::try_from(rank).ok().map(|rank| Version(sorted[rank]));
    Ok(ranks.iter().filter_map(of_sample).collect())
}

/// Reads first differences.
fn values(mut column: &[u8], count: usize) -> Result<Vec<i64>, BlobError> {
    if entries(column) != count {
        return wrong("its length differs from the count");
    }
    let mut value = 0_i64;
    let mut next = || {
        value = value.wrapping_add(take_varint(&mut column)?);
        Some(value)
    };
    let values: Option<Vec<i64>> = (0..count).map(|_| next()).collect();
    match values {
        Some(values) if column.is_empty() => Ok(values),
        _ => wrong("it has a malformed number"),
    }
}
