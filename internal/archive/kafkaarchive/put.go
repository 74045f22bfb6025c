package kafkaarchive

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"hash/crc32"
	"iter"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"reprise"
	"reprise/internal/archive"
)

// partBytes is the most that one record holds of a batch: brokers take 1 MB of records at once
// where nothing else is said.
const partBytes = 512 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// end is the value of the last record.
type end struct {
	Batches int64  `json:"batches"`
	Events  int64  `json:"events"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
}

// put is one Put under way.
type put struct {
	client  *kgo.Client
	info    *reprise.StreamInfo
	key     []byte
	headers []kgo.RecordHeader
	sum     hash.Hash
	end     end
	next    uint64 // the event that must come next; 0 before the first batch

	ctx     context.Context // ends with the first record that fails
	fail    context.CancelCauseFunc
	waiting sync.WaitGroup // for records to be acknowledged
}

// Put archives one life of a stream; see archive.Sink and the package. It returns when all of it is
// acknowledged by all brokers in sync.
func (t *Topic) Put(ctx context.Context, info reprise.StreamInfo, batches iter.Seq2[reprise.Batch, error]) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	bounded, stop := context.WithTimeout(ctx, t.opts.PutTimeout)
	defer stop()
	bounded, fail := context.WithCancelCause(bounded)
	defer fail(nil)
	p := &put{
		client: t.client, info: &info, key: []byte(info.Key.String()), sum: sha256.New(), ctx: bounded, fail: fail,
		headers: []kgo.RecordHeader{
			header("reprise", "1"), header("epoch", string(info.Epoch)),
			header("put", rand.Text()),
		},
	}
	err := p.all(batches)
	if err != nil {
		fail(err)
	}
	p.waiting.Wait()
	if err == nil && bounded.Err() == nil {
		err = p.finish()
		p.waiting.Wait()
	}
	if err == nil && bounded.Err() != nil {
		err = topicError(ctx, context.Cause(bounded))
	}
	return err
}

func header(key, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: []byte(value)}
}

// all produces the records of the stream and its batches. The error is not the client's.
func (p *put) all(batches iter.Seq2[reprise.Batch, error]) error {
	for b, err := range batches {
		if err == nil {
			err = p.batch(&b)
		}
		if err != nil || p.ctx.Err() != nil {
			return err
		}
	}
	if p.next == 0 {
		return p.begin(p.info.Earliest)
	}
	return nil
}

// begin produces the record of the stream, of which the first batch begins with the event first.
func (p *put) begin(first uint64) error {
	value, err := archive.MarshalInfo(*p.info, first)
	if err != nil {
		return err
	}
	p.next = first
	p.parts(value, header("kind", "stream"))
	return nil
}

// batch produces the records of a batch.
func (p *put) batch(b *reprise.Batch) error {
	if p.next == 0 && b.First <= p.info.Earliest && b.Last() >= p.info.Earliest {
		if err := p.begin(b.First); err != nil {
			return err
		}
	}
	if b.First != p.next || b.Count < 1 || b.Last() > p.info.Tail {
		return fmt.Errorf("a batch of events %d to %d in place of %d to %d at most", b.First, b.Last(),
			max(p.next, p.info.Earliest), p.info.Tail)
	}
	p.next = b.Last() + 1
	p.sum.Write(b.Bytes)
	p.end.Batches++
	p.end.Events += int64(b.Count)
	p.end.Bytes += int64(len(b.Bytes))
	p.parts(b.Bytes, header("kind", "batch"), header("first", strconv.FormatUint(b.First, 10)),
		header("count", strconv.Itoa(b.Count)))
	return nil
}

// finish produces the record that makes the Put whole, once all others are acknowledged.
func (p *put) finish() error {
	if p.next != p.info.Tail+1 {
		return fmt.Errorf("the batches end before event %d, the tail is %d", p.next, p.info.Tail)
	}
	p.end.SHA256 = hex.EncodeToString(p.sum.Sum(nil))
	value, err := json.Marshal(p.end)
	if err != nil {
		return err
	}
	p.produce(value, header("kind", "end"))
	return nil
}

// parts produces the records that a value is cut into.
func (p *put) parts(value []byte, headers ...kgo.RecordHeader) {
	count := max(1, (len(value)+partBytes-1)/partBytes)
	headers = append(headers, header("crc", fmt.Sprintf("%08x", crc32.Checksum(value, castagnoli))))
	for i := range count {
		part := value[i*partBytes : min(len(value), (i+1)*partBytes)]
		p.produce(part, append(headers[:len(headers):len(headers)],
			header("part", fmt.Sprintf("%d/%d", i+1, count)))...)
	}
}

// produce hands a record to the client, which blocks while too much waits. A failure ends the whole Put.
func (p *put) produce(value []byte, more ...kgo.RecordHeader) {
	record := &kgo.Record{Key: p.key, Value: value, Headers: append(p.headers[:len(p.headers):len(p.headers)], more...)}
	p.waiting.Add(1)
	p.client.Produce(p.ctx, record, func(_ *kgo.Record, err error) {
		if err != nil {
			p.fail(err)
		}
		p.waiting.Done()
	})
}
