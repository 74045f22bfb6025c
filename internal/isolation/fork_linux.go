//go:build amd64 || arm64

package isolation

// call is one system call of a child. Its layout is known to the assembly.
type call struct {
	number uintptr
	args   [6]uintptr
	// save, if not 0, is the address that the result is put at; use, if not 0, the one that the first argument is
	// taken from.
	save, use uintptr
	// tolerated is an error that does not end the child, 0 for none.
	tolerated uintptr
	// expect, if not 0, is the result without which the child ends.
	expect uintptr
}

// failure is the address of the call that failed, 0 for none, and its error, 0 for an unexpected result.
type failure struct{ call, errno uintptr }

// fork makes the system call number, clone(2) or clone3(2), with two arguments, so that a child begins that
// shares our memory. The child makes count system calls, and ends when they are through
// or when one has put its failure into failed. It runs no Go code and needs no
// stack, so that the parent does not wait for it. All that the child reads must stay where it is until
// it has gone. All signals are blocked, for their handlers are the parent's.
func fork(number, first, second uintptr, calls *call, count uintptr, failed *failure) (pid, errno uintptr)
