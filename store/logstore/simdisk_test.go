package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
)

// simDisk is a disk that knows what a loss of power may leave of it, and can be made to fail.
type simDisk struct {
	names   map[string]*simFile // as programs see them
	durable map[string]*simFile // as of the last sync of the names
	moved   []nameChange        // since then
	quota   int64               // bytes that all files may have, 0 for no bound

	// before is called before each change, and decides whether it fails.
	before func(call, name string) error
	// lost chooses what a sync that fails leaves of the changes of a file.
	lost *rand.Rand
}

// nameChange is a change of the names: file is called to from now on, and nothing is called from.
type nameChange struct {
	from, to string
	file     *simFile
}

// simFile is a file. Its slices are never changed in place, so that a copy is the file at one moment.
type simFile struct {
	disk    *simDisk
	name    string
	data    []byte      // as programs see it
	durable []byte      // as of the last sync
	changed []change512 // since then
}

// change512 is what a disk does at once or not at all: a part of a sector that is written, or a new length.
type change512 struct {
	at     int64
	bytes  []byte
	length int64 // if bytes is nil
}

const sector = 512

func newSimDisk() *simDisk {
	return &simDisk{names: map[string]*simFile{}, durable: map[string]*simFile{}}
}

func (d *simDisk) fault(call, name string) error {
	if d.before == nil {
		return nil
	}
	return d.before(call, name)
}

func (d *simDisk) list() ([]string, error) { return slices.Sorted(maps.Keys(d.names)), nil }

func (d *simDisk) open(name string) (file, error) {
	if f := d.names[name]; f != nil {
		return f, nil
	}
	return nil, fs.ErrNotExist
}

func (d *simDisk) create(name string, size int64) (file, error) {
	if err := d.fault("create", name); err != nil {
		return nil, err
	}
	if d.names[name] != nil {
		return nil, fs.ErrExist
	}
	if d.full(size) {
		return nil, syscall.ENOSPC
	}
	f := &simFile{disk: d, name: name}
	d.names[name] = f
	d.moved = append(slices.Clip(d.moved), nameChange{to: name, file: f})
	f.data, f.changed = make([]byte, size), []change512{{length: size}}
	return f, nil
}

func (d *simDisk) free() (int64, error) {
	if d.quota == 0 {
		return 0, errors.ErrUnsupported
	}
	return max(0, d.quota-d.used()), nil
}

// full reports whether so many bytes more are too many.
func (d *simDisk) full(more int64) bool {
	for _, f := range d.names {
		more += int64(len(f.data))
	}
	return d.quota > 0 && more > d.quota
}

func (d *simDisk) rename(from, to string) error {
	if err := d.fault("rename", from); err != nil {
		return err
	}
	f := d.names[from]
	delete(d.names, from)
	d.names[to], f.name = f, to
	d.moved = append(slices.Clip(d.moved), nameChange{from: from, to: to, file: f})
	return nil
}

func (d *simDisk) remove(name string) error {
	if err := d.fault("remove", name); err != nil {
		return err
	}
	if d.names[name] == nil {
		return fs.ErrNotExist
	}
	delete(d.names, name)
	d.moved = append(slices.Clip(d.moved), nameChange{from: name})
	return nil
}

func (d *simDisk) sync() error {
	if err := d.fault("sync names", ""); err != nil {
		return err
	}
	d.durable, d.moved = maps.Clone(d.names), nil
	return nil
}

func (f *simFile) ReadAt(p []byte, at int64) (int, error) {
	if at >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.data[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *simFile) WriteAt(p []byte, at int64) (int, error) {
	fault := f.disk.fault("write", f.name)
	switch {
	case isFull(fault):
		p = p[:len(p)/2]
	case fault != nil:
		return 0, fault
	}
	end := at + int64(len(p))
	if more := end - int64(len(f.data)); more > 0 {
		if f.disk.full(more) {
			return 0, syscall.ENOSPC
		}
		f.changed = append(slices.Clip(f.changed), change512{length: end})
	}
	p = slices.Clone(p)
	f.changed = slices.Clip(f.changed)
	for from := at; from < end; {
		to := min(end, (from/sector+1)*sector)
		f.changed = append(f.changed, change512{at: from, bytes: p[from-at : to-at]})
		from = to
	}
	f.data = written(slices.Clone(f.data), at, p)
	return len(p), fault
}

// written is data with p at an offset.
func written(data []byte, at int64, p []byte) []byte {
	data = resized(data, max(int64(len(data)), at+int64(len(p))))
	copy(data[at:], p)
	return data
}

// resized is data, with zero bytes behind it, in a length.
func resized(data []byte, length int64) []byte {
	if n := int64(len(data)); n < length {
		return append(data, make([]byte, length-n)...)
	}
	return data[:length:length]
}

func (f *simFile) resize(call string, length int64) error {
	if err := f.disk.fault(call, f.name); err != nil {
		return err
	}
	f.changed = append(slices.Clip(f.changed), change512{length: length})
	f.data = resized(slices.Clone(f.data), length)
	return nil
}

func (f *simFile) Truncate(length int64) error { return f.resize("truncate", length) }

// Allocate takes all that is left if that is not enough, as ext4 does.
func (f *simFile) Allocate(length int64) error {
	if more := length - int64(len(f.data)); f.disk.full(more) {
		for ; more > 0 && f.disk.full(more); more -= sector {
		}
		return errors.Join(syscall.ENOSPC, f.resize("reserve", int64(len(f.data))+max(more, 0)))
	}
	return f.resize("reserve", length)
}

func (f *simFile) size() (int64, error) { return int64(len(f.data)), nil }
func (f *simFile) Close() error         { return nil }

// sync makes the changes durable. If it fails some of them are, and the others never will be: the system takes their
// pages for written, and shows them or what was there before.
func (f *simFile) sync() error {
	if err := f.disk.fault("sync", f.name); err != nil {
		rnd := f.disk.lost
		f.durable = applied(f.durable, f.changed, func(int) tear { return tear(rnd.IntN(4)) })
		f.changed = nil
		if rnd.IntN(2) == 0 {
			f.data = f.durable
		}
		return err
	}
	// Not f.data: a sync does not know of what an earlier one has lost.
	f.durable, f.changed = applied(f.durable, f.changed, func(int) tear { return whole }), nil
	return nil
}

// tear is what becomes of a change in a loss of power.
type tear int

const (
	none tear = iota
	whole
	front // the first half of a sector's bytes
	back  // the second half
)

// applied is durable with some of the changes.
func applied(durable []byte, changed []change512, choose func(i int) tear) []byte {
	data := slices.Clone(durable)
	for i, c := range changed {
		t := choose(i)
		switch {
		case t == none:
		case c.bytes == nil:
			data = resized(data, c.length)
		case t == front:
			data = written(data, c.at, c.bytes[:len(c.bytes)/2])
		case t == back:
			data = written(data, c.at+int64(len(c.bytes)/2), c.bytes[len(c.bytes)/2:])
		default:
			data = written(data, c.at, c.bytes)
		}
	}
	return data
}

// image is a disk at one moment.
type image struct {
	durable map[string]*simFile
	moved   []nameChange
	files   map[*simFile]simFile // as they were
}

func (d *simDisk) image() *image {
	m := &image{durable: d.durable, moved: d.moved, files: map[*simFile]simFile{}}
	for _, f := range d.durable {
		m.files[f] = *f
	}
	for _, c := range d.moved {
		if c.file != nil {
			m.files[c.file] = *c.file
		}
	}
	return m
}

// units is the number of choices that crash makes.
func (m *image) units() int {
	n := len(m.moved)
	for _, f := range m.files {
		n += len(f.changed)
	}
	return n
}

// crash is the disk that a loss of power leaves. choose is asked for each change, in a fixed order.
func (m *image) crash(choose func(i int) tear) *simDisk {
	names, n := maps.Clone(m.durable), 0
	for _, c := range m.moved {
		t := choose(n)
		n++
		if t == none {
			continue
		}
		delete(names, c.from)
		if c.file != nil {
			names[c.to] = c.file
		}
	}
	d := newSimDisk()
	var files []*simFile
	for f := range m.files {
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b *simFile) int { return cmpNames(m.files[a], m.files[b]) })
	left := map[*simFile]*simFile{}
	for _, f := range files {
		was, first := m.files[f], n
		n += len(was.changed)
		data := applied(was.durable, was.changed, func(i int) tear { return choose(first + i) })
		left[f] = &simFile{disk: d, name: was.name, data: data, durable: data}
	}
	for name, f := range names {
		d.names[name] = left[f]
	}
	d.durable = maps.Clone(d.names)
	return d
}

func cmpNames(a, b simFile) int {
	if a.name != b.name {
		if a.name < b.name {
			return -1
		}
		return 1
	}
	return len(a.data) - len(b.data)
}

// settled is the disk with all that is durable and nothing else.
func (d *simDisk) settled() *simDisk { return d.image().crash(func(int) tear { return none }) }

func (d *simDisk) String() string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		text += fmt.Sprintf(" %s(%d)", name, len(d.names[name].data))
	}
	return text
}
