package mcpserver_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/store/memstore"
)

// TestInterpreterRemembers: code with the same interpreter, session and language runs in one, and is answered with its
// values and exceptions. One that has ended is opened again, which is told.
func TestInterpreterRemembers(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2025-11-25", "")
	code := func(session, name, language, text string) (string, executed) {
		t.Helper()
		var run executed
		return c.call("execute_code",
			args{"interpreter": name, "session": session, "language": language, "code": text}, &run), run
	}
	const fresh = "a new interpreter"
	said, _ := code("s", "main", "python", "x = 41")
	if !strings.Contains(said, fresh) {
		t.Errorf("the first call is answered with %q", said)
	}
	said, run := code("s", "main", "python", "x + 1")
	if !strings.HasPrefix(said, "42\n") || strings.Contains(said, fresh) || run.Outcome != "exited" {
		t.Errorf("x + 1 is answered with %q", said)
	}
	if said = c.call("get_execution_output", args{"execution_id": run.ID}, nil); !strings.HasPrefix(said, "42\n") {
		t.Errorf("the output reads %q", said)
	}
	if said, run = code("s", "main", "python", "y"); !strings.Contains(said, "[stderr]\n") ||
		!strings.Contains(said, "NameError") || run.ExitCode == nil || *run.ExitCode != 1 {
		t.Errorf("an exception is answered with %q", said)
	}
	for _, other := range [][3]string{{"other", "main", "python"}, {"s", "second", "python"}} {
		if said, _ := code(other[0], other[1], other[2], "x"); !strings.Contains(said, fresh) ||
			!strings.Contains(said, "NameError") {
			t.Errorf("%v is answered with %q", other, said)
		}
	}
	if said, _ := code("s", "main", "bash", "echo $((6 * 7))"); !strings.Contains(said, "42\n") {
		t.Errorf("bash is answered with %q", said)
	}
	code("s", "main", "python", "import os; os._exit(3)")
	if said, _ := code("s", "main", "python", "x"); !strings.Contains(said, fresh) ||
		!strings.Contains(said, "NameError") {
		t.Errorf("after its end it is answered with %q", said)
	}
}

// TestImagesOfInterpreter: images are content of the answer, within a bound, and the text names each.
func TestImagesOfInterpreter(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2025-11-25", "")
	const class = `
class Image:
    def __init__(self, size): self.size = size
    def __repr__(self): return "an image"
    def _repr_png_(self): return b"\x89PNG" + b"x" * self.size
`
	for _, tt := range []struct {
		code, text string
		images     int
	}{
		{"Image(10)", "an image\n[image/png of 15 bytes]\n", 1},
		{"for i in range(6): display(Image(10))", strings.Repeat("an image\n[image/png of 15 bytes]\n", 6), 4},
		{"for i in range(4): display(Image(300_000))", strings.Repeat("an image\n[image/png of 300006 bytes]\n", 4), 3},
	} {
		code := args{"interpreter": "main", "code": class + tt.code}
		text, result := c.try(t.Context(), "execute_code", code, nil)
		images := 0
		for _, content := range result.Content {
			if image, ok := content.(*mcp.ImageContent); ok && image.MIMEType == "image/png" &&
				strings.HasPrefix(string(image.Data), "\x89PNGxxx") {
				images++
			}
		}
		if !strings.Contains(text, tt.text) || images != tt.images {
			t.Errorf("%s is answered with %d images and %q", tt.code, images, text)
		}
	}
}

// TestBusyInterpreterNamesItsCode: a model that finds an interpreter busy is told which run it waits for, and how.
func TestBusyInterpreterNamesItsCode(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2025-11-25", "")
	var run executed
	code := "import time; print('up', flush=True); time.sleep(600)"
	c.call("execute_code", args{"interpreter": "main", "code": code, "wait_seconds": 0}, &run)
	c.call("get_execution_output", args{"execution_id": run.ID, "match": "up"}, nil)
	c.refuse("execute_code", args{"interpreter": "main", "code": "1"}, "conflict")
	said, _ := c.try(t.Context(), "execute_code", args{"interpreter": "main", "code": "1"}, nil)
	if !strings.Contains(said, "execution "+run.ID) || !strings.Contains(said, "cancel_execution") {
		t.Errorf("the refusal is %q", said)
	}
	t.Log(c.call("cancel_execution", args{"execution_id": run.ID}, nil))
	said = c.call("execute_code", args{"interpreter": "main", "code": "6*7"}, nil)
	if !strings.HasPrefix(said, "42\n") {
		t.Errorf("after the cancellation: %q", said)
	}
}

// lateEnds is a store in which the second end of a stream takes a while.
type lateEnds struct {
	*memstore.Store
	ends atomic.Int32
}

func (s *lateEnds) Append(ctx context.Context, requests []reprise.AppendRequest) []error {
	for _, r := range requests {
		if r.End != nil && s.ends.Add(1) == 2 {
			<-time.After(100 * time.Millisecond)
		}
	}
	return s.Store.Append(ctx, requests)
}

// TestInterpreterIsOpenedAfterEndOfOther: the process of an interpreter has ended, and its stream has not yet. The next
// code waits for that, since only then another interpreter gets the name.
func TestInterpreterIsOpenedAfterEndOfOther(t *testing.T) {
	log, err := reprise.Open(t.Context(), &lateEnds{Store: memstore.New(nil)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newFixtureOn(t, log, nil)
	t.Cleanup(func() { log.Close() })
	t.Cleanup(w.close)
	c := w.caller("2026-07-28", "")
	c.call("execute_code", args{"interpreter": "main", "code": "import os; os._exit(3)"}, nil)
	said := c.call("execute_code", args{"interpreter": "main", "code": "6 * 7"}, nil)
	if !strings.Contains(said, "42\n") {
		t.Errorf("the next code is answered with %q", said)
	}
}

// TestInterpreterRequestsAreChecked: an invalid request is refused before an interpreter is opened, and an
// idempotency_key attaches to an existing one.
func TestInterpreterRequestsAreChecked(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2026-07-28", "")
	for _, bad := range []args{
		{"command": "true"},
		{"code": "1", "cwd": "/"},
		{"code": "1", "stdin": "x"},
		{"code": "1", "language": "perl"},
		{"code": "1", "env": args{"A": "b"}},
		{"code": "1", "interpreter": strings.Repeat("i", 65)},
	} {
		if bad["interpreter"] == nil {
			bad["interpreter"] = "main"
		}
		c.refuse("execute_code", bad, "invalid")
	}
	c.refuse("execute_code_async", args{"code": "1", "interpreter": "main", "stdin_open": true}, "invalid")
	var list struct{ Executions []executed }
	c.call("list_executions", nil, &list)
	if len(list.Executions) != 0 {
		t.Errorf("there are %+v", list.Executions)
	}
	once := args{
		"interpreter": "main", "code": "import random; print(random.random())", "idempotency_key": "k", "session": "s",
	}
	var first, second executed
	c.call("execute_code", once, &first)
	c.call("execute_code", once, &second)
	// The first answer begins with the line about the new interpreter.
	if first.ID != second.ID || !second.Attached || second.Stdout.Text == "" ||
		!strings.HasSuffix(first.Stdout.Text, second.Stdout.Text) {
		t.Errorf("%+v\n%+v", first, second)
	}
}
