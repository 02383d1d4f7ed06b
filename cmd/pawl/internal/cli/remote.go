package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/server"
)

// Remote returns the client of the server for cluster verbs.
func (a *App) Remote() (*client.Client, error) {
	url := a.Flags.Server
	if url == "" {
		url = "http://" + server.DefaultListen
	}
	return client.New(client.Options{URL: url, Token: os.Getenv("PAWL_TOKEN")})
}

// Server returns the backend of --server.
func (a *App) Server() (*backend.Remote, error) {
	return backend.OpenRemote(client.Options{URL: a.Flags.Server, Token: os.Getenv("PAWL_TOKEN")})
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
