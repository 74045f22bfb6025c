package storewrap_test

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/shared"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
	"reprise/store/storetest"
	"reprise/store/storewrap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// short keeps the suite to what a wrapper can get wrong; the Stores inside have their own tests at full size.
var short = &storetest.Options{Events: 5_000, Streams: 320}

// wrapping puts a wrapper around a Store.
type wrapping func(tb testing.TB, inner reprise.Store) reprise.Store

// conform runs the suite with the wrapper around a Store in memory, which replicas share, and around one in a file.
func conform(t *testing.T, put wrapping) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(tb testing.TB) storetest.Harness {
			hub := shared.New(memstore.New(nil))
			another := func() (reprise.Store, error) { return put(tb, hub.Store()), nil }
			lose := func(reprise.Store) (func() error, error) { return hub.PrepareLoss(tb.Context()) }
			return storetest.Harness{Open: another, Share: another, Lose: lose}
		}, short)
	})
	t.Run("sqlite", func(t *testing.T) {
		if raceDetector {
			t.Skip("make test runs this without the race detector")
		}
		t.Parallel()
		storetest.Run(t, func(tb testing.TB) storetest.Harness {
			path := filepath.Join(tb.TempDir(), "reprise.db")
			return storetest.Harness{Persistent: true, Open: func() (reprise.Store, error) {
				inner, err := sqlitestore.Open(tb.Context(), path, &sqlitestore.Options{Sync: sqlitestore.SyncNormal})
				if err != nil {
					return nil, err
				}
				return put(tb, inner), nil
			}}
		}, short)
	})
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func compress(tb testing.TB, inner reprise.Store) reprise.Store {
	s, err := storewrap.Compress(inner, nil)
	check(tb, err)
	return s
}

func TestCompressedStoreKeepsContract(t *testing.T) { conform(t, compress) }

func encrypt(tb testing.TB, inner reprise.Store) reprise.Store {
	keys, err := newKeyset(masterKey{ID: "test", Secret: make([]byte, 32)})
	check(tb, err)
	s, err := storewrap.Encrypt(inner, keys)
	check(tb, err)
	return s
}

func TestEncryptedStoreKeepsContract(t *testing.T) { conform(t, encrypt) }
