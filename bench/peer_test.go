package bench

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

func TestPeerIsFoundInItsFolderThenByPath(t *testing.T) {
	const program = "a-peer-for-this-test"
	folder, path := t.TempDir(), t.TempDir()
	t.Setenv(PeersEnv, folder)
	t.Setenv("PATH", path)
	if found, err := findPeer(program); !errors.Is(err, errNoPeer) {
		t.Errorf("in neither: %q, %v", found, err)
	}
	for _, dir := range []string{path, folder} {
		want := filepath.Join(dir, program)
		if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if found, err := findPeer(program); err != nil || found != want {
			t.Errorf("%q, %v; want %q", found, err, want)
		}
	}
}

func TestCPUTimeOfAProcessIsThatWhichItMeasures(t *testing.T) {
	// The two clocks may differ by a tick of the kernel for each thread that runs meanwhile.
	tick := 10 * time.Millisecond * time.Duration(1+runtime.GOMAXPROCS(0))
	for start := cpuTime(); cpuTime()-start < 2*tick; { // so that no time at all is too little
	}
	before := cpuTime()
	got, err := cpuTimeOf(os.Getpid())
	after := cpuTime()
	if err != nil || got < before-tick || got > after+tick {
		t.Errorf("%v, %v; want %v to %v", got, err, before, after)
	}
	if _, err := cpuTimeOf(1 << 22); err == nil { // Linux has no id as large
		t.Error("of no process: no error")
	}
}
