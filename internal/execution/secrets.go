package execution

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"reprise"
)

// A named secret is a file below Options.Secrets, in the folder of its tenant, that only its owner may read. A request
// names it. Its value is read when the command is started, and is never stored.

const (
	maxSecretName  = 64
	maxSecretBytes = 64 << 10
	// A masked value is neither so short that it occurs in every output, nor so long that a search for it is useless.
	minMasked = 4
	maxMasked = 4 << 10
)

// checkSecrets is part of Request.Validate.
func (r *Request) checkSecrets() error {
	for _, variable := range slices.Sorted(maps.Keys(r.Secrets)) {
		_, twice := r.Env[variable]
		switch {
		case variable == "" || strings.Contains(variable, "=") || hasNUL(variable):
			return invalid("secrets", "%q is no name of a variable", variable)
		case twice:
			return invalid("secrets", "the variable %q is in env as well", variable)
		}
		if err := CheckSecretName(r.Secrets[variable]); err != nil {
			return err
		}
	}
	if r.MaskSecrets && len(r.Secrets) == 0 {
		return invalid("mask_secrets", "there are no secrets to mask")
	}
	return nil
}

// CheckSecretName returns a *FieldError unless a secret can have the name.
func CheckSecretName(name string) error {
	if name == "" || len(name) > maxSecretName || name[0] == '.' || strings.ContainsFunc(name, notInSecretNames) {
		return invalid("secrets", "the name of a secret is 1 to %d letters, digits, '.', '_' and '-', and does not begin with '.'",
			maxSecretName)
	}
	return nil
}

func notInSecretNames(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r))
}

// secrets reads the values of the secrets of a request, by variable. The error is a *FieldError, and shows no value.
func (h *Host) secrets(tenant reprise.Tenant, req *Request) (map[string]string, error) {
	values := make(map[string]string, len(req.Secrets))
	for _, variable := range slices.Sorted(maps.Keys(req.Secrets)) {
		name := req.Secrets[variable]
		value, err := ReadSecret(h.opts.Secrets, tenant, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, invalid("secrets", "the server has no secret %q for you", name)
		case err != nil:
			h.opts.Logger.Error("a named secret cannot be used", "secret", name, "tenant", tenant, "error", err)
			return nil, invalid("secrets", "the secret %q cannot be used; the log of the server says why", name)
		case req.MaskSecrets && (len(value) < minMasked || len(value) > maxMasked):
			return nil, invalid("mask_secrets", "the secret %q has not %d to %d bytes", name, minMasked, maxMasked)
		}
		values[variable] = value
	}
	return values, nil
}

// ReadSecret reads the value of a named secret below dir: a file, accessible only to its owner, without its last line
// break. The error is fs.ErrNotExist if there is no such secret.
func ReadSecret(dir string, tenant reprise.Tenant, name string) (string, error) {
	if dir == "" {
		return "", fs.ErrNotExist
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	file := path.Join(string(tenant), name)
	info, err := root.Stat(file)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%w: %s is not a regular file", reprise.ErrInvalid, file)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("%w: %s may be used by others (%v): chmod 600 it", reprise.ErrInvalid, file, info.Mode())
	}
	f, err := root.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	if err != nil {
		return "", err
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	if len(text) > maxSecretBytes || bytes.IndexByte(text, 0) >= 0 {
		return "", fmt.Errorf("%w: %s has more than %d bytes, or a NUL", reprise.ErrInvalid, file, maxSecretBytes)
	}
	return string(text), nil
}

// withSecrets adds the secrets of the request to the variables of a command, and returns the values to mask in its
// output.
func (r *Run) withSecrets(env map[string]string) (all map[string]string, masked []string, err error) {
	if len(r.request.Secrets) == 0 {
		return env, nil, nil
	}
	values, err := r.host.secrets(r.key.Tenant, &r.request)
	if err != nil {
		return nil, nil, err
	}
	all = maps.Clone(values)
	maps.Copy(all, env) // which has none of their names
	if !r.request.MaskSecrets {
		return all, nil, nil
	}
	for _, value := range values {
		masked = append(masked, value)
		if r.request.TTY != nil && strings.Contains(value, "\n") { // a terminal writes it like this
			masked = append(masked, strings.ReplaceAll(value, "\n", "\r\n"))
		}
	}
	slices.Sort(masked)
	return all, slices.Compact(masked), nil
}
