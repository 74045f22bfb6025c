package execution

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"reprise"
	"reprise/internal/execution/command"
	"reprise/internal/execution/language"
	"reprise/internal/isolation"
)

// runHere runs the command as a child of the server, with which it ends.
func (r *Run) runHere() {
	folder, err := r.makePlan(r.host.opts.StateDir)
	defer removeFolder(folder)
	if err != nil {
		r.end(command.Ending{Outcome: FailedToStart, Error: err.Error()})
		return
	}
	var unkept error
	e := r.job.Run(&r.host.system, r.plan, &command.Output{
		Started: func() {
			if r.driver != nil {
				r.driver.Begin(r, "")
			}
		},
		Write: func(chunks []command.Chunk) error {
			unkept = r.write(chunks)
			return unkept
		},
		Most:    outputBytes,
		Stalled: r.stalled,
	})
	if unkept != nil && !r.dropped {
		e.Error = notKept
	}
	r.end(e)
}

// outputBytes is the output of a command that waits for the store, above which the command waits. As much again is
// being appended.
const outputBytes = 2 << 20

// makePlan makes the plan of the command of the request. Code is written to a new folder, below dir unless another user
// runs it. folder is "" if there is none, and may be there although makePlan fails.
func (r *Run) makePlan(dir string) (folder string, err error) {
	req := &r.request
	if r.isolation == nil { // another server has accepted it
		if r.isolation, err = r.host.isolate(r.key.Tenant, req); err != nil {
			return "", err
		}
	}
	limits := r.host.caps(r.key.Tenant).limits(&req.Limits)
	r.isolation.Temporary = limits.MemoryBytes
	p := &command.Plan{
		ID: r.id, Shown: describe(req).Shown, Argv: req.Argv, Cwd: r.host.cwd(r.key.Tenant, req),
		TTY:  (*command.Size)(req.TTY),
		Mark: markOf(r.Epoch()), Input: req.input(), StdinOpen: req.StdinOpen,
		Timeout: r.Timeout(), Grace: r.Grace(), Drain: r.host.opts.DrainTimeout,
		Limits: limits, Isolation: r.isolation,
	}
	variables, masked, err := r.withSecrets(withTrace(req))
	if err != nil {
		return "", err
	}
	p.Masked = masked
	if folder, err = makePrivate(r.isolation); err != nil {
		return folder, err
	}
	ours := privateEnviron(r.isolation, userEnviron(r.isolation.User, os.Environ()))
	p.Environ = environ(ours, r.host.opts.PassEnv, variables, req.TTY != nil,
		envID+"="+r.id, p.Mark)
	r.artifacts = r.collection()
	r.plan = p
	code, err := r.planProgram(p, dir)
	if folder == "" {
		folder = code
	}
	return folder, err
}

// planProgram sets the arguments of the command. Code is written to a new folder below dir, or where codeDir says.
func (r *Run) planProgram(p *command.Plan, dir string) (folder string, err error) {
	req := &r.request
	var program *language.Program
	var code string
	switch {
	case r.driver != nil:
		program, code = r.driver.Program()
	case req.Command != "":
		p.Argv = []string{cmp.Or(req.Shell, "sh"), "-c", req.Command}
	case req.Language != "":
		program, code = language.Lookup(req.Language), req.Code
	}
	if program == nil {
		return "", nil
	}
	if folder, err = os.MkdirTemp(codeDir(r.isolation, dir), codeFolder+"*"); err != nil { // mode 0700
		return "", err
	}
	file := filepath.Join(folder, program.File)
	if err = os.WriteFile(file, []byte(code), 0o600); err == nil {
		err = show(r.isolation, folder)
	}
	if err != nil {
		return folder, err
	}
	p.Argv, err = program.Argv(finder(r.isolation, p.Environ), file)
	return folder, err
}

// finder returns what finds the programs of a command in its environment.
func finder(plan *isolation.Plan, environ []string) func(program string) (path string, err error) {
	path := command.Variable(environ, "PATH")
	return func(program string) (string, error) { return command.LookPath(plan.User, program, path) }
}

// codeFolder begins the names of the folders that code is put into.
const codeFolder = "reprise-code-"

// clearCode makes dir, and removes the files of a dead Host from it.
func clearCode(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(dir, codeFolder+"*"))
	for _, folder := range left {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}

// removeFolder removes a folder of makePlan, if there is one.
func removeFolder(folder string) {
	if folder == "" || os.RemoveAll(folder) == nil {
		return
	}
	// A command may have made directories that not even their owner can enter.
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(folder)
}

// Timeout is the time that the run may take, or 0.
func (r *Run) Timeout() time.Duration {
	d, most := time.Duration(r.request.Timeout), r.host.opts.MaxTimeout
	if d == 0 || most > 0 && d > most {
		return most
	}
	return d
}

// markOf is the entry in the environment of all processes of a run.
func markOf(epoch reprise.Epoch) string { return envEpoch + "=" + string(epoch) }
