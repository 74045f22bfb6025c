// Package readahead reads lines ahead of who takes them.
package readahead

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
)

// ahead is the number of lines read ahead.
const ahead = 1000

// Lines sends the lines of r without their ends, and then the error, nil at the end. The error is tooLong for a line of
// more than longest bytes.
func Lines(ctx context.Context, r io.Reader, longest int, tooLong error) (<-chan []byte, <-chan error) {
	lines, failed := make(chan []byte, ahead), make(chan error, 1)
	go func() {
		scanner := bufio.NewScanner(r)
		scanner.Buffer(nil, longest+1)
		defer close(lines)
		for scanner.Scan() {
			select {
			case lines <- bytes.Clone(scanner.Bytes()):
			case <-ctx.Done():
				return
			}
		}
		err := scanner.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = tooLong
		}
		failed <- err
	}()
	return lines, failed
}
