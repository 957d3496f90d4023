-- Format 2 of the SQLite store adds the journal. For a store built from files it takes the place of
-- the topics that go with a Kafka log.

-- How far the log has been read, and under which rules.
CREATE TABLE log (
  one       INTEGER PRIMARY KEY CHECK (one = 1),
  kind      TEXT    NOT NULL,  -- 'files'
  rules     TEXT    NOT NULL,  -- JSON
  delivered INTEGER NOT NULL   -- number of records delivered: the offset of the next one
) STRICT;

-- One row per import of files. The clock at its start is the log timestamp of its records.
CREATE TABLE imports (
  id           INTEGER PRIMARY KEY,
  started      INTEGER NOT NULL,  -- ms since 1970
  first_offset INTEGER NOT NULL,
  files        TEXT    NOT NULL   -- JSON: the paths as given
) STRICT;

-- Every sample that cannot be used, unchanged.
CREATE TABLE dead_letters (
  id          INTEGER PRIMARY KEY,
  log_offset  INTEGER NOT NULL,
  element     INTEGER,            -- index in a record that is an array
  reason      TEXT    NOT NULL,
  message     TEXT    NOT NULL,
  origin      TEXT    NOT NULL,   -- path of the file
  line        INTEGER NOT NULL,   -- from 1
  log_time    INTEGER NOT NULL,   -- ms since 1970
  value       BLOB    NOT NULL,   -- original bytes, or the first of them
  value_bytes INTEGER NOT NULL,   -- length of the original
  sha256      BLOB                -- of the original, if value is cut
) STRICT;

-- The change feed: one event per changed trip per flush.
CREATE TABLE changes (
  seq       INTEGER PRIMARY KEY AUTOINCREMENT,
  device_id TEXT    NOT NULL,
  version   INTEGER NOT NULL,
  event     TEXT    NOT NULL      -- JSON
) STRICT;
