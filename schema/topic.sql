-- Format 4 of the SQLite store: a topic as the log, its epochs, and its forgets. log.kind is then
-- 'topic', and log.delivered stays 0.

-- Epochs of the log: version = base + 2 * offset.
CREATE TABLE epochs (
  epoch         INTEGER PRIMARY KEY,  -- from 1
  topic         TEXT    NOT NULL,
  partitions    INTEGER NOT NULL,
  start_offsets TEXT    NOT NULL,     -- JSON: partition -> first offset of this epoch
  base          INTEGER NOT NULL,     -- microseconds since 1970
  rules         TEXT    NOT NULL      -- JSON
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
  PRIMARY KEY (device_id, version)
) STRICT, WITHOUT ROWID;

ALTER TABLE dead_letters ADD COLUMN partition INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dead_letters ADD COLUMN key BLOB;
ALTER TABLE dead_letters ADD COLUMN headers TEXT NOT NULL DEFAULT '[]';  -- JSON: [name, value in base64 or null]
