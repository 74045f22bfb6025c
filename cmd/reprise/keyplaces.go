package main

import (
	"context"

	"reprise/client"
	"reprise/internal/apikey"
	"reprise/internal/quota"
)

// apiKeys are the keys of a server, or those that lie where one would keep them.
type apiKeys interface {
	Create(ctx context.Context, q client.KeyRequest) (client.Key, error)
	List(ctx context.Context) ([]client.Key, error)
	Show(ctx context.Context, id string) (client.Key, error)
	Rotate(ctx context.Context, id string) (client.Key, error)
	Limit(ctx context.Context, id string, limits map[string]int64) (client.Key, error)
	Revoke(ctx context.Context, id string) error
}

// localKeys changes keys on disk when no server runs.
type localKeys struct{ registry *apikey.Registry }

func (l localKeys) Create(ctx context.Context, q client.KeyRequest) (client.Key, error) {
	request, err := apikey.RequestOf(&q)
	if err != nil {
		return client.Key{}, err
	}
	key, text, err := l.registry.Add(ctx, request)
	return key.Shown(text), err
}

func (l localKeys) List(context.Context) ([]client.Key, error) {
	var list []client.Key
	for _, key := range l.registry.List() {
		list = append(list, key.Shown(""))
	}
	return list, nil
}

func (l localKeys) Show(_ context.Context, id string) (client.Key, error) {
	key, err := l.registry.Key(id)
	return key.Shown(""), err
}

func (l localKeys) Rotate(ctx context.Context, id string) (client.Key, error) {
	key, text, err := l.registry.Rotate(ctx, id)
	return key.Shown(text), err
}

func (l localKeys) Limit(ctx context.Context, id string, limits map[string]int64) (client.Key, error) {
	key, err := l.registry.SetLimits(ctx, id, quota.FromPlain(limits))
	return key.Shown(""), err
}

func (l localKeys) Revoke(ctx context.Context, id string) error {
	_, err := l.registry.Revoke(ctx, id)
	return err
}
