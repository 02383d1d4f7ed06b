package postgres

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// InstanceCommand is what `pawl instance` runs.
type InstanceCommand struct {
	Dir    string       // folder of the instance
	Config string       // file with a Config; empty: config.json in Dir
	Guard  bool         // run as the guard of the agent
	Grants lease.Grants // nil: as the configuration says
	Log    *slog.Logger // nil: none

	EngineLog io.Writer // of AgentOptions
}

// Run serves until the context ends.
func (c InstanceCommand) Run(ctx context.Context) error {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	if c.Guard {
		return lease.Guard(ctx, dir, (&server{dir: dir}).find)
	}
	if c.Config == "" {
		c.Config = filepath.Join(dir, "config.json")
	}
	var cfg Config
	if err := host.ReadJSON(c.Config, &cfg); err != nil {
		return fmt.Errorf("the configuration of the instance: %w", err)
	}
	a, err := NewAgent(dir, AgentOptions{Config: cfg, Grants: c.Grants, Log: c.Log, EngineLog: c.EngineLog})
	if err != nil {
		return err
	}
	return a.Run(ctx)
}
