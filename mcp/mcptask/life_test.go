package mcptask_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/mcp/mcptask"
	"reprise/store/memstore"
)

// lives are principals that can be excluded.
type lives map[string]context.Context

func (l lives) of(_ reprise.Tenant, principal string) context.Context {
	if life := l[principal]; life != nil {
		return life
	}
	return context.Background()
}

var errRevokedHere = errors.New("revoked")

// TestTasksOfExcludedPrincipalAreCancelled: with the cause for their handlers, and not those of others.
func TestTasksOfExcludedPrincipalAreCancelled(t *testing.T) {
	life, exclude := context.WithCancelCause(t.Context())
	log, causes := newLog(t, memstore.New(nil)), make(chan error, 2)
	defer log.Close()
	add := func(server *mcp.Server, tasks *mcptask.Tasks) {
		mcp.AddTool(server, &mcp.Tool{Name: "hold"},
			func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return nil, nil, context.Cause(ctx)
			})
		tasks.Support("hold", mcptask.Tool{})
	}
	w := newFixtureWith(t, log, &mcptask.Options{Life: lives{"ann": life}.of}, add)
	defer w.close()
	anns, bens := w.as("ann", "hold", `{}`), w.as("ben", "hold", `{}`)
	exclude(errRevokedHere)
	if cause := <-causes; !errors.Is(cause, mcptask.ErrCancelled) || !errors.Is(cause, errRevokedHere) {
		t.Errorf("the handler ends with %v", cause)
	}
	const message = "The principal of the task is excluded from the server."
	if got := w.shown(anns, mcptask.Cancelled); got.Message != message {
		t.Errorf("the task: %+v", got)
	}
	w.shown(bens, mcptask.Working)
	w.shown(w.as("ann", "hold", `{}`), mcptask.Cancelled) // a call that was already let in
}

// TestResumedTaskOfExcludedPrincipalIsCancelled: the principal was excluded while no server ran.
func TestResumedTaskOfExcludedPrincipalIsCancelled(t *testing.T) {
	log, j := newLog(t, memstore.New(nil)), newJob(t)
	defer log.Close()
	dead := newFixtureWith(t, log, nil, j.addTo)
	defer dead.close()
	id := dead.as("ann", "job", `{}`)
	<-j.noted
	life, exclude := context.WithCancelCause(t.Context())
	exclude(errRevokedHere)
	w := newFixtureWith(t, log, &mcptask.Options{Life: lives{"ann": life}.of}, j.addTo)
	defer w.close()
	w.shown(id, mcptask.Cancelled)
	http.DefaultClient.CloseIdleConnections()
}

// shown waits until an operator sees a task with a status.
func (w *fixture) shown(id string, status mcptask.Status) mcptask.TaskInfo {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.t.Context(), patience)
	defer stop()
	for {
		task, err := w.tasks.Show(ctx, reprise.DefaultTenant, id)
		if err != nil {
			w.t.Fatal(err)
		}
		if task.Status == status {
			return task
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			w.t.Fatalf("the task is %+v, want %s", task, status)
		}
	}
}
