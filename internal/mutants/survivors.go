//go:build unix

package main

// survivorMutants are faults that the tests did not find at first.
var survivorMutants = []mutant{
	{
		name: "a schedule that is disabled ends before it is told of", rule: "R10.12",
		file: "internal/schedule/run.go", old: "context.WithoutCancel(ctx), mostDisabling", new: "ctx, mostDisabling",
		pkg: "./internal/schedule", run: "TestDisablingOutlivesItsWorker",
	},
	{
		name: "a lost epoch is remembered with a fork that is too late", rule: "G1 of lost events",
		file: "live.go", old: "		fork = min(fork, old[i].Fork)\n", new: "		fork = old[i].Fork\n",
		pkg: ".", run: "TestForkOfLostEpoch",
	},
	{
		name: "the fork of a lost epoch is that of its parent", rule: "G1 of lost events",
		file: "live.go", old: "			return min(fork, l.fork), ok\n", new: "			return fork, ok\n",
		pkg: ".", run: "TestForkOfLostEpoch",
	},
	{
		name: "a stream that is trimmed is evicted", rule: "G6 of trims",
		file: "live.go", old: " && !lv.used && lv.held == nil {", new: " && !lv.used {",
		pkg: "./enginetest", run: "TestHeldStreamStaysInMemory",
	},
	{
		name: "recovery takes a commit of another number", rule: "docs/internals/storage-log.md: recovery",
		file: "store/logstore/recover.go", old: "		if !ok || commit != s.nextCommit {", new: "		if !ok {",
		pkg: "./store/logstore", run: "TestCommitOfAnotherNumberIsNotTaken",
	},
	{
		name: "damage at the edge of a MiB is a torn write", rule: "docs/internals/storage-log.md: recovery",
		file: "store/logstore/recover.go", old: "at += int64(len(chunk) - overlap) {", new: "at += int64(len(chunk)) {",
		pkg: "./store/logstore", run: "TestDamageIsFoundOverTheEdgeOfABlock",
	},
	{
		name: "a mark that is replaced during a snapshot is not in it",
		rule: "docs/internals/storage-log.md: snapshots",
		file: "store/logstore/state.go", old: "		s.save(old)\n", new: "",
		pkg: "./store/logstore", run: "TestMarkReplacedDuringSnapshotIsInIt",
	},
	{
		name: "batches that were trimmed meanwhile are moved", rule: "docs/internals/storage-log.md: giving space back",
		file: "store/logstore/keep.go", old: "			if s.lives(&moves[i], seg) {", new: "			if true {",
		pkg: "./store/logstore", run: "TestBatchTrimmedMeanwhileIsNotMoved",
	},
	{
		name: "after a gap the cursor moves to what was left out before it", rule: "G3 of filters",
		file: "sse/ssehttp/conn.go", old: "	c.moved = 0 // what was left out lies before the gap\n", new: "",
		pkg: "./sse/ssehttp", run: "TestGapEndsWhatWasLeftOut",
	},
	{
		name: "what failed to be written counts as sent", rule: "Options.Sent",
		file: "sse/ssehttp/conn.go", old: "if c.sent != nil && c.Err() == nil {", new: "if c.sent != nil {",
		pkg: "./sse/ssehttp", run: "TestWhatFailedIsNotSent",
	},
	{
		name: "a store of other names keeps its epochs", rule: "G1, G3 of older files put back",
		file: "internal/upkeep/starts.go", old: "	if s.name == \"\" && (kept", new: "	if false && (kept",
		pkg: "./internal/upkeep", run: "TestOlderFilesPutBackKeepContract",
	},
	{
		name: "a crash between both names is taken for older files", rule: "epochs stay where nothing is lost",
		file: "internal/upkeep/starts.go", old: "[]string{kept.Name, kept.Before}", new: "[]string{kept.Name}",
		pkg: "./internal/upkeep", run: "TestEpochsAreKeptOrNotByNamesOfStarts",
	},
	{
		name: "the file keeps the name before", rule: "G1, G3 of older files put back",
		file: "internal/upkeep/starts.go", old: "return n == s.name })", new: "return false })",
		pkg: "./internal/upkeep", run: "TestEpochsAreKeptOrNotByNamesOfStarts",
	},
	{
		name: "a killed server has recorded no name since its start", rule: "G1, G3 of older files put back",
		file: "internal/upkeep/starts.go", old: "				if s.used.Load() {", new: "				if false {",
		pkg: "./internal/upkeep", run: "TestNameChangesAfterAppends",
	},
	{
		name: "an open log goes on in its epoch", rule: "G1, G3 of older files put back",
		file: "store/logstore/state.go", old: "		st.renew(r.epoch)\n", new: "",
		pkg: "./internal/upkeep", run: "TestOlderFilesPutBackKeepContract",
	},
	{
		name: "a segment goes before its frames are acknowledged", rule: "G5: output that no server has yet",
		file: "internal/execution/supervisor/writer.go", old: "		if s.last > w.acked || len(",
		new: "		if len(",
		pkg: "./internal/execution/supervisor", run: "TestFramesThatAreNotAcknowledgedStay",
	},
	{
		name: "a full disk takes frames that are not acknowledged", rule: "G5: output that no server has yet",
		file: "internal/execution/supervisor/writer.go", old: "	if w.acked != w.tail {", new: "	if false {",
		pkg: "./internal/execution/supervisor", run: "TestFramesThatAreNotAcknowledgedStay",
	},
	{
		name: "a run whose supervisor was killed has all output", rule: "G5: what is missing is told",
		file: "internal/execution/adopt.go", old: "		e.OutputTruncated = true // what was in its memory\n",
		new: "",
		pkg: "./internal/execution", run: "TestProcessesLeftByKilledSupervisor",
	},
	{
		name: "Go: a bare id of another epoch may go back", rule: "client rule 2",
		file: "client/track.go", old: "	case t.isRenewed(c.Epoch) && c.Seq <= t.seq:\n", new: "	case false:\n",
		pkg: "./client", run: "TestAnotherEpochNeverGoesBack",
	},
	{
		name: "postgres locks rows in the order of the requests", rule: "Append: calls do not block each other",
		file: "store/pgstore/append.go",
		old:  "	slices.SortFunc(c.order, func(a, b int) int { return compareKeys(reqs[a].Key, reqs[b].Key) })\n",
		new:  "",
		pkg:  "./store/pgstore", run: "TestRowsAreLockedInOrder",
	},
	{
		name: "two keys with one hash are one stream", rule: "Read: the stream of the key",
		file: "store/logstore/streams.go", old: "	if id != 0 && m.has(id, key) {", new: "	if id != 0 {",
		pkg: "./store/logstore", run: "TestKeysOfOneHash",
	},
	{
		name: "a list has no numbers far from the last", rule: "List: each stream exactly once",
		file: "internal/listing/order.go", old: " || !o.parts[last].takes(number) {", new: " {",
		pkg: "./internal/listing", run: "TestNumbersFarApart",
	},
	{
		name: "a case of check-client takes 10 MiB in every process", rule: "memory of a process at rest",
		file: "internal/clienttest/cases_proxies.go", old: "func rewriters() []rewriter {\n",
		new: "var kept = rewriters()\n\nfunc rewriters() []rewriter {\n",
		pkg: "./internal/clienttest", run: "TestCasesTakeNoMemoryBeforeTheyRun",
	},
	{
		name: "the log gives each stream labels of its own", rule: "memory of a stream",
		file: "store/logstore/append.go", old: "			fresh.Config, made.Config = *shared, *shared\n",
		new: "			_ = shared\n",
		pkg: "./store/logstore", run: "TestCreateReturnsSharedConfiguration",
	},
}
