package main

import "time"

// startFlags say what is run, and with what.
type startFlags struct {
	Language         string        `env:"-" xor:"runs" placeholder:"NAME" help:"Run code, the one argument or our stdin, with the interpreter of a language, for example python."`
	Interpreter      string        `env:"-" xor:"runs" placeholder:"ID" help:"Run code, the one argument or our stdin, in an open interpreter; see \"reprise interpreter\"."`
	Cwd              string        `placeholder:"DIR" help:"Working directory. Default: this one on your own server on this machine, else the server's own."`
	Env              []string      `short:"e" sep:"none" placeholder:"NAME[=VALUE]" help:"Variable for the command; without a value, the local one. May be repeated."`
	Secret           []string      `sep:"none" placeholder:"NAME[=SECRET]" help:"Variable for the command with the value of a secret of the server, by default with the same name; see \"reprise secrets\". May be repeated."`
	MaskSecrets      bool          `help:"Replace the values of --secret by *** in the output."`
	Timeout          time.Duration `placeholder:"DURATION" help:"End the command after this time."`
	Grace            time.Duration `placeholder:"DURATION" help:"Time between TERM and KILL, at most 1m. Default: 5s."`
	KillOnDisconnect bool          `help:"Cancel the command when no client follows it any more."`
	Artifact         []string      `env:"-" sep:"none" placeholder:"PATH" help:"File or directory below the working directory, with * and ?, to keep with the execution when it has ended; see \"reprise artifacts\". May be repeated."`
}

// nameFlags name an execution.
type nameFlags struct {
	ID      string            `xor:"name" placeholder:"ID" env:"-" help:"Id of the execution. Running the same command with the same id attaches to it."`
	Key     string            `xor:"name" placeholder:"KEY" env:"-" help:"Key of the command. Running the same command with the same key attaches to it while it runs, shows its output after it has exited with 0, and otherwise starts it again."`
	Session string            `placeholder:"ID" help:"Session that the execution belongs to."`
	Label   map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"Label to find it by. May be repeated."`
}

// confineFlags say what a command may reach and use.
type confineFlags struct {
	Isolation string   `placeholder:"LEVEL" help:"Isolation of the command: none, limits, landlock or bubblewrap. Default: the server's."`
	Network   string   `env:"-" placeholder:"on|off" help:"Network of the command; off leaves it only its own loopback interface. Default: the server's."`
	Writable  []string `env:"-" sep:"none" placeholder:"DIR" help:"Directory of the server below which the command may write at the levels landlock and bubblewrap, in addition to its own. May be repeated."`
	Readable  []string `env:"-" sep:"none" placeholder:"PATH" help:"File or directory of the server that the command may read at the levels landlock and bubblewrap, in addition to the system's. May be repeated."`
	Hide      []string `env:"-" sep:"none" placeholder:"PATH" help:"File or directory of the server that the command cannot reach. May be repeated."`
	User      string   `env:"-" placeholder:"USER" help:"User of the server's machine that the command runs as. Needs the scope admin, and a server that runs as root. Default: the server's choice."`
	Limits    limits   `env:"-" placeholder:"NAME=VALUE,..." help:"Resource limits of the command: output_bytes, memory_bytes, processes and cpu_time, for example memory_bytes=512MiB,processes=64."`
}
