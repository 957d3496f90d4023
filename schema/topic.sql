-- Format 4 of the embedded store: a log that is a topic, its epochs, and what it erased.
-- log.kind is 'topic' then, and log.delivered stays 0.

-- The lives of the log: versions are base + 2 * offset.
CREATE TABLE epochs (
  epoch         INTEGER PRIMARY KEY,  -- from 1
  topic         TEXT    NOT NULL,
  partitions    INTEGER NOT NULL,
  start_offsets TEXT    NOT NULL,     -- JSON: partition -> first offset that is of this epoch
  base          INTEGER NOT NULL,     -- microseconds since 1970
  rules         TEXT    NOT NULL      -- JSON
) STRICT;

-- How far each partition has been read.
CREATE TABLE positions (
  partition   INTEGER PRIMARY KEY,
  next_offset INTEGER NOT NULL
) STRICT;

-- What was erased on request of the log.
CREATE TABLE forgets (
  device_id TEXT    NOT NULL,
  version   INTEGER NOT NULL,  -- of the record that asked for it
  before    INTEGER NOT NULL,  -- trips that end before it went, ms since 1970
  days      TEXT    NOT NULL,  -- JSON: the days that it concerned, ms since 1970
  PRIMARY KEY (device_id, version)
) STRICT, WITHOUT ROWID;

ALTER TABLE dead_letters ADD COLUMN partition INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dead_letters ADD COLUMN key BLOB;
ALTER TABLE dead_letters ADD COLUMN headers TEXT NOT NULL DEFAULT '[]';  -- JSON: [name, value in base64, or null]
