package bench

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteTable writes the verdicts for people.
func WriteTable(w io.Writer, verdicts []Verdict) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "target\twhat\tunit\tours\tlimit\tpeer\tratio\tfirst version\treached\tgoal\t")
	for _, v := range verdicts {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", v.Target, v.What, v.Unit,
			number(v.OursValue), number(v.LimitValue), number(v.PeerValue), number(v.Ratio),
			v.FirstValue, yesNo(v.First, v.Row.First), yesNo(v.Goal, v.Row.Goal))
	}
	return t.Flush()
}

// WriteMarkdown writes the verdicts as docs/performance.md has them.
func WriteMarkdown(w io.Writer, verdicts []Verdict) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "|  | measured | unit | ours | limit | peer | ours / limit | first version | reached | goal reached |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|")
	for _, v := range verdicts {
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", v.Target, v.What, v.Unit,
			number(v.OursValue), number(v.LimitValue), number(v.PeerValue), number(v.Ratio),
			inequality.Replace(v.FirstValue), yesNo(v.First, v.Row.First), yesNo(v.Goal, v.Row.Goal))
	}
	return out.Flush()
}

// inequality has the signs of docs/performance.md.
var inequality = strings.NewReplacer("<=", "≤", ">=", "≥")

// yesNo is empty for a bound that bounds nothing.
func yesNo(holds bool, b Bound) string {
	switch {
	case b == Bound{}:
		return ""
	case holds:
		return "yes"
	}
	return "no"
}
