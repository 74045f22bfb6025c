// Package datadir locks the data directory of a server and names the files in it.
package datadir

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
	TokenFile = "token"
	KeysFile  = "keys"
	// StoreKeysFile holds the keys of encrypted stores.
	StoreKeysFile = "store.keys"
	NamedDir      = "named" // has a folder for each tenant, and in it a file for each secret
	// PrincipalsDir has a folder for each tenant, in it one for each principal, and in that a file for each secret.
	PrincipalsDir = "principals"
	LockFile      = "lock"
	// LoginsFile records ended logins, for a server with an unshared store.
	LoginsFile = "logins"
	// StartsFile has the names of the newest starts with each unshared store that was used with the directory.
	StartsFile = "starts"
	RunsDir    = "runs"       // of supervisors
	UsersFile  = "users.json" // the user of each tenant, with --run-as-range
	WatchesDir = "watches"    // the states of watches of files
	// SocketFile is the socket on which the process that holds the directory answers other processes of the same user
	// that know the contents of SecretFile.
	SocketFile = "mcp.sock"
	SecretFile = "mcp-secret"
	// ProfilesFile is the socket on which a server shows profiles of itself.
	ProfilesFile = "profiles.sock"
	// TakeOverFile is the socket on which a server hands over its listener, to callers that know the contents of
	// TakeOverSecretFile.
	TakeOverFile       = "takeover.sock"
	TakeOverSecretFile = "takeover-secret"
)

// Dir is a data directory that no other process uses.
type Dir struct {
	Path   string   // absolute
	folder *os.File // locked as well, so that the directory stays locked when the lock file is removed
	lock   *os.File
}

// ErrInUse means that another process holds the data directory.
var ErrInUse = errors.New("the data directory is in use")

// ErrNone means that no data directory is named and the user has none.
var ErrNone = errors.New("no data directory: neither HOME nor XDG_STATE_HOME is set; name one with --data or REPRISE_DATA")

// Lock creates the directory if it is missing, accessible only to its owner, and locks it for this process. The
// lock is released when the process ends in any way.
func Lock(path string) (*Dir, error) { return take(path, false) }

// Await is Lock, but waits without limit until no other process holds the directory.
func Await(path string) (*Dir, error) { return take(path, true) }

func take(path string, wait bool) (*Dir, error) {
	if path == "" {
		return nil, ErrNone
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := CheckNotOpen(path); err != nil {
		return nil, err
	}
	d := &Dir{Path: path}
	if err := d.take(wait); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// take locks the directory, and in it the lock file, which earlier versions lock alone. Some file systems, such as
// NFS, cannot lock a directory; the file suffices there unless somebody removes it.
func (d *Dir) take(wait bool) (err error) {
	if d.folder, err = os.Open(d.Path); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := d.flock(d.folder, wait); errors.Is(err, ErrInUse) {
		return err
	}
	if d.lock, err = os.OpenFile(filepath.Join(d.Path, LockFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
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
func (d *Dir) flock(f *os.File, wait bool) error {
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
			ErrInUse, d.Path, d.holder())
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// CheckNotOpen refuses a directory in which every user may make and replace files, such as the token. A group may be
// trusted: volumes of Kubernetes belong to one. Windows has no such modes.
func CheckNotOpen(path string) error {
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o002 == 0 {
		return err
	}
	return fmt.Errorf("every user may write to the data directory %s (%v): chmod 700 it, "+
		"or name a directory in it, which is then made with that mode", path, info.Mode())
}

// Announce writes the address of the directory's server into the lock, for verbs that want to call it.
func (d *Dir) Announce(scheme string, address net.Addr) error {
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
func (d *Dir) holder() string {
	text, _ := os.ReadFile(filepath.Join(d.Path, LockFile))
	pid, _, _ := strings.Cut(string(text), "\n")
	return cmp.Or(pid, "unknown")
}

// Close lets other processes use the directory.
func (d *Dir) Close() (err error) {
	for _, f := range []*os.File{d.lock, d.folder} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}
