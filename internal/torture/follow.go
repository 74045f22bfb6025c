//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// readEventStream reads text/event-stream as the HTML standard specifies. It calls take for each event and silent for
// each comment; take returns false to stop. It counts blocks without data, for which some readers dispatch an empty
// event.
func readEventStream(r io.Reader, take func(*item) bool, silent func()) (empty int, err error) {
	lines := bufio.NewReaderSize(r, 64<<10)
	var id, kind string
	var data []string
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return empty, err // an incomplete block at the end is dropped
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && data == nil:
			empty++
		case line == "":
			e := &item{}
			if err := json.Unmarshal([]byte(strings.Join(data, "\n")), e); err != nil {
				return empty, fmt.Errorf("%w: %q: %s", errForm, data, err.Error())
			}
			e.Cursor, e.Type = id, kind
			if !take(e) {
				return empty, nil
			}
			kind, data = "", nil
		case name == "":
			silent()
		case name == "id":
			id = value
		case name == "event":
			kind = value
		case name == "data":
			data = append(data, value)
		}
	}
}

// readLines reads application/x-ndjson in the same way.
func readLines(r io.Reader, take func(*item) bool, silent func()) error {
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		if line == "\n" {
			silent()
			continue
		}
		e := &item{}
		if err := json.Unmarshal([]byte(line), e); err != nil {
			return fmt.Errorf("%w: %q: %s", errForm, line, err.Error())
		}
		if !take(e) {
			return nil
		}
	}
}
