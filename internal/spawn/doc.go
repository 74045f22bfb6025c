// Package spawn starts processes that die with us. A process asks the kernel to be killed when its parent dies
// (PR_SET_PDEATHSIG), and to the kernel the parent is the thread that started it: any thread of ours may end at any
// time, but for one that is kept for this.
//
// On macOS and the BSDs there is no such request: a process goes on when we are killed. There the package has what is
// done with process groups.
package spawn
