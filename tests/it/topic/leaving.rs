//! Daemons that leave their group, at any moment.

use super::keyspace::{log, store};
use super::{Topic, drain, start};
use crate::cli::Folder;
use crate::faults::until;
use crate::keyspace::{ClusteringOrder, Keyspace};

#[test]
fn a_daemon_without_partitions_leaves_its_group() {
    let (Some(topic), Some(keyspace)) = (Topic::new(1), Keyspace::new(ClusteringOrder::Desc))
    else {
        return;
    };
    let folder = Folder::new();
    let words = format!("run {} {} --from earliest --create-topics", log(&topic), store(&keyspace));
    let mut first = start(&folder, &words);
    first.until_says("reading from offset", &mut String::new());
    let second = start(&folder, &words);
    let has_settled = |members| topic.group(&topic.name) == Some(("Stable".to_owned(), members));
    until("both to be members", || has_settled(2).then_some(()));
    drain(second, &words).ends(0);
    // The group would wait for a member that is gone.
    assert_eq!(topic.group(&topic.name).unwrap().1, 1);
    drain(first, &words).ends(0);
    assert_eq!(topic.group(&topic.name).unwrap().1, 0);
}
