//! The consumer group that reads the log.

use rusqlite::params;

use crate::store::Result;
#[cfg(feature = "internals")]
use crate::store::memory::MemoryStore;
use crate::store::scylla::cql::{Cql, Mode};
use crate::store::scylla::{ScyllaStore, statements};
use crate::store::sqlite::SqliteStore;

statements! { Statements, consistency =>
    kept: Mode::Serial(consistency) => "SELECT name FROM consumer_group WHERE log = 'log'",
    add: Mode::Conditional =>
        "INSERT INTO consumer_group (log, name) VALUES ('log', ?) IF NOT EXISTS",
    replace: Mode::Conditional =>
        "UPDATE consumer_group SET name = ? WHERE log = 'log' IF name = ?",
}

impl<C: Cql> ScyllaStore<C> {
    pub(super) async fn group(&self) -> Result<Option<String>> {
        let select = &self.shared.statements.side.group.kept;
        let name = |(name,): (String,)| Ok(name);
        let found = self.shared.at_once("reading the consumer group", select, (), name).await?;
        Ok(found.into_iter().next())
    }

    pub(super) async fn keep_group(
        &self,
        former: Option<&str>,
        group: &str,
    ) -> Result<Option<String>> {
        let (shared, doing) = (&self.shared, "keeping the consumer group");
        let statements = &shared.statements.side.group;
        match former {
            None => shared.conditional(doing, &statements.add, (group,)).await?,
            Some(former) => shared.conditional(doing, &statements.replace, (group, former)).await?,
        };
        // An attempt without an answer may have been applied: what is read afterwards counts.
        self.group().await
    }
}

impl SqliteStore {
    pub(super) async fn group(&self) -> Result<Option<String>> {
        let select = "SELECT consumer_group FROM log";
        let found = self.select("reading the consumer group", select, [], |row| row.get(0))?;
        Ok(found.into_iter().next().flatten())
    }

    pub(super) async fn keep_group(
        &self,
        former: Option<&str>,
        group: &str,
    ) -> Result<Option<String>> {
        let update = "UPDATE log SET consumer_group = ?1 WHERE consumer_group IS ?2";
        self.execute("keeping the consumer group", update, params![group, former])?;
        self.group().await
    }
}

#[cfg(feature = "internals")]
impl MemoryStore {
    pub(super) async fn group(&self) -> Result<Option<String>> {
        Ok(self.state().group.clone())
    }

    pub(super) async fn keep_group(
        &self,
        former: Option<&str>,
        group: &str,
    ) -> Result<Option<String>> {
        let mut state = self.state();
        if state.group.as_deref() == former {
            state.group = Some(group.to_owned());
        }
        Ok(state.group.clone())
    }
}
