-- Format 7 of the SQLite store: the legs of a trip that are faster than rule max_leg_speed.

-- Their number and their durations together, s. distance_m leaves them out. Null: the store has no
-- such rule, so that every leg counts.
ALTER TABLE trips ADD COLUMN jumps INTEGER;
ALTER TABLE trips ADD COLUMN jump_s REAL;
