package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"reprise/internal/testserver"

	"go.yaml.in/yaml/v3"
)

// described is a metric as a server or the documentation describes it.
type described struct {
	kind   string
	labels string // sorted, with blanks between; "?" where no value says it
	alerts []string
}

// served asks the server at an address for its metrics.
func served(t *testing.T, addr, token string) map[string]described {
	t.Helper()
	page := string(fetch(t, http.MethodGet, "http://"+addr+"/metrics", token, "", nil))
	found := map[string]described{}
	name := ""
	for line := range strings.Lines(page) {
		if head, ok := strings.CutPrefix(line, "# TYPE "); ok {
			var kind string
			name, kind, _ = strings.Cut(strings.TrimSpace(head), " ")
			found[name] = described{kind: kind, labels: "?"}
		} else if !strings.HasPrefix(line, "#") {
			d := found[name]
			if d.kind == "" {
				t.Fatalf("a value before its description: %s", line)
			}
			d.labels = labelsOf(line)
			found[name] = d
		}
	}
	if len(found) < 50 {
		t.Fatalf("%d metrics in %s", len(found), page)
	}
	checkWithPromtool(t, []byte(page), "check", "metrics")
	return found
}

// labelsOf are the labels of a line of values, without those of buckets.
func labelsOf(line string) string {
	var labels []string
	for _, m := range regexp.MustCompile(`[{,](\w+)="`).FindAllStringSubmatch(line, -1) {
		if m[1] != "le" {
			labels = append(labels, m[1])
		}
	}
	slices.Sort(labels)
	return strings.Join(labels, " ")
}

// fetch sends a request and returns the body of the answer, which must be a success.
func fetch(t *testing.T, method, url, token, body string, header http.Header) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		t.Fatalf("%s %s: status %d, %v: %s", method, url, res.StatusCode, err, text)
	}
	return text
}

// allServed are the metrics of both programs, with values where a run, a resume and a refusal give them.
func allServed(t *testing.T) map[string]described {
	t.Helper()
	dir := testserver.TempDir(t)
	start := func(verb string, args ...string) (d *daemon, token string) {
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		data := filepath.Join(dir, verb)
		d, err = startProgram(&daemonSpec{
			path: program, dir: dir, log: filepath.Join(dir, verb+".log"), env: os.Environ(),
			args: append([]string{"reprise", verb, "--listen", "127.0.0.1:0", "--data", data}, args...),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.kill() })
		text, err := os.ReadFile(filepath.Join(data, "token"))
		if err != nil {
			t.Fatal(err)
		}
		return d, strings.TrimSpace(string(text))
	}
	server, token := start("serve", "--max-tenant-bytes", "1GiB")
	url := "http://" + server.addr
	fetch(t, http.MethodPost, url+"/v1/executions", token, `{"id":"x","argv":["true"]}`,
		http.Header{"Accept": {"text/event-stream"}}) // until it has ended
	var page struct {
		Events []struct{ Cursor string }
	}
	text := fetch(t, http.MethodGet, url+"/v1/executions/x/events", token, "", nil)
	if err := json.Unmarshal(text, &page); err != nil {
		t.Fatal(err)
	}
	fetch(t, http.MethodGet, url+"/v1/executions/x/events", token, "",
		http.Header{"Accept": {"text/event-stream"}, "Last-Event-Id": {page.Events[0].Cursor}})
	all := served(t, server.addr, token)
	gateway, token := start("gateway", "http://127.0.0.1:1/mcp")
	for name, d := range served(t, gateway.addr, token) {
		if known, ok := all[name]; ok && known.labels != "?" {
			d.labels = known.labels
		}
		all[name] = d
	}
	return all
}

// documented are the metrics of docs/metrics.md.
func documented(t *testing.T) map[string]described {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	words := regexp.MustCompile("`([^`]+)`")
	found := map[string]described{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		name, ok := strings.CutPrefix(cells[0], "| `")
		if !ok {
			continue
		}
		if len(cells) != 6 || strings.TrimSpace(cells[3]) == "" {
			t.Fatalf("a row has no unit or not six cells: %s", line)
		}
		var labels, alerts []string
		for _, m := range words.FindAllStringSubmatch(cells[2], -1) {
			labels = append(labels, m[1])
		}
		for _, m := range words.FindAllStringSubmatch(cells[5], -1) {
			alerts = append(alerts, m[1])
		}
		slices.Sort(labels)
		found[strings.TrimSuffix(name, "`")] = described{
			kind: strings.TrimSpace(cells[1]), labels: strings.Join(labels, " "), alerts: alerts,
		}
	}
	return found
}

// TestMetricsAreThoseOfTheDocumentation: the page, the alerts and the dashboard name what running servers serve.
func TestMetricsAreThoseOfTheDocumentation(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems tell less of a process")
	}
	all, docs := allServed(t), documented(t)
	for name, d := range all {
		doc, ok := docs[name]
		switch {
		case !ok:
			t.Errorf("%s is served and not documented", name)
		case doc.kind != d.kind:
			t.Errorf("%s is a %s, documented as %s", name, d.kind, doc.kind)
		case d.labels != "?" && doc.labels != d.labels:
			t.Errorf("%s has the labels %q, documented as %q", name, d.labels, doc.labels)
		}
	}
	for name := range docs {
		if _, ok := all[name]; !ok {
			t.Errorf("%s is documented and not served", name)
		}
	}
	t.Run("alerts", func(t *testing.T) { checkAlerts(t, all, docs) })
	t.Run("dashboard", func(t *testing.T) { checkDashboard(t, all) })
}

// metricName finds what may be the name of a metric in a query.
var metricName = regexp.MustCompile(`\b(?:reprise|process|go)_\w+`)

// namesIn are the metrics that a query names, without the suffixes of histograms. Each must be served.
func namesIn(t *testing.T, query string, all map[string]described) (names []string) {
	t.Helper()
	for _, name := range metricName.FindAllString(query, -1) {
		if _, ok := all[name]; !ok {
			base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if all[base].kind != "histogram" {
				t.Errorf("%s is not served: %s", name, query)
				continue
			}
			name = base
		}
		names = append(names, name)
	}
	return names
}

// checkAlerts checks that each alert is about metrics that are served, and stands in their rows of the documentation.
func checkAlerts(t *testing.T, all, docs map[string]described) {
	path := "../../examples/deploy/prometheus/alerts.yml"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil || len(file.Groups) == 0 {
		t.Fatalf("%d groups, %v", len(file.Groups), err)
	}
	about := map[string][]string{} // the alerts of each metric
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" ||
				rule.Labels["severity"] == "" {
				t.Errorf("%s has no summary, description or severity", rule.Alert)
			}
			names := namesIn(t, rule.Expr, all)
			if len(names) == 0 && rule.Alert != "RepriseDown" {
				t.Errorf("%s is about no metric of ours", rule.Alert)
			}
			for _, name := range names {
				if !slices.Contains(about[name], rule.Alert) {
					about[name] = append(about[name], rule.Alert)
				}
			}
		}
	}
	for name, doc := range docs {
		slices.Sort(about[name])
		slices.Sort(doc.alerts)
		if !slices.Equal(about[name], doc.alerts) {
			t.Errorf("%s: the alerts %q, documented are %q", name, about[name], doc.alerts)
		}
	}
	checkWithPromtool(t, nil, "check", "rules", path)
	checkWithPromtool(t, nil, "test", "rules", "../../examples/deploy/prometheus/alerts_test.yml")
	checkWithPromtool(t, nil, "check", "config", "--syntax-only", "../../examples/deploy/prometheus/prometheus.yml")
}

// panel is what is looked at of a panel of a dashboard.
type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ H, W, X, Y int }
	Targets []struct {
		RefID      string `json:"refId"`
		Expr       string
		Datasource struct{ Type, UID string }
	}
}

// checkDashboard checks the shape of the dashboard and that its queries are about metrics that are served.
func checkDashboard(t *testing.T, all map[string]described) {
	text, err := os.ReadFile("../../examples/deploy/grafana/reprise.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		UID, Title    string
		SchemaVersion int
		Templating    struct{ List []struct{ Name, Type string } }
		Panels        []panel
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	if board.UID == "" || board.Title == "" || board.SchemaVersion < 36 || len(board.Templating.List) != 2 {
		t.Errorf("uid %q, title %q, schema %d, %d variables", board.UID, board.Title, board.SchemaVersion,
			len(board.Templating.List))
	}
	ids := map[int]bool{}
	taken := map[[2]int]string{} // the cells of the grid
	var rules bytes.Buffer       // so that promtool parses the queries
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for _, p := range board.Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" || !slices.Contains([]string{"row", "stat", "timeseries"}, p.Type) {
			t.Errorf("panel %d %q of type %q", p.ID, p.Title, p.Type)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Errorf("%q lies on %q or outside the grid at %d, %d", p.Title, other, x, y)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("%q has %d queries", p.Title, len(p.Targets))
		}
		for _, target := range p.Targets {
			if target.RefID == "" || target.Datasource.UID != "${datasource}" {
				t.Errorf("%q: a query by %q of %q", p.Title, target.RefID, target.Datasource.UID)
			}
			if len(namesIn(t, target.Expr, all)) == 0 && !strings.HasPrefix(target.Expr, "sum(up{") {
				t.Errorf("%q: a query about no metric of ours: %s", p.Title, target.Expr)
			}
			query := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(target.Expr)
			fmt.Fprintf(&rules, "  - record: panel_%d_%s\n    expr: %q\n", p.ID, target.RefID, query)
		}
	}
	path := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(path, rules.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	checkWithPromtool(t, nil, "check", "rules", path)
}

// checkWithPromtool runs promtool, where it is installed, with input on its stdin.
func checkWithPromtool(t *testing.T, input []byte, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("promtool is not installed: apt-get install prometheus")
		}
		t.Log("promtool is not installed: not checked by it")
		return
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdin = bytes.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v: %s", strings.Join(args, " "), err, out)
	}
}
