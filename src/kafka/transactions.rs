//! Sends records in transactions: all of them or none.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::error::KafkaError as ClientError;
use rdkafka::producer::{
    BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer,
};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka_extra::LoggedIn;
use tokio::sync::OwnedMutexGuard;

use super::KafkaError;
use super::client::Brokers;
use super::producer::{ProducerRecord, headers};
use super::rights::Right;

/// Brokers abort a transaction after this time if its process has died. Until then, consumers do
/// not read past it.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(30);

/// The same for a transaction that is repeated until it succeeds: longer than brokers are usually
/// away, at most their default of `transaction.max.timeout.ms`. If a process dies, its successor
/// ends the transaction earlier.
const PATIENT_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(600);

/// Delay before a call that failed at once is repeated.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Time limit of each step, if [`Brokers`] sets none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Time to wait for room in the send queue.
const QUEUE_FULL_POLL: Duration = Duration::from_millis(20);

/// A record and its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionRecord {
    /// Topic to send to.
    pub topic: String,
    /// The record.
    pub record: ProducerRecord,
    /// Send no value, which deletes the key from a compacted topic, instead of that of the record.
    pub is_tombstone: bool,
}

/// Records whether a record was too large. The transaction itself may report only a consequence for
/// the other records: a gap in their sequence numbers.
#[derive(Default)]
struct Deliveries {
    has_too_large: AtomicBool,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, delivery: &DeliveryResult<'_>, (): ()) {
        let refused = delivery.as_ref().err().and_then(|(error, _)| error.rdkafka_error_code());
        if refused == Some(RDKafkaErrorCode::MessageSizeTooLarge) {
            self.has_too_large.store(true, Ordering::Release);
        }
    }
}

/// Repeats what fails until it succeeds.
#[derive(Clone)]
pub struct Patience {
    /// Called with the reason when something has to be repeated.
    pub on_waiting: Arc<dyn Fn(&str) + Send + Sync>,
    /// Set to give up.
    pub gives_up: Arc<AtomicBool>,
}

impl Patience {
    fn holds(&self) -> bool {
        !self.gives_up.load(Ordering::Acquire)
    }
}

/// Sends records in transactions. Of two with the same transactional id, the later fences the
/// earlier. All calls block.
pub struct Transactions {
    client: LoggedIn<ThreadedProducer<Deliveries>>,
    brokers: Brokers,
    timeout: Duration,
    name: String,
    patience: Option<Patience>,
}

impl Transactions {
    /// Starts with a transactional id, and fences an earlier producer with it; its open transaction
    /// is aborted or completed before this returns. What brokers do not answer is repeated if there
    /// is `patience`.
    ///
    /// # Errors
    /// No broker responds, or they refuse.
    pub fn init(
        brokers: &Brokers,
        name: &str,
        patience: Option<Patience>,
    ) -> Result<Self, KafkaError> {
        let timeout = brokers.timeout_or(DEFAULT_TIMEOUT);
        let transaction_timeout =
            if patience.is_some() { PATIENT_TRANSACTION_TIMEOUT } else { TRANSACTION_TIMEOUT };
        let ms = |duration: Duration| duration.as_millis().to_string();
        let config = brokers.config(&[
            ("transactional.id", name),
            ("transaction.timeout.ms", &ms(transaction_timeout)),
            ("message.timeout.ms", &ms(timeout.min(TRANSACTION_TIMEOUT))),
            ("enable.idempotence", "true"),
            ("acks", "all"),
            ("partitioner", "murmur2_random"),
            ("linger.ms", "5"),
            ("compression.type", "lz4"),
            ("allow.auto.create.topics", "false"),
        ]);
        let client = brokers.create(&config, Deliveries::default())?;
        let (brokers, name) = (brokers.clone(), name.to_owned());
        let transactions = Self { client, brokers, timeout, name, patience };
        transactions
            .retry("starting transactions", || transactions.client.init_transactions(timeout))?;
        Ok(transactions)
    }

    /// Sends records, all or none.
    ///
    /// # Errors
    /// Another producer has fenced this one, a record is refused, or no broker responds. Then none
    /// of the records was written, unless only the last response was lost. Or it is unclear whether
    /// they were, and this client cannot continue.
    pub fn send(&mut self, records: &[TransactionRecord]) -> Result<(), KafkaError> {
        if records.is_empty() {
            return Ok(());
        }
        loop {
            match self.try_send(records) {
                Err(error) if self.is_temporary(&error) => self.wait(&error.to_string()),
                result => return result,
            }
        }
    }

    fn try_send(&mut self, records: &[TransactionRecord]) -> Result<(), KafkaError> {
        if let Err(error) = self.retry("starting a transaction", || self.client.begin_transaction())
        {
            let is_fatal = self.client.client().fatal_error().is_some();
            return Err(if is_fatal { self.unusable(error) } else { error });
        }
        let sent = records.iter().try_for_each(|target| self.enqueue(target)).and_then(|()| {
            self.retry("committing a transaction", || self.client.commit_transaction(self.timeout))
        });
        let Err(error) = sent else { return Ok(()) };
        // If this fails too, the brokers abort the transaction after its timeout, or have committed
        // it: they refuse to abort one that they have begun to commit.
        let abort = || self.client.abort_transaction(self.timeout);
        let aborted = self.retry("aborting a transaction", abort);
        let has_too_large = self.client.context().has_too_large.swap(false, Ordering::AcqRel);
        match (error, aborted) {
            (fenced @ KafkaError::Fenced { .. }, _)
            | (_, Err(fenced @ KafkaError::Fenced { .. })) => Err(fenced),
            (away @ KafkaError::Unreachable { .. }, Ok(())) => Err(away),
            (_, _) if has_too_large => {
                // Start again: the refused record would leave a gap in the sequence numbers.
                *self = Self::init(&self.brokers, &self.name, self.patience.clone())?;
                let problem = RDKafkaErrorCode::MessageSizeTooLarge.to_string();
                Err(KafkaError::TooLarge { problem })
            }
            (error, Ok(())) => Err(error),
            (error, Err(_)) => Err(self.unusable(error)),
        }
    }

    /// The error of a client that takes no further transaction, because of this one. A new client
    /// would fence whoever has the partition by now, so only the partition's owner may begin one.
    fn unusable(&self, error: KafkaError) -> KafkaError {
        let Some(patience) = self.patience.as_ref().filter(|it| it.holds()) else { return error };
        let problem = match error {
            KafkaError::Fenced { .. } | KafkaError::Denied { .. } => return error,
            KafkaError::Client { source, .. } => source.to_string(),
            other => other.to_string(),
        };
        let error = KafkaError::Unusable { name: self.name.clone(), problem };
        (patience.on_waiting)(&error.to_string());
        error
    }

    fn enqueue(&self, target: &TransactionRecord) -> Result<(), KafkaError> {
        let ProducerRecord { key, value, headers: of_record, timestamp_ms, partition } =
            &target.record;
        let deadline = Instant::now() + self.timeout;
        loop {
            let mut record = BaseRecord::<[u8], [u8]>::to(&target.topic);
            record.payload = (!target.is_tombstone).then_some(value);
            record.key = key.as_deref();
            record.partition = *partition;
            record.timestamp = *timestamp_ms;
            record.headers = headers(of_record);
            match self.client.send(record) {
                Ok(()) => return Ok(()),
                Err((error, _))
                    if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull)
                        && Instant::now() < deadline =>
                {
                    self.client.poll(QUEUE_FULL_POLL);
                }
                Err((error, _)) => return Err(self.failed("sending a record", error)),
            }
        }
    }

    /// Whether a transaction that failed so may succeed if it is sent again.
    fn is_temporary(&self, error: &KafkaError) -> bool {
        let is_fatal = self.client.client().fatal_error().is_some();
        let is_patient = self.patience.as_ref().is_some_and(Patience::holds);
        let is_permanent = matches!(
            error,
            KafkaError::Fenced { .. }
                | KafkaError::Unusable { .. }
                | KafkaError::TooLarge { .. }
                | KafkaError::Denied { .. }
        );
        is_patient && !is_fatal && !is_permanent
    }

    fn wait(&self, reason: &str) {
        if let Some(patience) = &self.patience {
            (patience.on_waiting)(&format!("transaction `{}` waits: {reason}", self.name));
        }
        std::thread::sleep(RETRY_DELAY);
    }

    /// Repeats a call as long as the client reports that it can be retried.
    fn retry(
        &self,
        doing: &'static str,
        call: impl Fn() -> Result<(), ClientError>,
    ) -> Result<(), KafkaError> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let is_in_time =
                Instant::now() < deadline || self.patience.as_ref().is_some_and(Patience::holds);
            match call() {
                Err(ClientError::Transaction(error)) if error.is_retriable() && is_in_time => {
                    self.wait(&error.to_string());
                }
                result => return result.map_err(|error| self.failed(doing, error)),
            }
        }
    }

    fn failed(&self, doing: &'static str, error: ClientError) -> KafkaError {
        use RDKafkaErrorCode as Code;
        let fatal = self.client.client().fatal_error().map(|(code, _)| code);
        match fatal.or(error.rdkafka_error_code()) {
            Some(Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch) => {
                KafkaError::Fenced { name: self.name.clone() }
            }
            Some(Code::MessageSizeTooLarge) => KafkaError::TooLarge { problem: error.to_string() },
            _ => self.brokers.failed(doing, &[Right::transactional_id(&self.name)], error),
        }
    }
}

/// Sends records in transactions under one transactional id. Tests replace it.
pub trait TransactionClient: Send + Sync {
    /// Sends records, all or none; waits for brokers without limit.
    ///
    /// # Errors
    /// Another producer has fenced this one, or a record is refused.
    fn send(
        &self,
        records: Arc<[TransactionRecord]>,
    ) -> impl Future<Output = Result<(), KafkaError>> + Send;
}

/// The client of Kafka. Its calls block, on threads for that.
pub struct KafkaTransactions {
    transactions: Arc<Mutex<Transactions>>,
    _gives_up: GiveUp,
}

/// Set once it is dropped, so that no thread waits for brokers any more.
#[derive(Default)]
struct GiveUp(Arc<AtomicBool>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Makes the workers of a process begin to use a transactional id one at a time. A worker that is
/// cancelled meanwhile leaves its request behind, and brokers that take it late would fence the
/// worker that has begun since.
#[derive(Clone, Default)]
pub struct Turns(Arc<Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>>);

impl Turns {
    async fn await_turn(&self, name: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().expect("no holder panics");
            Arc::clone(turns.entry(name.to_owned()).or_default())
        };
        turn.lock_owned().await
    }
}

impl KafkaTransactions {
    /// Begins to use a transactional id, and fences whoever did before. Waits for brokers without
    /// limit, and for workers of this process that asked before.
    ///
    /// # Errors
    /// The brokers refuse.
    pub async fn begin(
        brokers: &Brokers,
        name: &str,
        turns: &Turns,
        on_waiting: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Self, KafkaError> {
        let turn = turns.await_turn(name).await;
        let gives_up = GiveUp::default();
        let patience = Some(Patience { on_waiting, gives_up: Arc::clone(&gives_up.0) });
        let (brokers, name) = (brokers.clone(), name.to_owned());
        let transactions = blocking(move || {
            let _turn = turn;
            Transactions::init(&brokers, &name, patience)
        });
        Ok(Self { transactions: Arc::new(transactions.await?.into()), _gives_up: gives_up })
    }
}

impl TransactionClient for KafkaTransactions {
    async fn send(&self, records: Arc<[TransactionRecord]>) -> Result<(), KafkaError> {
        let transactions = Arc::clone(&self.transactions);
        blocking(move || transactions.lock().expect("no holder panics").send(&records)).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, KafkaError> + Send + 'static,
) -> Result<T, KafkaError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(KafkaError::Broken))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use rdkafka::mocking::MockCluster;
    use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr as Refusal};

    use super::*;

    /// Gives up after this number of waits, so that no test waits without end.
    const MAX_WAITS: u32 = 100;

    fn record() -> TransactionRecord {
        let (value, partition) = (b"{}".to_vec(), Some(0));
        let record = ProducerRecord { value, partition, ..ProducerRecord::default() };
        TransactionRecord { topic: "table".into(), record, is_tombstone: false }
    }

    fn patience() -> Patience {
        let (gives_up, waits) = (Arc::<AtomicBool>::default(), AtomicU32::new(0));
        let to_give_up = Arc::clone(&gives_up);
        let on_waiting = move |_: &str| {
            let is_last = waits.fetch_add(1, Ordering::Relaxed) == MAX_WAITS;
            to_give_up.fetch_or(is_last, Ordering::Release);
        };
        Patience { on_waiting: Arc::new(on_waiting), gives_up }
    }

    /// Sends a transaction whose ends, the first commit and then the abort, brokers answer so.
    fn sent(answers: &[Refusal]) -> Result<(), KafkaError> {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("table", 1, 1).unwrap();
        let brokers = Brokers::new(&cluster.bootstrap_servers(), BTreeMap::new()).unwrap();
        let begun = Transactions::init(&brokers, "t-0", Some(patience()));
        cluster.request_errors(RDKafkaApiKey::EndTxn, answers);
        begun.unwrap().send(&[record()])
    }

    #[test]
    fn a_transaction_whose_end_is_unclear_is_repeated_or_its_producer_is_given_up() {
        let unknown = Refusal::RD_KAFKA_RESP_ERR_UNKNOWN;
        let committed = Refusal::RD_KAFKA_RESP_ERR_INVALID_TXN_STATE;
        let fenced = Refusal::RD_KAFKA_RESP_ERR_PRODUCER_FENCED;
        sent(&[unknown]).unwrap();
        // Brokers refuse to abort what they have committed, and the client takes that as its end.
        for abort in [committed, unknown] {
            let ended = sent(&[unknown, abort]);
            assert!(matches!(ended, Err(KafkaError::Unusable { .. })), "{ended:?}");
        }
        for answers in [&[fenced][..], &[unknown, fenced]] {
            let ended = sent(answers);
            assert!(matches!(ended, Err(KafkaError::Fenced { .. })), "{ended:?}");
        }
    }
}
