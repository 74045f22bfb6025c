package bench

import (
	"net"
	"os"
	"testing"
)

func TestSwarmThatCannotConnectLeavesNoDescriptors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close() // so that connections are refused
	descriptors := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	const swarms = 50
	before := descriptors()
	for range swarms {
		if _, err := newSwarm(l.Addr().String(), request(""), 3); err == nil {
			t.Fatal("connected")
		}
	}
	if after := descriptors(); after >= before+swarms {
		t.Errorf("%d descriptors, then %d", before, after)
	}
}
