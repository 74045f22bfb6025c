package redisstore

import (
	"context"
	"errors"

	"reprise"
)

// configure changes the configuration of a stream; see reprise.Store.Create. It reads the state and then runs one
// script, which changes nothing if the state is another one meanwhile. asked is the caller's context.
func (s *Store) configure(ctx, asked context.Context, want *reprise.StreamInfo) (reprise.StreamInfo, error) {
	config, err := marshalConfig(want.Config)
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	for {
		info, err := s.certain(ctx, asked, want.Key)
		switch {
		case errors.Is(err, reprise.ErrExpired):
			return reprise.StreamInfo{}, reprise.ErrNotFound
		case err != nil:
			return reprise.StreamInfo{}, err
		case info.Epoch != want.Epoch:
			return reprise.StreamInfo{}, reprise.ErrNotFound
		case info.Revision == want.Revision && info.Config.Equal(want.Config):
			return info, nil
		case info.Revision+1 != want.Revision:
			return reprise.StreamInfo{}, reprise.ErrConflict
		}
		kept, err := s.tryConfigure(ctx, &info, want, config)
		if kept != nil || err != nil {
			if err != nil {
				return reprise.StreamInfo{}, err
			}
			return *kept, nil
		}
	}
}

// certain returns the state of a stream. One that may have lost events moves to another epoch first.
func (s *Store) certain(ctx, asked context.Context, key reprise.StreamKey) (reprise.StreamInfo, error) {
	for range adoptRounds {
		got, err := s.view(ctx, asked, key, 0, 0)
		if err != nil {
			return reprise.StreamInfo{}, err
		}
		doubtful, err := s.mayHaveLost(ctx, &got.page.Info, got.history, &got.server)
		if err != nil || !doubtful {
			return got.page.Info, err
		}
		if err := s.adopt(ctx, key, got.page.Info.Epoch); err != nil {
			return reprise.StreamInfo{}, err
		}
	}
	return reprise.StreamInfo{}, errOtherServer
}

// tryConfigure changes a stream whose state is info. The result is nil if the state is another one.
func (s *Store) tryConfigure(ctx context.Context, info, want *reprise.StreamInfo, config string) (
	*reprise.StreamInfo, error,
) {
	end, expires, keysExpire := "", "", ""
	if info.End != nil {
		changed := *info.End
		if want.End != nil {
			changed.Expires = want.End.Expires
		}
		var err error
		if end, err = marshalEnd(&changed); err != nil {
			return nil, err
		}
		expires, keysExpire = millis(changed.Expires), s.keysExpire(&changed)
		// Until the script has run, the queue has another time than the state, which decides.
		if err := s.client.Do(ctx, s.noteEnd(info.Key, info.Epoch, ceilMillis(changed.Expires))).Error(); err != nil {
			return nil, err
		}
	}
	c := call{keys: []string{s.keys.state(info.Key), s.keys.batches(info.Key)}, args: []string{
		s.publish, s.me, string(info.Epoch), decimal(info.Revision), decimal(want.Revision), config, end, expires,
		keysExpire,
	}}
	answer, err := s.run(ctx, configureScript, s.opts.Wait, c)[0].ToArray()
	if err != nil {
		return nil, err
	}
	if code, err := answer[0].ToString(); code != "9" || err != nil {
		return nil, err
	}
	fields, err := answer[1].AsStrSlice()
	if err != nil {
		return nil, err
	}
	st, err := parseState(info.Key, fields)
	return &st.info, err
}
