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
	path string // absolute
	lock *os.File
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
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	err = flock(lock, wait)
	for deadline := time.Now().Add(forkPatience); errors.Is(err, errLocked) && time.Now().Before(deadline); {
		if exists(lockHolder(lock)) {
			break
		}
		time.Sleep(forkPatience / 500)
		err = flock(lock, wait)
	}
	if err != nil {
		holder := lockHolder(lock)
		lock.Close()
		if errors.Is(err, errLocked) {
			return nil, fmt.Errorf("%w: %s by process %s; stop that one, or name another directory with --data",
				errInUse, path, holder)
		}
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if err := errors.Join(lock.Truncate(0), writePID(lock)); err != nil {
		lock.Close()
		return nil, fmt.Errorf("data directory: %w", err)
	}
	return &dataDir{path: path, lock: lock}, nil
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

// lockHolder returns the id of the process that holds a lock, if it has written it.
func lockHolder(f *os.File) string {
	text := make([]byte, 20)
	n, _ := f.ReadAt(text, 0)
	pid, _, _ := strings.Cut(string(text[:n]), "\n")
	return cmp.Or(pid, "unknown")
}

func (d *dataDir) close() error { return d.lock.Close() }
