-- Version 2: owners. In the journal an entry may say who has taken the stream over.
ALTER TABLE streams ADD COLUMN owner TEXT NOT NULL DEFAULT ''; -- its name
ALTER TABLE streams ADD COLUMN fence INTEGER NOT NULL DEFAULT 0; -- 0 if anybody may append
