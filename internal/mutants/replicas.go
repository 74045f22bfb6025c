//go:build unix

package main

// replicaMutants are faults in what a Log takes over from a store that others write to.
var replicaMutants = []mutant{
	{
		name: "damage keeps readers waiting", rule: "G1",
		file: "catchup.go", old: "		if isDamage(ctx, err) {", new: "		if false && isDamage(ctx, err) {",
		pkg: "./enginetest", run: "TestDamageIsToldToReaders",
	},
	{
		name: "replica whose end was lost stays dead", rule: "replicas: who is there is seen",
		file: "replica/look.go", old: "			p.gone = false\n", new: "",
		pkg: "./replica", run: "TestEndThatIsLostMakesMemberAlive",
	},
	{
		name: "stream whose epoch was lost is taken for another stream", rule: "row 3",
		file: "catchup.go", old: "	_, _, same := info.sharedWith(&lv.info)\n",
		new: "	_, same := info.ForkOf(lv.info.Epoch)\n",
		pkg: "./enginetest", run: "TestEpochThatIsLost",
	},
	{
		name: "only the newest of several lost epochs is remembered", rule: "row 9",
		file: "live.go", old: "for i := first; i < len(old); i++ {",
		new: "for i := max(first, len(old)-1); i < len(old); i++ {",
		pkg: "./enginetest", run: "TestEpochThatIsLost",
	},
	{
		name: "open stream is dropped when its store goes back for a moment", rule: "row 3",
		file: "catchup.go", old: "case left && info.End == nil && lv.mayReturn():", new: "case false:",
		pkg: "./enginetest", run: "TestStoreInEpochThatWasLeft",
	},
	{
		name: "ended stream is refused in an epoch that was left", rule: "row 3",
		file: "catchup.go", old: "case same && (!left || info.End != nil):", new: "case same && !left:",
		pkg: "./enginetest", run: "TestStoreInEpochThatWasLeft",
	},
	{
		name: "removal is acknowledged in an epoch that was lost", rule: "G6",
		file: "submit.go", old: "if _, _, same := page.Info.sharedWith(life); !same {",
		new: "if _, same := page.Info.ForkOf(life.Epoch); !same {",
		pkg: "./enginetest", run: "TestRemoveOfLostEpochIsDone",
	},
	{
		name: "cursor of a lost epoch is sent to the beginning", rule: "row 9",
		file: "live.go", old: "	for _, l := range lv.lost {\n", new: "	for _, l := range lv.lost[:0] {\n",
		pkg: "./enginetest", run: "TestEpochThatIsLost",
	},
	{
		name: "removal is acknowledged that the store did in no epoch", rule: "G6",
		file: "submit.go", old: "if _, _, same := page.Info.sharedWith(life); !same {", new: "if true {",
		pkg: "./enginetest", run: "TestRemoveDuringPromotionIsDone",
	},
	{
		name: "trim is acknowledged that the store did in no epoch", rule: "G6",
		file: "submit.go", old: "if err != nil || info.Epoch == epoch {", new: "if err != nil || info.Epoch != \"\" {",
		pkg: "./enginetest", run: "TestTrimDuringPromotionIsDone",
	},
	{
		name: "stream that has gone stays in memory", rule: "a removal that failed after its effect",
		file: "catchup.go", old: "err = errors.Join(l.drop(ctx, lv, err), err)", new: "_ = lv",
		pkg: "./enginetest", run: "TestRemovalThatPanics",
	},
	{
		name: "trim by another replica is not seen beside an append of our own", rule: "G3",
		file: "catchup.go", old: "		lv.trimmed(info.Earliest)\n", new: "",
		pkg: "./enginetest", run: "TestTrimIsSeenBesideOwnAppend",
	},
	{
		name: "Info answers what this replica has put together",
		rule: "G3",
		file: "stream.go",
		old:  "info, err = s.log.look(ctx, lv)",
		new:  "_, err = s.log.look(ctx, lv)\n			info = lv.info",
		pkg:  "./enginetest",
		run:  "TestInfoIsOneView",
	},
	{
		name: "two owners in one group", rule: "Store.Append: an Owner with a higher Fence must become that of the stream; survivor",
		file: "commit.go", old: "if c.opts.Owner != st.owner && c.opts.Owner.Fence <= st.owner.Fence {",
		new: "if c.opts.Owner != lv.info.Owner && c.opts.Owner.Fence <= lv.info.Owner.Fence {",
		pkg: "./enginetest", run: "TestOwner|TestTwoOwnersInOneGroup",
	},
	{
		name: "adopted window moves back",
		rule: "G1, survivor",
		file: "catchup.go",
		old:  "	default:\n		return true, nil\n",
		new:  "	default:\n		lv.extend(page)\n",
		pkg:  "./enginetest",
		run:  "TestTrimmedElsewhere|TestAdoptedWindowDoesNotMoveBack",
	},
	{
		name: "trim that the store has lost is held against newer events", rule: "G3",
		file: "catchup.go", old: "case info.Earliest < before.earliest &&", new: "case false &&",
		pkg: "./enginetest", run: "TestAppendAfterStoreLostTrim",
	},
	{
		name: "loss in the same epoch is adopted",
		rule: "Store must not give their seqs again in the same epoch",
		file: "catchup.go",
		old:  "case info.Epoch == lv.info.Epoch && info.Tail < known:",
		new:  "case false && info.Tail < known:",
		pkg:  "./enginetest",
		run:  "TestLostHistory|TestG1ReaderInTheMiddleIsToldOfALoss",
	},
	{
		name: "reader does not ask the store first", rule: "what a call has changed must be seen by every call that begins afterwards",
		file: "reader.go", old: "		stale = r.stream.log.refresh(ctx, lv)\n", new: "",
		pkg: "./enginetest", run: "TestFollowAnotherReplica|TestCursorOfAnotherReplicaIsAccepted",
	},
	{
		name: "refusal rests on what a replica remembers", rule: "G9",
		file: "commit.go", old: "if !c.asked && m.log.Shared() {", new: "if false {",
		pkg: "./enginetest", run: "TestProducerMoves",
	},
	{
		name: "duplicate rests on what a replica remembers", rule: "G6",
		file: "commit.go", old: "if !c.asked && m.log.Shared() {", new: "if err != nil && !c.asked && m.log.Shared() {",
		pkg: "./enginetest", run: "TestDuplicateOfLostAppendIsStoredAgain",
	},
	{
		name: "a NATS server that cannot read is believed to have no stream", rule: "G1, row 3",
		file: "store/natsstore/fetch.go", old: "	if found != nil || err != nil {", new: "	if true {",
		pkg: "./store/natsstore", run: "TestNothingIsMissingInServerThatCannotRead",
	},
	{
		name: "a NATS server that cannot read is believed to have no messages", rule: "G1, row 3",
		file: "store/natsstore/fetch.go", old: "	if absent {", new: "	if absent && stream == \"\" {",
		pkg: "./store/natsstore", run: "TestNothingIsMissingInServerThatCannotRead",
	},
	{
		name: "page of a newer epoch is handed out", rule: "G1, row 3",
		file: "reader.go", old: "	case page.Info.Epoch != r.epoch, r.next", new: "	case r.next",
		pkg: "./enginetest", run: "TestPageOfNewerEpochIsNotHandedOut",
	},
	{
		name: "commits of a stream overtake a removal", rule: "row 4",
		file: "commit.go", old: "	case lv.held != nil:\n		return errHeld\n", new: "",
		pkg: "./enginetest", run: "TestAppendWaitsWhileItsStreamIsRemoved",
	},
}
