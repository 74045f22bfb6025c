package httpserver

const (
	// fallbackFiles is assumed where the limit on open files is not known.
	fallbackFiles = 1024
	// maxFiles is as much of that limit as is used.
	maxFiles = 1 << 20
	// reserve is what is kept for running commands (six files each for the default of 64), upstreams, the store
	// and its connections, as long as that is no more than half.
	reserve = 768
)

// MaxConnections is the default of Options.MaxConnections: the limit on open files of this process, less what commands
// and the store need.
func MaxConnections() int {
	files := openFiles()
	return max(2, files-max(files/4, min(reserve, files/2)))
}
