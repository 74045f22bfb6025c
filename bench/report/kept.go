package main

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"reprise/bench"
)

// kept are the files of a run, by the part of their names that they share.
type kept string

// Between the part that they share and their kind, the names of files say when a later run is not compared with them.
const (
	uncompared = ".uncompared"
	slowerRun  = ".slower"
)

// keep writes the samples and the table to dir, before the run is compared with an earlier one: a comparison that fails
// or is interrupted must not lose them.
func keep(dir string, raw, table []byte) (kept, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	k := kept(filepath.Join(dir, time.Now().UTC().Format("20060102-1504")+"-"+bench.Commit()))
	if err := os.WriteFile(k.raw(uncompared), raw, 0o644); err != nil {
		return "", err
	}
	return k, os.WriteFile(k.table(uncompared), table, 0o644)
}

func (k kept) raw(state string) string   { return string(k) + state + ".txt" }
func (k kept) table(state string) string { return string(k) + state + ".table.txt" }

// compared gives the files the names that their comparison has come to, and returns what it came to. Later runs are not
// compared with one that was slower, nor with one whose comparison failed.
func (k kept) compared(slower error) error {
	state := ""
	switch {
	case errors.Is(slower, bench.ErrSlower):
		state = slowerRun
	case slower != nil:
		return slower
	}
	return errors.Join(slower,
		os.Rename(k.raw(uncompared), k.raw(state)), os.Rename(k.table(uncompared), k.table(state)))
}
