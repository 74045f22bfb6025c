package main

import (
	"fmt"
	"strings"
	"time"

	"reprise"
	"reprise/internal/execution"
)

// capNames are the names of --limit-command for the names of client.Limits, which it takes too.
var capNames = map[string]string{"memory": "memory_bytes", "output": "output_bytes", "cpu": "cpu_time"}

// parseCaps reads lists of NAME=VALUE, each for all tenants or, as in TENANT:NAME=VALUE, for one of them.
func parseCaps(texts []string) (all execution.Caps, tenants map[reprise.Tenant]execution.Caps, err error) {
	tenants = map[reprise.Tenant]execution.Caps{}
	for _, text := range texts {
		caps, list := all, text
		tenant, rest, named := strings.Cut(text, ":")
		if named {
			caps, list = tenants[reprise.Tenant(tenant)], rest
			err = (reprise.StreamKey{Tenant: reprise.Tenant(tenant), Name: "x"}).Validate()
		}
		for item := range strings.SplitSeq(list, ",") {
			if err == nil {
				err = parseCap(&caps, item)
			}
		}
		if err != nil {
			return all, nil, usage("--limit-command %s: %w", text, err)
		}
		if named {
			tenants[reprise.Tenant(tenant)] = caps
		} else {
			all = caps
		}
	}
	return all, tenants, nil
}

// parseCap reads one NAME=VALUE into c.
func parseCap(c *execution.Caps, text string) error {
	name, value, _ := strings.Cut(text, "=")
	if name == "grace" {
		grace, err := time.ParseDuration(value)
		if err == nil && (grace <= 0 || grace > time.Minute) {
			err = fmt.Errorf("grace is more than 0 and at most %v", time.Minute)
		}
		c.Grace = grace
		return err
	}
	if long := capNames[name]; long != "" {
		name = long
	}
	if err := (*limits)(&c.Limits).UnmarshalText([]byte(name + "=" + value)); err != nil {
		return err
	}
	if min(c.OutputBytes, c.MemoryBytes, c.Processes, int64(c.CPUTime)) < 0 {
		return fmt.Errorf("%s is negative", name)
	}
	return nil
}
