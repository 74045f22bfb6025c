package schedule

import (
	"slices"
	"testing"
	"time"
)

// slots are the next n slots of a line after a moment, as a clock in the zone shows them.
func slots(t *testing.T, line, zone, after string, n int) (list []string) {
	t.Helper()
	c, err := ParseCron(line)
	if err != nil {
		t.Fatal(err)
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339, after)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		at = c.Next(at, location)
		list = append(list, at.In(location).Format("Mon 2006-01-02 15:04 -07"))
	}
	return list
}

func TestSlotsOfLines(t *testing.T) {
	for _, test := range []struct {
		line, zone, after string
		want              []string
	}{
		{"*/20 * * * *", "UTC", "2026-11-22T18:05:30Z", []string{
			"Sun 2026-11-22 18:20 +00", "Sun 2026-11-22 18:40 +00", "Sun 2026-11-22 19:00 +00",
		}},
		{"5 4 * * mon-fri", "UTC", "2026-11-20T04:05:00Z", []string{"Mon 2026-11-23 04:05 +00"}},
		{"0 0 13 * fri", "UTC", "2026-11-01T00:00:00Z", []string{ // either, as POSIX has it
			"Fri 2026-11-06 00:00 +00", "Fri 2026-11-13 00:00 +00", "Fri 2026-11-20 00:00 +00",
		}},
		{"0 0 1-7 * */7", "UTC", "2026-11-01T00:00:00Z", []string{"Sun 2026-12-06 00:00 +00"}}, // both, with a star
		{
			"0 12 29 2 *", "UTC", "2026-01-01T00:00:00Z",
			[]string{"Tue 2028-02-29 12:00 +00", "Sun 2032-02-29 12:00 +00"},
		},
		{
			"59 23 31 dec 7", "UTC", "2026-12-01T00:00:00Z",
			[]string{"Sun 2026-12-06 23:59 +00", "Sun 2026-12-13 23:59 +00"},
		},
		{"@weekly", "UTC", "2026-11-22T00:00:00Z", []string{"Sun 2026-11-29 00:00 +00"}},
		{"@every 90s", "UTC", "1970-01-01T00:00:00Z", []string{"Thu 1970-01-01 00:01 +00", "Thu 1970-01-01 00:03 +00"}},
		{"0 9 * * *", "Asia/Kolkata", "2026-11-22T00:00:00Z", []string{"Sun 2026-11-22 09:00 +05"}},
		// Clocks jump from 02:00 to 03:00: what they jump over is due at 03:00, once.
		{
			"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z",
			[]string{"Sun 2026-03-29 03:00 +02", "Mon 2026-03-30 02:30 +02"},
		},
		{"0,15,30 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", []string{
			"Sun 2026-03-29 03:00 +02", "Sun 2026-03-29 03:15 +02", "Sun 2026-03-29 03:30 +02",
			"Mon 2026-03-30 02:00 +02",
		}},
		{
			"30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z",
			[]string{"Sun 2026-03-29 01:30 +01", "Sun 2026-03-29 03:30 +02"},
		},
		// They go back from 03:00 to 02:00: what comes twice is due the first time, what goes by elapsed time both
		// times.
		{
			"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z",
			[]string{"Sun 2026-10-25 02:30 +02", "Mon 2026-10-26 02:30 +01"},
		},
		{"30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", []string{
			"Sun 2026-10-25 02:30 +02", "Sun 2026-10-25 02:30 +01", "Sun 2026-10-25 03:30 +01",
		}},
		// At midnight, and by half an hour.
		{
			"0 0 * * *", "America/Asuncion", "2023-09-30T12:00:00Z",
			[]string{"Sun 2023-10-01 01:00 -03", "Mon 2023-10-02 00:00 -03"},
		},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", []string{"Sun 2026-10-04 02:30 +11"}},
	} {
		if got := slots(t, test.line, test.zone, test.after, len(test.want)); !slices.Equal(got, test.want) {
			t.Errorf("%s in %s after %s: %q, want %q", test.line, test.zone, test.after, got, test.want)
		}
	}
}

func TestLinesThatAreRefused(t *testing.T) {
	for _, line := range []string{
		"", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "a * * * *",
		"5-1 * * * *", "*/0 * * * *", "1,,2 * * * *", "+1 * * * *", "-1 * * * *", "1- * * * *", "0 0 30 2 *", "@often",
		"@every 10ms", "@every x", "@every 1500ms", "* * * foo *",
	} {
		if _, err := ParseCron(line); err == nil {
			t.Errorf("%q is taken", line)
		}
	}
}

// Whatever a line is, its slots come one after the other.
func FuzzParseCron(f *testing.F) {
	f.Add("*/5 1-3,7 * jan-mar mon")
	f.Add("@every 1h")
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line string) {
		c, err := ParseCron(line)
		if err != nil {
			return
		}
		at := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
		for range 5 {
			next := c.Next(at, zone)
			if !next.After(at) {
				t.Fatalf("%q: %v after %v", line, next, at)
			}
			at = next
		}
	})
}
