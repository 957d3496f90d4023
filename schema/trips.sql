-- Trips and the day index of the SQLite store. The counterpart of trips.cql.
-- Times are ms since 1970-01-01T00:00:00Z; a bucket is the first ms of a UTC day.

-- Each UTC day that a trip touches has a copy of it, so that a lookup reads one day.
-- A rowid table with a unique index, not WITHOUT ROWID: paths make the rows kilobytes long.
-- A history has the versions at which an id was minted, retired, revived, retired and so on. That of
-- t_star has an odd number of them, that of every other id an even one.
CREATE TABLE trips (
  device_id     TEXT    NOT NULL,
  bucket        INTEGER NOT NULL,
  end_time      INTEGER NOT NULL,
  start_time    INTEGER NOT NULL,
  t_star        INTEGER NOT NULL,  -- device time of the first-arrived sample
  kind          TEXT    NOT NULL,  -- trip or stop
  ids           TEXT    NOT NULL,  -- JSON: mint point -> its history
  version       INTEGER NOT NULL,  -- 2 * offset of the last record that changed the trip
  partition     INTEGER NOT NULL,
  samples       INTEGER NOT NULL,
  moving_ms     INTEGER,           -- null, like idle_ms: no sample has a speed
  idle_ms       INTEGER,           -- standing, and the ignition is not off
  parked_ms     INTEGER NOT NULL,  -- ignition off
  distance_m    REAL    NOT NULL,
  max_speed_mps REAL,
  start_lat     REAL    NOT NULL,
  start_lon     REAL    NOT NULL,
  end_lat       REAL    NOT NULL,
  end_lon       REAL    NOT NULL,
  min_lat       REAL    NOT NULL,
  min_lon       REAL    NOT NULL,
  max_lat       REAL    NOT NULL,
  max_lon       REAL    NOT NULL,
  driver        TEXT,              -- of the earliest kept sample that names one
  driver_time   INTEGER,           -- device time of that sample
  jumps         INTEGER,           -- legs faster than max_leg_speed, not part of distance_m; null: no such rule
  jump_s        REAL,              -- their durations together, s
  path          BLOB    NOT NULL   -- schema/path.proto
) STRICT;
CREATE UNIQUE INDEX trips_key ON trips (device_id, bucket, end_time DESC, start_time DESC);

-- The devices with a trip that touches a day. shard: low 4 bits of the second byte of the device's
-- hash.
CREATE TABLE device_days (
  bucket    INTEGER NOT NULL,
  shard     INTEGER NOT NULL,
  device_id TEXT    NOT NULL,
  PRIMARY KEY (bucket, shard, device_id)
) STRICT, WITHOUT ROWID;

-- The days that the trips of a device touch.
CREATE TABLE days_of_device (
  device_id TEXT    NOT NULL,
  bucket    INTEGER NOT NULL,
  PRIMARY KEY (device_id, bucket)
) STRICT, WITHOUT ROWID;
