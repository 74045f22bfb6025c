package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"reprise/internal/datadir"
	"reprise/internal/storeurl"
)

// storeURL is a flag or argument that is the URL of a store, or @FILE for a file that contains the URL. Other users see
// the arguments of a process and not such a file, so this keeps a password out of their sight.
type storeURL struct {
	url  string
	file string // the path of the file, "" for a URL that was given itself
}

// maxStoreURL is the greatest size of a file with the URL of a store.
const maxStoreURL = 64 << 10

// UnmarshalText implements encoding.TextUnmarshaler. It reads the file that @FILE names.
func (u *storeURL) UnmarshalText(text []byte) error {
	name, ok := strings.CutPrefix(string(text), "@")
	if !ok {
		*u = storeURL{url: string(text)}
		return nil
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	url, err := readStoreURL(path)
	if err != nil {
		return err
	}
	*u = storeURL{url, path}
	return nil
}

// readStoreURL reads a file that contains the URL of a store in one line. It refuses a file that others may read.
func readStoreURL(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("the file with the URL of the store: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", path)
	case datadir.OthersMayRead(path, info):
		return "", fmt.Errorf("%s may be read by others (%v): chmod 600 it, and change the password if others may have read it",
			path, info.Mode())
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("the file with the URL of the store: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxStoreURL+1))
	if err != nil {
		return "", fmt.Errorf("the file with the URL of the store: %w", err)
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 || len(text) > maxStoreURL || bytes.ContainsAny(text, "\r\n\x00") {
		return "", fmt.Errorf("%s does not contain the URL of a store in one line", path)
	}
	return string(text), nil
}

// in returns the store that u means with a data directory: without a URL, the one that is there.
func (u storeURL) in(data string) storeURL {
	if u.url == "" {
		u.url = storeurl.Default(data)
	}
	return u
}

// String returns the URL without the parts that may hold a password.
func (u storeURL) String() string { return storeurl.Redact(u.url) }
