package logstore

import (
	"testing"

	"reprise/store/storetest"
)

func TestNoErrorOfADriverLeavesTheStore(t *testing.T) { storetest.Border(t, storeError) }
