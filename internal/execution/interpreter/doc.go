// Package interpreter runs code in stateful interpreters.
//
// An interpreter is an execution of a Host: its command is a driver, a small program in the language itself, that reads
// requests from stdin and runs them one after the other in one namespace. Each piece of code that it runs is an
// execution too, whose events are copied from the stream of the interpreter. An interpreter therefore outlives the
// server like every command. The copy depends only on the events of the interpreter. Its position is written to the
// directory of the spool before the supervisor may drop the copied frames: the next server continues from there, and
// skips the events that were appended before.
//
// The output of the code, and of its children, goes to stdout and stderr of the driver unchanged. Between it the driver
// writes frames:
//
//	NUL, a mark, the length in decimal digits, ":", and as many bytes
//
// A mark is random and made for one run. The request contains the mark of the frames that are sent while the code runs.
// The mark of the end follows the request and is read only after the code has ended, so that no output of the code can
// be taken for the end. Code that reads the driver's own descriptors or memory can forge frames, but only in the stream
// of its own run.
package interpreter
