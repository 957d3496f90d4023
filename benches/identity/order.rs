//! Whether ids sort like their trips.

use crate::pass::{History, TripRecord};
use crate::schemes::{Id, Order, Scheme};
use crate::table::ratio;

/// Share of neighbours by id that start in the wrong order, percent.
#[derive(Clone, Copy, Debug)]
pub struct Inversions {
    /// Among all trips, ids as bytes.
    pub fleet_bytes: f64,
    /// Among all trips, ids as text.
    pub fleet_text: f64,
    /// Among the trips of each device, ids as bytes.
    pub device_bytes: f64,
    /// Among the trips of each device, ids as text.
    pub device_text: f64,
}

impl Inversions {
    /// The inversions among the remaining trips.
    pub fn new(scheme: Scheme, history: &History, ids: &[Option<Id>]) -> Self {
        let remaining = history.remaining();
        let mut trips: Vec<(&Id, &TripRecord)> =
            remaining.filter_map(|(at, trip)| Some((ids[at as usize].as_ref()?, trip))).collect();
        let is_falling = scheme.order() == Order::Falling;
        let mut share = |by_device: bool, by_text: bool| {
            trips.sort_by(|(id_a, a), (id_b, b)| {
                let order = match by_text {
                    true => id_a.text.as_bytes().cmp(id_b.text.as_bytes()),
                    false => id_a.bytes.cmp(&id_b.bytes),
                };
                if by_device { a.device.cmp(&b.device).then(order) } else { order }
            });
            let pairs = trips.windows(2).map(|pair| (pair[0].1, pair[1].1));
            let pairs = pairs.filter(|(trip, next)| !by_device || trip.device == next.device);
            let (mut all, mut wrong) = (0, 0);
            for (trip, next) in pairs {
                all += 1;
                let (first, second) = if is_falling { (next, trip) } else { (trip, next) };
                wrong += u64::from(first.start_ms > second.start_ms);
            }
            100.0 * ratio(wrong, all)
        };
        Self {
            fleet_bytes: share(false, false),
            fleet_text: share(false, true),
            device_bytes: share(true, false),
            device_text: share(true, true),
        }
    }
}
