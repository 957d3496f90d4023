//! Change events: the type of a change, and the ids that it retired.

use super::held::Segment;
use super::mint::is_live;
pub use crate::model::change::ChangeKind;
use crate::model::scalar::{DeviceTime, Version};

/// What changed about a segment since a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeEvent {
    /// Type of the event.
    pub kind: ChangeKind,
    /// The `t_star`s that the change retired, ms, ascending.
    pub retired: Vec<DeviceTime>,
}

impl Segment {
    /// What changed since `lowest`, the lowest version of the changes of its write group. Depends
    /// on the segment and that version only.
    #[must_use]
    pub fn event_since(&self, lowest: Version) -> ChangeEvent {
        let is_news = |history: &[Version]| history.last().is_some_and(|&last| last >= lowest);
        let news = self.outline.points.iter().filter(|(_, history)| is_news(history));
        let (live, retired): (Vec<_>, Vec<_>) = news.partition(|(_, history)| is_live(history));
        let retired: Vec<DeviceTime> = retired.into_iter().map(|(at, _)| at).collect();
        // A split mints at a sample of an earlier record.
        let is_old = |(at, minted): (DeviceTime, Version)| {
            self.path.get(at).is_some_and(|anchor| anchor.version < minted)
        };
        let kind = match live.first() {
            _ if !retired.is_empty() => ChangeKind::Merged,
            None => ChangeKind::Changed,
            Some((_, history)) if history.len() > 1 => ChangeKind::Revived,
            Some((at, history)) if is_old((*at, history[0])) => ChangeKind::Split,
            Some(_) => ChangeKind::Started,
        };
        ChangeEvent { kind, retired }
    }
}
