//! Static members: instances that restart under their names.

use super::log::Size;
use super::{Instance, PARTITIONS, Site};
use crate::faults::until;

const SIZE: Size = Size { devices: 20, samples: 4_000 };

#[test]
fn an_instance_that_restarts_under_its_name_moves_no_partition() {
    let Some(site) = Site::new(SIZE, 1) else { return };
    // The session outlasts the restart.
    let words = |name: &str| {
        let (log, url) = (site.topic.flags(), &site.keyspace.url);
        let group = format!("--group {} --instance-id {name}", site.topic.name);
        format!("run {log} --store {url} --from earliest {group} --listen off")
    };
    let (before, after) = site.lines.split_at(site.lines.len() / 2);
    site.send(before);
    let first = Instance::start(&site.folder, &words("first"), "first");
    let second = Instance::start(&site.folder, &words("second"), "second");
    let mut both = [first, second];
    until("two partitions each", || {
        let each = PARTITIONS as usize / 2;
        both.iter().all(|instance| instance.holds().len() == each).then_some(())
    });
    site.until_committed(&site.topic.name, &mut both);
    let [first, second] = &mut both;
    let (held, logged) = (first.holds(), second.logged());
    first.kill();
    site.send(after);
    *first = Instance::start(&site.folder, &words("first"), "first-again");
    until("its partitions", || (first.holds() == held).then_some(()));
    site.until_committed(&site.topic.name, &mut both);
    let [first, second] = &mut both;
    assert_eq!(second.logged(), logged, "{}", second.describe());
    for instance in [first, second] {
        instance.stop();
        instance.drains();
    }
    site.remove();
}
