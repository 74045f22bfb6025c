package mcptask_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/shared"
	"reprise/mcp/mcptask"
	"reprise/replica"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

// job is the work of the tool "job", which outlives servers: it is done when the file done exists.
type job struct {
	done    string
	noted   chan struct{}
	resumed atomic.Int64
	bytes   int // of the result of a resumed call
}

func newJob(t *testing.T) *job {
	return &job{done: filepath.Join(t.TempDir(), "done"), noted: make(chan struct{}, 100)}
}

func (j *job) finish(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(j.done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (j *job) wait(ctx context.Context) error {
	for {
		if _, err := os.Stat(j.done); err == nil {
			return nil
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// addTo adds the tool to a server, before its tasks are installed.
func (j *job) addTo(server *mcp.Server, tasks *mcptask.Tasks) {
	server.AddTool(&mcp.Tool{
		Name: "job", InputSchema: json.RawMessage(`{"type":"object"}`),
	}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if err := mcptask.Note(ctx, "job 7"); err != nil {
			return nil, err
		}
		j.noted <- struct{}{}
		if _, err := mcptask.FromContext(ctx).Ask(ctx, mcp.InputRequestMap{"go": ask("Go?", "name")}); err != nil {
			return nil, err
		}
		return text("not resumed"), nil
	})
	tasks.Support("job", mcptask.Tool{Resume: func(ctx context.Context, tenant reprise.Tenant, note json.RawMessage) (
		*mcp.CallToolResult, error,
	) {
		j.resumed.Add(1)
		if err := mcptask.FromContext(ctx).Say(ctx, "resumed"); err != nil {
			return nil, err
		}
		if err := j.wait(ctx); err != nil {
			return nil, err
		}
		return text("%s %s%s", tenant, note, strings.Repeat("x", j.bytes)), nil
	}})
}

// untilSaid asks for a task until it says something.
func (w *fixture) untilSaid(id, message string) answer {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		a := w.get(id)
		if a.Result.StatusMessage == message {
			return a
		}
		if time.Now().After(deadline) || a.Error != nil || a.Result.Status.Ended() {
			w.t.Fatalf("the task %s is %+v, want it to say %q", id, a, message)
		}
	}
}

// TestTaskIsResumed: the work of a task outlives its server, which goes without a word. The question of the handler is
// withdrawn, and the result comes whole, though in parts.
func TestTaskIsResumed(t *testing.T) {
	log, j := newLog(t, memstore.New(nil)), newJob(t)
	defer log.Close()
	j.bytes = 1 << 20
	dead := newFixtureWith(t, log, nil, j.addTo)
	defer dead.close()
	id := dead.task("job", `{}`)
	<-j.noted
	dead.until(id, mcptask.InputRequired)
	w := newFixtureWith(t, log, nil, j.addTo)
	defer w.close()
	if a := w.untilSaid(id, "resumed"); a.Result.Status != mcptask.Working || a.Result.InputRequests != nil {
		t.Errorf("while it is resumed: %+v", a)
	}
	j.finish(t)
	a := w.until(id, mcptask.Completed)
	if got := a.Result.Result.Content[0]["text"]; got != `default "job 7"`+strings.Repeat("x", j.bytes) {
		t.Errorf("the result has %d bytes: %.40s", len(fmt.Sprint(got)), got)
	}
	if n := j.resumed.Load(); n != 1 {
		t.Errorf("it was resumed %d times, want 1", n)
	}
}

// TestClosedServerLeavesTasks: a server that is closed in order leaves its task to the next, and that one to another.
func TestClosedServerLeavesTasks(t *testing.T) {
	log, j := newLog(t, memstore.New(nil)), newJob(t)
	defer log.Close()
	w := newFixtureWith(t, log, nil, j.addTo)
	id := w.task("job", `{}`)
	<-j.noted
	w.close()
	w = newFixtureWith(t, log, nil, j.addTo)
	w.untilSaid(id, "resumed")
	w.close()
	j.finish(t)
	w = newFixtureWith(t, log, nil, j.addTo)
	defer w.close()
	if a := w.until(id, mcptask.Completed); a.Result.Result.Content[0]["text"] != `default "job 7"` {
		t.Errorf("what came of it: %+v", a)
	}
	if n := j.resumed.Load(); n != 2 {
		t.Errorf("it was resumed %d times, want 2", n)
	}
}

// TestResumedTaskIsCancelled: by tasks/cancel, as the handler would be.
func TestResumedTaskIsCancelled(t *testing.T) {
	log, j := newLog(t, memstore.New(nil)), newJob(t)
	defer log.Close()
	dead := newFixtureWith(t, log, nil, j.addTo)
	defer dead.close()
	id := dead.task("job", `{}`)
	<-j.noted
	w := newFixtureWith(t, log, nil, j.addTo)
	defer w.close()
	w.untilSaid(id, "resumed")
	w.send("", "tasks/cancel", `{"taskId":"`+id+`"}`, withTasks)
	w.until(id, mcptask.Cancelled)
}

// TestOneReplicaResumes: of several replicas that see one die, one resumes its tasks. When that one dies too, the next
// does.
func TestOneReplicaResumes(t *testing.T) {
	hub, j := shared.New(memstore.New(nil)), newJob(t)
	var fixtures []*fixture
	var members []*replica.Member
	for range 3 {
		log := newLog(t, hub.Store())
		member, err := replica.Join(t.Context(), log, &replica.Options{Beat: 50 * time.Millisecond, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		fixtures = append(fixtures, newFixtureWith(t, log, &mcptask.Options{Replica: member}, j.addTo))
		members = append(members, member)
	}
	const tasks = 5
	var ids []string
	for range tasks {
		ids = append(ids, fixtures[0].task("job", `{}`))
		<-j.noted
	}
	members[0].Close()
	for _, id := range ids {
		fixtures[2].untilSaid(id, "resumed")
	}
	if n := j.resumed.Load(); n != tasks {
		t.Errorf("%d tasks were resumed %d times", tasks, n)
	}
	members[1].Close()
	j.finish(t)
	for _, id := range ids {
		fixtures[2].until(id, mcptask.Completed)
	}
	members[2].Close()
	for _, w := range fixtures {
		w.close()
		w.log.Close()
	}
	http.DefaultClient.CloseIdleConnections()
}

// meeting is the Store of a replica that takes over a task only when another one is about to do so, too.
type meeting struct {
	*shared.Store
	arrived *atomic.Int64
	both    chan struct{}
}

func (m meeting) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	takes := func(p reprise.Producer) bool { return p.ID == "server" }
	for i := range reqs {
		if !slices.ContainsFunc(reqs[i].Producers, takes) {
			continue
		}
		if m.arrived.Add(1) == 2 {
			close(m.both)
		}
		select {
		case <-m.both:
		case <-ctx.Done():
		}
	}
	return m.Store.Append(ctx, reqs)
}

// TestFirstReplicaResumes: of two replicas that take over a task at the same moment, one resumes it.
func TestFirstReplicaResumes(t *testing.T) {
	hub, j := shared.New(memstore.New(nil)), newJob(t)
	var arrived atomic.Int64
	both := make(chan struct{})
	var fixtures []*fixture
	var members []*replica.Member
	for i := range 3 {
		var store reprise.Store = hub.Store()
		if i > 0 {
			store = meeting{hub.Store(), &arrived, both}
		}
		log := newLog(t, store)
		member, err := replica.Join(t.Context(), log, &replica.Options{Beat: 50 * time.Millisecond, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		fixtures = append(fixtures, newFixtureWith(t, log, &mcptask.Options{Replica: member}, j.addTo))
		members = append(members, member)
	}
	id := fixtures[0].task("job", `{}`)
	<-j.noted
	members[0].Close()
	fixtures[2].untilSaid(id, "resumed")
	j.finish(t)
	fixtures[2].until(id, mcptask.Completed)
	for i, w := range fixtures {
		w.close()
		members[i].Close()
		w.log.Close()
	}
	if n := j.resumed.Load(); n != 1 || arrived.Load() < 2 {
		t.Errorf("the task was resumed %d times, and %d replicas have tried", n, arrived.Load())
	}
}

const childEnv, childJob = "MCPTASK_CHILD_STORE", "MCPTASK_CHILD_JOB"

// TestChild is a server over a SQLite file that another test kills.
func TestChild(t *testing.T) {
	path := os.Getenv(childEnv)
	if path == "" {
		t.Skip("the process of another test")
	}
	store, err := sqlitestore.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	j := newJob(t)
	j.done = os.Getenv(childJob)
	fmt.Println("URL", newFixtureWith(t, newLog(t, store), nil, j.addTo).url)
	_, _ = os.Stdin.Read(make([]byte, 1)) // ends with the test
	os.Exit(0)
}

// startChild starts such a server, and returns it as a fixture. kill ends it.
func startChild(t *testing.T, path string, j *job) (w *fixture, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.v")
	cmd.Env = append(os.Environ(), childEnv+"="+path, childJob+"="+j.done)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			killed = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			stdin.Close()
			http.DefaultClient.CloseIdleConnections()
		}
	}
	t.Cleanup(kill)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if url, ok := strings.CutPrefix(lines.Text(), "URL "); ok {
			return &fixture{t: t, url: url}, kill
		}
	}
	t.Fatal("the child does not start")
	return nil, nil
}

// TestServerIsKilled: with SIGKILL. The task whose work goes on is resumed by the next process; that of a plain handler
// has failed, which is said at once.
func TestServerIsKilled(t *testing.T) {
	path, j := filepath.Join(t.TempDir(), "log.db"), newJob(t)
	w, kill := startChild(t, path, j)
	goesOn, plain := w.task("job", `{}`), w.task("slow_compute", `{"seconds":60}`)
	w.until(goesOn, mcptask.InputRequired) // and so it is noted
	kill()
	w, _ = startChild(t, path, j)
	begun := time.Now()
	a := w.until(plain, mcptask.Failed)
	if !strings.Contains(string(a.Result.Error.Data), "server_lost") ||
		!strings.Contains(a.Result.StatusMessage, "died") {
		t.Errorf("the task of a plain handler: %+v", a)
	}
	t.Logf("the task of a plain handler has failed %v after the start", time.Since(begun).Round(time.Millisecond))
	w.untilSaid(goesOn, "resumed")
	j.finish(t)
	if a := w.until(goesOn, mcptask.Completed); a.Result.Result.Content[0]["text"] != `default "job 7"` {
		t.Errorf("what came of it: %+v", a)
	}
}
