//go:build unix

package main

// fullDiskMutants are faults of stores whose disk is full.
var fullDiskMutants = []mutant{
	{
		name: "segments do not fit the disk", rule: "docs/storage-log.md: full disk",
		file: "store/logstore/room.go", old: "return max(min(most, free/diskShare), s.leastSegment()), free",
		new: "return max(most, s.leastSegment()), free",
		pkg: "./store/logstore", run: "TestSegmentsFitTheDisk",
	},
	{
		name: "a removal on a full disk does not use the reserve", rule: "docs/storage-log.md: full disk",
		file: "store/logstore/room.go", old: "	if isFull(err) && s.reserve.Release() {", new: "	if false {",
		pkg: "./store/logstore", run: "TestAppendsLeaveTheReserve",
	},
	{
		name: "a snapshot on a full disk waits until it is due", rule: "docs/storage-log.md: full disk",
		file: "store/logstore/keep.go", old: "	if due || pays {", new: "	if due {",
		pkg: "./store/logstore", run: "TestFullDiskGivesBackWhatIsMoved",
	},
	{
		name: "a full disk moves only what is half dead", rule: "docs/storage-log.md: full disk",
		file: "store/logstore/keep.go", old: "		if tight {\n			pays =",
		new: "		if false {\n			pays =",
		pkg: "./store/logstore", run: "TestFullDiskGivesBackWhatIsMoved",
	},
	{
		name: "a refused append makes a file", rule: "docs/storage-log.md: full disk",
		file: "store/logstore/room.go", old: "	if room > free {", new: "	if room > free && false {",
		pkg: "./store/logstore", run: "TestRefusedAppendTouchesNothing",
	},
	{
		name: "appends take what a released reserve was", rule: "docs/storage-log.md: full disk",
		file: "store/logstore/room.go", old: "		if err = s.holdReserve(); err == nil {", new: "		{",
		pkg: "./store/logstore", run: "TestAppendsLeaveTheReserve",
	},
	{
		name: "each append tries a full disk", rule: "docs/storage-log.md: full disk",
		file: "store/logstore/room.go", old: "	if time.Now().Before(s.fullUntil) {", new: "	if false {",
		pkg: "./store/logstore", run: "TestFullDiskIsNotTriedAgainAtOnce",
	},
	{
		name: "an append is refused while space is given back", rule: "docs/storage-log.md: full disk",
		file: "store/logstore/commit.go", old: "|| s.opts.idle || !s.keeper.await(ctx)", new: "|| true",
		pkg: "./store/logstore", run: "TestAppendAfterRemovalOnFullDisk",
	},
}
