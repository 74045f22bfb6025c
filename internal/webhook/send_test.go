package webhook

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestReasonsHaveNoAddresses: a tenant sees why a message was not delivered, and nothing of the server's network.
func TestReasonsHaveNoAddresses(t *testing.T) {
	own := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 40_000}
	receiver := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}
	reset := os.NewSyscallError("read", syscall.ECONNRESET)
	for _, tt := range []struct {
		err  error
		want string
	}{
		{
			&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
				Err: "no such host", Name: "a.example", Server: "10.9.9.53:53", IsNotFound: true,
			}},
			"the name of the receiver has no address",
		},
		{
			&net.DNSError{Err: "server misbehaving", Name: "a.example", Server: "10.9.9.53:53", IsTemporary: true},
			"the name of the receiver cannot be looked up",
		},
		{&net.OpError{Op: "read", Net: "tcp", Source: own, Addr: receiver, Err: reset}, reset.Error()},
		{
			fmt.Errorf("http2: %w", &net.OpError{Op: "write", Net: "tcp", Source: own, Addr: receiver, Err: reset}),
			reset.Error(),
		},
		{
			&net.OpError{Op: "dial", Net: "tcp", Addr: receiver, Err: fmt.Errorf("%w: 10.1.2.4:443", ErrAddress)},
			ErrAddress.Error(),
		},
		{errors.New("EOF"), "EOF"},
	} {
		got := reasonOf(&url.Error{Op: "Post", URL: "https://a.example/secret", Err: tt.err})
		if got != tt.want || strings.Contains(got, "10.") || strings.Contains(got, "secret") {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}
