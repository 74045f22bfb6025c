package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// The files of a data directory.
const (
	tokenFile = "token"
	keysFile  = "keys"
	namedDir  = "named" // has a folder for each tenant, and in it a file for each secret
	// principalsDir has a folder for each tenant, in it one for each principal, and in that a file for each secret.
	principalsDir = "principals"
	lockFile      = "lock"
	storeFile     = "reprise.db"
	// loginsFile records ended logins, for a server with an unshared store.
	loginsFile = "logins"
	runsDir    = "runs" // of supervisors
	// socketFile is the socket on which the process that holds the directory answers other processes of the same user
	// that know the contents of secretFile.
	socketFile = "mcp.sock"
	secretFile = "mcp-secret"
)

// dataDir is a data directory that no other process uses.
type dataDir struct {
	path   string   // absolute
	folder *os.File // locked as well, so that the directory stays locked when the lock file is removed
	lock   *os.File
}

// errInUse means that another process holds the data directory.
var errInUse = errors.New("the data directory is in use")

// errNoDataDir means that no data directory is named and the user has none.
var errNoDataDir = usage("no data directory: neither HOME nor XDG_STATE_HOME is set; name one with --data or REPRISE_DATA")

// lockDataDir creates the directory if it is missing, accessible only to its owner, and locks it for this process. The
// lock is released when the process ends in any way.
func lockDataDir(path string) (*dataDir, error) { return takeDataDir(path, false) }

// awaitDataDir is lockDataDir, but waits without limit until no other process holds the directory.
func awaitDataDir(path string) (*dataDir, error) { return takeDataDir(path, true) }

func takeDataDir(path string, wait bool) (*dataDir, error) {
	if path == "" {
		return nil, errNoDataDir
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := checkNotOpen(path); err != nil {
		return nil, err
	}
	d := &dataDir{path: path}
	if err := d.take(wait); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// take locks the directory, and in it the lock file, which earlier versions lock alone. Some file systems, such as
// NFS, cannot lock a directory; the file suffices there unless somebody removes it.
func (d *dataDir) take(wait bool) (err error) {
	if d.folder, err = os.Open(d.path); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := d.flock(d.folder, wait); errors.Is(err, errInUse) {
		return err
	}
	if d.lock, err = os.OpenFile(filepath.Join(d.path, lockFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := d.flock(d.lock, wait); err != nil {
		return err
	}
	if err := errors.Join(d.lock.Truncate(0), writePID(d.lock)); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

// flock locks the directory or the lock file.
func (d *dataDir) flock(f *os.File, wait bool) error {
	err := flock(f, wait)
	for deadline := time.Now().Add(forkPatience); errors.Is(err, errLocked) && time.Now().Before(deadline); {
		if exists(d.holder()) {
			break
		}
		time.Sleep(forkPatience / 500)
		err = flock(f, wait)
	}
	if errors.Is(err, errLocked) {
		return fmt.Errorf("%w: %s by process %s; stop that one, or name another directory with --data",
			errInUse, d.path, d.holder())
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// checkNotOpen refuses a directory in which every user may make and replace files, such as the token. A group may be
// trusted: volumes of Kubernetes belong to one. Windows has no such modes.
func checkNotOpen(path string) error {
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o002 == 0 {
		return err
	}
	return fmt.Errorf("every user may write to the data directory %s (%v): chmod 700 it, "+
		"or name a directory in it, which is then made with that mode", path, info.Mode())
}

// announce writes the address of the directory's server into the lock, for verbs that want to call it.
func (d *dataDir) announce(scheme string, address net.Addr) error {
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	url := scheme + "://" + net.JoinHostPort(host, port)
	_, err = d.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"+url+"\n"), 0)
	return err
}

func writePID(f *os.File) error {
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// forkPatience bounds the wait for the lock of a process that has ended. A process that it was about to start holds its
// descriptors until it executes its program.
const forkPatience = 5 * time.Second

// holder returns the id of the process that holds the directory, if it has written it.
func (d *dataDir) holder() string {
	text, _ := os.ReadFile(filepath.Join(d.path, lockFile))
	pid, _, _ := strings.Cut(string(text), "\n")
	return cmp.Or(pid, "unknown")
}

func (d *dataDir) close() (err error) {
	for _, f := range []*os.File{d.lock, d.folder} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}
