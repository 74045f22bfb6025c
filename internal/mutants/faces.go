//go:build unix

package main

// faceMutants are faults in the faces for clients of other systems.
var faceMutants = []mutant{
	{
		name: "the LF of a CRLF is a line", rule: "R11.1",
		file: "internal/face/execd/lines.go", old: "if l.afterCR && data[0]", new: "if false && data[0]",
		pkg: "./internal/face/execd", run: "TestLinesEnd",
	},
	{
		name: "a long line ends with an empty one", rule: "R11.1",
		file: "internal/face/execd/lines.go", old: "len(l.pending) > 0 || !l.inLine", new: "true",
		pkg: "./internal/face/execd", run: "TestLongLines",
	},
	{
		name: "a resumption repeats the last event", rule: "R11.1",
		file: "internal/face/execd/stream.go", old: "e.EID <= s.after", new: "e.EID < s.after",
		pkg: "./internal/face/execd", run: "TestCutAtEveryByte",
	},
	{
		name: "any exit code is success", rule: "R11.1",
		file: "internal/face/execd/stream.go", old: "*how.ExitCode == 0 && s.thrown", new: "s.thrown",
		pkg: "./internal/face/execd", run: "TestEndIsNeverSuccess",
	},
	{
		name: "a response that is cut ends like a whole one", rule: "R11.1",
		file: "internal/face/execd/stream.go", old: "		panic(http.ErrAbortHandler)\n",
		new: "		_ = http.ErrAbortHandler\n",
		pkg: "./internal/face/execd", run: "TestShutdownCutsResponses",
	},
	{
		name: "lines are counted from what is left", rule: "R11.1",
		file: "internal/face/execd/command.go", old: "if info.Earliest > 1 {", new: "if info.Tail == 0 {",
		pkg: "./internal/face/execd", run: "TestLostOutputIsTold",
	},
	{
		name: "a log has one channel", rule: "R11.1",
		file: "internal/execution/output.go", old: "|| o.channel == Both &&", new: "|| false &&",
		pkg: "./internal/face/execd", run: "TestCutAtEveryByte",
	},
	{
		name: "anybody runs commands as another user", rule: "docs/faces/execd.md",
		file: "internal/face/execd/command.go", old: "	if req.User != \"\" {\n", new: "	if false {\n",
		pkg: "./internal/face/execd", run: "TestEverybodySeesTheirOwn",
	},
	{
		name: "a principal reads commands of other sessions", rule: "docs/faces/execd.md",
		file: "internal/face/execd/command.go",
		old:  "	if err = a.grants().MayRead(x, id); err == nil {\n", new: "	if err == nil {\n",
		pkg: "./internal/face/execd", run: "TestEverybodySeesTheirOwn",
	},
	{
		name: "one of two credentials counts", rule: "docs/security.md",
		file: "internal/web/face.go", old: "len(shown) == 1", new: "len(shown) > 0",
		pkg: "./internal/face/execd", run: "TestRepeatedCredential",
	},
	{
		name: "a directory beside a root is below it", rule: "docs/files.md",
		file: "internal/files/root.go", old: "rel != \"\" && rel[0] != '/'", new: "false",
		pkg: "./internal/face/execd", run: "TestFilesAreRefused",
	},
}
