//go:build unix

package main

// fullDiskMutants are faults of stores whose disk is full or whose files are cut.
var fullDiskMutants = []mutant{
	{
		name: "segments do not fit the disk", rule: "docs/internals/storage-log.md: full disk",
		file: "store/logstore/room.go", old: "return max(min(most, free/diskShare), s.leastSegment()), free",
		new: "return max(most, s.leastSegment()), free",
		pkg: "./store/logstore", run: "TestSegmentsFitTheDisk",
	},
	{
		name: "a removal on a full disk does not use the reserve", rule: "docs/internals/storage-log.md: full disk",
		file: "store/logstore/room.go", old: "	if isFull(err) && s.reserve.Release() {", new: "	if false {",
		pkg: "./store/logstore", run: "TestAppendsLeaveTheReserve",
	},
	{
		name: "a snapshot on a full disk waits until it is due", rule: "docs/internals/storage-log.md: full disk",
		file: "store/logstore/keep.go", old: "	if due || pays {", new: "	if due {",
		pkg: "./store/logstore", run: "TestFullDiskGivesBackWhatIsMoved",
	},
	{
		name: "a full disk moves only what is half dead", rule: "docs/internals/storage-log.md: full disk",
		file: "store/logstore/keep.go", old: "		if tight {\n			pays =",
		new: "		if false {\n			pays =",
		pkg: "./store/logstore", run: "TestFullDiskGivesBackWhatIsMoved",
	},
	{
		name: "a refused append makes a file", rule: "docs/internals/storage-log.md: full disk",
		file: "store/logstore/room.go", old: "	if room > free {", new: "	if room > free && false {",
		pkg: "./store/logstore", run: "TestRefusedAppendTouchesNothing",
	},
	{
		name: "appends take what a released reserve was", rule: "docs/internals/storage-log.md: full disk",
		file: "store/logstore/room.go", old: "		if err = s.holdReserve(); err == nil {", new: "		{",
		pkg: "./store/logstore", run: "TestAppendsLeaveTheReserve",
	},
	{
		name: "each append tries a full disk", rule: "docs/internals/storage-log.md: full disk",
		file: "store/logstore/room.go", old: "	if time.Now().Before(s.fullUntil) {", new: "	if false {",
		pkg: "./store/logstore", run: "TestFullDiskIsNotTriedAgainAtOnce",
	},
	{
		name: "an append is refused while space is given back", rule: "docs/internals/storage-log.md: full disk",
		file: "store/logstore/commit.go", old: "|| s.opts.idle || !s.keeper.await(ctx)", new: "|| true",
		pkg: "./store/logstore", run: "TestAppendAfterRemovalOnFullDisk",
	},
	{
		name: "a removal from SQLite does not use the reserve", rule: "docs/internals/storage-sqlite.md: full disk",
		file: "store/sqlitestore/room.go", old: "Release() {\n		_ = w.shrinkLog()\n		err = f()\n",
		new: "Release() {\n		_ = w.shrinkLog()\n",
		pkg: "./store/sqlitestore", run: "TestFullDiskGivesBack",
	},
	{
		name: "a sweep does not know the ends in the journal", rule: "docs/internals/storage-sqlite.md: full disk",
		file: "store/sqlitestore/sweep.go", old: "&& len(due) < limit {", new: "&& false {",
		pkg: "./store/sqlitestore", run: "TestFullDiskGivesBack",
	},
	{
		name: "appends to SQLite take what a released reserve was", rule: "docs/internals/storage-sqlite.md: full disk",
		file: "store/sqlitestore/room.go", old: "	return d.file != nil && missing",
		new: "	return false && missing",
		pkg: "./store/sqlitestore", run: "TestReserveIsWholeBeforeAppends",
	},
	{
		name: "free pages stay in the file of a full disk", rule: "docs/internals/storage-sqlite.md: full disk",
		file: "store/sqlitestore/room.go", old: "		if err != nil || pages == 0 {", new: "		if true {",
		pkg: "./store/sqlitestore", run: "TestFullDiskGivesBack",
	},
	{
		name: "a large commit takes the room that the file needs for it",
		rule: "docs/internals/storage-sqlite.md: full disk",
		file: "store/sqlitestore/room.go", old: "return size <= d.share/2 ||", new: "return true ||",
		pkg: "./store/sqlitestore", run: "TestFullDiskGivesBack",
	},
	{
		name: "an append to SQLite does not see what was removed", rule: "docs/internals/storage-sqlite.md: full disk",
		file: "store/sqlitestore/room.go", old: "		w.space.fullAt = time.Time{}\n", new: "",
		pkg: "./store/sqlitestore", run: "TestFullDiskGivesBack",
	},
	{
		name: "the write-ahead log does not fit the disk", rule: "docs/internals/storage-sqlite.md: full disk",
		file: "store/sqlitestore/room.go", old: "	d.share = min(max(",
		new: "	d.share = max(mostShare, min(",
		pkg: "./store/sqlitestore", run: "TestFullDiskGivesBack",
	},
	{
		name: "old makes no room on a full disk", rule: "R3.5",
		file: "submit.go", old: " || errors.Is(err, DiskFull)", new: "",
		pkg: "./enginetest", run: "TestOldMakesRoomOnFullDisk",
	},
	{
		name: "each append to a full disk removes streams", rule: "R3.5",
		file: "retention.go", old: "	if l.ended.rounds.Load() != rounds {", new: "	if false {",
		pkg: "./enginetest", run: "TestFullDiskRemovesOnce",
	},
	{
		name: "a disk that stays full is told as other replicas", rule: "R3.5",
		file: "submit.go", old: "			full = err\n", new: "			_ = err\n",
		pkg: "./enginetest", run: "TestOldMakesRoomOnFullDisk",
	},
	{
		name: "a closed log that was cut opens", rule: "docs/internals/storage-log.md: files are short",
		file: "store/logstore/closed.go", old: "	if whole && next > s.nextCommit {",
		new: "	if whole && next == 0 {",
		pkg: "./store/logstore", run: "TestNewestFileIsCut",
	},
	{
		name: "a log is marked as closed while it is open", rule: "docs/internals/storage-log.md: files are short",
		file: "store/logstore/closed.go", old: "	return s.disk.remove(closedName)", new: "	return nil",
		pkg: "./store/logstore", run: "TestLogBehindItsMarkOpens",
	},
	{
		name: "a log behind its mark is damaged", rule: "docs/internals/storage-log.md: files are short",
		file: "store/logstore/closed.go", old: "	if whole && next > s.nextCommit {",
		new: "	if whole && next != s.nextCommit {",
		pkg: "./store/logstore", run: "TestLogBehindItsMarkOpens",
	},
}
