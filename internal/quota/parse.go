package quota

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"reprise"
	"reprise/internal/bytesize"
)

// ParseLimits reads texts such as "running=5" and "bytes=1GiB" for a program that counts the named quotas, nil for all.
func ParseLimits(texts []string, names []Name) (Limits, error) {
	limits := Limits{}
	for _, text := range texts {
		if err := limits.parse(text, names); err != nil {
			return nil, err
		}
	}
	return limits, nil
}

// ParseTenants is like ParseLimits for the limits of each tenant, and of named ones, as in "NAME:running=5".
func ParseTenants(texts []string, names []Name) (each Limits, named map[reprise.Tenant]Limits, err error) {
	each, named = Limits{}, map[reprise.Tenant]Limits{}
	for _, text := range texts {
		limits := each
		if name, rest, ok := strings.Cut(text, ":"); ok {
			t := reprise.Tenant(name)
			if err := (reprise.StreamKey{Tenant: t, Name: "x"}).Validate(); err != nil {
				return nil, nil, err
			}
			if named[t] == nil {
				named[t] = Limits{}
			}
			limits, text = named[t], rest
		}
		if err := limits.parse(text, names); err != nil {
			return nil, nil, err
		}
	}
	return each, named, nil
}

// parse reads a quota and its bound into l.
func (l Limits) parse(text string, names []Name) error {
	name, bound, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%q is not a quota and limit such as running=5", text)
	}
	q := Name(strings.TrimSpace(name))
	if _, twice := l[q]; twice {
		return fmt.Errorf("the quota %s is given twice", q)
	}
	var size bytesize.Size
	n, err := strconv.ParseInt(bound, 10, 64)
	if err != nil && q.IsSize() {
		err = size.UnmarshalText([]byte(bound))
		n = int64(size)
	}
	if err != nil {
		return fmt.Errorf("%q is not a limit of the quota %s", bound, q)
	}
	l[q] = n
	if err := l.Validate(); err != nil {
		return err
	}
	if names != nil && !slices.Contains(names, q) {
		return fmt.Errorf("the quota %s is not counted here, only %v", q, names)
	}
	return nil
}
