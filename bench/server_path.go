package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime/pprof"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/store/storewrap"
)

// pathToken is what the requests to the server "path" show.
const pathToken = "a-token-for-benchmarks-0123456789"

// servePath is the server of the API over a store in a directory. Its arguments are the store ("sqlite", "log" or
// "memory") and the directory. It is put together as "reprise serve" does it. Unlike the product, it can profile
// itself.
func servePath(ctx context.Context, args []string) (*server, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("%w: %q", errOrder, args)
	}
	dir := args[1]
	store, err := openStore(ctx, args[0], dir)
	if err != nil {
		return nil, err
	}
	keys, metrics := reprise.NewKeyset(), api.NewMetrics()
	store = storewrap.Observe(store, metrics.StoreCalled)
	log, err := reprise.Open(ctx, store, &reprise.Options{Keys: keys, Hooks: metrics.LogHooks()})
	if err != nil {
		return nil, err
	}
	host, err := execution.Open(ctx, log, &execution.Options{Dir: dir, StateDir: dir})
	if err != nil {
		return nil, err
	}
	known, err := identity.NewToken(pathToken)
	if err != nil {
		return nil, err
	}
	handler, err := api.New(log, host, identity.NewGate(keys, known, nil), &api.Options{Metrics: metrics})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() { _ = api.NewHTTPServer(handler).Serve(l) }()
	return &server{addr: l.Addr().String()}, nil
}

// beginProfile has the CPU profile of this process written to a file until endProfile.
func (s *server) beginProfile(path string) (err error) {
	if s.profile, err = os.Create(path); err != nil {
		return err
	}
	return pprof.StartCPUProfile(s.profile)
}

func (s *server) endProfile() error {
	pprof.StopCPUProfile()
	return s.profile.Close()
}
