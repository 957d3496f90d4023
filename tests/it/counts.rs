//! Counts that tests prove: each is printed by the test that made it, in one form.

/// A count, by its name.
#[derive(Clone, Copy)]
pub struct Count {
    name: &'static str,
}

impl Count {
    /// Prints the count, for the log of the suite.
    pub fn print(self, count: u64) {
        println!("count of {}: {count}", self.name);
    }
}

pub const IDS: Count = Count { name: "round trips of ids" };
pub const SPELLINGS: Count = Count { name: "ids that Python writes alike" };
pub const BROWSER_SPELLINGS: Count = Count { name: "ids that JavaScript writes alike" };
