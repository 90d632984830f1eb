package server

import (
	"context"
	"errors"
	"fmt"

	"k3sstandin/bootstrap"
	"k3sstandin/datastore"
)

const bootstrapKey = "/bootstrap/k3s-standin"

// vault keeps the authorities in the data store, sealed with the server token.
type vault struct {
	client *datastore.Client
	folder string // tls, on this server
}

func openVault(store *store, paths paths) (*vault, error) {
	client, err := datastore.New(store.access)
	return &vault{client: client, folder: paths.in("tls")}, err
}

// load writes what the data store has to this server, and reports whether there is anything.
func (v *vault) load(ctx context.Context, password string) (bool, error) {
	sealed, err := v.client.Get(ctx, bootstrapKey)
	if err != nil || sealed == nil {
		return false, err
	}
	files, err := bootstrap.Open(sealed, password)
	if err != nil {
		return false, err
	}
	return true, files.Write(v.folder)
}

// reconcile checks that the data store's authorities open with the token; the first server of a
// cluster puts its own there.
func (v *vault) reconcile(ctx context.Context, password string) error {
	sealed, err := v.client.Get(ctx, bootstrapKey)
	if err != nil {
		return err
	}
	if sealed != nil {
		_, err := bootstrap.Open(sealed, password)
		return err
	}
	fresh, err := v.seal(password)
	if err != nil {
		return err
	}
	created, err := v.client.Create(ctx, bootstrapKey, fresh)
	if err == nil && !created {
		err = errors.New("another server founded the cluster at the same moment, the next start takes over its certificates")
	}
	return err
}

// save seals the authorities anew, after the token was changed.
func (v *vault) save(ctx context.Context, password string) error {
	sealed, err := v.seal(password)
	if err != nil {
		return err
	}
	if err := v.client.Put(ctx, bootstrapKey, sealed); err != nil {
		return fmt.Errorf("saving bootstrap data: %w", err)
	}
	return nil
}

func (v *vault) seal(password string) ([]byte, error) {
	files, err := bootstrap.Read(v.folder)
	if err != nil {
		return nil, err
	}
	return files.Seal(password)
}
