package bench

import (
	"math"
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
	if v.Ratio != 2 || !v.First {
		t.Errorf("ratio %v, reached %t; want 2, true", v.Ratio, v.First)
	}
}

func TestBoundsOfARow(t *testing.T) {
	results := []Result{
		{Contender: "ours", Samples: []Sample{{"ns": 90, "allocs": 1}}},
		laps("limit", "ns", 50),
	}
	for _, c := range []struct {
		name  string
		bound Bound
		want  bool
	}{
		{"none", Bound{}, true},
		{"most", Bound{Most: 90}, true},
		{"above most", Bound{Most: 89}, false},
		{"below least", Bound{Least: 91}, false},
		{"ratio", Bound{Than: "limit", Most: 1.8}, true},
		{"ratio above most", Bound{Than: "limit", Most: 1.7}, false},
		{"also", Bound{Most: 90, Also: &Bound{Unit: "allocs", Most: 0.5}}, false},
		{"not measured", Bound{Than: "nobody", Most: 1000}, false},
	} {
		if got := (Row{Unit: "ns", Ours: "ours"}).holds(c.bound, results); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
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
			for _, name := range []string{row.Ours, row.Limit, row.Peer, row.First.Than, row.Goal.Than} {
				if !known[name] {
					t.Errorf("%s, %s: no contender %q", race.Name, row.Target, name)
				}
			}
		}
	}
}
