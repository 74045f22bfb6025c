// Package isolation starts commands that cannot reach the data of the server that starts them.
//
// A [Config] is the configuration of a server, [Machine] the abilities of the machine, which are found by trying. For
// each request [Config.Resolve] makes a [Plan] of the two, or refuses: a level that the machine does not fully support
// is never applied partially. [Plan.Start] is [os.StartProcess] with the layers of the plan, and [Plan.Layers] lists
// them.
//
// The child applies the layers to itself, between fork and exec, as a list of system calls that is made
// before the fork: namespaces with mounts over hidden paths, the user, capabilities, no_new_privs, Landlock and a
// filter of system calls. No other program is executed in between, and nothing has to be installed. A start takes
// a few tenths of a millisecond more than a plain one. Only the level [Bubblewrap] needs a program, bwrap.
//
// docs/isolation.md says what each level stops and what it does not.
package isolation
