package apikey

// JournalKey is the stream that replicas share.
var JournalKey = journalKey
