// Command pebble appends events to a Pebble database, a contender of the races Durable1 to Durable512 of package bench.
// Each writer sets keys of its own in rising order, and each set is acknowledged when it is synced. All options of the
// database have their defaults.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2"

	"reprise/bench"
)

func main() {
	if err := bench.ServeAppender(os.Args[1:], open); err != nil {
		fmt.Fprintln(os.Stderr, "pebble:", err)
		os.Exit(1)
	}
}

func open(dir string, writers int) (bench.Appender, error) {
	db, err := pebble.Open(dir, &pebble.Options{Logger: quiet{}})
	return &appender{db, make([]uint64, writers)}, err
}

// appender sets keys that are the number of the writer and that of its event, big-endian.
type appender struct {
	db   *pebble.DB
	seqs []uint64 // by writer, each of which uses its own
}

func (a *appender) Append(writer int, data []byte) error {
	a.seqs[writer]++
	var key [16]byte
	binary.BigEndian.PutUint64(key[:8], uint64(writer))
	binary.BigEndian.PutUint64(key[8:], a.seqs[writer])
	return a.db.Set(key[:], data, pebble.Sync)
}

func (a *appender) Close() error { return a.db.Close() }

// quiet drops what is no error.
type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(format string, a ...any) { fmt.Fprintf(os.Stderr, format+"\n", a...) }
func (quiet) Fatalf(format string, a ...any) { panic(errors.New(fmt.Sprintf(format, a...))) }
