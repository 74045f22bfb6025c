package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestTasksTakeFewCalls: each task is done, in as many calls as are said. A noisy build shows at most 2 kB.
func TestTasksTakeFewCalls(t *testing.T) {
	for task, most := range map[string]int{"build": 2, "noisy": 3, "debugger": 8, "windows": 3} {
		t.Run(task, func(t *testing.T) {
			if task == "debugger" {
				if _, err := exec.LookPath("python3"); err != nil && os.Getenv("CI") == "" {
					t.Skip("there is no python3")
				}
			}
			var said strings.Builder
			if err := run(task, "", 5*time.Second, false, &said); err != nil {
				t.Fatalf("%v:\n%s", err, said.String())
			}
			var calls, bytes int
			last := strings.TrimSpace(said.String())
			last = last[strings.LastIndex(last, "\n")+1:]
			if _, err := fmt.Sscanf(last, "%d calls; the model was shown %d bytes", &calls, &bytes); err != nil {
				t.Fatal(err)
			}
			if task == "noisy" && bytes > 2000 {
				t.Errorf("the model was shown %d bytes:\n%s", bytes, said.String())
			}
			if calls > most || strings.Contains(said.String(), "\x1b") {
				t.Errorf("%d calls, at most %d are needed:\n%s", calls, most, said.String())
			}
		})
	}
}
