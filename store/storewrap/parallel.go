package storewrap

import (
	"runtime"
	"sync"
	"sync/atomic"

	"reprise"
)

// inParallel calls f with 0 to n-1. It uses several processors if there are enough bytes.
func inParallel(n, bytes int, f func(i int)) {
	// Starting and awaiting goroutines takes a few microseconds, in which a processor compresses some KiB.
	const least = 16 << 10
	workers := min(n, runtime.GOMAXPROCS(0), 1+bytes/least)
	if workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			f(i)
		}
	}
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

func batchBytes(reqs []reprise.AppendRequest) int {
	sum := 0
	for i := range reqs {
		sum += len(reqs[i].Bytes)
	}
	return sum
}
