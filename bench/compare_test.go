package bench

import (
	"bytes"
	"strings"
	"testing"
)

// rounds makes the samples of one side: a lap a value.
func rounds(t *testing.T, contender, unit string, values ...float64) (list []Samples) {
	t.Helper()
	for _, v := range values {
		var text bytes.Buffer
		if err := Record(&text, "R", []Result{laps(contender, unit, v), laps("other", unit, 1)}); err != nil {
			t.Fatal(err)
		}
		s, err := ReadSamples(strings.NewReader("cpu: some\n\n" + text.String() + "target what\n"))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

func TestCompareDividesRoundByRound(t *testing.T) {
	for _, c := range []struct {
		name, unit    string
		before, after []float64
		want          string
	}{
		{"a slow round is slow for both", "ns", []float64{10, 40, 11}, []float64{12, 48, 13.2}, "slower"},
		{"more is better", "events/s", []float64{100, 400, 110}, []float64{120, 480, 132}, "faster"},
		{"less than a twentieth", "ns", []float64{10, 10, 10}, []float64{10.4, 10.3, 10.2}, "same"},
		{"one round says otherwise", "ns", []float64{10, 10, 10}, []float64{13, 13, 9}, "same"},
		{"fewer a second", "events/s", []float64{10, 10, 10}, []float64{8, 9, 8}, "slower"},
	} {
		t.Run(c.name, func(t *testing.T) {
			races := []Race{{Name: "R", Rows: []Row{
				{Target: "P1", Unit: c.unit, Ours: "ours"},
				{Target: "P2", Unit: c.unit, Ours: "new"}, // measured by neither
			}}}
			before, after := rounds(t, "ours", c.unit, c.before...), rounds(t, "ours", c.unit, c.after...)
			list := Compare(races, before, after)
			if len(list) != 1 || list[0].Rounds != 3 || list[0].Verdict() != c.want {
				t.Errorf("%+v, want one row that is %s", list, c.want)
			}
		})
	}
}

func TestReadSamplesRefusesWhatIsNoNumber(t *testing.T) {
	if _, err := ReadSamples(strings.NewReader("BenchmarkX/y 1 ten ns\n")); err == nil {
		t.Error("no error")
	}
}
