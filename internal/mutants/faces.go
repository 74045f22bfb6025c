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

// relayMutants are faults in the relay.
var relayMutants = []mutant{
	{
		name: "a broken answer ends like a whole one", rule: "R11.4",
		file: "internal/relay/follow.go", old: "how.Outcome != outcomeCompleted {", new: "how.Outcome == \"\" {",
		pkg: "./internal/relay", run: "TestBackendBreaksOff",
	},
	{
		name: "recordings of a killed relay go on for ever", rule: "R11.4",
		file: "internal/relay/relay.go", old: "	return l, l.endLost(ctx)\n", new: "	return l, nil\n",
		pkg: "./internal/relay", run: "TestRelayIsKilled",
	},
	{
		name: "the call ends with its client", rule: "R11.4",
		file: "internal/relay/relay.go", old: "context.WithValue(context.WithoutCancel(c.r.Context()), keyed{}, true)",
		new: "context.WithValue(c.r.Context(), keyed{}, true)",
		pkg: "./internal/relay", run: "TestBackendGoesOn",
	},
	{
		name: "another request under a key gets the answer", rule: "R11.4",
		file: "internal/relay/relay.go", old: "hex.EncodeToString(sum.Sum(nil))", new: "hex.EncodeToString(nil)",
		pkg: "./internal/relay", run: "TestKeys",
	},
	{
		name: "everybody reads a recording", rule: "R11.4",
		file: "internal/relay/follow.go", old: "|| m.Principal != l.principal(r)", new: "|| false",
		pkg: "./internal/relay", run: "TestStop|TestCookiesOfTheSender",
	},
	{
		name: "cookies of an answer are kept", rule: "R11.4",
		file: "internal/relay/record.go", old: "			h.Header.Del(name)\n", new: "",
		pkg: "./internal/relay", run: "TestNothingPrivateIsKept",
	},
	{
		name: "the id of an event is that of the one before", rule: "R11.4",
		file: "internal/relay/follow.go", old: "strconv.FormatUint(e.Seq, 10)", new: "strconv.FormatUint(e.Seq-1, 10)",
		pkg: "./internal/relay", run: "TestCutAtEveryByte",
	},
	{
		name: "an answer without streaming is not passed on under a key", rule: "R11.4",
		file: "internal/relay/relay.go",
		old:  "	if c.rec == nil {\n		if rerr", new: "	if false {\n		if rerr",
		pkg: "./internal/relay", run: "TestOtherAnswersPass",
	},
	{
		name: "the backend does not wait for its client", rule: "R11.4",
		file: "internal/relay/record.go", old: "rec.written-rec.sent > mostBehind", new: "false",
		pkg: "./internal/relay", run: "TestBackendWaitsForItsClient",
	},
	{
		name: "the backend goes on for nobody", rule: "R11.4",
		file: "internal/relay/record.go", old: "rec.cancel(errAlone)", new: "_ = errAlone",
		pkg: "./internal/relay", run: "TestGrace",
	},
	{
		name: "the credential of our server reaches the backend", rule: "docs/relay.md",
		file: "internal/node/relay.go", old: "		r.Header.Del(name)\n", new: "		_ = name\n",
		pkg: "./cmd/reprise", run: "TestServeRelays",
	},
	{
		name: "the rest of a long line is taken for a blank one", rule: "R11.4",
		file: "internal/relay/split.go", old: "len(line) == 0 && !s.inLine", new: "len(line) == 0",
		pkg: "./internal/relay", run: "TestLongBlock",
	},
	{
		name: "a heartbeat comes within an event", rule: "R11.4",
		file: "internal/relay/follow.go", old: " && !f.inside {", new: " {",
		pkg: "./internal/relay", run: "TestHeartbeats",
	},
	{
		name: "a key of an API says nothing of the sender", rule: "R11.4",
		file: "internal/relay/key.go", old: "slices.Concat(DefaultCredentials, l.opts.Credentials)",
		new: "slices.Concat(l.opts.Credentials)", pkg: "./internal/relay", run: "TestKeys",
	},
	{
		name: "a page gets at the backend under a name of its own", rule: "docs/relay.md",
		file: "internal/node/relay.go", old: "!httpserver.HostAllowed(req, n.AllowHosts)", new: "false",
		pkg: "./cmd/reprise", run: "TestRelay$",
	},
	{
		name: "a response that is cut at its size loses what was read already", rule: "R11.3",
		file: "internal/face/durable/read.go",
		old:  "return c, next, reader.Seek(reprise.After(s.Cursor(next - s.meta.base())))",
		new:  "return c, next, nil",
		pkg:  "./internal/face/durable", run: "TestLargeContent",
	},
	{
		name: "an EventSource begins again", rule: "R11.3",
		file: "internal/face/durable/offset.go",
		old:  "id != \"\" && rd.live == liveSSE",
		new:  "false",
		pkg:  "./internal/face/durable", run: "TestCutAtEveryByte",
	},
	{
		name: "a line of content begins a field", rule: "R11.3",
		file: "internal/face/durable/sse.go",
		old:  "bytes.IndexAny(text, \"\\r\\n\")",
		new:  "bytes.IndexAny(text, \"\\n\")",
		pkg:  "./internal/face/durable", run: "TestLinesOfText",
	},
	{
		name: "a reader takes a space away", rule: "R11.3",
		file: "internal/face/durable/sse.go",
		old:  "if text[0] == ' ' {",
		new:  "if false {",
		pkg:  "./internal/face/durable", run: "TestLinesOfText",
	},
	{
		name: "writers with a Stream-Seq overtake each other", rule: "R11.3",
		file: "internal/face/durable/append.go",
		old:  "		opts.Guard = guard\n",
		new:  "",
		pkg:  "./internal/face/durable", run: "TestStreamSeq",
	},
	{
		name: "a HEAD counts as a use", rule: "R11.3",
		file: "internal/face/durable/read.go",
		old:  "	if x.R.Method == http.MethodHead {\n",
		new:  "	if x.R.Method == http.MethodHead && s.use(x.R.Context()) == nil {\n",
		pkg:  "./internal/face/durable", run: "TestTimeToLive",
	},
	{
		name: "a reader that follows does not keep its stream", rule: "R11.3",
		file: "internal/face/durable/sse.go",
		old:  "			if err := f.stay(ctx); err != nil {",
		new:  "			if err := error(nil); err != nil {",
		pkg:  "./internal/face/durable", run: "TestReaderKeepsStreamAlive",
	},
	{
		name: "an expired stream is read", rule: "R11.3",
		file: "internal/face/durable/api.go",
		old:  "case !expires.IsZero() && !time.Now().Before(expires):",
		new:  "case !expires.IsZero() && expires.IsZero():",
		pkg:  "./internal/face/durable", run: "TestTimeToLive",
	},
	{
		name: "anybody forks a stream", rule: "docs/faces/durable-streams.md",
		file: "internal/face/durable/create.go",
		old:  "	if err := grants.MayReadStream(x, key); err != nil {",
		new:  "	if err := grants.MayReadStream(x, key); false {",
		pkg:  "./internal/face/durable", run: "TestAccess",
	},
	{
		name: "a refused fork holds its source", rule: "R11.3",
		file: "internal/face/durable/life.go",
		old:  "m.Fork == nil || m.Fork.ID != id",
		new:  "m.Fork == nil",
		pkg:  "./internal/face/durable", run: "TestForkOfAnotherStream",
	},
	{
		name: "a fork has offsets of its own", rule: "R11.3",
		file: "internal/face/durable/create.go",
		old:  "	f.Base = s.first()\n",
		new:  "	f.Base = 0\n",
		pkg:  "./internal/face/durable", run: "TestForkOfTrimmedStream",
	},
	{
		name: "two paths share a name", rule: "R11.3",
		file: "internal/face/durable/offset.go",
		old:  "(c != '_' || !isEscape(path[i:]))",
		new:  "true",
		pkg:  "./internal/face/durable", run: "TestNamesOfPaths",
	},
	{
		name: "a guard is not compared", rule: "docs/decisions/0081",
		file: "commit.go",
		old:  "	if err := c.isGuarded(st.producers, m.log); err != nil {",
		new:  "	if err := error(nil); err != nil {",
		pkg:  "./enginetest", run: "TestGuard",
	},
	{
		name: "an ended stream does not expire", rule: "config.go, ExpiresLabel",
		file: "commit.go",
		old:  "		if lv.info.Config.Expires().IsZero() {\n",
		new:  "		if true {\n",
		pkg:  "./enginetest", run: "TestStreamsExpire",
	},
}
