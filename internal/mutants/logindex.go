//go:build unix

package main

// logIndexMutants are faults of the runs of streams and of the indexes of segments of the log.
var logIndexMutants = []mutant{
	{
		name: "the space of a divided run counts at its first part", rule: "G6: what is live is kept",
		file: "store/logstore/runs.go",
		old:  "before, behind := run{r.first, r.segment, 0}, run{last + 1, r.segment, r.space}",
		new:  "before, behind := run{r.first, r.segment, r.space}, run{last + 1, r.segment, 0}",
		pkg:  "./store/logstore", run: "TestRunsAreThoseOfSlice",
	},
	{
		name: "the space of a run that is moved is lost to those before", rule: "G6: what is live is kept",
		file: "store/logstore/runs.go", old: "(j < i || other < i) {", new: "j > i && other < i {",
		pkg: "./store/logstore", run: "TestRunsAreThoseOfSlice",
	},
	{
		name: "settled batches stay in the oldest run", rule: "docs/internals/storage-log.md: bounds",
		file: "store/logstore/runs.go", old: "	p.first = first\n	return less\n", new: "	return less\n",
		pkg: "./store/logstore", run: "TestRunsAreThoseOfSlice",
	},
	{
		name: "a moved batch lies behind those of the newest chunk", rule: "Read: in order",
		file: "store/logstore/places.go", old: "	case b.first < p.next: // it was moved",
		new: "	case b.first < p.next && false:",
		pkg: "./store/logstore", run: "TestPlacesAreThoseOfSlice",
	},
	{
		name: "what trims leave counts as live for ever", rule: "docs/internals/storage-log.md: bounds",
		file: "store/logstore/state.go", old: "		s.trimmed = append(s.trimmed, st.id)\n", new: "",
		pkg: "./store/logstore", run: "TestTrimmedBatchesDoNotCount",
	},
	{
		name: "indexes stay in memory", rule: "docs/internals/storage-log.md: memory",
		file: "store/logstore/keep.go", old: "	if !tight {\n		s.writeIndexes()\n	}\n", new: "",
		pkg: "./store/logstore", run: "TestDirectoryOfEarlierVersionOpens|TestPagesOverIndexes",
	},
	{
		name: "an index that lacks batches is written", rule: "G1: damage is told",
		file: "store/logstore/index.go",
		old:  "	seg.unwritten = !whole\n", new: "	seg.unwritten = !whole && false\n",
		pkg: "./store/logstore", run: "TestDamagedCommitCostsItsBatchesAlone",
	},
	{
		name: "a damaged block of an index is believed", rule: "G1: damage is told",
		file: "store/logstore/index.go",
		old:  "	if le.Uint32(block) != seg.sum(at, block[sumBytes:]) {", new: "	if false {",
		pkg: "./store/logstore", run: "TestFlips",
	},
	{
		name: "the top of an index is believed", rule: "G1: damage is told",
		file: "store/logstore/index.go",
		old:  "	if le.Uint32(foot[16:]) != seg.sum(blocks, top) {", new: "	if false {",
		pkg: "./store/logstore", run: "TestFlips",
	},
	{
		name: "a damaged commit costs all behind it", rule: "G1: damage is told of what it concerns",
		file: "store/logstore/index.go",
		old:  "	if at+size+frameBytes > seg.end {\n		return 0, nil\n",
		new:  "	if true {\n		return 0, nil\n",
		pkg:  "./store/logstore", run: "TestDamagedCommitCostsItsBatchesAlone",
	},
	{
		name: "a page is short where space counts elsewhere", rule: "Read: batches cover everything",
		file: "store/logstore/read.go",
		old:  "(bytes >= maxBytes || !more) {", new: "(bytes >= maxBytes || !more || true) {",
		pkg: "./store/logstore", run: "TestPageOfSpaceThatCountsElsewhere",
	},
	{
		name: "snapshots of earlier versions are not read", rule: "docs/compatibility.md",
		file: "store/logstore/snapshot.go",
		old:  "	case oldSnapshotMagic:\n		h.batches", new: "	case \"\":\n		h.batches",
		pkg: "./store/logstore", run: "TestDirectoryOfEarlierVersionOpens",
	},
	{
		name: "a move leaves what the source no longer has", rule: "store move: the store as it is",
		file: "internal/upkeep/move.go",
		old:  "		if err := to.Remove(ctx, key, reprise.RemoveSpec{}); err != nil {",
		new:  "		if err := error(nil); err != nil {",
		pkg:  "./internal/upkeep", run: "TestMoveGoesOn",
	},
	{
		name: "a move empties a store of others", rule: "store move: nothing else is touched",
		file: "internal/upkeep/move.go", old: "		if !ours {", new: "		if false {",
		pkg: "./internal/upkeep", run: "TestMoveGoesOn",
	},
	{
		name: "a move that failed changes the names", rule: "store move: all or nothing",
		file: "cmd/reprise/storemove.go",
		old:  "	if err = errors.Join(err, source.Close(), store.Close()); err != nil {",
		new:  "	if err = errors.Join(source.Close(), store.Close()); err != nil {",
		pkg:  "./cmd/reprise", run: "TestScripts/store_move",
	},
	{
		name: "a directory of SQLite begins with a log", rule: "an existing directory goes on",
		file: "internal/storeurl/place.go", old: "filepath.Join(dir, names[\"sqlite\"])); err == nil {",
		new: "filepath.Join(dir, names[\"sqlite\"])); err == nil && false {",
		pkg: "./internal/storeurl", run: "TestDefault",
	},
	{
		name: "an export has what is no longer kept", rule: "store export: the window",
		file: "internal/upkeep/export.go", old: "				if e.Seq <= after || e.Seq > info.Tail {",
		new: "				if false {",
		pkg: "./cmd/reprise", run: "TestScripts/store_move",
	},
	{
		name: "a full log forgets no mark", rule: "docs/operate.md: limits",
		file: "store/logstore/append.go", old: "range g.s.marks.first(maxTime, forgotten, g.s.takeDue(true)) {",
		new: "range g.s.marks.first(maxTime, 0, g.s.takeDue(true)) {",
		pkg: "./store/logstore", run: "TestStreamsAreBounded",
	},
	{
		name: "streams of a log are not bounded", rule: "docs/operate.md: limits",
		file: "store/logstore/append.go", old: "	if held < most {", new: "	if true || held < most {",
		pkg: "./store/logstore", run: "TestStreamsAreBounded",
	},
	{
		name: "a file whose write has failed gets an index", rule: "G6: a failed file is not written again",
		file: "store/logstore/index.go", old: " && !seg.failed && !seg.unwritten {", new: " && !seg.unwritten {",
		pkg: "./store/logstore", run: "TestFailedSyncStopsWrites",
	},
	{
		name: "a stream that wakes during a snapshot is in it twice", rule: "docs/storage-log.md: snapshots",
		file: "store/logstore/state.go", old: "			st.saved = s.snapshot.number\n		}\n	}\n",
		new: "		}\n	}\n", pkg: "./store/logstore", run: "TestStreamsAtRestAreChanged",
	},
	{
		name: "streams stay in memory when they have ended", rule: "docs/storage-log.md: memory",
		file: "store/logstore/state.go", old: "	if err == nil && st.end != nil && !st.trimmed && s.snapshot == nil &&",
		new: "	if false &&", pkg: "./store/logstore", run: "TestEndedStreamsRest",
	},
	{
		name: "a stream that ends during a snapshot is in it as it was later", rule: "docs/storage-log.md: snapshots",
		file: "store/logstore/state.go", old: "!st.trimmed && s.snapshot == nil &&", new: "!st.trimmed &&",
		pkg: "./store/logstore", run: "TestStreamsAtRestAreChanged",
	},
	{
		name: "streams that do not change stay in memory", rule: "docs/storage-log.md: memory",
		file: "store/logstore/snapshot.go", old: "	if st.still && !st.trimmed {",
		new: "	if false {", pkg: "./store/logstore", run: "TestEndedStreamsRest",
	},
	{
		name: "a stream that gets its time of expiry again is swept twice", rule: "Sweep: each stream is returned once",
		file: "store/logstore/due.go", old: "st != nil && d != before {", new: "st != nil && (true || d != before) {",
		pkg: "./store/logstore", run: "TestQueueGivesWhatIsDue",
	},
	{
		name: "the times of streams that were removed stay", rule: "docs/storage-log.md: memory",
		file: "store/logstore/due.go", old: "2*q.gone <= len(q.heap)+64 {", new: "true {",
		pkg: "./store/logstore", run: "TestQueueOfWhatWasRemoved",
	},
	{
		name: "the bytes of streams that were removed stay", rule: "docs/storage-log.md: memory",
		file: "store/logstore/streams.go", old: "b.used < len(b.bytes)/2 {", new: "b.used < 0 {",
		pkg: "./store/logstore", run: "TestBedsAreGivenBack",
	},
	{
		name: "a list of open streams looks at those that have ended", rule: "G4: start",
		file: "store/logstore/read.go", old: "	if q.Open {", new: "	if false {",
		pkg: "./store/logstore", run: "TestOpenStreamsAreFoundBesideEndedOnes",
	},
	{
		name: "the labels of a stream that rests are not compared", rule: "List: labels",
		file: "store/logstore/skim.go", old: "string(has) != value {",
		new: "string(has) != value && false {",
		pkg: "./store/logstore", run: "TestEndedStreamsRest",
	},
}
