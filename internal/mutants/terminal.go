//go:build unix

package main

// terminalMutants are faults in what makes the terminal of a command that of a person.
var terminalMutants = []mutant{
	{
		name: "writers count each other's bytes",
		rule: "R6.10",
		file: "internal/execution/command/stdin.go",
		old:  "	if writer == \"\" || n == 0 {\n		return\n",
		new:  "	if writer != \"\" || n == 0 {\n		return\n",
		pkg:  "./internal/execution",
		run:  "TestStdinOfSeveralWriters$",
	},
	{
		name: "a server forgets the size of a terminal",
		rule: "R6.10",
		file: "internal/execution/supervised.go",
		old:  "	r.shown = n.State\n",
		new:  "	r.shown.StartedAt, r.shown.Isolation = n.StartedAt, n.Isolation\n",
		pkg:  "./internal/execution",
		run:  "TestTerminalOutlivesItsServer$",
	},
	{
		name: "a screen is drawn without the last event",
		rule: "R6.10",
		file: "internal/execution/streams.go",
		old:  "			return reader.Cursor().Seq, err\n",
		new:  "			return max(reader.Cursor().Seq, 1) - 1, err\n",
		pkg:  "./internal/execution",
		run:  "TestScreenGoesOnAtItsCursor$",
	},
	{
		name: "who watches types",
		rule: "R6.10",
		file: "cmd/reprise/session.go",
		old:  "	if s.readOnly {\n		k.Close",
		new:  "	if s.readOnly && s.id == \"\" {\n		k.Close",
		pkg:  "./cmd/reprise",
		run:  "TestTerminalIsAttachedFromElsewhere$",
	},
	{
		name: "modes are left behind", rule: "R6.10",
		file: "cmd/reprise/terminal.go", old: "	b := t.screen.Leave()\n", new: "	b := []byte(nil)\n",
		pkg: "./cmd/reprise", run: "TestTerminalIsGivenBack$",
	},
	{
		name: "a notice stays",
		rule: "R6.10",
		file: "cmd/reprise/terminal.go",
		old:  "	return t.screen.PaintCursor(t.screen.PaintRow(nil, 0))\n",
		new:  "	return t.screen.PaintCursor(nil)\n",
		pkg:  "./cmd/reprise",
		run:  "TestNoticeLeavesNoTrace$",
	},
	{
		name: "all output is read after an absence", rule: "R6.10",
		file: "cmd/reprise/session.go", old: "const farBehind = 1 << 20\n", new: "const farBehind = 1 << 40\n",
		pkg: "./cmd/reprise", run: "TestReattachedTerminalGetsLastScreen$",
	},
}
