package isolation

import (
	"errors"
	"os/user"
	"strconv"
)

// User is one that commands run as.
type User struct {
	Name   string `json:"name"`
	UID    int    `json:"uid"`
	GID    int    `json:"gid"`
	Groups []int  `json:"groups,omitempty"`
	Home   string `json:"home"`
}

// LookupUser finds a user of this machine by name or number.
func LookupUser(name string) (*User, error) {
	u, err := user.Lookup(name)
	if err != nil {
		if byID, idErr := user.LookupId(name); idErr == nil {
			u, err = byID, nil
		}
	}
	if err != nil {
		return nil, err
	}
	found := &User{Name: u.Username, Home: u.HomeDir}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	number := func(text string) int {
		n, numberErr := strconv.Atoi(text)
		err = errors.Join(err, numberErr)
		return n
	}
	found.UID, found.GID = number(u.Uid), number(u.Gid)
	for _, g := range groups {
		found.Groups = append(found.Groups, number(g))
	}
	return found, err
}

// CanSwitch is why commands cannot run as another user, nil if they can.
func (c *Config) CanSwitch() error {
	if c.Machine != nil {
		return c.Machine.SwitchUser
	}
	return Probe().SwitchUser
}
