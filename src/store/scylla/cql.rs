//! What a store needs of a CQL driver, so that simulated servers can take its location in tests.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use scylla::client::session::Session;
use scylla::deserialize::row::DeserializeRow;
use scylla::response::PagingState;
use scylla::serialize::row::SerializeRow;
use scylla::statement;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlValue, Row};

use super::Consistency;
use super::requests::Failure;

/// Page size for small rows.
const LIST_PAGE: i32 = 5000;

/// How a statement is executed.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// It may be repeated. A read returns pages of at most this number of rows.
    Paged(i32),
    /// Like `Paged`, for small rows.
    Listed,
    /// A read that sees conditional writes, including those in progress.
    Serial(Consistency),
    /// Like `Listed`, from one replica: a read of some columns, after which none is repaired. It
    /// may lack what was written lately.
    OneReplica(Consistency),
    /// Like `Listed`, from all replicas: it also finds what fewer than a quorum have.
    EveryReplica,
    /// A write with `IF NOT EXISTS`. Not idempotent for the driver: a repeated insert finds its own
    /// row.
    Conditional,
}

/// The columns of a row by name.
pub type Columns = Vec<(String, Option<CqlValue>)>;

/// Whether a conditional write was applied.
pub(in crate::store) fn applied(answer: &Columns) -> bool {
    // The first column is `[applied]`; the columns of an existing row follow.
    let applied = answer.first().and_then(|(_, applied)| applied.as_ref());
    applied.and_then(CqlValue::as_boolean).unwrap_or(false)
}

/// A page of rows, and the state of the next page. An empty page may be followed by others.
pub type Page<R> = (Vec<R>, Option<PagingState>);

/// A connection to the servers of a store, in its keyspace. Nothing is retried below it.
pub trait Cql: Send + Sync + 'static {
    /// A prepared statement.
    type Statement: Clone + Send + Sync + 'static;
    /// Prepared statements that are applied together.
    type Batch: Send + Sync + 'static;

    /// Prepares a statement.
    fn prepare(
        &self,
        text: &str,
        mode: Mode,
    ) -> impl Future<Output = Result<Self::Statement, Failure>> + Send;

    /// A batch within one partition.
    fn batch(&self, statements: Vec<Self::Statement>) -> Self::Batch;

    /// Executes a statement whose answer does not matter, apart from its acknowledgement.
    fn execute(
        &self,
        statement: &Self::Statement,
        values: &(impl SerializeRow + Sync),
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Executes a batch, with the values of each statement.
    fn execute_all(
        &self,
        batch: &Self::Batch,
        values: &[impl SerializeRow + Sync],
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Executes a conditional statement. Returns the first row of the answer: whether the statement
    /// was applied, then columns of the existing row.
    fn execute_conditional(
        &self,
        statement: &Self::Statement,
        values: &(impl SerializeRow + Sync),
    ) -> impl Future<Output = Result<Columns, Failure>> + Send;

    /// Reads a page of rows.
    fn page<R>(
        &self,
        statement: &Self::Statement,
        values: &(impl SerializeRow + Sync),
        from: PagingState,
    ) -> impl Future<Output = Result<Page<R>, Failure>> + Send
    where
        R: for<'row> DeserializeRow<'row, 'row> + Send;

    /// Reads all rows in one page.
    fn unpaged<R>(
        &self,
        statement: &Self::Statement,
        values: &(impl SerializeRow + Sync),
    ) -> impl Future<Output = Result<Vec<R>, Failure>> + Send
    where
        R: for<'row> DeserializeRow<'row, 'row> + Send;

    /// Waits before a retry.
    fn pause(wait: Duration) -> BoxFuture<'static, ()>;
}

impl Cql for Session {
    type Statement = PreparedStatement;
    type Batch = Batch;

    async fn prepare(&self, text: &str, mode: Mode) -> Result<PreparedStatement, Failure> {
        let mut statement = Session::prepare(self, text).await?;
        statement.set_is_idempotent(!matches!(mode, Mode::Conditional));
        statement.set_page_size(if let Mode::Paged(rows) = mode { rows } else { LIST_PAGE });
        match mode {
            Mode::Serial(of) => statement.set_consistency(of.levels().serial_reads),
            Mode::OneReplica(of) => statement.set_consistency(of.levels().one_replica),
            Mode::EveryReplica => statement.set_consistency(statement::Consistency::All),
            Mode::Paged(_) | Mode::Listed | Mode::Conditional => (),
        }
        Ok(statement)
    }

    /// The driver routes a batch by its first statement.
    fn batch(&self, statements: Vec<PreparedStatement>) -> Batch {
        let statements = statements.into_iter().map(Into::into).collect();
        let mut batch = Batch::new_with_statements(BatchType::Unlogged, statements);
        batch.set_is_idempotent(true);
        batch
    }

    async fn execute(
        &self,
        statement: &PreparedStatement,
        values: &(impl SerializeRow + Sync),
    ) -> Result<(), Failure> {
        Ok(self.execute_unpaged(statement, values).await.map(drop)?)
    }

    async fn execute_all(
        &self,
        batch: &Batch,
        values: &[impl SerializeRow + Sync],
    ) -> Result<(), Failure> {
        Ok(Session::batch(self, batch, values).await.map(drop)?)
    }

    async fn execute_conditional(
        &self,
        statement: &PreparedStatement,
        values: &(impl SerializeRow + Sync),
    ) -> Result<Columns, Failure> {
        let answer = self.execute_unpaged(statement, values).await?.into_rows_result()?;
        let Some(row) = answer.rows::<Row>()?.next().transpose()? else { return Ok(Vec::new()) };
        let names = answer.column_specs().iter().map(|spec| spec.name().to_owned());
        Ok(names.zip(row.columns).collect())
    }

    async fn page<R>(
        &self,
        statement: &PreparedStatement,
        values: &(impl SerializeRow + Sync),
        from: PagingState,
    ) -> Result<Page<R>, Failure>
    where
        R: for<'row> DeserializeRow<'row, 'row> + Send,
    {
        let (page, next) = self.execute_single_page(statement, values, from).await?;
        let page = page.into_rows_result()?;
        let rows = page.rows::<R>()?.collect::<Result<Vec<R>, _>>()?;
        Ok((rows, next.into_paging_control_flow().continue_value()))
    }

    async fn unpaged<R>(
        &self,
        statement: &PreparedStatement,
        values: &(impl SerializeRow + Sync),
    ) -> Result<Vec<R>, Failure>
    where
        R: for<'row> DeserializeRow<'row, 'row> + Send,
    {
        let found = self.execute_unpaged(statement, values).await?.into_rows_result()?;
        Ok(found.rows::<R>()?.collect::<Result<Vec<R>, _>>()?)
    }

    fn pause(wait: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(wait).boxed()
    }
}
