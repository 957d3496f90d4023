-- Format 5 of the embedded store: which partition of the topic a device belongs to.

-- How it is decided: murmur2, crc32 or none. Null: an earlier version made the epoch, which has no
-- claims from its beginning.
ALTER TABLE epochs ADD COLUMN partitioner TEXT;

-- Of a device whose partition is not computed, the partition that its first record came in.
-- Inserted before its first row, and never changed; a forget that leaves nothing of the device
-- moves it to forgets.claims.
CREATE TABLE claims (
  device_id TEXT    NOT NULL,
  epoch     INTEGER NOT NULL,
  partition INTEGER NOT NULL,
  PRIMARY KEY (device_id, epoch)
) STRICT, WITHOUT ROWID;

-- JSON: epoch -> partition. The decision outlives what was erased.
ALTER TABLE forgets ADD COLUMN claims TEXT;
CREATE INDEX forgets_claims ON forgets (device_id) WHERE claims IS NOT NULL;
