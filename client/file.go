package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"path"
	"strconv"
)

// File is an entry of a directory of the server, below one of the roots that its operator has configured. Paths begin
// with the name of the root: "work/src/main.go".
type File struct {
	// Path has replacement characters for bytes that are not UTF-8; PathBase64 then has all bytes.
	Path       string `json:"path"`
	PathBase64 []byte `json:"path_base64,omitempty"`
	// Type is "file", "directory", "symlink", "fifo", "socket" or "device".
	Type string `json:"type"`
	// Size is the number of bytes of a file.
	Size int64 `json:"size"`
	// Mode are the permissions, for example "0644".
	Mode     string `json:"mode"`
	Modified Time   `json:"modified"`
	// ETag of a file changes whenever the file is changed or replaced.
	ETag string `json:"etag,omitempty"`
	// Target is the target of a symbolic link.
	Target string `json:"target,omitempty"`
	// SHA256 is the checksum in hexadecimal, if it is known.
	SHA256 string `json:"sha256,omitempty"`
	// Line and Text are the number and the text of the first line that matches the search.
	Line int    `json:"line,omitempty"`
	Text string `json:"text,omitempty"`

	// Raw is the object as the server sent it.
	Raw json.RawMessage `json:"-"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *File) UnmarshalJSON(text []byte) error {
	type plain File
	return decodeRaw(text, (*plain)(f), &f.Raw)
}

// FullPath returns the path with all its bytes.
func (f *File) FullPath() string {
	if f.PathBase64 != nil {
		return string(f.PathBase64)
	}
	return f.Path
}

// Name returns the last segment of the path.
func (f *File) Name() string { return path.Base(f.FullPath()) }

// FileList is one page of files. NextCursor is "" on the last page.
type FileList struct {
	Files      []File `json:"files"`
	NextCursor string `json:"next_cursor"`
}

const filesPath = "/v1/files"

func filePath(p string) url.Values { return url.Values{"path": {p}} }

// ListFiles returns one page of a directory in the order of names, or of the roots if dir is "". limit is 1 to 1,000,
// 0 for 100; cursor is FileList.NextCursor of the page before, or "".
func (c *Client) ListFiles(ctx context.Context, dir string, limit int, cursor string) (FileList, error) {
	query := listQuery(limit, cursor)
	setText(query, "path", dir)
	return answer[FileList](ctx, c, &request{op: "list files", method: http.MethodGet, path: filesPath, query: query})
}

// FileQuery describes a search. At least one of Name and Text is required.
type FileQuery struct {
	// Path is the directory below which to search.
	Path string
	// Name is a pattern for the last segment, such as "*.go"; Text must occur in a line.
	Name, Text string
	// Limit is 1 to 1,000 for a page, 0 for 100. Cursor is FileList.NextCursor of the page before.
	Limit  int
	Cursor string
}

// SearchFiles returns one page of matches. A page may be empty even if there is a next one.
func (c *Client) SearchFiles(ctx context.Context, q FileQuery) (FileList, error) {
	query := listQuery(q.Limit, q.Cursor)
	query.Set("path", q.Path)
	setText(query, "name", q.Name)
	setText(query, "text", q.Text)
	return answer[FileList](ctx, c, &request{
		op: "search files", method: http.MethodGet, path: filesPath + "/search", query: query,
	})
}

// ShowFile describes the entry at a path.
func (c *Client) ShowFile(ctx context.Context, p string) (File, error) {
	return answer[File](ctx, c, &request{
		op: "show " + p, method: http.MethodGet, path: filesPath + "/stat", query: filePath(p),
	})
}

// SumFile is like ShowFile for a file, with its checksum. The server reads the whole file.
func (c *Client) SumFile(ctx context.Context, p string) (File, error) {
	query := filePath(p)
	query.Set("checksum", "true")
	return answer[File](ctx, c, &request{
		op: "sum " + p, method: http.MethodGet, path: filesPath + "/stat", query: query, patient: true,
	})
}

// MakeDirectory makes a directory and its missing parents. It is not an error if the directory exists. mode is "" for
// "0755".
func (c *Client) MakeDirectory(ctx context.Context, p, mode string) (File, error) {
	return c.changeFile(ctx, "make directory "+p, "/directory",
		map[string]any{"path": p, "mode": mode, "parents": true})
}

// SetFileMode sets the permissions of a file or directory, for example "0640".
func (c *Client) SetFileMode(ctx context.Context, p, mode string) (File, error) {
	return c.changeFile(ctx, "set the mode of "+p, "/permissions", map[string]any{"path": p, "mode": mode})
}

// MoveFile moves an entry to another path in the same root. Without overwrite the error is reprise.ErrConflict if the
// target exists. It is not sent again once it may have arrived, because a second move would find nothing.
func (c *Client) MoveFile(ctx context.Context, from, to string, overwrite bool) (File, error) {
	r, err := jsonRequest("move "+from, http.MethodPost, filesPath+"/move",
		map[string]any{"from": from, "to": to, "overwrite": overwrite})
	if err != nil {
		return File{}, err
	}
	r.once = true
	return answer[File](ctx, c, r)
}

func (c *Client) changeFile(ctx context.Context, op, rest string, body map[string]any) (File, error) {
	if body["mode"] == "" {
		delete(body, "mode")
	}
	r, err := jsonRequest(op, http.MethodPost, filesPath+rest, body)
	if err != nil {
		return File{}, err
	}
	return answer[File](ctx, c, r)
}

// RemoveFile removes an entry, and with recursive a directory with its contents. A missing entry is not an error.
func (c *Client) RemoveFile(ctx context.Context, p string, recursive bool) error {
	query := filePath(p)
	query.Set("recursive", strconv.FormatBool(recursive))
	return c.call(ctx, &request{op: "remove " + p, method: http.MethodDelete, path: filesPath, query: query}, nil)
}

// Watch is a watched directory.
type Watch struct {
	ID        string `json:"id"`
	Path      string `json:"path"`
	Recursive bool   `json:"recursive"`
	// Cursor is the position after which new changes follow.
	Cursor string `json:"cursor"`
}

// StartWatch begins to watch a directory, and with recursive the directories in it.
func (c *Client) StartWatch(ctx context.Context, dir string, recursive bool) (Watch, error) {
	r, err := jsonRequest("watch "+dir, http.MethodPost, filesPath+"/watches",
		map[string]any{"path": dir, "recursive": recursive})
	if err != nil {
		return Watch{}, err
	}
	return answer[Watch](ctx, c, r)
}

// FileChange is a change of an entry. A removed entry is shown in its last state.
type FileChange struct {
	File
	// From is the path before a move.
	From string `json:"from,omitempty"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *FileChange) UnmarshalJSON(text []byte) error {
	var from struct {
		From string `json:"from"`
	}
	if err := json.Unmarshal(text, &from); err != nil {
		return err
	}
	f.From = from.From
	return json.Unmarshal(text, &f.File)
}

// FollowWatch yields the changes below a watched directory, each once and in order, through
// connections that break; see Follow. The types of events are "created", "modified", "removed" and "moved". Their Data
// is a FileChange as JSON, see Event.FileChange. Without FollowOptions.After it begins with the first kept
// change.
func (c *Client) FollowWatch(ctx context.Context, id string, opts *FollowOptions) iter.Seq2[Event, error] {
	return c.follow(ctx, "follow watch "+id, id, filesPath+"/watches/"+url.PathEscape(id), nil, opts)
}

// FileChange decodes the data of an event of a watch.
func (e *Event) FileChange() (FileChange, error) {
	var change FileChange
	err := json.Unmarshal(e.Data, &change)
	return change, err
}
