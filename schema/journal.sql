-- Format 2 of the embedded store adds the journal: what a log keeps where there is one.

-- How far the log has been read, and the rules it was read by.
CREATE TABLE log (
  one       INTEGER PRIMARY KEY CHECK (one = 1),
  kind      TEXT    NOT NULL,  -- 'files'
  rules     TEXT    NOT NULL,  -- JSON
  delivered INTEGER NOT NULL   -- records delivered so far: the offset of the next one
) STRICT;

-- Each import of files: the clock when it began stands in for a log's timestamps.
CREATE TABLE imports (
  id           INTEGER PRIMARY KEY,
  started      INTEGER NOT NULL,  -- ms since 1970
  first_offset INTEGER NOT NULL,
  files        TEXT    NOT NULL   -- JSON: the paths, as they were given
) STRICT;

-- Every sample that could not be used, as it came.
CREATE TABLE dead_letters (
  id          INTEGER PRIMARY KEY,
  log_offset  INTEGER NOT NULL,
  element     INTEGER,            -- of a record that is an array
  reason      TEXT    NOT NULL,
  message     TEXT    NOT NULL,
  origin      TEXT    NOT NULL,   -- path of the file
  line        INTEGER NOT NULL,   -- from 1
  log_time    INTEGER NOT NULL,   -- ms since 1970
  value       BLOB    NOT NULL,   -- original bytes, or their head
  value_bytes INTEGER NOT NULL,   -- length of the original
  sha256      BLOB                -- of the original, where value is its head alone
) STRICT;

-- The change feed: one event per changed trip per flush.
CREATE TABLE changes (
  seq       INTEGER PRIMARY KEY AUTOINCREMENT,
  device_id TEXT    NOT NULL,
  version   INTEGER NOT NULL,
  event     TEXT    NOT NULL      -- JSON
) STRICT;
