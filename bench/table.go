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
	fmt.Fprintln(t, "target\twhat\tunit\tours\tlimit\tpeer\tratio\tfirst version\treached\tgoal\treached\t")
	for _, v := range verdicts {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", v.Target, v.What, v.Unit,
			number(v.OursValue), number(v.LimitValue), v.Peers, number(v.Ratio),
			v.FirstValue, v.First, v.GoalValue, v.Goal)
	}
	return t.Flush()
}

// WriteMarkdown writes the verdicts as a table in Markdown.
func WriteMarkdown(w io.Writer, verdicts []Verdict) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out,
		"|  | measured | unit | ours | limit | peer | ours / limit | first version | reached | goal | reached |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|---|")
	for _, v := range verdicts {
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", v.Target, v.What, v.Unit,
			number(v.OursValue), number(v.LimitValue), v.Peers, number(v.Ratio),
			inequality.Replace(v.FirstValue), v.First, inequality.Replace(v.GoalValue), v.Goal)
	}
	return out.Flush()
}

// inequality has the signs of docs/internals/performance.md.
var inequality = strings.NewReplacer("<=", "≤", ">=", "≥")
