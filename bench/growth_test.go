package bench

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
)

func TestGrowthTableHasEachSize(t *testing.T) {
	g := newGrowth("Kept", "kept streams", []int{1, 1000}, []Cost{
		{Target: "G1", What: "append", Unit: "us", Times: 1.3},
		{Target: "G9", What: "rate", Unit: "MB/s", Least: 100},
	}, nil)
	var results []Result
	for i, c := range g.Contenders {
		us, rate := float64(10+i), float64(200-i) // log 10 and 11, sqlite 12 and 20
		if i == 3 {
			us, rate = 20, 50
		}
		results = append(results, Result{Contender: c.Name, Samples: []Sample{{"us": us, "MB/s": rate}}})
	}
	var text strings.Builder
	if err := WriteGrowth(&text, &g, results); err != nil {
		t.Fatal(err)
	}
	var plot strings.Builder
	if err := WriteGrowthPlot(&plot, &g, "sqlite", results); err != nil {
		t.Fatal(err)
	}
	var elements int
	for d := xml.NewDecoder(strings.NewReader(plot.String())); ; elements++ {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in %s", err, plot.String())
		}
	}
	if n := strings.Count(plot.String(), `stroke-width="2"`); n != 4 || elements == 0 {
		t.Errorf("%d lines and keys, want 4: %s", n, plot.String())
	}
	const want = `|  | kept streams | unit | store | 1 | 1,000 | last / first | goal | reached |
|---|---|---|---|---|---|---|---|---|
| G1 | append | us | log | 10.0 | 11.0 | 1.10 | ratio ≤ 1.30 | yes |
| G1 | append | us | sqlite | 12.0 | 20.0 | 1.67 | ratio ≤ 1.30 | no |
| G9 | rate | MB/s | log | 200 | 199 | 0.99 | ≥ 100 | yes |
| G9 | rate | MB/s | sqlite | 198 | 50.0 | 0.25 | ≥ 100 | no |
`
	if text.String() != want {
		t.Errorf("got\n%swant\n%s", text.String(), want)
	}
}
