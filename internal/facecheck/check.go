// Package facecheck tests servers that speak the protocols of other systems, by HTTP alone: whether a client that is
// cut, or whose server is killed, gets everything once, and whether anything that was lost is answered with success.
package facecheck

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Outcome is how a case has ended.
type Outcome string

// The outcomes.
const (
	Passed Outcome = "passed"
	Failed Outcome = "failed"
	NotRun Outcome = "not run" // it needs Restart
)

// Result is what a case has found.
type Result struct {
	Case    string  `json:"case"`
	Outcome Outcome `json:"outcome"`
	Detail  string  `json:"detail,omitempty"` // of what is not passed
}

// String returns a line about the case.
func (r Result) String() string {
	switch r.Outcome {
	case Passed:
		return "passed   " + r.Case
	case Failed:
		return "FAILED   " + r.Case + ": " + r.Detail
	}
	return string(r.Outcome) + "  " + r.Case + ": " + r.Detail
}

// Report is what Check has found.
type Report struct {
	Face    string          `json:"face"`
	URL     string          `json:"url"`
	Counts  map[Outcome]int `json:"counts"`
	Results []Result        `json:"results"`
}

// String is a line with the counts.
func (r *Report) String() string {
	n := r.Counts
	return fmt.Sprintf("%s: %d passed, %d failed, %d not run", r.Face, n[Passed], n[Failed], n[NotRun])
}

// Target is a server.
type Target struct {
	// Face is the name of the protocol: "durable", "e2b" or "execd".
	Face string
	// URL is what its paths are put behind, without a slash at the end.
	URL string
	// Header is sent with each request, such as a credential.
	Header http.Header
	// Restart kills the server and returns when its successor answers. Cases that need it are not run where it is nil.
	Restart func(context.Context) error
	// Only are the cases that are run, by their names. Nil means all.
	Only *regexp.Regexp
	// Patience bounds each case.
	Patience time.Duration
	// Out is written a line for each case and one with the counts. Nil means nothing.
	Out io.Writer
}

// testCase is one case. run returns what is wrong.
type testCase struct {
	name    string
	restart bool
	run     func(*client) error
}

var faces = map[string][]testCase{"durable": durableCases, "e2b": e2bCases, "execd": execdCases}

// Check runs the cases of a protocol, one after the other. It stops when ctx ends.
func Check(ctx context.Context, t *Target) *Report {
	out := t.Out
	if out == nil {
		out = io.Discard
	}
	report := &Report{Face: t.Face, URL: t.URL, Counts: map[Outcome]int{}}
	for _, test := range faces[t.Face] {
		if t.Only != nil && !t.Only.MatchString(test.name) {
			continue
		}
		r := Result{Case: test.name, Outcome: Passed}
		if test.restart && t.Restart == nil {
			r.Outcome, r.Detail = NotRun, "no command is given that kills the server and starts it again"
		} else if err := runCase(ctx, t, test.run); err != nil {
			r.Outcome, r.Detail = Failed, err.Error()
		}
		if ctx.Err() != nil {
			return report
		}
		report.Counts[r.Outcome]++
		report.Results = append(report.Results, r)
		fmt.Fprintln(out, r)
	}
	if len(report.Results) > 0 {
		fmt.Fprintln(out, report)
	}
	return report
}

func runCase(ctx context.Context, t *Target, run func(*client) error) error {
	ctx, cancel := context.WithTimeout(ctx, t.Patience)
	defer cancel()
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	defer transport.CloseIdleConnections()
	return run(&client{Target: t, ctx: ctx, http: &http.Client{Transport: transport}})
}

// client sends the requests of one case.
type client struct {
	*Target
	ctx  context.Context
	http *http.Client
}

// send sends a request. header is names and values. The answer must have one of the statuses.
func (c *client) send(method, path, body string, statuses []int, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(c.ctx, method, c.URL+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = c.Header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(statuses, res.StatusCode) {
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, 300)) // it is only shown
		return nil, fmt.Errorf("%s %s: status %d, not one of %v: %s", method, path, res.StatusCode, statuses, text)
	}
	return res, nil
}

// answer is a response that was read to its end.
type answer struct {
	http.Header
	status int
	body   []byte
}

func (c *client) do(method, path, body string, statuses []int, header ...string) (*answer, error) {
	res, err := c.send(method, path, body, statuses, header...)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return &answer{res.Header, res.StatusCode, text}, nil
}

// tick waits between two questions whether something has happened yet.
func (c *client) tick() error {
	select {
	case <-time.After(20 * time.Millisecond):
		return nil
	case <-c.ctx.Done():
		return fmt.Errorf("it does not happen within %v", c.Patience)
	}
}

// numberOfLines is what counting prints, and exitCode what it ends with.
const (
	numberOfLines = 200
	exitCode      = 7
)

// counting is a command that prints lines, half of them a moment later, and then exits.
var counting = fmt.Sprintf("i=0; while [ $i -lt %d ]; do "+
	"i=$((i+1)); echo line $i; [ $i != %d ] || sleep 0.5; done; exit %d", numberOfLines, numberOfLines/2, exitCode)

// checkLines returns an error unless text is what counting prints.
func checkLines(text string) error {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if want := fmt.Sprintf("line %d\n", n); line != want {
			return fmt.Errorf("line %d of the output is %q", n, line)
		}
	}
	if n != numberOfLines {
		return fmt.Errorf("the output has %d lines, not %d", n, numberOfLines)
	}
	return nil
}

// ok is the status of most answers, and asJSON the header of requests with a body of JSON.
var (
	ok     = []int{200}
	asJSON = []string{"Content-Type", "application/json"}
)

// quote is v as JSON.
func quote(v any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err) // strings, numbers and maps of them
	}
	return strings.TrimSuffix(b.String(), "\n")
}
