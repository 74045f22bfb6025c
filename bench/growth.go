package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Growth measures how costs grow with something: the contenders of its race differ in how much of it there is.
type Growth struct {
	Race
	// Of is what there is more and more of.
	Of    string
	Sizes []int
	Costs []Cost
}

// Cost is something that is measured at each size. It becomes a line of the table for each store.
type Cost struct {
	Target, What, Unit string
	// Times bounds the cost at the last size divided by that at the first, Most the cost itself, and Least a rate. 0
	// bounds nothing.
	Times, Most, Least float64
}

// GrowthStores are the stores of the races.
var GrowthStores = []string{"log", "sqlite"}

// Growths are the races of growth. The number of kept things ends with most.
func Growths(most int) []Growth {
	return []Growth{keptGrowth(most), readersGrowth(most), sizeGrowth(), historyGrowth(most), neighboursGrowth(most)}
}

// sizesTo are the usual sizes up to most.
func sizesTo(most int) (sizes []int) {
	for _, n := range []int{1, 1000, 10_000, 100_000, 1_000_000} {
		if n <= most {
			sizes = append(sizes, n)
		}
	}
	return sizes
}

// newGrowth returns a race with a contender for each store and size, made by start.
func newGrowth(name, of string, sizes []int, costs []Cost,
	start func(ctx context.Context, scale Scale, store string, size int) (Runner, error),
) Growth {
	g := Growth{Race: Race{Name: "Growth" + name}, Of: of, Sizes: sizes, Costs: costs}
	for _, store := range GrowthStores {
		for _, size := range sizes {
			g.Contenders = append(g.Contenders, Contender{
				Name: growthName(store, size),
				Start: func(ctx context.Context, scale Scale) (Runner, error) {
					return start(ctx, scale, store+":", size)
				},
			})
		}
	}
	return g
}

func growthName(store string, size int) string { return fmt.Sprintf("store=%s/n=%d", store, size) }

// WriteGrowth writes the results of a race of growth as a table in Markdown. The ratio is the median, over the laps, of
// the last size divided by the first.
func WriteGrowth(w io.Writer, g *Growth, results []Result) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "|  | %s | unit | store |", g.Of)
	for _, size := range g.Sizes {
		fmt.Fprintf(out, " %s |", grouped(size))
	}
	fmt.Fprintf(out, " last / first | goal | reached |\n|%s\n", strings.Repeat("---|", 7+len(g.Sizes)))
	for _, cost := range g.Costs {
		for _, store := range GrowthStores {
			fmt.Fprintf(out, "| %s | %s | %s | %s |", cost.Target, cost.What, cost.Unit, store)
			last := math.NaN()
			for _, size := range g.Sizes {
				last = median(values(results, growthName(store, size), cost.Unit))
				fmt.Fprintf(out, " %s |", number(last))
			}
			times := ratio(results, growthName(store, g.Sizes[len(g.Sizes)-1]), cost.Unit,
				growthName(store, g.Sizes[0]), cost.Unit)
			if math.IsInf(times, 0) { // nothing could be measured at the first size
				times = math.NaN()
			}
			goal, outcome := cost.judge(times, last)
			fmt.Fprintf(out, " %s | %s | %s |\n", number(times), goal, outcome)
		}
	}
	return out.Flush()
}

// judge holds a cost against its bounds.
func (c Cost) judge(times, last float64) (goal string, outcome Outcome) {
	var bounds []string
	holds := true
	bound := func(v float64, of, text string, ok bool) {
		if v != 0 {
			bounds = append(bounds, of+text+number(v))
			holds = holds && ok
		}
	}
	bound(c.Times, "ratio ", "≤ ", times <= c.Times)
	bound(c.Most, "", "≤ ", last <= c.Most)
	bound(c.Least, "", "≥ ", last >= c.Least)
	switch {
	case len(bounds) == 0:
		return "", ""
	case holds:
		return strings.Join(bounds, "; "), reached
	}
	return strings.Join(bounds, "; "), notReached
}

// grouped is n with commas.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
