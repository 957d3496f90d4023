//! README and `docs/`: every block of commands runs or has a reason not to, and every table that
//! the program can generate matches. `tests/tidy` checks their links.

mod blocks;
mod console;
mod generated;
mod help;
mod kafka;
mod scoreboard;
mod unrun;

pub use blocks::{run, shell};
pub use tstar_tidy::page::{Block, Page, page, pages};
use tstar_tidy::root;
