package ssehttp_test

import (
	"errors"
	"net/http"
	"runtime"
	"testing"
	"time"

	"reprise"
	"reprise/internal/httpserver"
	"reprise/internal/park"
	"reprise/sse"
)

// parkAll makes sites park every response as soon as it has nothing to send.
var parkAll bool

// park starts the server of s with parking. The tests are skipped on systems without it.
func (s *site) park(tb testing.TB, next http.Handler) {
	lot, err := park.New(&park.Options{After: time.Nanosecond})
	if errors.Is(err, errors.ErrUnsupported) {
		tb.Skip("responses are not parked on this system")
	}
	check(tb, err)
	s.lot = lot
	s.server.Config = httpserver.New(lot.Handler(next), nil)
	s.server.Start()
	go func() { _ = lot.Serve(s.server.Config) }()
}

// awaitParked waits until n responses are parked.
func (s *site) awaitParked(tb testing.TB, n int) {
	tb.Helper()
	for deadline := time.Now().Add(time.Minute); s.lot.Parked() != n; {
		if time.Now().After(deadline) {
			tb.Fatalf("%d responses are parked, want %d", s.lot.Parked(), n)
		}
		runtime.Gosched()
	}
}

// TestParked repeats the tests that read over TCP, with responses that are parked: the bytes and their meaning stay the
// same.
func TestParked(t *testing.T) {
	parkAll = true
	defer func() { parkAll = false }()
	t.Run("IsParked", func(t *testing.T) { // the tests below show nothing otherwise
		site := newSite(t, nil, nil)
		s := create(t, site.log, "s", reprise.Retention{})
		d := sse.NewDecoder(site.get(t, "s", "").Body, nil)
		for i := range 3 {
			site.awaitParked(t, 1)
			add(t, s, numbered(i+1, 1)...)
			wantText(t, take(t, d, 1)[0], i+1)
		}
		end(t, s)
		take(t, d, 1)
		site.awaitParked(t, 0)
	})
	for name, test := range map[string]func(*testing.T){
		"FilteredReaderOfBusyStreamSeesDisconnect": TestFilteredReaderOfBusyStreamSeesDisconnect,
		"FilteredCursorAdvances":                   TestFilteredCursorAdvances,
		"CursorEvents":                             TestCursorEvents,
		"FilterWithoutTheEnd":                      TestFilterWithoutTheEnd,
		"FilteredGap":                              TestFilteredGap,
		"ForkOverHTTP":                             TestForkOverHTTP,
		"ForkBeforeTheWindow":                      TestForkBeforeTheWindow,
		"ForkInMidStream":                          TestForkInMidStream,
		"HeadTellsWindowAndOutcome":                TestHeadTellsWindowAndOutcome,
		"WireForm":                                 TestWireForm,
		"FormsShareNothing":                        TestFormsShareNothing,
		"ManyReaders":                              TestManyReaders,
		"ReaderThatNeverReadsOverTCP":              TestReaderThatNeverReadsOverTCP,
		"ClientThatGoesIsNoReader":                 TestClientThatGoesIsNoReader,
		"GapWhileTheWindowMoves":                   TestGapWhileTheWindowMoves,
		"RefusedBeforeTheFirstByte":                TestRefusedBeforeTheFirstByte,
		"RefusedAsGapEvent":                        TestRefusedAsGapEvent,
		"GapInTheMiddle":                           TestGapInTheMiddle,
		"OtherRefusals":                            TestOtherRefusals,
		"GapAtTheVeryEnd":                          TestGapAtTheVeryEnd,
		"PositionsOfHeaderAndQuery":                TestPositionsOfHeaderAndQuery,
		"ResumptionsAreTold":                       TestResumptionsAreTold,
		"EndIsNoContent":                           TestEndIsNoContent,
		"ReplayGoesOnLive":                         TestReplayGoesOnLive,
		"TailBeginsNow":                            TestTailBeginsNow,
		"HeadAndOtherMethods":                      TestHeadAndOtherMethods,
		"ResponseHeaders":                          TestResponseHeaders,
		"CutsLoseAndDoubleNothing":                 TestCutsLoseAndDoubleNothing,
	} {
		t.Run(name, test)
	}
}
