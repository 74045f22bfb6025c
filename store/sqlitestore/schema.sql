-- One row a stream, in the state of the last commit that was folded into it.
CREATE TABLE streams (
	id        INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again; its order is that of creation
	tenant    TEXT    NOT NULL,
	namespace TEXT    NOT NULL, -- up to and with the colon, or empty
	name      TEXT    NOT NULL,
	epoch     TEXT    NOT NULL,
	created   INTEGER NOT NULL, -- ns since 1970
	config    BLOB    NOT NULL, -- JSON
	earliest  INTEGER NOT NULL DEFAULT 1,
	tail      INTEGER NOT NULL DEFAULT 0,
	kept      INTEGER NOT NULL DEFAULT 0, -- bytes
	ended     BLOB,             -- see appendEnd
	producers BLOB,             -- see appendProducers
	expires   INTEGER,          -- ns since 1970; of a stream that has ended
	applied   INTEGER NOT NULL DEFAULT 0, -- the last commit whose changes are in this row
	mark      INTEGER,          -- ns since 1970: swept, and remembered until then
	UNIQUE (tenant, name)
);
CREATE INDEX streams_by_age ON streams (tenant, namespace, id) WHERE mark IS NULL;
CREATE INDEX streams_by_expiry ON streams (expires) WHERE expires IS NOT NULL AND mark IS NULL;
CREATE INDEX streams_by_mark ON streams (mark) WHERE mark IS NOT NULL;

-- The journal: one row a commit, with the small batches of all streams in it.
CREATE TABLE commits (
	id   INTEGER PRIMARY KEY, -- counted up for ever: the newest row is never deleted
	data BLOB NOT NULL        -- see entry
);

-- Large batches, and small ones that were folded, many of one stream in a row. The key is an
-- index beside the table: in a table WITHOUT ROWID each step of a search would read a whole row.
CREATE TABLE batches (
	stream INTEGER NOT NULL,
	first  INTEGER NOT NULL, -- seq of the first event
	last   INTEGER NOT NULL, -- seq of the last event
	data   BLOB    NOT NULL, -- see appendRow
	PRIMARY KEY (stream, first)
);
