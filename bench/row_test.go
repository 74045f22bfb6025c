package bench

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"
)

// laps makes the samples of a contender in one unit.
func laps(contender, unit string, values ...float64) Result {
	r := Result{Contender: contender}
	for _, v := range values {
		r.Samples = append(r.Samples, Sample{unit: v})
	}
	return r
}

func TestRatiosAreTakenLapByLap(t *testing.T) {
	// The machine was slow in the second lap, for both.
	results := []Result{laps("ours", "ns", 10, 100, 12), laps("limit", "ns", 5, 50, 6)}
	v := Row{Unit: "ns", Ours: "ours", Limit: "limit", First: Bound{Than: "limit", Most: 2}}.Judge(results)
	if v.Ratio != 2 || v.First != reached {
		t.Errorf("ratio %v, reached %q; want 2, yes", v.Ratio, v.First)
	}
}

func TestBoundsOfARow(t *testing.T) {
	results := []Result{
		{Contender: "ours", Samples: []Sample{{"ns": 90, "allocs": 1}}},
		laps("limit", "ns", 50),
		{Contender: "absent", Missing: true},
	}
	for _, c := range []struct {
		name  string
		bound Bound
		want  Outcome
	}{
		{"none", Bound{}, ""},
		{"most", Bound{Most: 90}, reached},
		{"above most", Bound{Most: 89}, notReached},
		{"below least", Bound{Least: 91}, notReached},
		{"ratio", Bound{Than: "limit", Most: 1.8}, reached},
		{"ratio above most", Bound{Than: "limit", Most: 1.7}, notReached},
		{"also", Bound{Most: 90, Also: &Bound{Unit: "allocs", Most: 0.5}}, notReached},
		{"not measured", Bound{Than: "nobody", Most: 1000}, notReached},
		{"not run", Bound{Than: "absent", Most: 1000}, notRun},
		{"also not run", Bound{Most: 90, Also: &Bound{Than: "absent", Most: 1}}, notRun},
		{"not reached, also not run", Bound{Most: 89, Also: &Bound{Than: "absent", Most: 1}}, notReached},
		{"not run, also not reached", Bound{Than: "absent", Most: 9, Also: &Bound{Most: 89}}, notReached},
	} {
		if got := (Row{Unit: "ns", Ours: "ours"}).outcome(c.bound, results); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestTableHasTheBestPeerThatRan(t *testing.T) {
	results := []Result{
		laps("peer=slow/size=200", "ns", 90), laps("peer=fast/size=200", "ns", 50),
		{Contender: "peer=absent/size=200", Missing: true},
	}
	row := Row{Unit: "ns", Peers: []string{"peer=slow/size=200", "peer=fast/size=200", "peer=absent/size=200"}}
	if got, want := row.Judge(results).Peers, "fast: 50.0; not run: absent"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range results {
		results[i].Samples = []Sample{{"events/s": float64(i)}}
	}
	row.Unit = "events/s"
	if got, want := row.Judge(results).Peers, "fast: 1.00; not run: absent"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRaceRunsWithoutAPeerThatIsNotInstalled(t *testing.T) {
	lap := func(context.Context) (Sample, error) { return Sample{"ns": 1}, nil }
	r := Race{Name: "R", Contenders: []Contender{
		{"peer", func(context.Context, Scale) (Runner, error) { return nil, errNoPeer }, false},
		{"ours", func(context.Context, Scale) (Runner, error) { return lapFunc(lap), nil }, false},
	}}
	results, err := r.Run(t.Context(), Scale{Laps: 3})
	if err != nil || !results[0].Missing || len(results[0].Samples) != 0 || len(results[1].Samples) != 3 {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestMedianOfSamples(t *testing.T) {
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("of three: %v", got)
	}
	if got := median([]float64{9, 1, 5, 3}); got != 4 {
		t.Errorf("of four: %v", got)
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("of none: %v", got)
	}
}

func TestEveryRowNamesContendersOfItsRace(t *testing.T) {
	for _, race := range Races() {
		known := map[string]bool{"": true}
		for _, c := range race.Contenders {
			if known[c.Name] {
				t.Errorf("%s: two contenders %q", race.Name, c.Name)
			}
			known[c.Name] = true
		}
		for _, row := range race.Rows {
			names := append([]string{row.Ours, row.Limit, row.First.Than, row.Goal.Than}, row.Peers...)
			for also := row.Goal.Also; also != nil; also = also.Also {
				names = append(names, also.Than)
			}
			for _, name := range names {
				if !known[name] {
					t.Errorf("%s, %s: no contender %q", race.Name, row.Target, name)
				}
			}
		}
	}
}

func TestHeldNamesWhatIsNotTheLimit(t *testing.T) {
	results := []Result{
		{Contender: "ours", Samples: []Sample{{"events/s": 30, "first-ms": 0.5}}},
		laps("limit", "events/s", 60), laps("peer=best/size=200", "events/s", 10),
	}
	row := Row{Unit: "events/s", Ours: "ours", Limit: "limit", Goal: Bound{Than: "limit", Least: 0.4, Also: &Bound{
		Unit: "first-ms", Most: 1, Also: &Bound{Than: "peer=best/size=200", Least: 2},
	}}}
	const want = "0.50 >= 0.40, 0.50 first-ms <= 1.00, 3.00 of best >= 2.00"
	v := row.Judge(results)
	if v.GoalValue != want || v.Goal != reached || v.FirstValue != "" {
		t.Errorf("%q, %q; want %q", v.GoalValue, v.Goal, want)
	}
	var table bytes.Buffer
	if err := WriteMarkdown(&table, []Verdict{v}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(table.String(), "\n")
	for _, line := range lines[:3] {
		if strings.Count(line, "|") != strings.Count(lines[0], "|") {
			t.Errorf("columns of %q", line)
		}
	}
}
