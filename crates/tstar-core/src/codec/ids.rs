//! The ids of a row: column `ids`, which a store may have from another program.

use super::trip_row::TripRow;
use crate::model::scalar::{DeviceTime, Version};
use crate::segment::is_live;

impl TripRow {
    /// Version of the sample at which the id was minted. In a malformed row, without that: the
    /// row's version.
    #[must_use]
    pub fn minted(&self) -> Version {
        let history = self.ids.get(&self.t_star_ms);
        history.and_then(|history| history.first()).copied().unwrap_or(self.version)
    }

    /// The retired ids in ascending order, each with the version of its last retirement.
    pub fn absorbed(&self) -> impl Iterator<Item = (DeviceTime, Version)> {
        let retired = self.ids.iter().filter(|(_, history)| !is_live(history));
        retired.filter_map(|(&t_star_ms, history)| Some((t_star_ms, *history.last()?)))
    }

    /// The version of the last retirement of an id; `None` if it is not retired.
    #[must_use]
    pub fn retired_at(&self, t_star_ms: DeviceTime) -> Option<Version> {
        let history = self.ids.get(&t_star_ms).filter(|history| !is_live(history))?;
        history.last().copied()
    }

    /// Checks that each history is one that a timeline can leave behind, and that one id, `t_star`,
    /// names the trip.
    pub(super) fn check_ids(&self) -> Result<(), String> {
        let mut live = None;
        for (&at, history) in &self.ids {
            if !(self.start_ms..=self.end_ms).contains(&at) {
                return Err(format!("the id of {at} ms lies outside the trip"));
            }
            if history.is_empty() {
                return Err(format!("the history of the id of {at} ms is empty"));
            }
            // Samples of one record share a version: an id may be minted and retired at the same.
            if let Some(pair) = history.windows(2).find(|pair| pair[0] > pair[1]) {
                let (before, version) = (pair[0], pair[1]);
                return Err(format!(
                    "the history of the id of {at} ms does not ascend: {version} after {before}"
                ));
            }
            if is_live(history)
                && let Some(other) = live.replace(at)
            {
                return Err(format!("two ids are live: those of {other} ms and {at} ms"));
            }
        }
        match live {
            None => Err("none of its ids is live".to_owned()),
            Some(live) if live != self.t_star_ms => {
                Err(format!("the id of {live} ms is live, and t_star is {} ms", self.t_star_ms))
            }
            Some(_) => Ok(()),
        }
    }
}
