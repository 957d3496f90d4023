//! Commands that are killed and run again until they end leave what an undisturbed run leaves.
//!
//! [`table!`] has a row for each command and store; [`survives`] runs a row. It kills the command
//! between its begin and its end, at points that a seed chooses, and at the named points of a flush
//! where the row has some. A kill counts if it left a part of the work, or hit the command while it
//! worked: [`Row::is_hit`].
//!
//! `TSTAR_TEST_KILLS` is the number of kills that each row has to count. `TSTAR_TEST_KILL_SEED`
//! repeats the choices of a run, which prints its seed.

mod dead_letters;
mod erasures;
mod files;
mod forget;
mod imports;
mod rebuild;
mod repair;
mod replay;
mod run;
mod tags;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use rusqlite::{Connection, OpenFlags};

use crate::cli::{Folder, Ran};
use crate::faults::{Running, until};
use crate::keyspace::Keyspace;
use crate::support::{Dice, times};
use tstar_sim::counts;

const SIGABRT: i32 = 6;

/// Points of a flush at which a command aborts in each landing, if its row has as many.
const POINTS: usize = 4;

/// Rounds per kill that has to count, at most.
const MAX_ROUNDS: usize = 20;

/// Samples of a log whose trips a keyspace gets: enough to kill a command between its first row and
/// its last.
const SAMPLES_OF_A_KEYSPACE: usize = 6000;

/// A command, the store that it writes, and what must hold after kills.
trait Row: Sized {
    /// Kills that have to count in each landing.
    const KILLS: u64 = 1;

    /// Kills of a round, at most.
    const KILLS_IN_A_ROW: usize = 1;

    /// Turns of a loop from the moment the command is seen to work to its kill, at most.
    const SPINS: usize = 60_000;

    /// Points of a flush, as `TSTAR_TEST_ABORT` names them: each round begins with an abort at the
    /// next.
    const POINTS: &'static [&'static str] = &[];

    /// What all rounds share; `None` without the servers.
    fn new(dice: &mut Dice) -> Option<Self>;

    /// Creates the store of a round.
    fn begin(&mut self);

    /// Before each start of the command that may be interrupted.
    fn prepare(&mut self) {}

    /// The command, and the folder in which it runs.
    fn command(&self) -> (&Folder, String);

    fn run(&self) -> Ran {
        let (folder, words) = self.command();
        folder.run(&words).ends(0)
    }

    /// How much of the round's work is in the store.
    fn done(&self) -> i64;

    /// How much of it there is.
    fn all(&self) -> i64;

    /// Waits until the command works, or has ended; `before` was done when it was started.
    fn until_works(&self, before: i64, running: &mut Running, dice: &mut Dice) {
        let steps = usize::try_from(self.all() - before).unwrap() / 4;
        let target = before + i64::try_from(dice.below(steps.max(1))).unwrap();
        until("the command to work", || {
            (running.has_ended() || self.done() > target).then_some(())
        });
    }

    fn kill(&mut self, running: Running) {
        running.kill();
    }

    /// Checks what a kill left.
    fn killed(&mut self, _before: i64) {}

    /// Whether that kill counts.
    fn is_hit(&self, before: i64) -> bool {
        (before + 1..self.all()).contains(&self.done())
    }

    /// Checks what an abort left at one of the points, such as `within:2`.
    fn aborted(&mut self, _point: &str, _output: &Output) {}

    /// Checks a command that ended before it could be killed.
    fn ended(&mut self, _ran: Ran) {}

    /// Runs the command to its end.
    fn finish(&mut self) -> Ran {
        self.run()
    }

    /// The store holds what an undisturbed run gives.
    fn check(&mut self, ran: &Ran);
}

/// What the rounds of a row have done.
#[derive(Debug, Default)]
struct Tally {
    rounds: usize,
    aborts: u64,
    kills: u64,
    /// Kills that count.
    hits: u64,
}

/// A row, with its choices and counts.
struct Trial<R: Row> {
    row: R,
    dice: Dice,
    /// The point of the first round.
    first: usize,
    tally: Tally,
}

impl<R: Row> Trial<R> {
    /// From an empty store to a complete one.
    fn round(&mut self) {
        self.row.begin();
        if !R::POINTS.is_empty() {
            let point = R::POINTS[(self.first + self.tally.rounds) % R::POINTS.len()];
            assert!(self.aborts(point), "{point} was not reached");
        }
        for _ in 0..R::KILLS_IN_A_ROW {
            if self.row.done() >= self.row.all() {
                break;
            }
            self.row.prepare();
            // One after another: what resumes is interrupted as well.
            if !R::POINTS.is_empty() && self.dice.percent(25) {
                let point = self.dice.one_of(R::POINTS);
                self.aborts(point);
            } else {
                self.kills();
            }
        }
        let ran = self.row.finish();
        self.row.check(&ran);
        self.tally.rounds += 1;
    }

    /// Runs a command that is to abort at a point; false if it ended before.
    fn aborts(&mut self, point: &str) -> bool {
        let mut command = hasty(&self.row);
        let output = command.env("TSTAR_TEST_ABORT", point).output().unwrap();
        if output.status.code() == Some(0) {
            self.row.ended(Ran::new(point, output));
            return false;
        }
        assert_eq!(output.status.signal(), Some(SIGABRT), "{point}: {output:?}");
        self.tally.aborts += 1;
        self.row.aborted(point, &output);
        true
    }

    /// Starts the command and kills it, unless it ends before.
    fn kills(&mut self) {
        let Self { row, dice, tally, .. } = self;
        let (words, before) = (row.command().1, row.done());
        let mut running = Running::start(&mut hasty(row));
        // Some are killed while they start, which does not count.
        let is_early = dice.below(8) == 0;
        if !is_early {
            row.until_works(before, &mut running, dice);
        }
        (0..dice.below(R::SPINS)).for_each(|_| std::hint::spin_loop());
        if running.has_ended() {
            row.ended(running.ran(&words).ends(0));
            return;
        }
        row.kill(running);
        row.killed(before);
        tally.kills += 1;
        tally.hits += u64::from(!is_early && row.is_hit(before));
    }
}

/// Interrupts a command again and again; the number of kills that count. `None` without the
/// servers.
fn survives<R: Row>(name: &str) -> Option<u64> {
    let seed = times("TSTAR_TEST_KILL_SEED", u64::from(fastrand::u32(..)));
    println!("kill::{name}: TSTAR_TEST_KILL_SEED={seed}");
    let mut dice = Dice::new(seed);
    let row = R::new(&mut dice)?;
    let first = dice.below(R::POINTS.len().max(1));
    let mut trial = Trial { row, dice, first, tally: Tally::default() };
    let kills = times("TSTAR_TEST_KILLS", R::KILLS);
    let min_rounds = R::POINTS.len().min(POINTS.max(kills as usize));
    let max_rounds = min_rounds + MAX_ROUNDS * kills as usize;
    while trial.tally.hits < kills || trial.tally.rounds < min_rounds {
        let tally = &trial.tally;
        assert!(tally.rounds < max_rounds, "{name}: too few kills hit: {tally:?}");
        trial.round();
    }
    println!("kill::{name}: {:?}", trial.tally);
    Some(trial.tally.hits)
}

/// A command that flushes often, so that it can be killed in between.
fn hasty(row: &impl Row) -> Command {
    let (folder, words) = row.command();
    let mut command = folder.command(&words);
    command.env("TSTAR_FLUSH_INTERVAL", "1ms").env("TSTAR_MAX_STALENESS", "1ms");
    command
}

/// The rows of the trips of a file; 0 until it has the table.
fn rows_of_file(store: &Path) -> i64 {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let count = || {
        let connection = Connection::open_with_flags(store, flags)?;
        connection.query_row("SELECT count(*) FROM trips", [], |row| row.get(0))
    };
    count().unwrap_or(0)
}

/// The rows of a table of a keyspace.
fn rows_of_keyspace(keyspace: &Keyspace, table: &str) -> i64 {
    let count = keyspace.session.query_unpaged(format!("SELECT count(*) FROM {table}"), ());
    let count = keyspace.runtime.block_on(count).unwrap().into_rows_result().unwrap();
    count.single_row::<(i64,)>().unwrap().0
}

/// A test for each row: its name, and what is done with the number of kills that count.
macro_rules! table {
    ($($name:ident: $row:ty => $count:expr;)*) => {
        $(
            #[test]
            fn $name() {
                if let Some(kills) = survives::<$row>(stringify!($name)) {
                    let count: fn(u64) = $count;
                    count(kills);
                }
            }
        )*
    };
}

table! {
    ingest_into_a_file: imports::Import => |kills| counts::IMPORTS.print(kills);
    ingest_into_a_file_with_erasures: erasures::Import => |_| ();
    run_into_a_file: run::Run => |_| ();
    replay_topic_into_a_file: replay::File => |kills| counts::REPLAYS_TO_FILE.print(kills);
    replay_topic_into_a_keyspace: replay::Table => |kills| counts::REPLAYS_TO_KEYSPACE.print(kills);
    replay_files_into_a_topic: files::Replay => |kills| counts::REPLAYS_OF_FILES.print(kills);
    rebuild_into_a_file: rebuild::File => |kills| counts::REBUILDS.print(kills);
    rebuild_into_a_keyspace: rebuild::Table => |_| ();
    verify_repairs_a_file: repair::File => |kills| counts::REPAIRS.print(kills);
    verify_repairs_a_keyspace: repair::Table => |_| ();
    forget_in_a_file: erasures::Erase => |kills| counts::ERASURES.print(kills);
    forget_in_a_keyspace: forget::Forget => |_| ();
    dlq_replay_into_a_topic: dead_letters::Replay => |kills| counts::LETTERS.print(kills);
    tag_in_a_file: tags::Tagging<false> => |_| ();
    tag_in_a_keyspace: tags::Tagging<true> => |_| ();
}
