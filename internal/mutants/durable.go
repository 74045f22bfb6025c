//go:build unix

package main

// durableMutants are faults in stores of files and of servers.
var durableMutants = []mutant{
	{
		name: "stdin whose command has read it is refused", rule: "an answer says what was taken",
		file: "internal/execution/farstdin.go", old: "	if errors.Is(err, reprise.ErrEnded) {", new: "	if false {",
		pkg: "./internal/execution", run: "TestStdinOfCommandThatEndsBeforeTheEnd",
	},
	{
		name: "a lock of who has ended is final", rule: "a server that was killed starts again",
		file: "cmd/reprise/datadir.go", old: "		if exists(lockHolder(lock)) {\n", new: "		if true {\n",
		pkg: "./cmd/reprise", run: "TestLockOfServerThatHasEndedIsWaitedFor",
	},
	{
		name: "cancel of what is just starting does nothing", rule: "an acknowledged cancel ends the run",
		file: "internal/execution/control.go", old: "	r, err = h.findStarted(ctx, key)\n", new: "	r = h.find(key)\n",
		pkg: "./internal/execution", run: "TestCancelOfWhatIsJustStarting",
	},
	{
		name: "output is not held back for its starter", rule: "hold",
		file: "internal/execution/hold.go", old: "	for !r.hold.allows(a) {\n", new: "	for false && !r.hold.allows(a) {\n",
		pkg: "./internal/execution", run: "TestHoldKeepsWhatWasNotRead",
	},
	{
		name: "output is held back for ever", rule: "hold",
		file: "internal/execution/hold.go", old: "		if left <= 0 {\n", new: "		if false {\n",
		pkg: "./internal/execution", run: "TestHoldLapses",
	},
	{
		name: "sqlite syncs nothing", rule: "G6, Append: must be durable; survivor",
		file: "store/sqlitestore/open.go", old: `"PRAGMA synchronous="+level`, new: `"PRAGMA synchronous="+level[:0]+"OFF"`,
		pkg: "./store/sqlitestore", run: "TestEveryConnectionSyncsAsAsked",
	},
	{
		name: "sqlite compares no checksum", rule: "G1, survivor",
		file: "store/sqlitestore/format.go", old: "if n < 0 || binary.LittleEndian.Uint32(b[n:]) != crc32.Checksum(b[:n], castagnoli) {", new: "if n < 0 {",
		pkg: "./store/sqlitestore", run: "TestUnsealFindsEachFlippedBit|TestDamageIsNotServed",
	},
	{
		name: "the log does not sync a commit", rule: "G6, Append: must be durable",
		file: "store/logstore/commit.go", old: "	if err == nil {\n		err = seg.file.sync()\n	}\n", new: "",
		pkg: "./store/logstore", run: "TestCrashStates",
	},
	{
		name: "the log goes on behind a roll that has failed", rule: "G6, Append: must be durable",
		file: "store/logstore/segment.go", old: "s.active.failed = true", new: "_ = s.active",
		pkg: "./store/logstore", run: "TestCrashStates",
	},
	{
		name: "the log believes a sync that came after a failed one", rule: "G6, Append: must be durable",
		file: "store/logstore/recover.go", old: "seg.file.WriteAt(frame, seg.end-int64(len(frame)))", new: "seg.file.WriteAt(nil, 0)",
		pkg: "./store/logstore", run: "TestCrashStates",
	},
	{
		name: "the log compares no checksum of a batch", rule: "G1",
		file: "store/logstore/read.go", old: "if le.Uint32(bytes) != batchSum(v.id, b.first, uint64(b.count), bytes[sumBytes:]) {", new: "if false {",
		pkg: "./store/logstore", run: "TestFlips",
	},
	{
		name: "nats compares no checksum", rule: "G1, survivor",
		file: "store/natsstore/read.go", old: "	if sumOf(b) != e.sum {", new: "	if false {",
		pkg: "./store/natsstore", run: "TestChecksumOfABatchIsCompared",
	},
	{
		name: "nats believes a server that was started again", rule: "G1",
		file: "store/natsstore/boot.go", old: "last.seq < first &&", new: "false && last.seq < first &&",
		pkg: "./store/natsstore", run: "TestLossNobodyHasSeen|TestLossIsToldWhenAsMuchIsThereAgain",
	},
	{
		name: "nats does not see that its server was started again", rule: "G1",
		file: "store/natsstore/boot.go", old: `id != "" && id == last.server {`, new: `last.server != "" {`,
		pkg: "./store/natsstore", run: "TestLossIsToldWhenAsMuchIsThereAgain|TestRestartLosesNothing",
	},
	{
		name: "sqlite stores a large batch in two commits", rule: "Append: each request must be stored whole or not at all",
		file: "store/sqlitestore/append.go", old: "		err = w.transact(write)\n", new: "		err = write()\n",
		pkg: "./store/sqlitestore", run: "TestLargeBatchAndJournalAreOneTransaction",
	},
	{
		name: "sqlite forgets takeovers", rule: "Append: must be durable",
		file: "store/sqlitestore/append.go", old: "			e.owner = &req.Owner\n", new: "			_ = e.owner\n",
		pkg: "./store/sqlitestore", run: "TestStore/owners",
	},
	{
		name: "sqlite reads a page that was trimmed meanwhile", rule: "Read: must be one consistent view",
		file: "store/sqlitestore/read.go", old: "return page, c.room <= 0 || c.next > c.tail, nil", new: "return page, true, nil",
		pkg: "./store/sqlitestore", run: "TestStore/read/while it changes|TestDamageIsNotServed",
	},
	{
		name: "sqlite trims what is not there", rule: "Remove: trimming a stream that does not exist returns ErrNotFound",
		file: "store/sqlitestore/remove.go", old: "if errors.Is(err, reprise.ErrNotFound) && !trim {", new: "if errors.Is(err, reprise.ErrNotFound) {",
		pkg: "./store/sqlitestore", run: "TestStore/remove",
	},
	{
		name: "sqlite does not wait for calls under way", rule: "Close: must wait for calls under way",
		file: "store/sqlitestore/store.go", old: "	s.closed = true\n	s.use.Unlock()\n	close(s.stop)\n", new: "	s.use.Unlock()\n	close(s.stop)\n",
		pkg: "./store/sqlitestore", run: "TestStore/close",
	},
	{
		name: "driver's error leaves the store", rule: "Store: an error must not wrap one of a driver",
		file: "internal/border/border.go", old: `return fmt.Errorf("%w: %v", reprise.ErrUnavailable, err)`, new: `return fmt.Errorf("%w: %w", reprise.ErrUnavailable, err)`,
		pkg: "./store/sqlitestore", run: "TestNoErrorOfADriverLeavesTheStore",
	},
	{
		name: "disk that was full stays full", rule: "Store: it must work again by itself once the cause is gone",
		file: "store/sqlitestore/append.go", old: "	if err != nil && !w.conn.AutocommitEnabled() {", new: "	if false {",
		pkg: "./store/sqlitestore", run: "TestLargeBatchAndJournalAreOneTransaction",
	},
	{
		name: "redis tells watchers nothing after a restart", rule: "Watcher: moved must be called once changes can be seen again",
		file: "store/redisstore/watch.go", old: "		w.touchAll()\n", new: "",
		pkg: "./store/redisstore", run: "TestWatchOverARestart",
	},
}
