package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Cron is a parsed line: minute, hour, day of the month, month and day of the week, as in POSIX crontab, with steps and
// names; or "@hourly", "@daily", "@weekly", "@monthly", "@yearly"; or "@every DURATION".
//
// A line whose hour field matches every hour follows elapsed time. Other lines follow the local clock: a time that
// exists twice, when clocks are set back, is due the first time; a time that does not exist, when clocks are set
// forward, is due at the moment of the change.
type Cron struct {
	minutes, hours, days, months, weekdays uint64
	// anyDay and anyWeekday mean that the field begins with "*". If neither does, a day matches if one of the fields
	// matches.
	anyDay, anyWeekday bool
	everyHour          bool
	every              time.Duration // 0 for a line with fields
}

var errCron = errors.New("it is no cron line")

// field describes the values of one field.
type field struct {
	name     string
	from, to int
	names    []string
}

var fields = [5]field{
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of the month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of the week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

var shorthands = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

// minEvery is the shortest period of "@every".
const minEvery = time.Second

// ParseCron parses a line. The error names the invalid field.
func ParseCron(line string) (*Cron, error) {
	if text, ok := strings.CutPrefix(line, "@every "); ok {
		every, err := time.ParseDuration(strings.TrimSpace(text))
		if err != nil || every < minEvery || every%time.Second != 0 {
			return nil, fmt.Errorf("%w: @every takes whole seconds, such as 90s or 2h", errCron)
		}
		return &Cron{every: every}, nil
	}
	if full, ok := shorthands[strings.TrimSpace(line)]; ok {
		line = full
	}
	texts := strings.Fields(line)
	if len(texts) != len(fields) {
		return nil, fmt.Errorf("%w: it has %d fields, and not minute, hour, day, month and day of the week",
			errCron, len(texts))
	}
	c := &Cron{}
	for i, set := range []*uint64{&c.minutes, &c.hours, &c.days, &c.months, &c.weekdays} {
		var err error
		if *set, err = fields[i].parse(strings.ToLower(texts[i])); err != nil {
			return nil, err
		}
	}
	if c.weekdays&(1<<7) != 0 { // Sunday is 0 and 7
		c.weekdays |= 1
	}
	c.everyHour = bits.OnesCount64(c.hours) == 24
	c.anyDay, c.anyWeekday = strings.HasPrefix(texts[2], "*"), strings.HasPrefix(texts[4], "*")
	if c.Next(time.Date(2023, 3, 1, 0, 0, 0, 0, time.UTC), time.UTC).IsZero() {
		return nil, fmt.Errorf("%w: there is no such day", errCron)
	}
	return c, nil
}

// parse parses one field: a list of "*", "A" and "A-B", each optionally followed by "/STEP".
func (f *field) parse(text string) (set uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		span, step, stepped := strings.Cut(part, "/")
		by := 1
		if stepped {
			if by, err = strconv.Atoi(step); err != nil || by < 1 || by > f.to {
				return 0, f.wrong(part)
			}
		}
		from, to := f.from, f.to
		if span != "*" {
			first, last, ranged := strings.Cut(span, "-")
			if from, err = f.value(first); err != nil {
				return 0, f.wrong(part)
			}
			switch {
			case ranged:
				to, err = f.value(last)
			case !stepped:
				to = from
			}
			if err != nil || from > to {
				return 0, f.wrong(part)
			}
		}
		for v := from; v <= to; v += by {
			set |= 1 << v
		}
	}
	return set, nil
}

func (f *field) wrong(part string) error {
	return fmt.Errorf("%w: %q is no %s", errCron, part, f.name)
}

func (f *field) value(text string) (int, error) {
	for i, name := range f.names {
		if text == name {
			return f.from + i, nil
		}
	}
	v, err := strconv.Atoi(text)
	if err != nil || text[0] == '+' || v < f.from || v > f.to {
		return 0, errCron
	}
	return v, nil
}

// horizon bounds the search of Next: leap days are up to eight years apart.
const horizon = 9 * 366 * 24 * time.Hour

// Next returns the first slot after a moment, in UTC. It is zero if there is none within nine years.
func (c *Cron) Next(after time.Time, zone *time.Location) time.Time {
	if c.every > 0 { // slots are multiples of every since 1970, so that all replicas agree
		at := after.Unix() - after.Unix()%int64(c.every/time.Second)
		return time.Unix(at, 0).Add(c.every).UTC()
	}
	end := after.Add(horizon)
	for t := after.Truncate(time.Minute).Add(time.Minute); t.Before(end); {
		local := t.In(zone)
		if c.isDue(local) {
			return t.UTC()
		}
		next := t.Add(time.Minute)
		switch {
		case !c.matchesDay(local):
			midnight := time.Date(local.Year(), local.Month(), local.Day()+1, 0, 0, 0, 0, zone)
			next = c.before(local, midnight, next)
		case c.hours&(1<<local.Hour()) == 0:
			next = c.before(local, t.Add(time.Duration(60-local.Minute())*time.Minute), next)
		}
		t = next
	}
	return time.Time{}
}

// before returns the moment to continue from: target, or the moment when clocks are set if that comes first, and at
// least next.
func (c *Cron) before(local, target, next time.Time) time.Time {
	if _, set := local.ZoneBounds(); !set.IsZero() && set.Before(target) {
		target = set
	}
	if target.Before(next) {
		return next
	}
	return target
}

// isDue reports whether a moment is a slot.
func (c *Cron) isDue(local time.Time) bool {
	matches := c.matches(local)
	if c.everyHour {
		return matches
	}
	set, _ := local.ZoneBounds()
	if set.IsZero() {
		return matches
	}
	_, now := local.Zone()
	_, earlier := set.Add(-time.Second).In(local.Location()).Zone()
	by := time.Duration(now-earlier) * time.Second
	switch {
	case by < 0 && local.Sub(set) < -by: // the second time
		return false
	case by > 0 && local.Equal(set): // the skipped local times
		wall := set.UTC().Add(time.Duration(earlier) * time.Second)
		for skipped := time.Duration(0); skipped < by; skipped += time.Minute {
			if c.matches(wall.Add(skipped)) {
				return true
			}
		}
	}
	return matches
}

// matches reports whether all fields match a local time.
func (c *Cron) matches(wall time.Time) bool {
	return c.minutes&(1<<wall.Minute()) != 0 && c.hours&(1<<wall.Hour()) != 0 && c.matchesDay(wall)
}

func (c *Cron) matchesDay(wall time.Time) bool {
	if c.months&(1<<wall.Month()) == 0 {
		return false
	}
	day, weekday := c.days&(1<<wall.Day()) != 0, c.weekdays&(1<<wall.Weekday()) != 0
	if c.anyDay || c.anyWeekday {
		return day && weekday
	}
	return day || weekday
}
