package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// files are the members of a tar, and their headers.
func files(t *testing.T, archive []byte) (map[string][]byte, map[string]*tar.Header) {
	t.Helper()
	contents, headers := map[string][]byte{}, map[string]*tar.Header{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if err == io.EOF {
			return contents, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		contents[header.Name], err = io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		headers[header.Name] = header
	}
}

type descriptor struct {
	Digest string
	Size   int
}

// TestImageIsWhole: an index leads to a manifest, that to the configuration and the layer, and docker's list to the
// same two; each is what its digest says, the programs are in it, and the same input gives the same bytes.
func TestImageIsWhole(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"reprise", "reprise-archive"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("program "+name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	made := time.Unix(1_700_000_000, 0).UTC()
	image, err := build("v1.2.3", "arm64", folder, made)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := build("v1.2.3", "arm64", folder, made); !bytes.Equal(image, again) {
		t.Error("the same input gives other bytes")
	}
	members, _ := files(t, image)
	read := func(name string, into any) {
		t.Helper()
		if err := json.Unmarshal(members[name], into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	blob := func(d descriptor) string {
		t.Helper()
		name := "blobs/" + strings.Replace(d.Digest, ":", "/", 1)
		sum := sha256.Sum256(members[name])
		if d.Digest != "sha256:"+hex.EncodeToString(sum[:]) || d.Size != len(members[name]) {
			t.Errorf("%s has %d bytes of the digest %x", name, len(members[name]), sum)
		}
		return name
	}
	var index struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	var config struct {
		Architecture, OS string
		RootFS           struct {
			DiffIDs []string `json:"diff_ids"`
		}
		Config struct {
			User       string
			Entrypoint []string
		}
	}
	read("index.json", &index)
	read(blob(index.Manifests[0]), &manifest)
	read(blob(manifest.Config), &config)
	layer := blob(manifest.Layers[0])
	if config.Architecture != "arm64" || config.OS != "linux" || config.Config.User != "10001:10001" ||
		config.Config.Entrypoint[0] != "/usr/local/bin/reprise" ||
		config.RootFS.DiffIDs[0] != manifest.Layers[0].Digest {
		t.Errorf("the configuration is %+v", config)
	}
	var docker []struct {
		Config           string
		RepoTags, Layers []string
	}
	read("manifest.json", &docker)
	if d := docker[0]; d.Config != blob(manifest.Config) || d.Layers[0] != layer || d.RepoTags[0] != "reprise:v1.2.3" {
		t.Errorf("docker is told %+v", d)
	}
	programs, headers := files(t, members[layer])
	if h := headers["usr/local/bin/reprise"]; string(programs["usr/local/bin/reprise"]) != "program reprise" ||
		h.Mode != 0o755 || h.Uid != 0 || !h.ModTime.Equal(made) {
		t.Errorf("the program is %+v", h)
	}
	if h := headers["data/"]; h == nil || h.Uid != 10001 || h.Mode != 0o700 || h.Typeflag != tar.TypeDir {
		t.Errorf("the data directory is %+v", h)
	}
}
