//go:build unix

package main

// engineMutants are faults in the engine.
var engineMutants = []mutant{
	{
		name: "a changed retention is learned by nobody", rule: "G7; decision 47",
		file: "catchup.go", old: "		lv.reconfigure(info) // a lower", new: "		// a lower",
		pkg: "./enginetest", run: "TestOtherReplicaLearnsRetention",
	},
	{
		name: "a smaller retention waits for the next append", rule: "decision 47",
		file: "submit.go", old: "		if err := l.trimToBounds(ctx, lv); err != nil {",
		new: "		if err := error(nil); err != nil {",
		pkg: "./enginetest", run: "TestSmallerRetention",
	},
	{
		name: "what another replica has removed still counts", rule: "old makes room for new, over replicas",
		file: "retention.go", old: "		} else if !removed && !held.foreign {", new: "		} else if !removed {\n			return over.refusal()\n		} else if false {",
		pkg: "./enginetest", run: "TestRoomMadeByAnotherReplica",
	},
	{
		name: "a changed age moves no expiry", rule: "decision 47",
		file: "submit.go", old: "		end.Expires = end.Time.Add(", new: "		_ = end.Time.Add(",
		pkg: "./enginetest", run: "TestMaxAgeOfEndedStream",
	},
	{
		name: "a change is made on what is remembered", rule: "decision 47",
		file: "submit.go", old: "		case errors.Is(err, ErrConflict), errors", new: "		case errors",
		pkg: "./enginetest", run: "TestReplicasConfigureTogether",
	},
	{
		name: "a reader that seeks keeps a page of an older epoch", rule: "G1",
		file: "reader.go", old: "		if r.epoch != r.live.info.Epoch {\n", new: "		if false {\n",
		pkg: "./enginetest", run: "TestSeekDropsPageReadAheadOfOlderEpoch",
	},
	{
		name: "gap in the window is passed over in silence", rule: "G1",
		file: "reader.go", old: "		return Events{}, false, r.gap()", new: "		r.next = lv.info.Earliest",
		pkg: "./enginetest", run: "TestG1ReaderInTheMiddleIsToldOfALoss|TestG1NoSilentLoss",
	},
	{
		name: "cursor beyond the fork is accepted", rule: "G1, row 9",
		file: "live.go", old: "!shared || c.Seq > fork {", new: "!shared || c.Seq > fork+100 {",
		pkg: "./enginetest", run: "TestCursorAtOrBelowForkIsExact|TestReaderIsToldOfForkItIsBeyond",
	},
	{
		name: "reader follows any fork", rule: "G1",
		file: "reader.go", old: "if !ok || r.next-1 > fork {", new: "if r.next = min(r.next, fork+1); !ok {",
		pkg: "./enginetest", run: "TestReaderIsToldOfForkItIsBeyond",
	},
	{
		name: "cursor ahead of the tail is accepted", rule: "G1",
		file: "live.go", old: "	case c.Seq > lv.info.Tail:\n", new: "	case c.Seq > lv.info.Tail+100:\n",
		pkg: "./enginetest", run: "TestCursorRefusals",
	},
	{
		name: "reader skips an event", rule: "G2 G3",
		file: "reader.go", old: "r.next = events.Last() + 1", new: "r.next = events.Last() + 2",
		pkg: "./enginetest", run: "TestG2NoDuplicates|TestG3OneOrder|TestReaderContract",
	},
	{
		name: "reader gets an event twice", rule: "G2",
		file: "reader.go", old: "r.next = events.Last() + 1", new: "r.next = max(events.First()+1, events.Last())",
		pkg: "./enginetest", run: "TestG2NoDuplicates|TestReaderContract",
	},
	{
		name: "two appends of a commit get the same seq", rule: "G3",
		file: "commit.go", old: "next := st.first + uint64(st.count)", new: "next := st.first",
		pkg: "./enginetest", run: "TestG3OneOrder|TestAppendsOfOneCommitAreToldTheirSeqs",
	},
	{
		name: "stream ends twice in a commit", rule: "G4",
		file: "commit.go", old: "if st.end != nil || lv.info.End != nil {", new: "if lv.info.End != nil {",
		pkg: "./enginetest", run: "TestG4OneEnd|TestOneEndInACommit",
	},
	{
		name: "failed read is the end of the stream", rule: "G4, row 2",
		file: "reader.go", old: "if errors.Is(err, ErrEnded) { // which", new: "if false { // which",
		pkg: "./enginetest", run: "TestFailedReadIsNotTheEnd",
	},
	{
		name: "reader that closes wakes all others", rule: "G5, row 6",
		file: "reader.go", old: "	r.closed = true\n", new: "	r.closed = true\n	lv.wakeAll()\n",
		pkg: "./enginetest", run: "TestG5ReadingIsHarmless|TestCloseWakesNoOtherReader",
	},
	{
		name: "failed commit is acknowledged",
		rule: "G6, row 1",
		file: "commit.go",
		old:  "	default:\n		c.verdict.decide(Appended{}, err)\n",
		new:  "	default:\n		c.verdict.decide(c.found, nil)\n",
		pkg:  "./enginetest",
		run:  "TestG6AcknowledgedIsKept|TestFailedCommit|TestAppendIsNotAcknowledgedWhenItsBatchFailed",
	},
	{
		name: "verdict is set again", rule: "G6, row 1",
		file: "committer.go", old: "	if !v.decided {", new: "	if true {",
		pkg: "./enginetest", run: "TestRefusalStaysWhenItsGroupPanics|TestAppendIsNotAcknowledgedWhenItsBatchFailed",
	},
	{
		name: "batch is shown before it is stored", rule: "G6",
		file: "commit.go", old: "	errs := m.log.store.Append(", new: "	for i := range m.batches {\n		m.publish(&m.batches[i])\n	}\n	errs := m.log.store.Append(",
		pkg: "./enginetest", run: "TestG6DeliveryFollowsCommit",
	},
	{
		name: "cancelled waiter returns in its commit", rule: "G6, survivor",
		file: "committer.go", old: "left := m.waiting.Load() == g", new: "left := true",
		pkg: "./enginetest", run: "TestCancelledInItsCommit|TestCancelledWaiterStaysInItsCommit",
	},
	{
		name: "readers of a stream are not bounded", rule: "G7",
		file: "reader.go", old: "if lv.readers >= log.opts.MaxReaders {", new: "if false {",
		pkg: "./enginetest", run: "TestReaderLimit",
	},
	{
		name: "hot tail is not bounded", rule: "G7",
		file: "live.go", old: "(lv.hotBytes > limit ||", new: "(false ||",
		pkg: "./enginetest", run: "TestG7Bounded|TestHotTailsShareOneBound",
	},
	{
		name: "simulator: hot tail is not bounded", rule: "G7",
		file: "live.go", old: "(lv.hotBytes > limit ||", new: "(false ||",
		pkg: "./internal/sim", run: "TestSim$",
	},
	{
		name: "simulator: trimmed window moves back", rule: "G1",
		file: "retention.go", old: "	if earliest > st.earliest {\n", new: "	if earliest > 0 {\n",
		pkg: "./internal/sim", run: "TestSim$",
	},
	{
		name: "open stream drops its events at the bound of all", rule: "an open stream loses nothing to another",
		file: "retention.go", old: "sizes.oldest(st.earliest, own)",
		new: "sizes.oldest(st.earliest, max(own, others.bytes))",
		pkg: "./enginetest", run: "TestTotalsCostNoStreamItsEvents/memory",
	},
	{
		name: "small events do not count their fixed cost", rule: "Retention.MaxBytes is the bound",
		file: "retention.go", old: "kept + eventOverhead*int64(events) -",
		new: "kept + 0*int64(events) -",
		pkg: "./enginetest", run: "TestBytesBoundEmptyEvents",
	},
	{
		name: "job that prints 12,000 lines loses some", rule: "R3.1",
		file: "config.go", old: "MaxEvents: 1_000_000", new: "MaxEvents: 10_000",
		pkg: "./enginetest", run: "TestJobOfAnHourIsKeptWhole",
	},
	{
		name: "append is refused while ended streams are kept", rule: "old makes room for new",
		file: "submit.go", old: "case isFull(err) && try < maxTries:", new: "case isFull(err) && try < 0:",
		pkg: "./enginetest", run: "TestOldMakesRoomForNew/memory",
	},
	{
		name: "streams are listed for each append without room", rule: "G7",
		file: "retention.go", old: "	q.whole = !missing && q.noting\n", new: "",
		pkg: "./enginetest", run: "TestMakingRoomListsOnce",
	},
	{
		name: "stream keeps more events than it may", rule: "G7",
		file: "commit.go", old: "c.found.Last - bound + 1)", new: "c.found.Last - bound)",
		pkg: "./enginetest", run: "TestCountBound|TestG7Bounded",
	},
	{
		name: "cursor holds for every tenant",
		rule: "G8",
		file: "cursor.go",
		old:  "[]string{string(stream.Tenant), stream.Name, string(epoch)}",
		new:  "[]string{stream.Name, string(epoch)}",
		pkg:  "./enginetest",
		run:  "TestG8TenantsAreIsolated|TestSignAndVerify",
	},
	{
		name: "tag of a cursor is not compared", rule: "G8",
		file: "live.go", old: "if !matches(lv.tags, c.Tag) {", new: "if false {",
		pkg: "./enginetest", run: "TestG8TenantsAreIsolated|TestCursorRefusals",
	},
	{
		name: "tag of a cursor of an older epoch is not compared", rule: "G8",
		file: "live.go", old: "if !matches(keys.cursorTags(lv.key, c.Epoch), c.Tag) {", new: "if false {",
		pkg: "./enginetest", run: "TestG8TenantsAreIsolated|TestCursorRefusals",
	},
	{
		name: "gap of a producer is accepted", rule: "G9",
		file: "appender.go", old: "	case p.Seq > next:\n", new: "	case p.Seq > next+1:\n",
		pkg: "./enginetest", run: "TestG9CreationAndAppendTakeEffectOnce|TestProducers",
	},
	{
		name: "duplicate of a producer is stored again", rule: "G9",
		file: "appender.go", old: "	case p.Seq == next:\n", new: "	case p.Seq <= next:\n",
		pkg: "./enginetest", run: "TestG9CreationAndAppendTakeEffectOnce|TestProducers",
	},
	{
		name: "older epoch of a producer is accepted", rule: "G9",
		file: "appender.go", old: "	if p.Epoch < newest.Epoch {\n", new: "	if p.Epoch+100 < newest.Epoch {\n",
		pkg: "./enginetest", run: "TestProducers",
	},
	{
		name: "batch begins where a refused append saw the end", rule: "G3 G6",
		file: "commit.go", old: "case b != st.block || len(b.buf) != len(st.buf) || lv",
		new: "case b != st.block || lv",
		pkg: "./enginetest", run: "TestRefusedAppendLeavesNoBatchBehind",
	},
	{
		name: "time of an event misses that the clock was set", rule: "Event.Time",
		file: "store.go", old: "since >= wallEvery", new: "since >= 1000*wallEvery",
		pkg: ".", run: "TestClockFollowsAStepOfTheWallClock",
	},
	{
		name: "duplicate in a commit stands when the commit fails", rule: "G9",
		file: "commit.go", old: "	c.joined = lv.staged != 0\n", new: "	c.joined = false\n",
		pkg: "./enginetest", run: "TestRepeatFallsWithItsOriginal",
	},
	{
		name: "panic leaves its group without a verdict", rule: "row 5",
		file: "committer.go", old: "		if !finished {", new: "		if false && !finished {",
		pkg: "./enginetest", run: "TestPanicFailsItsGroup|TestLogWorksAfterPanicInStore",
	},
	{
		name: "each call without room begins a group", rule: "no append waits for later ones",
		file: "committer.go", old: "	for n < len(m.overdue) {", new: "	for false {",
		pkg: "./enginetest", run: "TestLargeAppendDoesNotWaitForLaterOnes",
	},
}
