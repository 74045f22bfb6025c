package pgstore_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"reprise"
	"reprise/store/pgstore"
)

// firstVersion makes the tables as the first version of the program does, in a schema of the name.
func firstVersion(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile("migrations/0001.sql")
	check(t, err)
	h := fnv.New64a()
	fmt.Fprint(h, "reprise:", name)
	in := strings.NewReplacer("{schema}", name, "{lock}", strconv.FormatInt(int64(h.Sum64()>>2<<1), 10))
	conn, err := pgx.Connect(t.Context(), server.URL())
	check(t, err)
	defer conn.Close(t.Context())
	for _, statement := range []string{
		`CREATE SCHEMA {schema}`, string(text),
		`CREATE FUNCTION {schema}.schema_version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 1'`,
	} {
		_, err := conn.Exec(t.Context(), in.Replace(statement), pgx.QueryExecModeSimpleProtocol)
		check(t, err)
	}
}

// old is a replica of the first version, which was running when another one brought the schema up to date.
type old struct{ schema string }

func (o old) query(t *testing.T, columns int, text string) []any {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL())
	check(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), strings.ReplaceAll(text, "{schema}", o.schema))
	check(t, err)
	defer rows.Close()
	if !rows.Next() {
		check(t, rows.Err())
		return nil
	}
	values, err := rows.Values()
	check(t, err)
	if len(values) != columns {
		t.Fatalf("%s: %d columns, the first version wants %d", text, len(values), columns)
	}
	return values
}

func (o old) create(t *testing.T, name string) {
	t.Helper()
	o.query(t, 3, fmt.Sprintf(`SELECT * FROM {schema}.make('default/%[1]s', 'default', '', 'old-%[1]s', 0, '{}', '', 0, 0,
		NULL, NULL, NULL, NULL, '{}', '{}', '{}', '{}', '{}')`, name))
}

// append appends one event with what content says, and returns the reason of a refusal, 0 if there is none.
func (o old) append(t *testing.T, name, epoch string, first uint64) (reason int) {
	t.Helper()
	b := content(name, first, 10)
	row := o.query(t, 3, fmt.Sprintf(`SELECT * FROM {schema}.append('', '{default/%s}', '{%s}', '{""}', '{0}', '{%d}', '{1}', '{1}', '{10}', '{%d}', '{10}',
		ARRAY['\x%x'::bytea], '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')`,
		name, epoch, first, int32(crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))), b))
	if row == nil {
		return 0
	}
	return int(row[1].(int32))
}

// TestReplicaOfFirstVersionGoesOn: a replica of the first version and one of this share the streams while the second
// upgrades the schema in place. What either does the other sees, and what the first adopts has a lineage.
func TestReplicaOfFirstVersionGoesOn(t *testing.T) {
	name := schema(t, server)
	name = strings.ToLower(name)
	t.Cleanup(func() { sql(t, server.URL(), `DROP SCHEMA IF EXISTS `+name+` CASCADE`) })
	firstVersion(t, name)
	before := old{name}
	before.create(t, "s")
	if reason := before.append(t, "s", "old-s", 1); reason != 0 {
		t.Fatalf("refused: %d", reason)
	}
	s := mustOpen(t, server.URL(), &pgstore.Options{Schema: name})
	page, err := s.Read(t.Context(), key("s"), 0, 1<<20)
	check(t, err)
	if page.Info.Tail != 1 || len(page.Batches) != 1 || page.Info.Lineage != nil {
		t.Fatalf("%+v", page)
	}
	// Each goes on with what the other has done.
	req := reprise.AppendRequest{
		Key: key("s"), Epoch: "old-s", First: 2, Count: 1, Bytes: content("s", 2, 10), Earliest: 1, Kept: 20,
	}
	if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
		t.Fatal(errs)
	}
	if reason := before.append(t, "s", "old-s", 3); reason != 0 {
		t.Fatalf("refused: %d", reason)
	}
	before.create(t, "later")
	if row := before.query(t, 9, `SELECT * FROM {schema}.read('default/s', 0, 100, 0)`); row == nil {
		t.Error("the first version reads nothing")
	}
	// Another server takes over: the first version finds it out by an append.
	sql(t, server.URL(), `UPDATE `+name+`.streams SET line = 0`)
	if reason := before.append(t, "s", "old-s", 4); reason != 5 {
		t.Errorf("refused with %d, want 5", reason)
	}
	before.query(t, 2, `SELECT * FROM {schema}.adopt(false, '{default/s}', '{old-s}', '{4}', '{fresh}')`)
	page, err = s.Read(t.Context(), key("s"), 0, 1<<20)
	check(t, err)
	want := []reprise.Ancestor{{Epoch: "old-s", Fork: 3}}
	if page.Info.Epoch != "fresh" || len(page.Batches) != 3 || !slices.Equal(page.Info.Lineage, want) {
		t.Errorf("epoch %s, %d batches, lineage %v", page.Info.Epoch, len(page.Batches), page.Info.Lineage)
	}
}

// TestLineageIsBounded: the newest epochs are kept, in order, and go with the stream.
func TestLineageIsBounded(t *testing.T) {
	name := schema(t, server)
	s := mustOpen(t, server.URL(), &pgstore.Options{Schema: name})
	req := create(t, s, "s")
	var epochs []reprise.Epoch
	for range reprise.MaxLineage + 3 {
		page, err := s.Read(t.Context(), key("s"), 0, 1)
		check(t, err)
		epochs = append(epochs, page.Info.Epoch)
		req.Epoch = page.Info.Epoch
		put(t, s, &req, 100, 1000)
		sql(t, server.URL(), fmt.Sprintf(`UPDATE %q.streams SET line = 0`, name))
	}
	list := func() []reprise.StreamInfo {
		page, err := s.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
		check(t, err)
		return page.Streams
	}
	page, err := s.Read(t.Context(), key("s"), 0, 1)
	check(t, err)
	got := page.Info.Lineage
	if len(got) != reprise.MaxLineage || !slices.Equal(got, list()[0].Lineage) {
		t.Fatalf("%d ancestors read, listed: %+v", len(got), list())
	}
	for i, a := range got {
		if want := (reprise.Ancestor{Epoch: epochs[i+3], Fork: uint64(i + 4)}); a != want {
			t.Errorf("ancestor %d is %v, want %v", i, a, want)
		}
	}
	check(t, s.Remove(t.Context(), key("s"), reprise.RemoveSpec{}))
	if n := (old{fmt.Sprintf("%q", name)}).query(t, 1, `SELECT count(*) FROM {schema}.ancestors`); n[0].(int64) != 0 {
		t.Errorf("%v ancestors are left behind by Remove", n[0])
	}
	if _, err := s.Read(t.Context(), key("s"), 0, 1); !errors.Is(err, reprise.ErrNotFound) {
		t.Error(err)
	}
}

// TestCreateFindsLoss: Create of a stream that is there puts it into another epoch, as Read does.
func TestCreateFindsLoss(t *testing.T) {
	name := schema(t, server)
	s := mustOpen(t, server.URL(), &pgstore.Options{Schema: name})
	req := create(t, s, "s")
	put(t, s, &req, 100, 1000)
	sql(t, server.URL(), fmt.Sprintf(`UPDATE %q.streams SET line = 0`, name))
	again := create(t, s, "s")
	page, err := s.Read(t.Context(), key("s"), 0, 1)
	check(t, err)
	want := []reprise.Ancestor{{Epoch: req.Epoch, Fork: 1}}
	if again.Epoch == req.Epoch || page.Info.Epoch != again.Epoch ||
		!slices.Equal(page.Info.Lineage, want) {
		t.Errorf("epoch %s, lineage %v, want another one than %s, %v", again.Epoch, page.Info.Lineage, req.Epoch, want)
	}
}
