package isolation

// A Mask is a file or directory that a command does not reach. A command is started only if the path still leads to
// that very file or directory.
type Mask struct {
	// Path is absolute and has no symbolic links.
	Path string `json:"path"`
	// Dir reports whether it is a directory, which is masked with all below it.
	Dir bool `json:"dir,omitempty"`
	// Dev and Ino are its device and its inode.
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// outermost returns the masks that are not below another one.
func outermost(masks []Mask) (roots []Mask) {
	for i, m := range masks {
		covered := false
		for j, other := range masks {
			covered = covered || other.Dir && other.Path != m.Path && within(m.Path, other.Path) ||
				j < i && other == m
		}
		if !covered {
			roots = append(roots, m)
		}
	}
	return roots
}

// Masked returns the paths of the masks.
func (p *Plan) Masked() (paths []string) {
	for _, m := range p.Masks {
		paths = append(paths, m.Path)
	}
	return paths
}
