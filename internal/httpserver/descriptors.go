package httpserver

const (
	// fallbackFiles is assumed if the limit on open files is unknown.
	fallbackFiles = 1024
	// maxFiles is as much of that limit as is used.
	maxFiles = 1 << 20
	// reserve is the number of files for running commands (six each for the default of 64), upstreams, the store and
	// its connections, but at most half of all.
	reserve = 768
)

// MaxConnections is the default of Options.MaxConnections: the limit on open files of this process, less what commands
// and the store need.
func MaxConnections() int {
	files := openFiles()
	return max(2, files-max(files/4, min(reserve, files/2)))
}
