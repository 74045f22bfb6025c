// Package reads answers requests that read the events of a stream from a cursor on, in pages, as Server-Sent Events or
// as lines of JSON.
package reads
