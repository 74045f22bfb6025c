// Command upstream is an MCP server for tests, over stdio, or over Streamable HTTP with -http ADDRESS. It does what
// real ones do, and what broken ones do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

//lint:file-ignore SA1019 the versions before 2026-07-28 have roots, sampling and logging

// lacking is a transport that does not know a method.
type lacking struct {
	mcp.Transport
	mcp.Connection
	method string
}

func (l *lacking) Connect(ctx context.Context) (mcp.Connection, error) {
	var err error
	l.Connection, err = l.Transport.Connect(ctx)
	return l, err
}

func (l *lacking) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := l.Connection.Read(ctx)
		r, ok := m.(*jsonrpc.Request)
		if err != nil || !ok || r.Method != l.method {
			return m, err
		}
		refused := &jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: -32601, Message: "no " + l.method}}
		if err := l.Write(ctx, refused); err != nil {
			return nil, err
		}
	}
}

type input struct {
	Text string `json:"text,omitempty"`
	N    int    `json:"n,omitempty"`
	MS   int    `json:"ms,omitempty"`
}

type tool func(ctx context.Context, r *mcp.CallToolRequest, in input) (string, error)

var calls atomic.Int64

func main() {
	address := flag.String("http", "", "address to serve Streamable HTTP on, and not stdio")
	stateless := flag.Bool("stateless", false, "with -http: serve version 2026-07-28")
	lacks := flag.String("lacks", "", "request that is not known, over stdio: server/discover or initialize")
	flag.Parse()
	server := mcp.NewServer(&mcp.Implementation{Name: "upstream", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	for name, do := range map[string]tool{
		"echo": echo, "count": count, "steps": steps, "sleep": sleep, "ask": ask, "roots": roots, "crash": crash, "garbage": garbage,
		"flood": flood, "big": big, "env": env, "fork": fork, "pid": pid, "log": logSome, "asktwice": askTwice, "hold": hold, "askhold": askHold,
		"never": func(ctx context.Context, _ *mcp.CallToolRequest, _ input) (string, error) {
			<-ctx.Done()
			time.Sleep(time.Hour) // not even that it was cancelled is said
			return "", nil
		},
		"touch": func(ctx context.Context, _ *mcp.CallToolRequest, in input) (string, error) {
			return "touched", server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: in.Text})
		},
		"grow": func(context.Context, *mcp.CallToolRequest, input) (string, error) {
			mcp.AddTool(server, &mcp.Tool{Name: fmt.Sprintf("grown%d", calls.Add(1))}, wrap(echo))
			return "grown", nil
		},
	} {
		mcp.AddTool(server, &mcp.Tool{Name: name}, wrap(do))
	}
	mcp.AddTool(server, &mcp.Tool{Name: "rounds"}, rounds)
	mcp.AddTool(server, &mcp.Tool{Name: "askagain", Annotations: &mcp.ToolAnnotations{IdempotentHint: true}}, wrap(ask))
	server.AddResource(&mcp.Resource{URI: "test://a", Name: "a"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test://a", Text: "A"}}}, nil
	})
	if *address == "" {
		if err := server.Run(context.Background(), &lacking{Transport: &mcp.StdioTransport{}, method: *lacks}); err != nil {
			log.Fatal(err)
		}
		return
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on http://" + listener.Addr().String())
	log.Fatal(http.Serve(listener, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: *stateless, EventStore: mcp.NewMemoryEventStore(nil)})))
}

func wrap(do tool) mcp.ToolHandlerFor[input, any] {
	return func(ctx context.Context, r *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
		text, err := do(ctx, r, in)
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	}
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in input) (string, error) { return in.Text, nil }

func pid(context.Context, *mcp.CallToolRequest, input) (string, error) {
	return fmt.Sprint(os.Getpid()), nil
}

// count says how often it was called in this process.
func count(context.Context, *mcp.CallToolRequest, input) (string, error) {
	return fmt.Sprint(calls.Add(1)), nil
}

func steps(ctx context.Context, r *mcp.CallToolRequest, in input) (string, error) {
	for i := range in.N {
		time.Sleep(time.Duration(in.MS) * time.Millisecond)
		err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Message: in.Text,
		})
		if err != nil {
			return "", err
		}
	}
	return "done", nil
}

func sleep(ctx context.Context, _ *mcp.CallToolRequest, in input) (string, error) {
	fmt.Fprintln(os.Stderr, "sleeping")
	select {
	case <-time.After(time.Duration(in.MS) * time.Millisecond):
		return "slept", nil
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr, "cancelled")
		return "", ctx.Err()
	}
}

// hold waits for a file, and says which call of it this is in this process.
func hold(ctx context.Context, _ *mcp.CallToolRequest, in input) (string, error) {
	n := calls.Add(1)
	for {
		if _, err := os.Stat(in.Text); err == nil {
			return fmt.Sprint("held ", n), nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return "", errors.Join(ctx.Err(), os.WriteFile(in.Text+".cancelled", nil, 0o600))
		}
	}
}

// askHold asks, and then waits for a file.
func askHold(ctx context.Context, r *mcp.CallToolRequest, in input) (string, error) {
	answer, err := ask(ctx, r, in)
	if err != nil {
		return "", err
	}
	held, err := hold(ctx, r, in)
	return answer + ", " + held, err
}

func ask(ctx context.Context, r *mcp.CallToolRequest, in input) (string, error) {
	answer, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: in.Text, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
	}})
	if err != nil {
		return "", err
	}
	return fmt.Sprint(answer.Action, " ", answer.Content["name"]), nil
}

// askTwice asks two questions at the same time.
func askTwice(ctx context.Context, r *mcp.CallToolRequest, in input) (string, error) {
	var both sync.WaitGroup
	var answers [2]string
	var errs [2]error
	for i := range answers {
		both.Go(func() { answers[i], errs[i] = ask(ctx, r, input{Text: fmt.Sprint(in.Text, i)}) })
	}
	both.Wait()
	return strings.Join(answers[:], ", "), errors.Join(errs[:]...)
}

// rounds asks as version 2026-07-28 has it.
func rounds(_ context.Context, r *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
	answer, ok := r.Params.InputResponses["name"].(*mcp.ElicitResult)
	if !ok {
		return &mcp.CallToolResult{RequestState: "asked", InputRequests: mcp.InputRequestMap{"name": &mcp.ElicitParams{
			Message: in.Text, RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}},
		}}}, nil, nil
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(answer.Action, " ", answer.Content["name"])}}}, nil, nil
}

func roots(ctx context.Context, r *mcp.CallToolRequest, _ input) (string, error) {
	result, err := r.Session.ListRoots(ctx, nil)
	if err != nil {
		return "", err
	}
	return result.Roots[0].URI, nil
}

// crash ends this process, once a file is there if it is given one.
func crash(ctx context.Context, r *mcp.CallToolRequest, in input) (string, error) {
	if in.Text != "" {
		if _, err := hold(ctx, r, in); err != nil {
			return "", err
		}
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func garbage(_ context.Context, _ *mcp.CallToolRequest, in input) (string, error) {
	for range in.N {
		fmt.Println("this is no JSON")
	}
	fmt.Println(`{"neither":"here"}`)
	fmt.Println(strings.Repeat("x", 17<<20))
	return "printed", nil
}

func flood(_ context.Context, _ *mcp.CallToolRequest, in input) (string, error) {
	line := strings.Repeat("stderr ", 20)
	for range in.N {
		fmt.Fprintln(os.Stderr, line)
	}
	fmt.Fprint(os.Stderr, strings.Repeat("y", 10<<20))
	return "flooded", nil
}

func big(_ context.Context, _ *mcp.CallToolRequest, in input) (string, error) {
	return strings.Repeat("z", in.N), nil
}

func env(_ context.Context, _ *mcp.CallToolRequest, in input) (string, error) {
	return os.Getenv(in.Text), nil
}

// fork leaves a process behind that has a session of its own.
func fork(context.Context, *mcp.CallToolRequest, input) (string, error) {
	cmd := exec.Command("setsid", "sleep", "600")
	if err := cmd.Start(); err != nil {
		return "", err
	}
	go func() { _ = cmd.Wait() }()
	return fmt.Sprint(cmd.Process.Pid), nil
}

func logSome(ctx context.Context, r *mcp.CallToolRequest, in input) (string, error) {
	return "logged", r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: in.Text})
}
