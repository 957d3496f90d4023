//! Executes prepared statements until they are acknowledged.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::{StreamExt, stream};
use scylla::deserialize::row::DeserializeRow;
use scylla::response::PagingState;
use scylla::serialize::row::SerializeRow;

use super::Shared;
use super::cql::{Columns, Cql, Page};
use super::requests::Failure;
use crate::store::Result;

impl<C: Cql> Shared<C> {
    /// Runs writes concurrently, up to the limit of the session, until all are acknowledged.
    pub(super) async fn all<F>(&self, writes: Vec<F>) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let mut writes = stream::iter(writes).buffer_unordered(self.concurrency);
        while let Some(written) = writes.next().await {
            written?;
        }
        Ok(())
    }

    /// A page of rows and the state of the next page. An empty page may be followed by others.
    pub(super) async fn page<R>(
        &self,
        doing: &'static str,
        select: &C::Statement,
        values: &(impl SerializeRow + Sync),
        from: PagingState,
    ) -> Result<Page<R>>
    where
        R: for<'row> DeserializeRow<'row, 'row> + Send,
    {
        let read = || self.session.page(select, values, from.clone());
        let page = self.retry.until_acknowledged(doing, read).await?;
        self.rows_read.add(page.0.len() as u64);
        Ok(page)
    }

    /// All rows of all pages.
    pub(in crate::store) async fn rows<R>(
        &self,
        doing: &'static str,
        select: &C::Statement,
        values: impl SerializeRow + Sync,
    ) -> Result<Vec<R>>
    where
        R: for<'row> DeserializeRow<'row, 'row> + Send,
    {
        let (mut found, mut from) = (Vec::new(), Some(PagingState::start()));
        while let Some(at) = from {
            let (mut page, next) = self.page(doing, select, &values, at).await?;
            found.append(&mut page);
            from = next;
        }
        Ok(found)
    }

    /// All rows of one page, read until they are decoded.
    pub(in crate::store) async fn at_once<R, T>(
        &self,
        doing: &'static str,
        select: &C::Statement,
        values: impl SerializeRow + Sync,
        decode: impl Fn(R) -> Result<T, Failure>,
    ) -> Result<Vec<T>>
    where
        R: for<'row> DeserializeRow<'row, 'row> + Send,
    {
        let read = || async {
            let rows = self.session.unpaged(select, &values).await?;
            rows.into_iter().map(&decode).collect()
        };
        self.retry.until_acknowledged(doing, read).await
    }

    /// Executes a write until it is acknowledged.
    pub(in crate::store) async fn execute(
        &self,
        doing: &'static str,
        statement: &C::Statement,
        values: impl SerializeRow + Sync,
    ) -> Result<()> {
        let _permit = self.permits.acquire().await.expect("it is never closed");
        let write = || self.session.execute(statement, &values);
        self.retry.until_acknowledged(doing, write).await
    }

    /// Executes a conditional write until it is acknowledged. Returns the answer to the last
    /// attempt, and whether an earlier one without an answer may have been applied.
    pub(in crate::store) async fn conditional(
        &self,
        doing: &'static str,
        statement: &C::Statement,
        values: impl SerializeRow + Sync,
    ) -> Result<(Columns, bool)> {
        let _permit = self.permits.acquire().await.expect("it is never closed");
        let attempts = AtomicU32::new(0);
        let write = || {
            attempts.fetch_add(1, Ordering::Relaxed);
            self.session.execute_conditional(statement, &values)
        };
        let answer = self.retry.until_acknowledged(doing, write).await?;
        Ok((answer, attempts.load(Ordering::Relaxed) > 1))
    }
}
