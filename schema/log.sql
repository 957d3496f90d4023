-- The log that an SQLite store was built from. The counterpart of log.cql.

-- How far files have been read, and under which rules. The rules of a topic belong to its epochs.
CREATE TABLE log (
  one       INTEGER PRIMARY KEY CHECK (one = 1),
  kind      TEXT    NOT NULL,  -- files or topic
  rules     TEXT    NOT NULL,  -- JSON
  delivered INTEGER NOT NULL,  -- number of records of files delivered: the offset of the next one
  consumer_group TEXT          -- of a topic: the group that reads it, once one does
) STRICT;

-- Epochs of a topic: version = base + 2 * offset.
CREATE TABLE epochs (
  epoch         INTEGER PRIMARY KEY,  -- from 1
  topic         TEXT    NOT NULL,
  partitions    INTEGER NOT NULL,
  start_offsets TEXT    NOT NULL,     -- JSON: partition -> first offset of this epoch
  base          INTEGER NOT NULL,     -- microseconds since 1970
  rules         TEXT    NOT NULL,     -- JSON
  partitioner   TEXT    NOT NULL,     -- murmur2, crc32 or none
  topic_id      TEXT                  -- as Kafka's tools show it; null: brokers without ids
) STRICT;

-- How far each partition has been read.
CREATE TABLE positions (
  partition   INTEGER PRIMARY KEY,
  next_offset INTEGER NOT NULL
) STRICT;

-- Forgets: what control records of the log have erased.
CREATE TABLE forgets (
  device_id TEXT    NOT NULL,
  version   INTEGER NOT NULL,  -- version of the control record
  before    INTEGER NOT NULL,  -- trips that end before this time are erased, ms since 1970
  days      TEXT    NOT NULL,  -- JSON: the days with trips to erase, ms since 1970
  claims    TEXT,              -- JSON: epoch -> partition; see table claims
  PRIMARY KEY (device_id, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX forgets_claims ON forgets (device_id) WHERE claims IS NOT NULL;

-- Keys whose signatures on control records are valid. Insert-only.
CREATE TABLE control_keys (
  name        TEXT PRIMARY KEY,
  fingerprint TEXT NOT NULL  -- distinguishes keys without revealing the secret
) STRICT, WITHOUT ROWID;

-- For a device whose partition is not computed: the partition of its first record. Inserted before
-- the first row of the device, and never changed. A forget that erases everything of the device
-- moves the claim to forgets.claims, where it outlives the trips.
CREATE TABLE claims (
  device_id TEXT    NOT NULL,
  epoch     INTEGER NOT NULL,
  partition INTEGER NOT NULL,
  PRIMARY KEY (device_id, epoch)
) STRICT, WITHOUT ROWID;

-- What the registry first said of the id of a schema. Insert-only. The slots of an epoch count from
-- 0 without gaps, so that all owners agree on the order of the verdicts.
CREATE TABLE schemas (
  epoch   INTEGER NOT NULL,
  slot    INTEGER NOT NULL,
  id      TEXT    NOT NULL,  -- a number, or a GUID; partition:offset up to which ids were unknown
  verdict TEXT    NOT NULL,  -- JSON
  PRIMARY KEY (epoch, slot)
) STRICT;
