//go:build linux

package main

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpPackages runs scripts/mcp-packages.
func mcpPackages(t *testing.T, args ...string) []byte {
	t.Helper()
	return script(t, "mcp-packages", args...)
}

// script runs a script of Python and returns what it prints.
func script(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil && os.Getenv("CI") == "" {
		t.Skip("there is no Python")
	}
	cmd := exec.Command("../../scripts/"+name, args...)
	cmd.Env = append(os.Environ(), "REPRISE_REGISTRY_NAME=com.example/reprise",
		"REPRISE_DOWNLOAD_URL=https://example.com/v1.2.3/")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// bundleOurselves makes a bundle of a script that starts the test binary, which is the program too, and too large to be
// compressed often.
func bundleOurselves(t *testing.T, system string) (file string) {
	t.Helper()
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link, folder := filepath.Join(dir, "reprise"), filepath.Join(dir, "folder")
	script := []byte("#!/bin/sh\nexec " + link + ` "$@"` + "\n")
	err = errors.Join(os.Symlink(program, link), os.Mkdir(folder, 0o700),
		os.WriteFile(filepath.Join(folder, "reprise"), script, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "reprise.mcpb")
	mcpPackages(t, "bundle", "v1.2.3", system, runtime.GOARCH, folder, file)
	return file
}

// bundleManifest is what a host reads of a bundle.
type bundleManifest struct {
	Version string `json:"version"`
	Server  struct {
		EntryPoint string `json:"entry_point"`
		Config     struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
		} `json:"mcp_config"`
	} `json:"server"`
	UserConfig map[string]any `json:"user_config"`
}

// unpack unpacks a bundle as a host does.
func unpack(t *testing.T, file string) (dir string, m bundleManifest) {
	t.Helper()
	dir = t.TempDir()
	in, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for _, f := range in.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, filepath.Dir(f.Name)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, f.Name), data, f.Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := fs.ReadFile(os.DirFS(dir), "manifest.json")
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, m
}

// TestDesktopBundleRuns: the command that the manifest names is an MCP server that runs code.
func TestDesktopBundleRuns(t *testing.T) {
	t.Parallel()
	dir, m := unpack(t, bundleOurselves(t, "linux"))
	if m.Version != "1.2.3" || len(m.UserConfig) > 0 {
		t.Errorf("the manifest is %+v", m)
	}
	cmd := exec.Command(strings.ReplaceAll(m.Server.Config.Command, "${__dirname}", dir), m.Server.Config.Args...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd, TerminateDuration: patience}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	result, err := s.CallTool(ctx, &mcp.CallToolParams{
		Name: "execute_code", Arguments: map[string]any{"command": "echo bundled"},
	})
	if err != nil || result.IsError || !strings.Contains(result.Content[0].(*mcp.TextContent).Text, "bundled") {
		t.Errorf("the call is answered with %+v, %v", result, err)
	}
}

// TestDesktopBundleElsewhereAsksForAServer: where commands are not run, the user names a server that runs them.
func TestDesktopBundleElsewhereAsksForAServer(t *testing.T) {
	t.Parallel()
	_, m := unpack(t, bundleOurselves(t, "darwin"))
	for name := range m.UserConfig {
		if !slices.Contains(m.Server.Config.Args, "${user_config."+name+"}") {
			t.Errorf("%s is not used: %v", name, m.Server.Config.Args)
		}
	}
	if len(m.UserConfig) != 2 || !slices.Contains(m.Server.Config.Args, "--url") {
		t.Errorf("the manifest is %+v", m)
	}
}

// TestRegistryEntryIsWhatTheSchemaAsksFor holds server.json to the rules of the registry's schema of 2025-12-11.
func TestRegistryEntryIsWhatTheSchemaAsksFor(t *testing.T) {
	t.Parallel()
	file := bundleOurselves(t, "linux")
	var entry struct {
		Schema      string `json:"$schema"`
		Name        string `json:"name"`
		Title       string `json:"title"`
		Description string `json:"description"`
		Version     string `json:"version"`
		Packages    []struct {
			RegistryType string            `json:"registryType"`
			Identifier   string            `json:"identifier"`
			Version      string            `json:"version"`
			FileSHA256   string            `json:"fileSha256"`
			Transport    map[string]string `json:"transport"`
		} `json:"packages"`
	}
	in := json.NewDecoder(strings.NewReader(string(mcpPackages(t, "server-json", "v1.2.3", file))))
	in.DisallowUnknownFields()
	if err := in.Decode(&entry); err != nil {
		t.Fatal(err)
	}
	switch {
	case !regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`).MatchString(entry.Name) || len(entry.Name) > 200,
		entry.Title == "" || len(entry.Title) > 100, entry.Description == "" || len(entry.Description) > 100,
		entry.Version != "1.2.3", !strings.HasSuffix(entry.Schema,
			"/2025-12-11/server.schema.json"), len(entry.Packages) != 1:
		t.Fatalf("the entry is %+v", entry)
	}
	bundle, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(bundle)
	p := entry.Packages[0]
	if p.RegistryType != "mcpb" || p.Identifier != "https://example.com/v1.2.3/reprise.mcpb" || p.Version != "1.2.3" ||
		p.FileSHA256 != hex.EncodeToString(sum[:]) || len(p.Transport) != 1 || p.Transport["type"] != "stdio" {
		t.Errorf("the package is %+v", p)
	}
}

// TestProvenance reads the provenance of a release of two files.
func TestProvenance(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for _, name := range []string{"b.tar.gz", "a.whl"} {
		files = append(files, filepath.Join(dir, name))
		if err := os.WriteFile(files[len(files)-1], []byte("bytes of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	head, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}

	type digest map[string]string
	var statement struct {
		PredicateType string
		Subject       []struct {
			Name   string
			Digest digest
		}
		Predicate struct {
			BuildDefinition struct {
				ExternalParameters   struct{ Version string }
				ResolvedDependencies []struct{ Digest digest }
			}
		}
	}
	if err := json.Unmarshal(script(t, "provenance", append([]string{"v1.2.3"}, files...)...), &statement); err != nil {
		t.Fatal(err)
	}
	build := statement.Predicate.BuildDefinition
	if statement.PredicateType != "https://slsa.dev/provenance/v1" || build.ExternalParameters.Version != "v1.2.3" ||
		build.ResolvedDependencies[0].Digest["gitCommit"] != strings.TrimSpace(string(head)) {
		t.Fatalf("%+v", statement)
	}
	if len(statement.Subject) != 2 || statement.Subject[0].Name != "a.whl" {
		t.Fatalf("subjects: %+v", statement.Subject)
	}
	for _, subject := range statement.Subject {
		want := sha256.Sum256([]byte("bytes of " + subject.Name))
		if got := subject.Digest["sha256"]; got != hex.EncodeToString(want[:]) {
			t.Errorf("%s: %s", subject.Name, got)
		}
	}
}
