-- Format 3 of the embedded store: what was read of each file, so that an import goes on where it
-- was stopped, and a file that is read again changes nothing.

-- Imports of the formats before came to their end, for all that is known.
ALTER TABLE imports ADD COLUMN finished INTEGER NOT NULL DEFAULT 1;

-- Records of one file that follow each other in the log. The file is known by its decompressed
-- content, not by its name.
CREATE TABLE parts (
  first_offset INTEGER NOT NULL,  -- of its records in the log
  from_bytes   INTEGER NOT NULL,  -- where it begins in the content; above 0 another part ends there
  upto_bytes   INTEGER NOT NULL,  -- where it ends, after a whole record
  line         INTEGER NOT NULL,  -- of the content, from 1, at which the next record begins
  head         BLOB    NOT NULL,  -- BLAKE3 of the first 4096 bytes, or of upto_bytes if that is less
  hash         BLOB    NOT NULL,  -- BLAKE3 of the content up to upto_bytes
  is_csv       INTEGER NOT NULL,  -- 1: rows of a table; 0: JSON
  by_end       INTEGER NOT NULL,  -- 1: where more follows now, its records were not whole
  finished     INTEGER NOT NULL,  -- 1: the content ended there
  log_time     INTEGER NOT NULL,  -- stands in for the log's timestamps, ms since 1970
  import       INTEGER NOT NULL,  -- imports.id of the run that read it
  PRIMARY KEY (first_offset, from_bytes)
) STRICT, WITHOUT ROWID;
