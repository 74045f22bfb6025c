// Package isolation starts commands that get at nothing of the server that starts them.
//
// A [Config] is what a server decides, [Machine] what the machine gives, which is found out by trying. For each request
// [Config.Resolve] makes a [Plan] of them, or refuses: a level that the machine does not give in full is never
// given in part. [Plan.Start] is [os.StartProcess] with the layers of the plan, and [Plan.Layers] says which they are.
//
// The layers are put on by the child itself, between fork and exec, as a list of system calls that is made
// before the fork: namespaces with mounts over what is hidden, the user, capabilities, no_new_privs, Landlock and a
// filter of system calls. No program of ours is executed in between, and nothing has to be installed. A start takes
// a few tenths of a millisecond more than a plain one. The level [Bubblewrap] alone needs a program, bwrap.
//
// docs/isolation.md says what each level stops and what it does not.
package isolation
