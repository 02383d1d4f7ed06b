package stores

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/serve"
	"github.com/pawl-dev/pawl/store/sql/secrets"
)

// rotateCommand encrypts the secrets of a store with a new master key.
func (a verbs) rotateCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "rotate-key", Short: "Seal all secrets of the store with a new master key",
		Long: `Makes a new master key, seals every secret with it, and forgets the old one.
Backups and exports made before still need the old key: keep it with them.

The server must not run: it would go on with the old key. Servers that share a
PostgreSQL database get the new key first (PAWL_MASTER_KEY or masterKeyFile with
both keys, the new one on top, then a restart of each); this command then seals,
and the old key can be taken away. It does so too if it dies in the middle: run
it again.`,
		Example: "  pawl store rotate-key --dsn pawl.db\n  PAWL_MASTER_KEY=\"$(cat keys)\" pawl store rotate-key --dsn postgres://pawl@db/pawl",
		Args:    cobra.NoArgs,
		RunE:    a.Verb(func(ctx context.Context, _ *cobra.Command, _ []string) error { return a.rotate(ctx, file) }),
	}
	cmd.Flags().StringVar(&file, "key-file", "", "`file` of the master keys (default: beside a SQLite store)")
	return cmd
}

func (a verbs) rotate(ctx context.Context, file string) error {
	if err := a.local("store rotate-key"); err != nil {
		return err
	}
	o := a.StoreOptions()
	o.KeyFile = file
	ours := file != "" || os.Getenv("PAWL_MASTER_KEY") == "" && !o.Shared()
	if path := o.Keys(); ours {
		if err := a.alone(ctx, o); err != nil {
			return err
		}
		if err := secrets.AddMasterKey(path); err != nil {
			return err
		}
	}
	store, err := backend.OpenStore(ctx, o, false)
	if err != nil {
		return err
	}
	defer store.Close()
	rotator, ok := store.Rotator()
	if !ok {
		return cli.Usage.Errorf("the memory store has no master key")
	}
	rows, err := rotator.Rotate(ctx)
	if err != nil {
		return err
	}
	if ours {
		if err := secrets.KeepNewestKey(o.Keys()); err != nil {
			return err
		}
	}
	return a.Emit(rotatedView{rows}, nil, func() string { return fmt.Sprintf("%d rows are sealed with the new key\n", rows) })
}

// rotatedView is a rotation that has ended.
type rotatedView struct {
	Rows int `json:"rows"` // encrypted with the new key
}

// alone refuses a store that a server works on.
func (a verbs) alone(ctx context.Context, o backend.StoreOptions) error {
	store, err := backend.OpenStore(ctx, o, false)
	if err != nil {
		return err
	}
	owner := store.IsOwner()
	if err := store.Close(); err != nil {
		return err
	}
	if !owner {
		return serve.StoreInUse.Errorf("%s is owned by another process", o.Path())
	}
	return nil
}
