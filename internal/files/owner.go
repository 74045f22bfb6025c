package files

import (
	"os/user"
	"strconv"
	"sync"
)

// names are the names of users and groups by their numbers. The system is asked once for each.
var names struct {
	users, groups sync.Map
}

// Owner returns the name of the user that has the file, or the number as text.
func (f *File) Owner() string {
	return nameOf(&names.users, f.UID, func(id string) (string, error) {
		u, err := user.LookupId(id)
		if err != nil {
			return "", err
		}
		return u.Username, nil
	})
}

// Group is Owner for its group.
func (f *File) Group() string {
	return nameOf(&names.groups, f.GID, func(id string) (string, error) {
		g, err := user.LookupGroupId(id)
		if err != nil {
			return "", err
		}
		return g.Name, nil
	})
}

func nameOf(known *sync.Map, id int, look func(id string) (string, error)) string {
	if name, ok := known.Load(id); ok {
		return name.(string)
	}
	number := strconv.Itoa(id)
	name, err := look(number)
	if err != nil {
		name = number
	}
	known.Store(id, name)
	return name
}
