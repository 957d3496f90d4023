-- Format 11 of the SQLite store: the id of the topic of an epoch.

-- As Kafka's tools show it: a topic that was deleted and created again has another one. Null: an
-- earlier tstar version created the epoch, or the brokers give topics no ids.
ALTER TABLE epochs ADD COLUMN topic_id TEXT;
