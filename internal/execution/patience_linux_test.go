package execution

import "time"

// PatientForTest makes the Hosts wait an hour for a silent collector. It returns a function that undoes that.
func PatientForTest() (undo func()) {
	before := collectorPatience
	collectorPatience = time.Hour
	return func() { collectorPatience = before }
}
