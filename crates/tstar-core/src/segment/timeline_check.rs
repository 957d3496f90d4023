//! The invariants of a timeline.

use super::super::mint::is_live;
use super::*;

impl Timeline {
    /// Asserts T1 to T3 and the memory count, for tests.
    ///
    /// # Panics
    /// One of them does not hold.
    pub fn check(&self) {
        self.segments.check();
        let mut before_ms = DeviceTime::MIN;
        for segment in self.segments.iter() {
            let Segment { outline, path, group, unflushed, .. } = segment;
            assert!(before_ms < outline.start_ms(), "T1");
            before_ms = outline.end_ms();
            let mut samples = path.iter();
            for phase in &outline.phases {
                let own: Vec<_> = samples.by_ref().take(phase.samples).collect();
                assert_eq!(
                    (own[0].time_ms, own[own.len() - 1].time_ms),
                    (phase.first_ms, phase.last_ms)
                );
                assert!(own.iter().all(|sample| sample.class == phase.class), "T1");
            }
            assert!(samples.next().is_none(), "T1");
            let live = outline.points.iter().filter(|(_, history)| is_live(history));
            assert_eq!(live.count(), 1, "T2");
            assert!(outline.points.iter().all(|(at, _)| path.get(at).is_some()), "T1");
            let Some(key) = group else { continue };
            assert!(unflushed.is_some(), "T3");
            let group: Vec<_> = self.groups.iter().filter(|it| it.key == *key).collect();
            let own = segment.own_span();
            assert!(group.len() == 1 && group[0].taken.iter().any(|it| own.is_within(it)), "T3");
            let lowest: Vec<_> = self.segments().filter(|it| it.group == Some(*key)).collect();
            assert!(lowest.iter().all(|it| it.unflushed == *unflushed), "T3");
            assert_eq!(Some(group[0].lowest), *unflushed, "T3");
        }
        for group in self.groups.iter() {
            assert!(self.segments().any(|it| it.group == Some(group.key)), "T3");
        }
        assert_eq!(self.memory, self.segments().map(Segment::memory).sum::<usize>());
    }
}
