package web

// eventsStack, with the frames below, takes the stack of a goroutine of net/http to the size that a reader of events
// needs, which is 16 KiB: the deepest call is the one in which net/http writes the head of the response.
const eventsStack = 8 << 10

// growStack lets the stack of this goroutine grow before the layers of a response are on it. It would grow anyway, but
// later, and the runtime moves each frame: that took 10 % of the CPU time of a short response, and takes 3 % here. n is
// any number, which keeps the array from being optimized away.
//
//go:noinline
func growStack(n int) byte {
	var room [eventsStack]byte
	room[n%eventsStack] = 1
	return room[(n+1)%eventsStack]
}
