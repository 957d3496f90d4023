-- Format 5 of the SQLite store: the topic partition that a device belongs to.

-- How the partition of a device is decided: murmur2, crc32 or none. Null: an earlier tstar version
-- created the epoch, so devices seen at its start have no claims.
ALTER TABLE epochs ADD COLUMN partitioner TEXT;

-- For a device whose partition is not computed: the partition of its first record. Inserted before
-- the first row of the device, and never changed. A forget that erases everything of the device
-- moves the claim to forgets.claims.
CREATE TABLE claims (
  device_id TEXT    NOT NULL,
  epoch     INTEGER NOT NULL,
  partition INTEGER NOT NULL,
  PRIMARY KEY (device_id, epoch)
) STRICT, WITHOUT ROWID;

-- JSON: epoch -> partition. The claim outlives the erased trips.
ALTER TABLE forgets ADD COLUMN claims TEXT;
CREATE INDEX forgets_claims ON forgets (device_id) WHERE claims IS NOT NULL;
