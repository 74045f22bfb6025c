package storewrap

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"reprise"
)

// sealInfo returns info with its configuration and its end encrypted. Labels and Meta are one text, in place of Meta.
func (e *encrypted) sealInfo(info reprise.StreamInfo) (_ reprise.StreamInfo, err error) {
	plain := appendConfig(nil, &info.Config)
	info.Config.Labels = nil
	info.Config.Meta, err = e.sealer.seal(configPlace(&info), plain)
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	if info.End != nil {
		info.End, err = e.sealEnd(info.Key, info.Epoch, info.Tail, info.End)
	}
	return info, err
}

// opened is the inverse of sealInfo. The error names the stream.
func (e *encrypted) opened(info reprise.StreamInfo) (reprise.StreamInfo, error) {
	plain, err := e.openIn(&info, 0, info.Config.Meta, func(epoch reprise.Epoch) sealPlace {
		at := configPlace(&info)
		at.epoch = epoch
		return at
	})
	if err == nil {
		err = decodeConfig(&info.Config, plain)
	}
	if err != nil {
		return reprise.StreamInfo{}, fmt.Errorf("stream %s, epoch %s: configuration: %w", info.Key, info.Epoch, err)
	}
	if info.End == nil {
		return info, nil
	}
	end := *info.End
	end.Data, err = e.openIn(&info, info.Tail, end.Data, func(epoch reprise.Epoch) sealPlace {
		return endPlace(info.Key, epoch, info.Tail, &end)
	})
	if err != nil {
		return reprise.StreamInfo{}, fmt.Errorf(
			"stream %s, epoch %s: end at seq %d: %w",
			info.Key,
			info.Epoch,
			info.Tail,
			err,
		)
	}
	info.End = &end
	return info, nil
}

// openIn decrypts data of a stream up to the event last. It was encrypted in one of the epochs that have that event:
// usually the oldest, or the current one if the stream was copied.
func (e *encrypted) openIn(
	info *reprise.StreamInfo,
	last uint64,
	sealed []byte,
	at func(reprise.Epoch) sealPlace,
) (plain []byte, err error) {
	for _, ancestor := range info.Lineage {
		if fork, _ := info.ForkOf(ancestor.Epoch); fork < last {
			continue
		}
		if plain, err = e.sealer.open(at(ancestor.Epoch), sealed); err == nil {
			return plain, nil
		}
	}
	return e.sealer.open(at(info.Epoch), sealed)
}

// sealEnd returns a copy of end with its data encrypted. last is the seq of the end event.
func (e *encrypted) sealEnd(key reprise.StreamKey, epoch reprise.Epoch, last uint64,
	end *reprise.End,
) (*reprise.End, error) {
	sealed := *end
	var err error
	sealed.Data, err = e.sealer.seal(endPlace(key, epoch, last, end), end.Data)
	return &sealed, err
}

func endPlace(key reprise.StreamKey, epoch reprise.Epoch, last uint64, end *reprise.End) sealPlace {
	return sealPlace{purpose: sealsEnd, key: key, epoch: epoch, seq: last, count: 1, extra: end.Outcome}
}

// configPlace binds a configuration to its stream and to the part of it that is not encrypted.
func configPlace(info *reprise.StreamInfo) sealPlace {
	var retention []byte
	for _, n := range []int64{
		info.Config.Retention.MaxEvents, info.Config.Retention.MaxBytes,
		int64(info.Config.Retention.MaxAge),
	} {
		retention = binary.BigEndian.AppendUint64(retention, uint64(n))
	}
	return sealPlace{purpose: sealsConfig, key: info.Key, epoch: info.Epoch, extra: string(retention)}
}

// appendConfig appends the labels of c and its Meta:
//
//	number of labels, (length, key, length, value)..., Meta
//
// Numbers are uvarints; labels are in the order of their keys.
func appendConfig(b []byte, c *reprise.StreamConfig) []byte {
	b = binary.AppendUvarint(b, uint64(len(c.Labels)))
	for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
		for _, text := range []string{k, c.Labels[k]} {
			b = binary.AppendUvarint(b, uint64(len(text)))
			b = append(b, text...)
		}
	}
	return append(b, c.Meta...)
}

// decodeConfig is the inverse of appendConfig.
func decodeConfig(c *reprise.StreamConfig, b []byte) error {
	c.Labels, c.Meta = nil, nil
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)) {
		return errConfig
	}
	b = b[size:]
	text := func() (string, bool) {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return "", false
		}
		s := string(b[size : size+int(n)])
		b = b[size+int(n):]
		return s, true
	}
	for range n {
		k, ok := text()
		v, also := text()
		if !ok || !also {
			return errConfig
		}
		if c.Labels == nil {
			c.Labels = make(map[string]string)
		}
		c.Labels[k] = v
	}
	if len(b) > 0 {
		c.Meta = b
	}
	return nil
}

var errConfig = fmt.Errorf("%w: the decrypted data is not a configuration", errSealed)
