package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"reprise/internal/archive/remoteserver"
	"reprise/internal/execution"
	"reprise/internal/freeport"
	"reprise/internal/isolation"
)

var update = flag.Bool("update", false, "write what the scripts compare with")

func TestMain(m *testing.M) {
	execution.Supervise()
	testscript.Main(m, map[string]func(){
		"reprise":         func() { os.Exit(Main(os.Args[1:])) },
		"reprise-archive": func() { os.Exit(remoteserver.Main(os.Args[1:])) },
		"hardened":        func() { fmt.Fprintln(os.Stderr, hardened(os.Args[1:])); os.Exit(1) },
	})
}

// TestScripts runs sessions with the real binary: a server, clients, and a proxy
// between them that cuts connections. Beside the commands of testscript there are:
//
//	server NAME [FLAG...]   start a server on the data directory NAME, wait until it listens,
//	                        and let the clients use it; its log is NAME.log. The next
//	                        server of the same NAME takes the same address.
//	halt NAME SIGNAL...     send signals to the server and wait for its end; with "!" that
//	                        must be a failure
//	proxy [BYTES]           put a proxy before the server that cuts each connection after so
//	                        many bytes of answers
//	front STATUS            cut all connections of the proxy and let it answer new ones with a bare status;
//	                        refuse resets them, off lets them through
//	cut                     cut all connections of the proxy
//	until FILE REGEXP       wait until a file has what is looked for
//
// ADDRESS is one that a process can listen at, and again when it was killed.
func TestScripts(t *testing.T) {
	t.Parallel()
	if signal.Ignored(syscall.SIGHUP) { // under nohup, which the servers of the scripts would inherit
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			address, err := freeport.Address()
			if err != nil {
				return err
			}
			env.Setenv("ADDRESS", address)
			env.Setenv("XDG_STATE_HOME", env.WorkDir+"/state")
			env.Setenv("TMPDIR", env.WorkDir)
			env.Setenv("GORACE", "atexit_sleep_ms=20") // the default is a second for each command
			// Nothing of whoever runs the tests.
			env.Setenv("REPRISE_LOG_LEVEL", "info")
			env.Values[fixtureKey{}] = newFixture(env)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server": cmdServer, "halt": cmdHalt, "proxy": cmdProxy, "front": cmdFront, "cut": cmdCut,
			"until": cmdUntil,
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Geteuid() == 0, nil
			case "bubblewrap":
				return isolation.Probe().LacksProcesses() == nil, nil
			}
			return false, fmt.Errorf("%s: there is no such condition", name)
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}
