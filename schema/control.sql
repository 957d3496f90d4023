-- Format 5 of the embedded store: the control keys that count, where the log is a topic.

-- Whose signatures count, by name. Only ever inserted to.
CREATE TABLE control_keys (
  name        TEXT PRIMARY KEY,
  fingerprint TEXT NOT NULL  -- tells the key from others, and nothing about its secret
) STRICT, WITHOUT ROWID;
