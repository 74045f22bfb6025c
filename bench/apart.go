package bench

import (
	"context"
	"encoding/json"
	"fmt"
)

// startApart starts a contender in a process of its own.
func startApart(race, contender string, scale Scale) (Runner, error) {
	encoded, err := json.Marshal(scale)
	if err != nil {
		return nil, err
	}
	p, err := startProcess("contender", race, contender, string(encoded))
	if err != nil {
		return nil, err
	}
	return closing{p.askLap, p.Close}, nil
}

// askLap has the contender that p is run a lap.
func (p *process) askLap(context.Context) (Sample, error) {
	answer, err := p.ask("lap")
	if err != nil {
		return nil, err
	}
	var s Sample
	return s, json.Unmarshal([]byte(answer), &s)
}

// apart is the other side of startApart.
func apart(ctx context.Context, args []string) (*server, error) {
	if len(args) != 3 {
		return nil, fmt.Errorf("%w: %q", errOrder, args)
	}
	var scale Scale
	if err := json.Unmarshal([]byte(args[2]), &scale); err != nil {
		return nil, err
	}
	for _, r := range Races() {
		for _, c := range r.Contenders {
			if r.Name == args[0] && c.Name == args[1] {
				runner, err := c.Start(ctx, scale)
				return &server{addr: "-", runner: runner}, err
			}
		}
	}
	return nil, fmt.Errorf("%w: %q", errOrder, args)
}

// lap runs a lap of the contender and returns the sample as JSON.
func (s *server) lap(ctx context.Context) (string, error) {
	sample, err := s.runner.Lap(ctx)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(sample)
	return string(text), err
}
