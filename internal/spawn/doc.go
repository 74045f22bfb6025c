// Package spawn starts processes that die with this one. A process asks the kernel to be killed when its parent dies
// (PR_SET_PDEATHSIG). The kernel takes the thread that started the process for the parent, and the Go runtime may end
// any thread, so processes are started on a thread that is kept for this.
//
// macOS and the BSDs have no such request, so there a process survives when this one is killed. For them the package
// provides operations on process groups.
package spawn
