// Package schedule starts executions at scheduled times, each slot once over all replicas.
//
//	schedules, err := schedule.Open(ctx, log, &schedule.Options{Start: host.Start, ...})
//	s, err := schedules.Add(ctx, schedule.Request{Cron: "*/5 * * * *", Zone: "Europe/Berlin", Execution: request})
//	err = schedules.Run(ctx, fence) // on one replica at a time
//
// A slot is a moment at which a schedule is due. The id of its execution is derived from the schedule and the slot, so
// the execution runs once, however often and by whichever replica it is started. The outcome of each slot is an event
// of a stream "schedule:<id>" of the tenant, which is owned by the runner of the schedules. The newest event tells a
// new runner where to continue, and records of an earlier runner are refused.
//
// Slots that pass while no replica runs the schedules are missed. By default they are skipped and recorded as one event
// with their number; with Once the newest of them is started late. A slot that is at most a minute late is not missed.
// A slot is skipped while the execution of an earlier slot runs, unless the schedule allows overlap.
package schedule
