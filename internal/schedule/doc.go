// Package schedule starts executions by the clock, each slot once over all replicas.
//
//	schedules, err := schedule.Open(ctx, log, &schedule.Options{Start: host.Start, ...})
//	s, err := schedules.Add(ctx, schedule.Request{Cron: "*/5 * * * *", Zone: "Europe/Berlin", Execution: request})
//	err = schedules.Run(ctx, fence) // on one replica at a time
//
// A slot is a moment at which a schedule is due. Its execution has an id that is made of the schedule and the slot, so
// however often it is started, by whatever replica, it runs once. What became of each slot is an event of a stream
// "schedule:<id>" of the tenant, whose owner is who runs the schedules: the newest one says where to go on, and what
// an earlier runner still records is refused.
//
// Slots that pass while nobody runs the schedules are missed: by default they are skipped, and told as one event with
// their number; with Once the newest of them is made up for. A slot that is at most a minute late is not missed. While
// the execution of an earlier slot runs, a slot is skipped, unless the schedule allows overlap.
package schedule
