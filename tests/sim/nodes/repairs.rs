//! What reads repair while a change is on its way: a read sends replicas the slice that it read,
//! and no more of the batch that made it.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures_util::poll;
use tstar::internals::model::scalar::{DeviceTime, Version};
use tstar::internals::segment::TakenSpan;
use tstar::internals::store::{TripStore, WriteGroup};

use super::{Connection, Nodes, PAIRS, store};
use crate::fresh::{MINUTE, trip};
use crate::support::{Dice, block_on};

/// The minutes of the samples of a trip that is split between the second and the third.
const MINUTES: [i64; 4] = [0, 10, 20, 30];

/// Splits a trip, looks up its samples meanwhile, and stops somewhere. Returns whether all were
/// found at any time.
async fn is_covered(seed: u64) -> bool {
    let nodes = Arc::new(Mutex::new(Nodes::new(Dice::new(seed), true)));
    let quiet = store(Connection::at_once(&nodes, 0, None)).await;
    quiet.write(&[trip(&MINUTES, 10).into()]).await.unwrap();
    let (owner, reader) = (Connection::live(&nodes, 1), Connection::live(&nodes, 2));
    let (owner, reader) = (store(owner).await, store(reader).await);
    let (start_ms, end_ms) = (DeviceTime(0), DeviceTime(30 * MINUTE));
    let taken = vec![TakenSpan { start_ms, end_ms, version: Version(20) }];
    let rows = vec![trip(&MINUTES[..2], 20), trip(&MINUTES[2..], 20)];
    let split = [WriteGroup { taken, rows, changes: Vec::new() }];
    let dice = |sides| nodes.lock().unwrap().dice.below(sides);
    nodes.lock().unwrap().is_calm = false;
    let mut write = pin!(owner.write(&split));
    let steps = dice(20);
    for _ in 0..steps {
        if poll!(&mut write).is_ready() {
            break;
        }
        let messages = dice(2);
        nodes.lock().unwrap().deliver(messages);
        let time = DeviceTime(MINUTES[dice(4)] * MINUTE);
        if reader.covering("a", time).await.unwrap().is_none() {
            return false;
        }
    }
    for pair in PAIRS {
        let of_pair = store(Connection::at_once(&nodes, 3, Some(pair))).await;
        for minute in MINUTES {
            if of_pair.covering("a", DeviceTime(minute * MINUTE)).await.unwrap().is_none() {
                return false;
            }
        }
    }
    true
}

#[test]
fn a_part_of_a_split_that_is_repaired_hides_no_other_part() {
    let lost: Vec<_> = (0..2_000).filter(|seed| !block_on(is_covered(*seed))).collect();
    assert_eq!(lost, [0; 0], "seeds in which a sample of the trip is not found");
}
