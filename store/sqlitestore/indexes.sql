-- Indexes that every version of the schema may have. SQLite itself keeps them, also for programs that do not know them.
CREATE INDEX streams_open ON streams (namespace, id) WHERE ended IS NULL AND mark IS NULL;

-- The labels of all streams, as they are in config: the name in hexadecimal, the value in base64.
CREATE TABLE labels (
	label  TEXT    NOT NULL,
	value  TEXT    NOT NULL,
	stream INTEGER NOT NULL,
	PRIMARY KEY (label, value, stream)
) WITHOUT ROWID;
CREATE TRIGGER labels_of_new AFTER INSERT ON streams WHEN new.config <> CAST('{}' AS BLOB) BEGIN
	INSERT INTO labels SELECT key, value, new.id FROM json_each(CAST(new.config AS TEXT), '$.labels');
END;
CREATE TRIGGER labels_of_changed AFTER UPDATE OF config ON streams BEGIN
	DELETE FROM labels WHERE (label, value, stream) IN
		(SELECT key, value, old.id FROM json_each(CAST(old.config AS TEXT), '$.labels'));
	INSERT INTO labels SELECT key, value, new.id FROM json_each(CAST(new.config AS TEXT), '$.labels');
END;
CREATE TRIGGER labels_of_removed AFTER DELETE ON streams WHEN old.config <> CAST('{}' AS BLOB) BEGIN
	DELETE FROM labels WHERE (label, value, stream) IN
		(SELECT key, value, old.id FROM json_each(CAST(old.config AS TEXT), '$.labels'));
END;
INSERT INTO labels SELECT l.key, l.value, streams.id FROM streams, json_each(CAST(config AS TEXT), '$.labels') AS l;
