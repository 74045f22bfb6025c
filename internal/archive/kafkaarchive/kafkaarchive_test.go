package kafkaarchive_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/archive"
	"reprise/internal/archive/kafkaarchive"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// serve starts a broker with the topic "events" of three partitions.
func serve(tb testing.TB) *kfake.Cluster {
	tb.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "events"))
	check(tb, err)
	tb.Cleanup(cluster.Close)
	return cluster
}

func url(cluster *kfake.Cluster) string { return "kafka://" + cluster.ListenAddrs()[0] + "/events" }

func open(tb testing.TB, cluster *kfake.Cluster, opts *kafkaarchive.Options) *kafkaarchive.Topic {
	tb.Helper()
	topic, err := kafkaarchive.Open(tb.Context(), url(cluster), opts)
	check(tb, err)
	tb.Cleanup(func() { check(tb, topic.Close()) })
	return topic
}

func all(list []reprise.Batch) iter.Seq2[reprise.Batch, error] {
	return func(yield func(reprise.Batch, error) bool) {
		for _, b := range list {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// ended is a stream with batches of these sizes, whose window begins with the second event.
func ended(name string, sizes ...int) (reprise.StreamInfo, []reprise.Batch) {
	info := reprise.StreamInfo{
		Key: reprise.StreamKey{Tenant: "default", Name: name}, Epoch: reprise.NewEpoch(),
		Created:  time.Unix(1_700_000_000, 5).UTC(),
		Earliest: 1, End: &reprise.End{
			Outcome: "completed", Time: time.Unix(1, 0).UTC(),
			Expires: time.Unix(2, 0).UTC(), Data: bytes.Repeat([]byte("e"), 1<<20),
		},
	}
	var batches []reprise.Batch
	for i, size := range sizes {
		batches = append(batches,
			reprise.Batch{First: info.Tail + 1, Count: 2, Bytes: bytes.Repeat([]byte{byte(i), byte(size)}, size/2)})
		info.Tail += 2
		info.Earliest = 2
	}
	return info, batches
}

// stored is what one Put has left in the topic.
type stored struct {
	partition int32
	info      reprise.StreamInfo
	batches   []reprise.Batch
	whole     bool
	parts     []byte
}

// read reads the topic as the documentation of the package says, up to now.
func read(t *testing.T, cluster *kfake.Cluster) map[string]*stored {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("events"))
	check(t, err)
	defer client.Close()
	var want int64
	for _, p := range cluster.PartitionInfos("events") {
		want += p.HighWatermark
	}
	puts := map[string]*stored{}
	for n := int64(0); n < want; {
		fetches := client.PollFetches(t.Context())
		check(t, fetches.Err())
		for r := range fetches.RecordsAll() {
			n++
			h := map[string]string{}
			for _, header := range r.Headers {
				h[header.Key] = string(header.Value)
			}
			p := puts[h["put"]]
			if p == nil {
				p = &stored{partition: r.Partition}
				puts[h["put"]] = p
			}
			if h["reprise"] != "1" || r.Partition != p.partition || p.whole {
				t.Fatalf("a record with %v in partition %d", h, r.Partition)
			}
			p.add(t, r, h)
		}
	}
	return puts
}

// add takes a record.
func (p *stored) add(t *testing.T, r *kgo.Record, h map[string]string) {
	t.Helper()
	if h["kind"] == "end" {
		var end struct {
			Batches, Events, Bytes int64
			SHA256                 string
		}
		check(t, json.Unmarshal(r.Value, &end))
		sum := sha256.New()
		for _, b := range p.batches {
			sum.Write(b.Bytes)
			end.Events -= int64(b.Count)
			end.Bytes -= int64(len(b.Bytes))
		}
		if end.Batches != int64(len(p.batches)) || end.Events != 0 || end.Bytes != 0 ||
			end.SHA256 != hex.EncodeToString(sum.Sum(nil)) {
			t.Fatalf("%s does not fit", r.Value)
		}
		p.whole = true
		return
	}
	var part, parts int
	_, err := fmt.Sscanf(h["part"], "%d/%d", &part, &parts)
	check(t, err)
	if p.parts = append(p.parts, r.Value...); part < parts {
		return
	}
	value := p.parts
	p.parts = nil
	if crc := fmt.Sprintf("%08x", crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli))); crc != h["crc"] {
		t.Fatalf("%v has the checksum %s", h, crc)
	}
	switch h["kind"] {
	case "stream":
		p.info, _, err = archive.UnmarshalInfo(value)
		check(t, err)
		if string(r.Key) != p.info.Key.String() || h["epoch"] != string(p.info.Epoch) {
			t.Fatalf("%s: %v", r.Key, h)
		}
	case "batch":
		b := reprise.Batch{Bytes: value}
		_, err := fmt.Sscan(h["first"], &b.First)
		check(t, err)
		_, err = fmt.Sscan(h["count"], &b.Count)
		check(t, err)
		p.batches = append(p.batches, b)
	default:
		t.Fatalf("a record with %v", h)
	}
}

func TestTopicHoldsWhatWasPut(t *testing.T) {
	cluster := serve(t)
	topic := open(t, cluster, nil)
	want := map[string][]reprise.Batch{}
	for i, sizes := range [][]int{nil, {0}, {10, 20, 30}, {600 << 10, 2 << 20, 100}, make([]int, 3000)} {
		info, batches := ended(fmt.Sprint("s", i), sizes...)
		if has, err := topic.Has(t.Context(), info); has || err != nil {
			t.Fatal(has, err)
		}
		check(t, topic.Put(t.Context(), info, all(batches)))
		want[info.Key.Name] = batches
	}
	puts := read(t, cluster)
	if len(puts) != len(want) {
		t.Fatalf("%d puts, want %d", len(puts), len(want))
	}
	for _, p := range puts {
		same := func(a, b reprise.Batch) bool {
			return a.First == b.First && a.Count == b.Count && bytes.Equal(a.Bytes, b.Bytes)
		}
		if !p.whole || !slices.EqualFunc(p.batches, want[p.info.Key.Name], same) {
			t.Errorf("%s: %d batches, want %d; whole: %v", p.info.Key, len(p.batches), len(want[p.info.Key.Name]),
				p.whole)
		}
		info, _ := ended(p.info.Key.Name, make([]int, len(p.batches))...)
		info.Epoch = p.info.Epoch
		if diff := cmp.Diff(info, p.info, cmpopts.EquateEmpty(), cmp.Comparer(bytes.Equal)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestFailedPutHasNoEnd: whatever goes wrong, it is not whole.
func TestFailedPutHasNoEnd(t *testing.T) {
	cluster := serve(t)
	topic := open(t, cluster, nil)
	info, batches := ended("s", 100, 100, 100)
	torn := errors.New("torn")
	err := topic.Put(t.Context(), info, func(yield func(reprise.Batch, error) bool) {
		_ = yield(batches[0], nil) && yield(reprise.Batch{}, torn)
	})
	if !errors.Is(err, torn) {
		t.Error("an error of the batches:", err)
	}
	for name, list := range map[string][]reprise.Batch{
		"none": nil, "a hole": {batches[0], batches[2]},
		"no end": batches[:2], "no start": batches[1:],
	} {
		if err := topic.Put(t.Context(), info, all(list)); err == nil {
			t.Error(name)
		}
	}
	openInfo := info
	openInfo.End = nil
	if err := topic.Put(t.Context(), openInfo, all(batches)); !errors.Is(err, reprise.ErrInvalid) {
		t.Error("an open stream:", err)
	}
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	err = topic.Put(ctx, info, func(yield func(reprise.Batch, error) bool) {
		for _, b := range batches {
			cancel(why)
			if !yield(b, nil) {
				return
			}
		}
	})
	if !errors.Is(err, why) {
		t.Error("cancelled:", err)
	}
	for _, p := range read(t, cluster) {
		if p.whole {
			t.Errorf("a failed put of %s is whole", p.info.Key)
		}
	}
}

// TestBrokerThatFails: what may pass says so in bounded time, and the topic works again.
func TestBrokerThatFails(t *testing.T) {
	cluster := serve(t)
	patient := open(t, cluster, &kafkaarchive.Options{Timeout: time.Minute, PutTimeout: time.Minute})
	impatient := open(t, cluster, &kafkaarchive.Options{Timeout: time.Second, PutTimeout: 3 * time.Second})
	info, batches := ended("s", 100)
	for want, code := range map[bool]*kerr.Error{
		true:  kerr.NotLeaderForPartition,
		false: kerr.TopicAuthorizationFailed,
	} {
		topic := patient
		if want { // it may pass, which is waited for
			topic = impatient
		}
		fault := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: code, Count: -1})
		started := time.Now()
		err := topic.Put(t.Context(), info, all(batches))
		if err == nil || errors.Is(err, reprise.ErrUnavailable) != want || time.Since(started) > time.Minute {
			t.Errorf("%v: %v after %v", code, err, time.Since(started))
		}
		fault.Remove()
	}
	check(t, patient.Put(t.Context(), info, all(batches)))
	whole := 0
	for _, p := range read(t, cluster) {
		if p.whole {
			whole++
		}
	}
	if whole != 1 {
		t.Errorf("%d puts are whole, want 1", whole)
	}
}

func TestOpenRefuses(t *testing.T) {
	cluster := serve(t)
	broker := cluster.ListenAddrs()[0]
	for _, url := range []string{
		"", "kafka:", "kafka://", "kafka://" + broker, "kafka://" + broker + "/", "kafka://u:p@" + broker + "/events",
		"kafka://" + broker + "/events?tls=maybe", "kafka://" + broker + "/events?x=1", "kafka://host/events",
		"kafka://" + broker + "/missing",
	} {
		if _, err := kafkaarchive.Open(t.Context(), url, nil); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%s: %v", url, err)
		}
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	check(t, l.Close())
	if _, err := kafkaarchive.Open(t.Context(), "kafka://"+l.Addr().String()+"/events",
		&kafkaarchive.Options{Timeout: time.Second}); !errors.Is(err, reprise.ErrUnavailable) {
		t.Error("no broker:", err)
	}
}
