package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reprise/internal/testserver"
)

func TestStoreURLInAFile(t *testing.T) {
	dir := testserver.TempDir(t)
	for name, file := range map[string]struct {
		text string
		mode os.FileMode
		want string // "" for a file that is refused
	}{
		"plain":      {"redis://u:p@h\n", 0o600, "redis://u:p@h"},
		"read-only":  {"  encrypt+sqlite:x\r\n", 0o400, "encrypt+sqlite:x"},
		"group":      {"redis://h", 0o640, ""},
		"everybody":  {"redis://h", 0o604, ""},
		"empty":      {" \n", 0o600, ""},
		"two-lines":  {"redis://h\nredis://i\n", 0o600, ""},
		"too-long":   {"redis://" + strings.Repeat("h", maxStoreURL), 0o600, ""},
		"not-a-file": {"", os.ModeDir | 0o700, ""},
	} {
		path := filepath.Join(dir, name)
		err := os.WriteFile(path, []byte(file.text), 0o600)
		if file.mode.IsDir() {
			err = os.Mkdir(path+".d", 0o700)
			path += ".d"
		}
		if err == nil {
			err = os.Chmod(path, file.mode.Perm())
		}
		if err != nil {
			t.Fatal(err)
		}
		var u storeURL
		err = u.UnmarshalText([]byte("@" + path))
		if u.url != file.want || (err == nil) != (file.want != "") || err == nil && u.file != path {
			t.Errorf("%s: %q of %q, %v; want %q", name, u.url, u.file, err, file.want)
		}
		if text := fmt.Sprint(u, err); strings.Contains(text, "u:p") || strings.Contains(text, "hhh") {
			t.Errorf("%s is shown as %s", name, text)
		}
	}
	var u storeURL
	if err := u.UnmarshalText([]byte("@" + dir + "/none")); err == nil {
		t.Error("a file that does not exist is taken")
	}
}

// TestPasswordOfTheStoreStaysWithTheServer: a server that has the URL of its store from a file shows the password in no
// argument, variable, line of output or log, and its commands can read neither the file nor the password.
func TestPasswordOfTheStoreStaysWithTheServer(t *testing.T) {
	const password = "s3kret-of-the-store"
	redis := testserver.Redis(t, &testserver.RedisOptions{Password: password})
	file := filepath.Join(t.TempDir(), "store-url")
	if err := os.WriteFile(file, []byte(redis.URL()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("REPRISE_STORE", "@"+file)
	o := startOutliving(t)
	// A command, its supervisor and whatever is above them.
	o.run("looks", fmt.Sprintf(`p=$$; while [ "$p" -gt 1 ]; do tr '\0' '\n' < /proc/$p/cmdline; tr '\0' '\n' < /proc/$p/environ; `+
		`p=$(sed 's/.*) . //; s/ .*//' /proc/$p/stat); done 2>&1; cat %s; echo looked`, file), nil)
	stdout, end := o.follow("looks")
	if end == nil || !strings.Contains(stdout, "REPRISE_EXECUTION=looks") || !strings.HasSuffix(stdout, "looked\n") {
		t.Fatalf("the command has not looked: %s, %+v", stdout, end)
	}
	x, err := o.client.Show(t.Context(), "looks")
	if err != nil {
		t.Fatal(err)
	}
	if x.Isolation.Level == "none" {
		stdout = strings.ReplaceAll(stdout, redis.URL(), "") // who is not isolated can read the file
	}
	log, err := os.ReadFile(filepath.Join(o.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{"the command": stdout, "the log": string(log)}
	for _, name := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", o.daemon.cmd.Process.Pid, name))
		if err != nil {
			t.Fatal(err)
		}
		seen["the server's "+name] = string(text)
	}
	for where, text := range seen {
		if strings.Contains(text, password) {
			t.Errorf("%s has the password: %s", where, text)
		}
	}
	if !strings.Contains(seen["the server's environ"], "REPRISE_STORE=@"+file) {
		t.Error("the server was not told of the file")
	}
}
