//! A client's connection to the nodes, in place of the driver's session.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, RwLock};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use scylla::deserialize::FrameSlice;
use scylla::deserialize::row::{ColumnIterator, DeserializeRow};
use scylla::response::PagingState;
use scylla::serialize::row::SerializeRow;
use scylla::value::CqlValue;
use tstar::internals::store::scylla::cql::{Columns, Cql, Mode, Page as TypedPage};
use tstar::internals::store::scylla::{Failure, ScyllaStore, ScyllaUrl, ServerOptions, ddl};

use super::data::{Mutation, Replica};
use super::network::{Nodes, PAIRS};
use super::plan::{Plan, Schema};
use super::read::{Cursor, Encoded, Page};
use super::statement::{Condition, Value, bind};
use super::syntax::Wrong;

pub type SharedNodes = Arc<Mutex<Nodes>>;

/// The tables of the store.
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(&ddl()).expect("the schema"));

/// Statements are prepared once for all nodes.
static PLANS: LazyLock<RwLock<HashMap<String, Arc<Plan>>>> = LazyLock::new(RwLock::default);

/// A connection of an owner.
#[derive(Clone)]
pub struct Connection {
    nodes: SharedNodes,
    owner: usize,
    /// It reads from these replicas; `None`: from any two.
    pair: Option<[usize; 2]>,
    /// No message arrives and no request fails while it reads.
    is_at_once: bool,
}

/// A prepared statement.
#[derive(Clone)]
pub struct Prepared {
    plan: Arc<Plan>,
    mode: Mode,
}

/// A store over a connection.
pub async fn store(connection: Connection) -> ScyllaStore<Connection> {
    let url = ScyllaUrl { nodes: vec!["simulated:9042".to_owned()], keyspace: "trips".to_owned() };
    let concurrency = connection.nodes().dice.one_of(&[1, 2, 64]);
    let options = ServerOptions { concurrency, ..ServerOptions::default() };
    ScyllaStore::over(connection, &url, options).await.expect("it is prepared")
}

fn invalid(wrong: Wrong) -> Failure {
    Failure::Permanent(wrong.into())
}

/// The plan of a statement.
pub fn prepared(text: &str) -> Result<Arc<Plan>, Wrong> {
    let unpoisoned = "no holder of the lock panics";
    if let Some(plan) = PLANS.read().expect(unpoisoned).get(text) {
        return Ok(Arc::clone(plan));
    }
    let plan = Arc::new(SCHEMA.prepare(text)?);
    PLANS.write().expect(unpoisoned).insert(text.to_owned(), Arc::clone(&plan));
    Ok(plan)
}

/// Gives others some turns.
async fn pass(mut turns: usize) {
    poll_fn(|context| {
        if turns == 0 {
            return Poll::Ready(());
        }
        turns -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Connection {
    /// A connection under the faults of the nodes.
    pub fn live(nodes: &SharedNodes, owner: usize) -> Self {
        Self { nodes: Arc::clone(nodes), owner, pair: None, is_at_once: false }
    }

    /// A connection of a reader that nothing disturbs.
    pub fn at_once(nodes: &SharedNodes, owner: usize, pair: Option<[usize; 2]>) -> Self {
        Self { nodes: Arc::clone(nodes), owner, pair, is_at_once: true }
    }

    pub fn shared(&self) -> &SharedNodes {
        &self.nodes
    }

    pub fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().expect("no holder of the lock panics")
    }

    /// Lets messages arrive.
    async fn meanwhile(&self) {
        let turns = {
            let mut nodes = self.nodes();
            let is_calm = nodes.is_calm || self.is_at_once;
            if is_calm { 0 } else { nodes.dice.one_of(&[0, 0, 1, 2]) }
        };
        pass(turns).await;
    }

    /// Sends a mutation, and waits for a quorum.
    async fn acknowledged(&self, mutation: Mutation) -> Result<(), Failure> {
        let operation = self.nodes().send(self.owner, mutation);
        let outcome = poll_fn(|context| {
            let outcome = self.nodes().outcome(operation, context.waker());
            outcome.map_or(Poll::Pending, Poll::Ready)
        });
        outcome.await.map_err(|why| Failure::Transient(why.into()))
    }

    /// Executes a write. Returns the answer of a conditional one.
    async fn write(&self, plan: &Plan, bound: Vec<Value>) -> Result<Columns, Failure> {
        let clock = self.nodes().now();
        let (mutation, condition, key) = plan.mutation(&bound, clock).map_err(invalid)?;
        if condition == Condition::None {
            self.acknowledged(mutation).await?;
            return Ok(Columns::new());
        }
        self.meanwhile().await;
        if self.nodes().fails(10) {
            return Err(Failure::Transient("no server received the condition".into()));
        }
        let (applied, names_columns, decided) = {
            let mut nodes = self.nodes();
            let names_columns = nodes.dice.percent(50);
            let (applied, decided) = nodes.decide(mutation, condition, &key);
            (applied, names_columns, decided)
        };
        let place = decided.place.clone();
        self.acknowledged(decided).await?;
        let mut answer = vec![("[applied]".to_owned(), Some(CqlValue::Boolean(applied)))];
        // As Cassandra answers, or as Scylla does.
        if applied && !names_columns {
            return Ok(answer);
        }
        let standing = self.nodes().serial.partition(&place);
        let row = standing.rows.get(&key).filter(|_| !applied).cloned().unwrap_or_default();
        let table = &SCHEMA.0[plan.table];
        for (index, column) in table.columns.iter().enumerate() {
            let value = table.value(index, &place, &standing, (&key, &row)).filter(|_| !applied);
            let slice = value.as_deref().map(FrameSlice::new_borrowed);
            let read = |slice| {
                scylla::deserialize::value::DeserializeValue::deserialize(&column.kind, Some(slice))
            };
            answer.push((column.name.clone(), slice.map(read).transpose()?));
        }
        Ok(answer)
    }

    /// What replicas say of the partitions that a read is about, each at its own moment.
    async fn replicas(
        &self,
        statement: &Prepared,
        bound: &[Value],
    ) -> Result<Vec<Replica>, Failure> {
        let select = statement.plan.select().map_err(invalid)?;
        let table = statement.plan.table;
        let place = select.locate(table, bound).map_err(invalid)?;
        let pair = match self.pair {
            Some(pair) => pair,
            None => self.nodes().dice.one_of(&PAIRS),
        };
        let every = [0, 1, 2];
        let is_pair = !matches!(statement.mode, Mode::EveryReplica);
        let mut found = Vec::new();
        for replica in if is_pair { pair.as_slice() } else { every.as_slice() } {
            self.meanwhile().await;
            found.push(self.nodes().snapshot(*replica, table, place.as_ref()));
        }
        if self.is_at_once {
            return Ok(found);
        }
        let mut nodes = self.nodes();
        if nodes.fails(10) {
            nodes.see("reads that time out");
            return Err(Failure::Transient("the read timed out".into()));
        }
        if matches!(statement.mode, Mode::Serial(_)) {
            found.push(nodes.serial.snapshot(table, place.as_ref()));
        }
        let Some(place) = place.filter(|_| nodes.fails(500)) else { return Ok(found) };
        let [one, other] = [found[0].partition(&place), found[1].partition(&place)];
        if one != other {
            nodes.see("reads that repair");
            let slice = select.slice.slice(bound).map_err(invalid)?;
            let columns: Vec<_> = select.columns.iter().map(|(column, _)| *column).collect();
            let changes = one.merged(&other).repair(&slice, &columns);
            let repair = Mutation { place, changes };
            pair.into_iter().for_each(|to| {
                nodes.replicas[to].apply(&repair);
            });
        }
        Ok(found)
    }

    /// Reads at most `rows` rows.
    async fn read(
        &self,
        statement: &Prepared,
        bound: Vec<Value>,
        (from, rows): (PagingState, usize),
    ) -> Result<(Vec<Encoded>, Option<PagingState>), Failure> {
        let replicas = self.replicas(statement, &bound).await?;
        let plan = &statement.plan;
        let select = plan.select().map_err(invalid)?;
        let from = from.as_bytes_slice().map(|bytes| postcard::from_bytes::<Cursor>(bytes));
        let page = Page {
            table: (plan.table, &SCHEMA.0[plan.table]),
            select,
            slice: select.slice.slice(&bound).map_err(invalid)?,
            limit: select.limit(&bound).map_err(invalid)?,
            rows,
            from: from.transpose().expect("it is a state of this server"),
        };
        let (found, next) = page.read(&replicas);
        let state = |next: Cursor| {
            let bytes = postcard::to_stdvec(&next).expect("it is plain data");
            PagingState::new_from_raw_bytes(bytes)
        };
        Ok((found, next.map(state)))
    }

    /// Prepares a statement that no store has.
    pub fn prepare_any(&self, text: &str, mode: Mode) -> Result<Prepared, Failure> {
        Ok(Prepared { plan: prepared(text).map_err(invalid)?, mode })
    }

    /// A statement that no store has, for checks: its rows, with a value for each column.
    pub async fn query(
        &self,
        text: &str,
        values: impl SerializeRow + Sync,
    ) -> Result<Vec<Vec<Option<CqlValue>>>, Failure> {
        let statement = self.prepare_any(text, Mode::Listed)?;
        if statement.plan.select().is_err() {
            self.execute(&statement, &values).await?;
            return Ok(Vec::new());
        }
        let rows: Vec<scylla::value::Row> = self.unpaged(&statement, &values).await?;
        Ok(rows.into_iter().map(|row| row.columns).collect())
    }
}

fn typed<R>(plan: &Plan, rows: &[Encoded]) -> Result<Vec<R>, Failure>
where
    R: for<'row> DeserializeRow<'row, 'row>,
{
    R::type_check(&plan.answer)?;
    let row = |row: &Encoded| -> Result<R, Failure> {
        Ok(R::deserialize(ColumnIterator::new(&plan.answer, FrameSlice::new_borrowed(row)))?)
    };
    rows.iter().map(row).collect()
}

impl Cql for Connection {
    type Statement = Prepared;
    type Batch = Vec<Prepared>;

    async fn prepare(&self, text: &str, mode: Mode) -> Result<Prepared, Failure> {
        let statement = self.prepare_any(text, mode)?;
        // A repair sends replicas what was read, which then may have a part of a row.
        let (plan, table) = (&statement.plan, &SCHEMA.0[statement.plan.table]);
        let is_at_one = matches!(statement.mode, Mode::OneReplica(_));
        let is_part = plan.select().is_ok_and(|it| it.columns.len() < table.columns.len());
        if table.name == "trips" && is_part && !is_at_one {
            return Err(invalid(format!("a part of the columns is read at a quorum: {text}")));
        }
        Ok(statement)
    }

    fn batch(&self, statements: Vec<Prepared>) -> Vec<Prepared> {
        statements
    }

    async fn execute(
        &self,
        statement: &Prepared,
        values: &(impl SerializeRow + Sync),
    ) -> Result<(), Failure> {
        let bound = bind(&statement.plan.bound, values).map_err(invalid)?;
        self.write(&statement.plan, bound).await.map(drop)
    }

    async fn execute_all(
        &self,
        batch: &Vec<Prepared>,
        values: &[impl SerializeRow + Sync],
    ) -> Result<(), Failure> {
        let clock = self.nodes().now();
        let all = || {
            let [first, rest @ ..] = &batch[..] else { return Err("no statement".to_owned()) };
            let bound = bind(&first.plan.bound, &values[0])?;
            let (mut mutation, condition, _) = first.plan.mutation(&bound, clock)?;
            for (next, values) in rest.iter().zip(&values[1..]) {
                let bound = bind(&next.plan.bound, values)?;
                let (other, other_condition, _) = next.plan.mutation(&bound, clock)?;
                if other.place != mutation.place || condition != other_condition {
                    return Err("a batch of several partitions is not simulated".to_owned());
                }
                mutation.changes.extend(other.changes);
            }
            Ok(mutation)
        };
        self.acknowledged(all().map_err(invalid)?).await
    }

    async fn execute_conditional(
        &self,
        statement: &Prepared,
        values: &(impl SerializeRow + Sync),
    ) -> Result<Columns, Failure> {
        let bound = bind(&statement.plan.bound, values).map_err(invalid)?;
        self.write(&statement.plan, bound).await
    }

    async fn page<R>(
        &self,
        statement: &Prepared,
        values: &(impl SerializeRow + Sync),
        from: PagingState,
    ) -> Result<TypedPage<R>, Failure>
    where
        R: for<'row> DeserializeRow<'row, 'row> + Send,
    {
        let bound = bind(&statement.plan.bound, values).map_err(invalid)?;
        let rows = match statement.mode {
            Mode::Paged(rows) if self.is_at_once => usize::try_from(rows).unwrap_or(1),
            _ if self.is_at_once => usize::MAX,
            // Small pages; an empty one may have a next one.
            _ => self.nodes().dice.one_of(&[0, 1, 2, 3, 100]),
        };
        let (found, next) = self.read(statement, bound, (from, rows)).await?;
        Ok((typed(&statement.plan, &found)?, next))
    }

    async fn unpaged<R>(
        &self,
        statement: &Prepared,
        values: &(impl SerializeRow + Sync),
    ) -> Result<Vec<R>, Failure>
    where
        R: for<'row> DeserializeRow<'row, 'row> + Send,
    {
        let bound = bind(&statement.plan.bound, values).map_err(invalid)?;
        let whole = (PagingState::start(), usize::MAX);
        typed(&statement.plan, &self.read(statement, bound, whole).await?.0)
    }

    fn pause(_: Duration) -> BoxFuture<'static, ()> {
        pass(2).boxed()
    }
}
