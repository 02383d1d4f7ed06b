package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
)

// Remote returns the client of the server for cluster verbs.
func (a *App) Remote() (*client.Client, error) {
	o, err := a.clientOptions()
	if err != nil {
		return nil, err
	}
	return client.New(o)
}

// Server returns the backend of --server, or of a context.
func (a *App) Server() (*backend.Remote, error) {
	o, err := a.clientOptions()
	if err != nil {
		return nil, err
	}
	return backend.OpenRemote(o)
}

// WithServer wraps a verb that needs the server.
func (a *App) WithServer(do func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
		c, err := a.Remote()
		if err != nil {
			return err
		}
		defer c.Close()
		return do(ctx, c, args)
	})
}
