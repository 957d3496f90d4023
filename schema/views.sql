-- What other programs read of the SQLite store, as docs/data-out.md shows.

-- One row for each trip and stop, with what table `trips` has no text for. Stored, since programs such as
-- DuckDB run a view in their own SQL, which has other functions; and apart from `trips`, where
-- SQLite would read the paths to get to columns behind them.
CREATE TABLE trip_rows (
  device_id     TEXT    NOT NULL,
  start_ms      INTEGER NOT NULL,
  end_ms        INTEGER NOT NULL,
  t_star_ms     INTEGER NOT NULL,
  kind          TEXT    NOT NULL,  -- trip or stop
  id            TEXT,              -- set by the trigger below, like the next two
  start_time    TEXT,
  end_time      TEXT,
  duration_s    REAL    NOT NULL,
  moving_s      REAL,
  idle_s        REAL,
  parked_s      REAL    NOT NULL,
  km            REAL    NOT NULL,
  samples       INTEGER NOT NULL,
  max_speed_mps REAL,
  driver        TEXT,
  start_lat     REAL    NOT NULL,
  start_lon     REAL    NOT NULL,
  end_lat       REAL    NOT NULL,
  end_lon       REAL    NOT NULL,
  min_lat       REAL    NOT NULL,
  min_lon       REAL    NOT NULL,
  max_lat       REAL    NOT NULL,
  max_lon       REAL    NOT NULL,
  version       INTEGER NOT NULL,
  PRIMARY KEY (device_id, start_ms, end_ms)
) STRICT, WITHOUT ROWID;

-- One row for each id that a merge into a trip retired.
CREATE TABLE absorbed_rows (
  device_id   TEXT    NOT NULL,
  start_ms    INTEGER NOT NULL,
  end_ms      INTEGER NOT NULL,
  absorbed_ms INTEGER NOT NULL,
  absorbed_id TEXT,
  version     INTEGER NOT NULL,    -- of the merge that retired it last
  PRIMARY KEY (device_id, start_ms, end_ms, absorbed_ms)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER trip_rows_insert AFTER INSERT ON trip_rows BEGIN
  UPDATE trip_rows SET
    -- The device token: every UTF-8 byte other than A-Z a-z 0-9 . _ - is `~` and two hex digits;
    -- so are the dots of a token of dots alone.
    id = CASE
      WHEN device_id NOT GLOB '*[^-A-Za-z0-9._]*' AND trim(device_id, '.') <> '' THEN device_id
      ELSE (
        WITH RECURSIVE bytes (at, pair) AS (
          SELECT 1, substr(hex(new.device_id), 1, 2)
          UNION ALL
          SELECT at + 2, substr(hex(new.device_id), at + 2, 2) FROM bytes
          WHERE at + 2 < length(hex(new.device_id))
        )
        SELECT group_concat(
          CASE
            WHEN pair BETWEEN '30' AND '39' OR pair BETWEEN '41' AND '5A'
              OR pair BETWEEN '61' AND '7A' OR pair IN ('2D', '5F')
              OR pair = '2E' AND trim(new.device_id, '.') <> ''
            THEN char(
              16 * (instr('0123456789ABCDEF', substr(pair, 1, 1)) - 1)
                + instr('0123456789ABCDEF', substr(pair, 2, 1)) - 1
            )
            ELSE '~' || lower(pair)
          END, ''
        ) FROM bytes
      )
    END || '~' || strftime('%Y%m%dT%H%M%S', t_star_ms / 1000, 'unixepoch')
      || printf('.%03dZ', t_star_ms % 1000),
    start_time = strftime('%Y-%m-%dT%H:%M:%S', start_ms / 1000, 'unixepoch')
      || printf('.%03dZ', start_ms % 1000),
    end_time = strftime('%Y-%m-%dT%H:%M:%S', end_ms / 1000, 'unixepoch')
      || printf('.%03dZ', end_ms % 1000)
  WHERE device_id = new.device_id AND start_ms = new.start_ms AND end_ms = new.end_ms;
  INSERT OR REPLACE INTO absorbed_rows
    SELECT device_id, start_ms, end_ms, CAST(retired.key AS INTEGER),
      substr(trip_rows.id, 1, length(trip_rows.id) - 20)
        || strftime('%Y%m%dT%H%M%S', retired.key / 1000, 'unixepoch')
        || printf('.%03dZ', retired.key % 1000),
      json_extract(retired.value, '$[#-1]')
    FROM trip_rows JOIN trips USING (device_id),
      json_each(trips.ids) AS retired
    -- Of the history of a retired id, the length is even.
    WHERE trip_rows.kind = 'trip'
      AND json_array_length(retired.value) > 0 AND json_array_length(retired.value) % 2 = 0
      AND device_id = new.device_id AND start_ms = new.start_ms AND end_ms = new.end_ms
      AND bucket = new.start_ms - new.start_ms % 86400000
      AND trips.start_time = new.start_ms AND trips.end_time = new.end_ms;
END;

-- Of the rows of a trip or stop in `trips`, that of the day on which it starts.
CREATE TRIGGER trips_insert AFTER INSERT ON trips
WHEN new.bucket = new.start_time - new.start_time % 86400000 BEGIN
  INSERT OR REPLACE INTO trip_rows VALUES (
    new.device_id, new.start_time, new.end_time, new.t_star, new.kind, NULL, NULL, NULL,
    (new.end_time - new.start_time) / 1000.0,
    new.moving_ms / 1000.0, new.idle_ms / 1000.0, new.parked_ms / 1000.0,
    round(new.distance_m, 1) / 1000.0, new.samples, new.max_speed_mps, new.driver,
    new.start_lat, new.start_lon, new.end_lat, new.end_lon,
    new.min_lat, new.min_lon, new.max_lat, new.max_lon, new.version
  );
END;

CREATE TRIGGER trips_delete AFTER DELETE ON trips
WHEN old.bucket = old.start_time - old.start_time % 86400000 BEGIN
  DELETE FROM trip_rows
  WHERE device_id = old.device_id AND start_ms = old.start_time AND end_ms = old.end_time;
  DELETE FROM absorbed_rows
  WHERE device_id = old.device_id AND start_ms = old.start_time AND end_ms = old.end_time;
END;

-- In functions that other programs have, too.
CREATE VIEW trip AS
SELECT id, device_id,
  substr(id, -20, 4) || '-' || substr(id, -16, 2) || '-' || substr(id, -14, 5)
    || ':' || substr(id, -9, 2) || ':' || substr(id, -7) AS t_star,
  start_time, end_time, duration_s, moving_s, idle_s, parked_s, km, samples, max_speed_mps, driver,
  start_lat, start_lon, end_lat, end_lon, min_lat, min_lon, max_lat, max_lon, version
FROM trip_rows WHERE kind = 'trip';

CREATE VIEW stop AS
SELECT id, device_id, start_time, end_time, duration_s, idle_s, parked_s,
  start_lat AS lat, start_lon AS lon, samples, version
FROM trip_rows WHERE kind = 'stop';

CREATE VIEW trip_absorbed AS
SELECT absorbed_id, id, device_id, absorbed_rows.version
FROM absorbed_rows JOIN trip_rows USING (device_id, start_ms, end_ms);
