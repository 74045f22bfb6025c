//go:build unix

package node

import (
	"errors"
	"log/slog"
	"net"
	"testing"

	"reprise/internal/datadir"
)

// TestTakeOverOfRefusedAddress: a server whose address the flags of the next one do not allow keeps its socket.
func TestTakeOverOfRefusedAddress(t *testing.T) {
	dir, err := datadir.Lock(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	offered, err := openHandover(dir, listener.(*net.TCPListener), slog.New(slog.DiscardHandler), func() {
		t.Error("the server takes its socket for given")
	})
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("not at this address")
	taken, err := takeOver(t.Context(), dir.Path, func(address string) error {
		if address != listener.Addr().String() {
			t.Errorf("the socket is that of %s, not %s", address, listener.Addr())
		}
		return refused
	})
	if taken != nil || !errors.Is(err, refused) {
		t.Errorf("an address that is refused is taken: %v", err)
	}
	if err := offered.close(); err != nil {
		t.Error(err)
	}
}
