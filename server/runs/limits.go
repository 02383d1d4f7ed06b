package runs

import (
	"context"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

func (s *Service) limiter() (runstore.RunLimiter, error) {
	limiter, ok := s.Engine.Store().(runstore.RunLimiter)
	if !ok {
		return nil, workflow.LimitsNotKept.Errorf("the store of this server keeps no limits")
	}
	return limiter, nil
}

func (s *Service) listLimits(ctx context.Context, in *struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor string `query:"cursor" doc:"next of the previous page"`
}) (*route.One[view.LimitPage], error) {
	limiter, err := s.limiter()
	if err != nil {
		return nil, err
	}
	limits, err := limiter.RunLimits(ctx, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	states, err := s.Engine.StepLimits(ctx, in.Cursor, in.Limit)
	page := view.LimitPage{Items: append(append([]view.Limit{}, view.OfLimits(limits)...), view.OfKeyStates(states)...)}
	slices.SortStableFunc(page.Items, func(a, b view.Limit) int { return strings.Compare(a.Key, b.Key) })
	if len(limits) >= in.Limit || len(states) >= in.Limit { // a page ends where the shorter list ends, and does not divide a key
		end := len(page.Items)
		for _, last := range []string{lastKey(limits, in.Limit, func(l runstore.KeyLimit) string { return l.Key }), lastKey(states, in.Limit, func(k workflow.KeyState) string { return k.Key })} {
			if last != "" {
				end = min(end, slices.IndexFunc(append(page.Items, view.Limit{Key: last + "\x00"}), func(l view.Limit) bool { return l.Key > last }))
			}
		}
		page.Items = page.Items[:end]
		page.Next = page.Items[end-1].Key
	}
	return route.OneOf(page, err)
}

// lastKey returns the last key of a list that is not known to be complete; "" if it is.
func lastKey[T any](list []T, limit int, key func(T) string) string {
	if len(list) < limit {
		return ""
	}
	return key(list[len(list)-1])
}

func (s *Service) setLimit(ctx context.Context, in *struct {
	Body struct {
		Key    string `json:"key" minLength:"1" maxLength:"256"`
		AtOnce int    `json:"atOnce" minimum:"0" maximum:"1000000" doc:"0: no run of the key starts"`
	}
}) (*struct{}, error) {
	limiter, err := s.limiter()
	if err != nil {
		return nil, err
	}
	route.CallOf(ctx).Target = in.Body.Key
	return nil, limiter.SetRunLimit(ctx, in.Body.Key, in.Body.AtOnce)
}

func (s *Service) resetLimit(ctx context.Context, in *struct {
	Key string `query:"key" required:"true" minLength:"1" maxLength:"256"`
}) (*struct{}, error) {
	limiter, err := s.limiter()
	if err != nil {
		return nil, err
	}
	route.CallOf(ctx).Target = in.Key
	return nil, limiter.ResetRunLimit(ctx, in.Key)
}
