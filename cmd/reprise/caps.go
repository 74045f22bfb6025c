package main

import (
	"fmt"
	"strings"
	"time"

	"reprise/internal/execution"
)

// capNames are the names of --limit-command for those of client.Limits, which it takes too.
var capNames = map[string]string{"memory": "memory_bytes", "output": "output_bytes", "cpu": "cpu_time"}

// parseCaps reads lists of NAME=VALUE.
func parseCaps(texts []string) (c execution.Caps, err error) {
	var l limits
	for _, text := range texts {
		for item := range strings.SplitSeq(text, ",") {
			name, value, _ := strings.Cut(item, "=")
			if long := capNames[name]; long != "" {
				name = long
			}
			if name != "grace" {
				if err := l.UnmarshalText([]byte(name + "=" + value)); err != nil {
					return c, usage("--limit-command %s: %w", item, err)
				}
				continue
			}
			if c.Grace, err = time.ParseDuration(value); err == nil && (c.Grace <= 0 || c.Grace > time.Minute) {
				err = fmt.Errorf("it is more than 0 and at most %v", time.Minute)
			}
			if err != nil {
				return c, usage("--limit-command %s: %w", item, err)
			}
		}
	}
	c.Limits = execution.Limits(l)
	if min(c.OutputBytes, c.MemoryBytes, c.Processes, int64(c.CPUTime)) < 0 {
		return c, usage("--limit-command: a limit is negative")
	}
	return c, nil
}
