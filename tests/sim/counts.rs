//! Counts that tests prove: each is printed by the test that made it, into the log of its suite;
//! `tests/scoreboard.toml` says which promise it is for.

/// A count, by its name on the scoreboard.
#[derive(Clone, Copy)]
pub struct Count {
    pub name: &'static str,
    /// The constant, as tests name it.
    pub constant: &'static str,
}

impl Count {
    /// The line that the scoreboard names.
    pub fn line(self, count: u64) -> String {
        format!("count of {}: {count}", self.name)
    }

    /// Prints the count, for the log of the suite.
    pub fn print(self, count: u64) {
        println!("{}", self.line(count));
    }
}

macro_rules! counts {
    ($($constant:ident = $name:literal;)*) => {
        $(pub const $constant: Count = Count { name: $name, constant: stringify!($constant) };)*

        /// All of them.
        pub const ALL: &[Count] = &[$($constant),*];
    };
}

counts! {
    LOGS = "random logs";
    ARRIVALS = "arrivals that the core alone decides alike";
    SCHEDULES = "schedules";
    IDS = "round trips of ids";
    SPELLINGS = "ids that Python writes alike";
    BROWSER_SPELLINGS = "ids that JavaScript writes alike";
    IMPORTS = "killed imports";
    CHAOS = "schedules of real servers";
    REPLAYS_TO_FILE = "killed replays into a file";
    REPLAYS_TO_KEYSPACE = "killed replays into a keyspace";
    REPLAYS_OF_FILES = "killed replays of files";
    REBUILDS = "killed rebuilds";
    REPAIRS = "killed repairs";
    ERASURES = "killed erasures";
    LETTERS = "killed replays of dead letters";
    HOSTILE_RECORDS = "hostile records";
    LOOKUPS = "lookups while a trip grew";
    REBALANCES = "rebalances of one group";
    SOAK = "minutes under load";
}
