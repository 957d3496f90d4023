-- Format 7 of the SQLite store: the schemas of a topic's records.

-- What the registry first said of the id of a schema. Insert-only. The slots of an epoch count from
-- 0 without gaps, so that all owners agree on the first verdict, and on how many there are.
CREATE TABLE schemas (
  epoch   INTEGER NOT NULL,
  slot    INTEGER NOT NULL,
  id      TEXT    NOT NULL,  -- a number, or a GUID
  verdict TEXT    NOT NULL,  -- JSON
  PRIMARY KEY (epoch, slot)
) STRICT;
