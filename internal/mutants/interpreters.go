//go:build unix

package main

// interpreterMutants are faults in interpreters that remember, and in artifacts.
var interpreterMutants = []mutant{
	{
		name: "a prompt overtakes output that nobody reads yet", rule: "docs/mcp-tools.md, order",
		file: "internal/execution/command/pump.go",
		old:  "		p.buf = make([]byte, readBytes)\n", new: "		return\n",
		pkg: "./internal/execution/command", run: "TestStderrWaitsForStdoutThatIsNotPumpedYet",
	},
	{
		name: "half of a character is lost when its pump begins", rule: "docs/mcp-tools.md, order",
		file: "internal/execution/command/pump.go",
		old:  "		if p.buf == nil { // otherwise catchUp came first\n", new: "		if true {\n",
		pkg: "./internal/execution/command", run: "TestStderrWaitsForStdoutThatIsNotPumpedYet",
	},
	{
		name: "output of code that was cut twice is there twice",
		rule: "G2 R6.11",
		file: "internal/execution/inside.go",
		old:  "		events = events[min(uint64(len(events)), r.tail-tail):]\n",
		new:  "",
		pkg:  "./internal/execution",
		run:  "TestOutputCutTwiceIsStoredOnce",
	},
	{
		name: "what is guessed is the end of code",
		rule: "R6.11",
		file: "internal/execution/interpreter/slice.go",
		old:  "		if string(rest[:len(mark)]) != mark {\n",
		new:  "		if false {\n",
		pkg:  "./internal/execution/interpreter",
		run:  "TestFramesAreFoundHoweverTheyAreCut",
	},
	{
		name: "a call of a window runs where the server does", rule: "R6.14",
		file: "cmd/reprise/mcp.go", old: "node.WindowsClient(dir), Directory: here(),",
		new: "node.WindowsClient(dir),",
		pkg: "./cmd/reprise", run: "TestWindowsRunInTheirOwnDirectories",
	},
	{
		name: "the roots of a host are not asked for", rule: "R6.14",
		file: "internal/mcpserver/directory.go",
		old:  "		if root := s.root(ctx, session); root != \"\" {\n",
		new:  "		if root := s.root(ctx, session); root == \"?\" {\n",
		pkg:  "./cmd/reprise", run: "TestRunsWorkInRoots",
	},
	{
		name: "roots that have changed are not asked for again", rule: "R6.14",
		file: "internal/mcpserver/directory.go",
		old:  "	if known && root != unknownRoot {\n", new: "	if known {\n",
		pkg: "./cmd/reprise", run: "TestRunsWorkInRoots",
	},
	{
		name: "an interpreter of a window starts where the server does", rule: "R6.14",
		file: "internal/mcpserver/interpreter.go", old: "Session: in.Session, Cwd: dir,", new: "Session: in.Session,",
		pkg: "./cmd/reprise", run: "TestWindowsRunInTheirOwnDirectories",
	},
	{
		name: "artifacts are read from a working directory below what is hidden", rule: "R6.12 R6.13",
		file: "internal/artifact/collect_unix.go",
		old:  "		case slices.Contains(hidden, idOf(st)):\n", new: "		case false:\n",
		pkg: "./internal/artifact", run: "TestHiddenDirectoryIsRefusedUnderEveryName",
	},
	{
		name: "artifacts are read from a hidden directory that has another name", rule: "R6.12 R6.13",
		file: "internal/execution/artifact.go",
		old:  "Masked: identities(r.isolation.Masks),", new: "Masked: nil,",
		pkg: "./internal/execution", run: "TestHiddenDirectoryThatWasRenamedHasNoArtifacts",
	},
	{
		name: "artifacts are read from what has the name of the working directory at the end", rule: "R6.12 R6.13",
		file: "internal/artifact/collect_unix.go",
		old:  "	patience := cmp.Or(", new: "	c.openDir()\n	patience := cmp.Or(",
		pkg: "./internal/artifact", run: "TestCollectReadsDirectoryThatWasOpened",
	},
	{
		name: "artifacts are read from another directory after a restart", rule: "R6.12 R6.13",
		file: "internal/artifact/collect_unix.go", old: "id != c.Place {", new: "id == (ID{}) {",
		pkg: "./internal/execution", run: "TestNextHostCollectsFromSameDirectory",
	},
	{
		name: "artifacts are read without the isolation of the command", rule: "R6.12 R6.13",
		file: "internal/execution/collector_linux.go",
		old:  "startCollector(r.host.system.Spawner, plan, dir)", new: "startCollector(r.host.system.Spawner, &isolation.Plan{User: plan.User}, dir)",
		pkg: "./internal/execution", run: "TestArtifactsAreWhatTheCommandReads|TestArtifactsOfAnotherUser",
	},
	{
		name: "collector that hangs is waited for", rule: "R6.12",
		file: "internal/execution/collector_linux.go",
		old:  "	defer context.AfterFunc(ctx, end)()\n", new: "",
		pkg: "./internal/execution", run: "TestCollectorThatHangs",
	},
	{
		name: "collector is believed", rule: "R6.12",
		file: "internal/artifact/collector.go",
		old:  "if !describes(r.Files, chunks) ||", new: "if",
		pkg: "./internal/artifact", run: "TestReceiveTakesNothingForGranted",
	},
	{
		name: "pipe in place of an artifact is opened", rule: "R6.12",
		file: "internal/artifact/open_linux.go",
		old:  "openAt(at, name, unix.O_PATH)", new: "openAt(at, name, unix.O_RDONLY)",
		pkg: "./internal/artifact", run: "TestNothingButFilesIsOpened",
	},
	{
		name: "artifacts are read behind links", rule: "R6.12 R6.13",
		file: "internal/artifact/collect_unix.go", old: "unix.O_NOFOLLOW | ", new: "",
		pkg: "./internal/artifact", run: "TestCollectFollowsNoLinkThatComesLate",
	},
	{
		name: "cancellation does not end the collection of artifacts", rule: "R6.12",
		file: "internal/execution/command/decision.go", old: "		d.call()\n", new: "",
		pkg: "./internal/execution", run: "TestCancelEndsCollection",
	},
	{
		name: "request has a time of grace without bound", rule: "R6.5",
		file: "internal/execution/request.go", old: "time.Duration(r.Grace) > maxGrace {", new: "false {",
		pkg: "./internal/execution", run: "TestInvalidRequests",
	},
	{
		name: "reader ends a run by leaving it", rule: "R6.6",
		file: "internal/execution/follow.go", old: "!may(session, starter) {", new: "!may(session, starter) && false {",
		pkg: "./internal/api", run: "TestReaderEndsNoRunByLeaving",
	},
	{
		name: "turn of a queued command is not written down before it is started", rule: "G9 R6.7",
		file: "internal/execution/supervised.go", old: "	err := r.beginKept()\n", new: "	err := error(nil)\n",
		pkg: "./internal/execution", run: "TestQueuedStartIsRecordedFirst",
	},
	{
		name: "refused input does not say how much was accepted", rule: "decision 61",
		file: "internal/execution/supervisor/messages.go",
		old:  "		return &s.Taken, *s.Refused\n", new: "		return nil, *s.Refused\n",
		pkg: "./internal/execution/supervisor", run: "TestAnswersPassAHop",
	},
	{
		name: "input of a named writer goes as that of nobody", rule: "decision 61",
		file: "internal/execution/command/control.go", old: "	if p.Writer != \"\" {\n", new: "	if false {\n",
		pkg: "./internal/execution/supervisor", run: "TestCallsAreThoseOfEarlierVersions",
	},
	{
		name: "a run that a supervisor has waits for a turn", rule: "R6.7",
		file: "internal/execution/queue.go", old: "r.remote != nil || q.fits(l, r)\n", new: "q.fits(l, r)\n",
		pkg: "./internal/execution", run: "TestAdoptedRunsKeepTheirTurns",
	},
	{
		name: "supervisor that comes too late starts the command", rule: "G9 R6.7",
		file: "internal/execution/supervisor/process_linux.go",
		old:  "attemptIn(next.Dir) != next.Attempt {", new: "false {",
		pkg: "./internal/execution/supervisor", run: "TestSupervisorThatComesTooLate",
	},
	{
		name: "queued command is started again of which a supervisor had the lock", rule: "G9 R6.7",
		file: "internal/execution/waiting.go",
		old:  "		if supervisor.HasBegun(dir) {\n", new: "		if false {\n",
		pkg: "./internal/execution", run: "TestQueuedExecutionAfterCrashStartsOnceOrIsLost",
	},
	{
		name: "queued command is lost of which a supervisor without a command has the lock", rule: "G9 R6.7",
		file: "internal/execution/waiting.go",
		old:  "lock, err := supervisor.LockDead(dir)", new: "lock, err := supervisor.Lock(dir)",
		pkg: "./internal/execution", run: "TestQueuedExecutionAfterCrashStartsOnceOrIsLost",
	},
	{
		name: "command has the timer slack of its supervisor", rule: "R6.7",
		file: "internal/execution/supervisor/process_linux.go", old: "	wakeSpawner(o.system.Spawner)\n", new: "",
		pkg: "./internal/execution", run: "TestTimerSlackOfCommandIsThatOfServer",
	},
	{
		name: "spare directory says that a command has begun", rule: "G9 R6.7",
		file: "internal/execution/supervisor/spare_linux.go", old: "s.lock.Truncate(0) != nil || ", new: "",
		pkg: "./internal/execution", run: "TestSpareDirectoryServesRunAfterRun",
	},
	{
		name: "run has the files that an earlier run had before the machine crashed", rule: "R6.7",
		file: "internal/execution/supervised.go",
		old:  "b.Run != \"\" && b.Run != filepath.Base(dir) {", new: "false {",
		pkg: "./internal/execution", run: "TestFilesOfAnotherRunAreIgnored",
	},
	{
		name: "segment is read that an earlier run had before the machine crashed", rule: "R6.7",
		file: "internal/execution/supervisor/frame.go", old: "tag != runTag(dir)", new: "false",
		pkg: "./internal/execution/supervisor", run: "TestSegmentOfAnotherRunIsIgnored",
	},
	{
		name: "call that comes late reaches the next run of the supervisor", rule: "R6.7",
		file: "internal/execution/supervisor/conn.go", old: "first.Run != filepath.Base(dir) {", new: "false {",
		pkg: "./internal/execution/supervisor", run: "TestCallForAnotherRunIsRefused",
	},
	{
		name: "queue is taken up in another order", rule: "R6.7",
		file: "internal/execution/requeue.go",
		old:  "cmp.Compare(a.Arrived, b.Arrived)", new: "cmp.Compare(b.Arrived, a.Arrived)",
		pkg: "./internal/execution", run: "TestQueueOutlivesTheServer",
	},
}
