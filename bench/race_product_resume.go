package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// productResumeRace is Q6: readers of the server that come back, 32 at once, for the last ten events.
func productResumeRace() Race {
	const ready, gosse = "limit=ready-bytes/events=10", "peer=go-sse/events=100000"
	const durable, memory = "store=log/events=100000", "store=memory/events=100000"
	row := func(ours, name string) Row {
		return Row{
			Target: "Q6", What: "resume of 10 of 100,000 by the server, " + name, Unit: "resumes/s", Ours: ours,
			Limit: ready, Peers: []string{gosse, durableStreams, mercureStored},
			Goal: Bound{Than: ready, Least: 0.85, Also: &Bound{Than: gosse, Least: 1.1}},
		}
	}
	return Race{
		Name: "ProductResume",
		Contenders: []Contender{
			{ready, resume("ready", resumeEvents), false},
			{durable, productResume("log:"), false},
			{memory, productResume("memory:"), false},
			{durableStreams, resumeDurableStreams, false},
			{mercureStored, resumeMercure, false},
			{gosse, resume("gosse", replayEvents), false},
		},
		Rows: []Row{row(durable, "embedded log"), row(memory, "memory")},
	}
}

func productResume(store string) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		p, err := startProduct(ctx, store)
		if err != nil {
			return nil, err
		}
		after, err := p.publishResumable(scale.Of(replayEvents, 1000))
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		asked := p.eventRequest("GET", streamPath(0)+"/events?after="+after, "")
		n := scale.Of(10_000, 320)
		return closing{func(context.Context) (Sample, error) { return resumeLap(p, p.addr, asked, n) }, p.Close}, nil
	}
}

// publishResumable makes a stream with so many events and returns the cursor before the last ten.
func (p *product) publishResumable(events int) (after string, err error) {
	const last = 100
	if err := p.publish(streamPath(0), events-last, false); err != nil {
		return "", err
	}
	w, err := dialWire(p.addr)
	if err != nil {
		return "", err
	}
	defer w.Close()
	post := func(n int) ([]byte, error) {
		return w.ask(newRequest("POST", streamPath(0)+"/events", p.token, "application/x-ndjson", publishBody(n)))
	}
	answer, err := post(last - resumeEvents)
	if err != nil {
		return "", err
	}
	var appended struct{ Cursor string }
	if err := json.Unmarshal(answer, &appended); err != nil || appended.Cursor == "" {
		return "", fmt.Errorf("%w: no cursor in %q", errLost, answer)
	}
	_, err = post(resumeEvents)
	return appended.Cursor, err
}
