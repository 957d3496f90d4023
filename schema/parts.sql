-- Format 3 of the SQLite store: what was read of each file, so that an import can be resumed and a
-- file that is imported again changes nothing.

-- Imports of earlier formats count as finished.
ALTER TABLE imports ADD COLUMN finished INTEGER NOT NULL DEFAULT 1;

-- Consecutive records of one file in the log. The file is identified by its decompressed content,
-- not by its name.
CREATE TABLE parts (
  first_offset INTEGER NOT NULL,  -- log offset of its first record
  from_bytes   INTEGER NOT NULL,  -- start in the content; if above 0, another part ends there
  upto_bytes   INTEGER NOT NULL,  -- end in the content, after a whole record
  line         INTEGER NOT NULL,  -- line at which the next record begins, from 1
  head         BLOB    NOT NULL,  -- BLAKE3 of the first 4096 bytes, or of upto_bytes if that is less
  hash         BLOB    NOT NULL,  -- BLAKE3 of the content up to upto_bytes
  is_csv       INTEGER NOT NULL,  -- 0: NDJSON, 1: CSV, 2: JSON, 3: GPX, 4: NMEA, 5: recorder
  by_end       INTEGER NOT NULL,  -- 1: if the file has grown, its last record was incomplete; 2: damaged data ended it
  finished     INTEGER NOT NULL,  -- 1: the content ended there
  log_time     INTEGER NOT NULL,  -- log timestamp of its records, ms since 1970
  import       INTEGER NOT NULL,  -- imports.id of the run that read it
  PRIMARY KEY (first_offset, from_bytes)
) STRICT, WITHOUT ROWID;
