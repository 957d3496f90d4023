-- Tags of trips and devices in the SQLite store. The counterpart of tags.cql.

-- Set by users at an id of a trip, and no function of the log. A trip has the tags of the times that
-- it covers. Those of a device are at the last ms before the year 0, -62167219200001. Written in transactions of their own, while another process may write trips.
CREATE TABLE trip_tags (
  device_id TEXT    NOT NULL,
  t_star    INTEGER NOT NULL,  -- time of the id
  key       TEXT    NOT NULL,
  value     TEXT    NOT NULL,
  written   INTEGER NOT NULL,  -- by the clock of the writer, ms; of several ids, the newest counts
  revision  INTEGER NOT NULL,  -- another one for every write
  PRIMARY KEY (device_id, t_star, key)
) STRICT, WITHOUT ROWID;
