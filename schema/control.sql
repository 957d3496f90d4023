-- Format 5 of the SQLite store: the valid control keys of a topic.

-- Keys whose signatures on control records are valid. Insert-only.
CREATE TABLE control_keys (
  name        TEXT PRIMARY KEY,
  fingerprint TEXT NOT NULL  -- distinguishes keys without revealing the secret
) STRICT, WITHOUT ROWID;
