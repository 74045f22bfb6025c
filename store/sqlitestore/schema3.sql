-- Version 3: the epochs that a stream was in before, of streams that were copied from a store that lost events.
ALTER TABLE streams ADD COLUMN lineage BLOB; -- see appendLineage
