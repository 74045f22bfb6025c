package main

import (
	"fmt"
	"time"

	"reprise/internal/bytesize"
	"reprise/internal/upkeep"
)

// adviceRows adds what there is to know about how a store fills.
func adviceRows(t *table, a *upkeep.Advice) {
	period := time.Duration(a.PeriodSeconds * float64(time.Second)).Round(time.Second)
	t.row("appended a day", fmt.Sprintf("%d events, %v, as of the last %v",
		a.EventsPerDay, bytesize.Size(a.BytesPerDay), period))
	t.row("kept by age", fmt.Sprintf("%v of streams that have ended, at that rate", bytesize.Size(a.AgeBytes)))
	t.row("not ended", fmt.Sprintf("%d of %d streams, %v, which no bound on age removes",
		a.Open, a.Streams, bytesize.Size(a.OpenBytes)))
	t.row("at their bounds", fmt.Sprintf("%d streams at --retain-events, %d at --retain-bytes; %d events were given up",
		a.AtEvents, a.AtBytes, a.GivenUp))
	room := "no bound on all streams"
	if a.MaxBytes > 0 {
		room = fmt.Sprintf("%v of %v (--max-total-bytes)", bytesize.Size(a.KeptBytes), bytesize.Size(a.MaxBytes))
	}
	t.row("in all", room)
	t.row("advice", advice(a, period))
}

// advice is what to do.
func advice(a *upkeep.Advice, period time.Duration) string {
	switch {
	case period < time.Minute:
		return "the store is too young to tell"
	case a.FullInDays != nil:
		return fmt.Sprintf("--max-total-bytes is reached in %.1f days, and the oldest ended streams then go before their time: "+
			"shorten --retain-age, end streams that get no more events (--max-idle), or raise it", *a.FullInDays)
	case a.MaxBytes > 0 && a.AgeBytes+a.OpenBytes > a.MaxBytes/5*4:
		return "less than a fifth of --max-total-bytes is left at that rate: shorten --retain-age or raise it"
	case a.AtEvents+a.AtBytes > a.Streams/2:
		return "most streams have lost their beginning: raise --retain-events or --retain-bytes if readers come late"
	}
	return "the bounds leave room"
}
