package node

import (
	"context"
	"errors"
	"fmt"
	"net"

	"reprise/internal/console"
	"reprise/internal/oidc"
	"reprise/internal/park"
)

// openFront listens. Nothing is answered before front.begin.
func (n *Node) openFront(ctx context.Context) (err error) {
	if n.front, err = listenFront(ctx, n.Passed, n.Listen, n.TLS, n.HTTP); err != nil {
		return err
	}
	n.onClose(func() error { return errors.Join(n.front.close(), n.handover.close()) })
	n.front.listening = n.Listening
	if n.Park {
		if n.front.parking, err = park.New(&park.Options{Logger: n.Logger}); err != nil {
			return fmt.Errorf("--park: %w", err)
		}
	}
	return n.dir.Announce(n.front.scheme, n.front.listener.Addr())
}

// withConsole makes a server that waits for its store show the console, which says so.
func withConsole(_ context.Context, n *Node) error {
	n.front.console = console.New()
	return nil
}

// openIssuers makes the verifier of the identity providers, nil if there are none. What else opts has stays: its
// resource has the paths that are resources of their own.
func (n *Node) openIssuers(opts *oidc.Options) (*oidc.Verifier, error) {
	resource := opts.Resource
	resource.URL = n.PublicURL
	if n.PublicURL != "" {
		if err := resource.Validate(); err != nil {
			return nil, usage("--public-url: %w", err)
		}
	}
	if len(n.Issuers) == 0 {
		return nil, nil
	}
	if n.Open {
		return nil, usage("--auth none lets everybody in: there is no use for tokens of an identity provider")
	}
	if n.PublicURL == "" {
		host, _, err := net.SplitHostPort(n.Listen)
		if err == nil && (host == "" || net.ParseIP(host).IsUnspecified()) {
			return nil, usage("--listen %s is no address under which clients reach the server: name that with "+
				"--public-url, for tokens are issued for it", n.Listen)
		}
		resource.URL = n.front.url()
	}
	if err := resource.Validate(); err != nil {
		return nil, usage("--public-url: %w", err)
	}
	verifier, err := oidc.New(n.Issuers, opts)
	if err != nil {
		return nil, usage("%w", err)
	}
	return verifier, nil
}
