package resumetest

import (
	"fmt"
	"io"
	"strings"
)

// Column is the results of one target, as Check returns them.
type Column struct {
	Name    string
	Results []Result
}

// WriteTable writes the results of some targets side by side, as a table in Markdown with a row for each case. Where
// versions differ the cell names those that failed. All columns must have the results of the same cases and versions.
func WriteTable(w io.Writer, columns []Column) error {
	var b strings.Builder
	b.WriteString("| case |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	totals := make([]map[Outcome]int, len(columns))
	for _, c := range cases() {
		fmt.Fprintf(&b, "| %s |", c.name)
		for i, column := range columns {
			outcome, text := cell(c.name, column.Results)
			fmt.Fprintf(&b, " %s |", text)
			if totals[i] == nil {
				totals[i] = map[Outcome]int{}
			}
			totals[i][outcome]++
		}
		b.WriteString("\n")
	}
	b.WriteString("| **passed, failed, not run, not applicable** |")
	for _, n := range totals {
		fmt.Fprintf(&b, " **%d, %d, %d, %d** |", n[Passed], n[Failed], n[NotRun], n[NotApplicable])
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// cell sums up the versions of a case: failed if one failed, passed if one passed and none failed, and not applicable
// if it was at none of them.
func cell(name string, results []Result) (Outcome, string) {
	var failed []string
	passed, notRun := 0, 0
	for _, r := range results {
		switch {
		case r.Case != name:
		case r.Outcome == Failed:
			failed = append(failed, r.Version)
		case r.Outcome == Passed:
			passed++
		case r.Outcome == NotRun:
			notRun++
		}
	}
	switch {
	case len(failed) > 0 && passed > 0:
		return Failed, "**failed** at " + strings.Join(failed, ", ")
	case len(failed) > 0:
		return Failed, "**failed**"
	case passed > 0:
		return Passed, "passed"
	case notRun > 0:
		return NotRun, "not run"
	}
	return NotApplicable, "not applicable"
}
