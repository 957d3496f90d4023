//! The consumer group that reads the log, in Scylla, by conditional writes.

use super::cql::{Cql, Mode};
use super::requests::Failure;
use super::{Consistency, ScyllaStore};
use crate::store::{GroupStore, StoreError};

const GROUP: &str = "SELECT name FROM consumer_group WHERE log = 'log'";

const ADD_GROUP: &str = "INSERT INTO consumer_group (log, name) VALUES ('log', ?) IF NOT EXISTS";

const REPLACE_GROUP: &str = "UPDATE consumer_group SET name = ? WHERE log = 'log' IF name = ?";

/// The prepared statements about the group.
pub(super) struct GroupStatements<C: Cql> {
    of_log: C::Statement,
    add: C::Statement,
    replace: C::Statement,
}

impl<C: Cql> GroupStatements<C> {
    pub(super) async fn prepare(cql: &C, consistency: Consistency) -> Result<Self, Failure> {
        Ok(Self {
            of_log: cql.prepare(GROUP, Mode::Serial(consistency)).await?,
            add: cql.prepare(ADD_GROUP, Mode::Conditional).await?,
            replace: cql.prepare(REPLACE_GROUP, Mode::Conditional).await?,
        })
    }
}

impl<C: Cql> GroupStore for ScyllaStore<C> {
    async fn group(&self) -> Result<Option<String>, StoreError> {
        let statement = &self.shared.statements.group.of_log;
        let select = || async {
            let found: Vec<(String,)> = self.shared.session.unpaged(statement, &()).await?;
            Ok(found.into_iter().next().map(|(name,)| name))
        };
        self.shared.retry.until_acknowledged("reading the consumer group", select).await
    }

    async fn keep_group(
        &self,
        former: Option<&str>,
        group: &str,
    ) -> Result<Option<String>, StoreError> {
        let (shared, statements) = (&self.shared, &self.shared.statements.group);
        let doing = "keeping the consumer group";
        // An attempt without an answer may have been applied: what is read afterwards counts.
        match former {
            None => {
                let values = (group,);
                let add = || shared.session.execute_conditional(&statements.add, &values);
                shared.retry.until_acknowledged(doing, add).await?;
            }
            Some(former) => {
                let values = (group, former);
                let replace = || shared.session.execute_conditional(&statements.replace, &values);
                shared.retry.until_acknowledged(doing, replace).await?;
            }
        }
        self.group().await
    }
}
