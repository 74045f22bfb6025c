// Image makes a container image of the programs in a folder, as a tar for "docker load" and for everything that reads
// the OCI image layout. The same input gives the same bytes.
//
//	image VERSION ARCH FOLDER OUT.tar
//
// There is nothing else in the image: no shell, and so no commands but those that are added to it.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const user = 10001 // as in examples/deploy/Dockerfile

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: image VERSION ARCH FOLDER OUT.tar")
		os.Exit(2)
	}
	seconds, _ := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	image, err := build(os.Args[1], os.Args[2], os.Args[3], time.Unix(seconds, 0).UTC())
	if err == nil {
		err = os.WriteFile(os.Args[4], image, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

type object = map[string]any

// build returns the tar of an image for Linux.
func build(version, arch, folder string, made time.Time) ([]byte, error) {
	layer := newArchive(made)
	for _, dir := range []tar.Header{
		{Name: "usr/", Mode: 0o755},
		{Name: "usr/local/", Mode: 0o755},
		{Name: "usr/local/bin/", Mode: 0o755},
		{Name: "tmp/", Mode: 0o1777},
		{Name: "data/", Mode: 0o700, Uid: user, Gid: user},
	} {
		layer.add(dir, nil)
	}
	for _, name := range []string{"reprise", "reprise-archive"} {
		program, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		layer.add(tar.Header{Name: "usr/local/bin/" + name, Mode: 0o755}, program)
	}
	image := newArchive(made)
	blob := func(mediaType string, content []byte) object {
		sum := sha256.Sum256(content)
		digest := hex.EncodeToString(sum[:])
		image.add(tar.Header{Name: "blobs/sha256/" + digest, Mode: 0o644}, content)
		return object{"mediaType": mediaType, "digest": "sha256:" + digest, "size": len(content)}
	}
	const oci = "application/vnd.oci.image."
	files := blob(oci+"layer.v1.tar", layer.bytes())
	config := blob(oci+"config.v1+json", encode(object{
		"architecture": arch, "os": "linux", "created": made,
		"rootfs": object{"type": "layers", "diff_ids": []any{files["digest"]}},
		"config": object{
			"User":       fmt.Sprintf("%d:%d", user, user),
			"Entrypoint": []string{"/usr/local/bin/reprise"}, "Cmd": []string{"serve"},
			"Env": []string{
				"PATH=/usr/local/bin", "REPRISE_DATA=/data", "REPRISE_LISTEN=0.0.0.0:7070", "REPRISE_INSECURE=true",
			},
			"ExposedPorts": object{"7070/tcp": object{}}, "Volumes": object{"/data": object{}},
			"Labels": object{"org.opencontainers.image.version": version},
		},
	}))
	manifest := blob(oci+"manifest.v1+json", encode(object{
		"schemaVersion": 2, "mediaType": oci + "manifest.v1+json", "config": config, "layers": []any{files},
	}))
	manifest["annotations"] = object{
		"org.opencontainers.image.ref.name": version, "io.containerd.image.name": "reprise:" + version,
	}
	path := func(blob object) string { return "blobs/sha256/" + blob["digest"].(string)[len("sha256:"):] }
	for _, file := range []struct {
		name    string
		content any
	}{
		{"oci-layout", object{"imageLayoutVersion": "1.0.0"}},
		{"index.json", object{"schemaVersion": 2, "mediaType": oci + "index.v1+json", "manifests": []any{manifest}}},
		{"manifest.json", []object{{ // what docker looks for
			"Config": path(config), "RepoTags": []string{"reprise:" + version}, "Layers": []string{path(files)},
		}}},
	} {
		image.add(tar.Header{Name: file.name, Mode: 0o644}, encode(file.content))
	}
	return image.bytes(), nil
}

// encode returns v as JSON. It panics on what has none, which nothing here has.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// archive is a tar in memory, all of whose files have one time.
type archive struct {
	made time.Time
	to   bytes.Buffer
	tar  *tar.Writer
}

func newArchive(made time.Time) *archive {
	a := &archive{made: made}
	a.tar = tar.NewWriter(&a.to)
	return a
}

// add adds a file or, if its name ends with a slash, a directory. Writing to memory does not fail.
func (a *archive) add(header tar.Header, content []byte) {
	header.Size, header.ModTime, header.Format = int64(len(content)), a.made, tar.FormatUSTAR
	header.Typeflag = tar.TypeReg
	if header.Name[len(header.Name)-1] == '/' {
		header.Typeflag = tar.TypeDir
	}
	if err := a.tar.WriteHeader(&header); err != nil {
		panic(err)
	}
	if _, err := a.tar.Write(content); err != nil {
		panic(err)
	}
}

func (a *archive) bytes() []byte {
	if err := a.tar.Close(); err != nil {
		panic(err)
	}
	return a.to.Bytes()
}
