package execution_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/client"
	"reprise/internal/execution"
	"reprise/store/memstore"
)

// TestRequestIsKeptWithoutSecrets: what was asked for is shown again, but for what may be a secret, which is not in the
// store either.
func TestRequestIsKeptWithoutSecrets(t *testing.T) {
	t.Parallel()
	log := newLog(t, memstore.New(nil), nil)
	h := openHost(t, log, execution.Options{})
	input := "secret-input"
	asked := execution.Request{
		Command: "true", Shell: "sh", Session: "s", Labels: map[string]string{"a": "b"}, Cwd: "/",
		Timeout: execution.Duration(time.Minute), Grace: execution.Duration(time.Second), KillOnDisconnect: true,
		Limits: execution.Limits{OutputBytes: 1000}, Artifacts: []string{"out"},
		Access:    client.Access{Network: "on"},
		Retention: execution.Retention{MaxEvents: 10, MaxAge: execution.Duration(time.Hour)},
	}
	full := asked
	full.ID, full.Stdin, full.Env = "full", &input, map[string]string{"B": "secret-b", "A": "secret-a"}
	start(t, h, full)
	finish(t, h, "full")
	got, missing, err := h.Requested(t.Context(), tenant, "full")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asked, got); diff != "" {
		t.Error(diff)
	}
	if want := []string{"stdin", "env.A", "env.B"}; !slices.Equal(missing, want) {
		t.Errorf("missing %v, want %v", missing, want)
	}
	s, err := h.Stream(t.Context(), tenant, "full")
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(info.Config.Meta), "secret-") {
		t.Errorf("the store has %s", info.Config.Meta)
	}

	long := execution.Request{ID: "long", Argv: []string{"true", strings.Repeat("x", 10_000)}, Env: map[string]string{}}
	for i := range 100 {
		long.Env[fmt.Sprint("N", i)] = ""
	}
	for i := range 32 {
		long.Artifacts = append(long.Artifacts, fmt.Sprint(i, strings.Repeat("y", 250)))
	}
	start(t, h, long)
	finish(t, h, "long")
	_, missing, err = h.Requested(t.Context(), tenant, "long")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"argv", "env", "artifacts"}; len(missing) < 4 || !slices.Equal(missing[:3], want) {
		t.Errorf("missing %v", missing)
	}
}

// TestRequestOfAnEarlierVersionIsFound: a request finds the stream that an earlier version has made for it, which kept
// less of it.
func TestRequestOfAnEarlierVersionIsFound(t *testing.T) {
	t.Parallel()
	log := newLog(t, memstore.New(nil), nil)
	h := openHost(t, log, execution.Options{})
	req := execution.Request{ID: "x", Command: "true", Grace: execution.Duration(time.Second)}
	key, config := h.StreamForTest(tenant, req)
	before, _, found := strings.Cut(string(config.Meta), `"asked":`)
	_, after, digest := strings.Cut(string(config.Meta), `"digest":`)
	if !found || !digest {
		t.Fatalf("the meta is %s", config.Meta)
	}
	config.Meta = []byte(before + `"digest":` + after)
	s, _, err := log.Create(t.Context(), key, config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.End(t.Context(), "exited", reprise.Event{Data: []byte(`{"exit_code":0}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, created, err := h.Start(t.Context(), tenant, req); created || err != nil {
		t.Errorf("created %v, %v", created, err)
	}
	req.Grace++
	if _, _, err := h.Start(t.Context(), tenant, req); err == nil {
		t.Error("another request finds it too")
	}
}
