package freeport_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"reprise/internal/freeport"
)

// TestPortIsNoneOfOutgoingConnections: nobody listens at the port and the other one, and both are below those that
// systems give to connections.
func TestPortIsNoneOfOutgoingConnections(t *testing.T) {
	for range 50 {
		port, err := freeport.Find(10_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []int{port, port + 10_000} {
			listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
			if err != nil || p >= 32_768 || p < 1024 {
				t.Fatalf("port %d: %v", p, err)
			}
			if err := listener.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	if host, _, err := net.SplitHostPort(address); err != nil || host != "127.0.0.1" {
		t.Errorf("%q, %v", address, err)
	}
}

// badPorts are those that a browser refuses: https://fetch.spec.whatwg.org/#port-blocking.
var badPorts = []int{
	0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
	104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514,
	515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723,
	2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
}

func TestBrowsersRefuseNoPort(t *testing.T) {
	for _, port := range badPorts {
		if port >= freeport.First && port < freeport.Last {
			t.Errorf("browsers refuse port %d, which is between %d and %d", port, freeport.First, freeport.Last)
		}
	}
}

// TestPortsAreGivenOnce: not even two processes that ask at the same time are given the same one, although nobody
// listens. Of so many they would have 45 in common by chance.
func TestPortsAreGivenOnce(t *testing.T) {
	const count = 1000
	if os.Getenv("FREEPORT_TEST") != "" {
		for range count {
			fmt.Println(find(t))
		}
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the other one has its ports too
		os.Exit(0)
	}
	t.Setenv("TMPDIR", t.TempDir()) // of no other tests
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 2 {
		cmd := exec.Command(program, "-test.run=^TestPortsAreGivenOnce$")
		cmd.Env = append(os.Environ(), "FREEPORT_TEST=1")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
		lines := bufio.NewScanner(stdout)
		for range count {
			if !lines.Scan() || seen[lines.Text()] {
				t.Fatalf("%q was given twice, or none: %v", lines.Text(), lines.Err())
			}
			seen[lines.Text()] = true
		}
	}
}

func find(t *testing.T) int {
	port, err := freeport.Find(0)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
