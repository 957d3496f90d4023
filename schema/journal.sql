-- The journal of the SQLite store: which files were read, dead letters and changes.

-- One row per import of files. The clock at its start is the log timestamp of its records.
CREATE TABLE imports (
  id           INTEGER PRIMARY KEY,
  started      INTEGER NOT NULL,  -- ms since 1970
  first_offset INTEGER NOT NULL,
  files        TEXT    NOT NULL,  -- JSON: the paths as given
  finished     INTEGER NOT NULL   -- 1: it has read all of them
) STRICT;

-- Consecutive records of one file in the log, so that an import can be resumed, and a file that is
-- imported again changes nothing. The file is identified by its decompressed content, not by its
-- name.
CREATE TABLE parts (
  first_offset INTEGER NOT NULL,  -- log offset of its first record
  from_bytes   INTEGER NOT NULL,  -- start in the content; if above 0, another part ends there
  upto_bytes   INTEGER NOT NULL,  -- end in the content, after a whole record
  line         INTEGER NOT NULL,  -- line at which the next record begins, from 1
  head         BLOB    NOT NULL,  -- BLAKE3 of the first 4096 bytes, or of upto_bytes if that is less
  hash         BLOB    NOT NULL,  -- BLAKE3 of the content up to upto_bytes
  format       TEXT    NOT NULL,  -- as --input-format names it
  by_end       INTEGER NOT NULL,  -- 1: the end of the content ended its last record
  damaged      INTEGER NOT NULL,  -- 1: damaged data ended its last record
  finished     INTEGER NOT NULL,  -- 1: the content ended there
  log_time     INTEGER NOT NULL,  -- log timestamp of its records, ms since 1970
  import       INTEGER NOT NULL,  -- imports.id of the run that read it
  PRIMARY KEY (first_offset, from_bytes)
) STRICT, WITHOUT ROWID;

-- Every sample that cannot be used, unchanged.
CREATE TABLE dead_letters (
  id          INTEGER PRIMARY KEY,
  partition   INTEGER NOT NULL,   -- 0 for files
  log_offset  INTEGER NOT NULL,
  element     INTEGER,            -- index in a record that is an array
  count       INTEGER NOT NULL,   -- samples: a run of equal ones of a file or request is one letter
  reason      TEXT    NOT NULL,
  message     TEXT    NOT NULL,
  origin      TEXT    NOT NULL,   -- path of the file, or name of the topic
  line        INTEGER NOT NULL,   -- from 1; 0: not from a file
  log_time    INTEGER NOT NULL,   -- ms since 1970
  key         BLOB,
  headers     TEXT    NOT NULL,   -- JSON: [name, value in base64 or null]
  value       BLOB    NOT NULL,   -- original bytes, or the first of them
  value_bytes INTEGER NOT NULL,   -- length of the original
  sha256      BLOB,               -- of the original, if value is cut
  token       TEXT    NOT NULL,   -- name of the HTTP token; empty: of a file or topic
  bytes       INTEGER NOT NULL    -- as they count against max_dead_letters
) STRICT;

-- The bytes of all dead letters, by token.
CREATE TABLE letter_bytes (
  token TEXT    PRIMARY KEY,
  bytes INTEGER NOT NULL
) STRICT;

-- The change feed: one event per changed trip per flush.
CREATE TABLE changes (
  seq       INTEGER PRIMARY KEY AUTOINCREMENT,
  device_id TEXT    NOT NULL,
  version   INTEGER NOT NULL,     -- 0: of a tag
  event     TEXT    NOT NULL      -- JSON
) STRICT;
