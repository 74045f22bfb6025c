package conventions_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fencedBlock = regexp.MustCompile("(?ms)^```.*?^```")
	pageLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pageHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	linkText    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// TestLinksOfPagesLeadSomewhere: each link of a page to a file, or to a heading of a page, has its target.
func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	top(t)
	checked := 0
	for _, path := range pages(t) {
		for _, link := range pageLink.FindAllStringSubmatch(fencedBlock.ReplaceAllString(readFile(t, path), ""), -1) {
			if strings.Contains(link[1], ":") {
				continue // elsewhere
			}
			checked++
			file, heading, _ := strings.Cut(link[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s does not exist", path, link[1])
			} else if heading != "" && strings.HasSuffix(target, ".md") && !anchors(t, target)[heading] {
				t.Errorf("%s: %s has no such heading", path, link[1])
			}
		}
	}
	if checked < 500 {
		t.Errorf("%d links were checked", checked)
	}
}

// pages are the Markdown files of the repository.
func pages(t *testing.T) (paths []string) {
	t.Helper()
	check(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "node_modules" || name == "bin" || name == ".cache" || name == ".git"):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".md"):
			paths = append(paths, path)
		}
		return nil
	}))
	return paths
}

// anchors are the names by which links name the headings of a page.
func anchors(t *testing.T, path string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	text := fencedBlock.ReplaceAllString(readFile(t, path), "")
	for _, heading := range pageHeading.FindAllStringSubmatch(text, -1) {
		name := strings.ToLower(strings.TrimSpace(linkText.ReplaceAllString(heading[1], "$1")))
		name = strings.ReplaceAll(notInAnchor.ReplaceAllString(name, ""), " ", "-")
		unique := name
		for n := 1; names[unique]; n++ {
			unique = fmt.Sprint(name, "-", n)
		}
		names[unique] = true
	}
	return names
}
