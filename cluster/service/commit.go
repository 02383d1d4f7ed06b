package service

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
)

// commit writes a change and then passes its events to Options.OnEvent.
func (s *Service) commit(ctx context.Context, change *cluster.Change) error {
	if err := s.options.Records.Commit(ctx, change); err != nil {
		return err
	}
	if s.options.OnEvent != nil {
		for _, e := range change.Events {
			s.options.OnEvent(*e)
		}
	}
	return nil
}
