// Package isolation starts commands that cannot reach the data of the server that starts them.
//
// A [Config] is the configuration of a server, [Machine] the abilities of the machine, which are found by trying. For
// each request [Config.Resolve] makes a [Plan] of the two, or refuses: a level that the machine does not fully support
// is never applied partially. [Plan.Start] is [os.StartProcess] with the layers of the plan, and [Plan.Layers] lists
// them.
//
// The child applies the layers to itself, between fork and exec, as a list of system calls that is made
// before the fork: namespaces with mounts over hidden paths, the user, capabilities, no_new_privs, Landlock and a
// filter of system calls. At the level [Bubblewrap] the child forks the command and the first process of its process
// table, and ends. Nothing has to be installed. A start takes from one to a few milliseconds more than a plain one.
//
// docs/isolation.md says what each level stops and what it does not.
package isolation
